//! What an error of the client crate says about a member. Must not decide what is done about it.
//! Source of the words: etcd `api/v3rpc/rpctypes/error.go`, v3.5; rustls `Error`.

use std::error::Error as _;
use std::io;

use crate::workload::forward::ForwardError;
use capi_rules::etcd::facts::{Class, Trouble};

/// `is_known`: the server has accepted our certificate before, or there is none.
pub fn trouble(error: &etcd_client::Error, is_by_tls: bool, is_known: bool) -> Trouble {
    if let etcd_client::Error::GRpcStatus(status) = error
        // A status with a source was made on this side, of what the transport reported.
        && status.source().is_none()
    {
        return answered(status.message());
    }
    let causes = causes(error);
    let text = causes.last().map_or_else(|| error.to_string(), ToString::to_string);
    let is_refused = causes.iter().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
    });
    let all = causes.iter().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let class = match () {
        () if causes.iter().any(|cause| cause.is::<ForwardError>()) => Class::ForwardFailed,
        () if is_refused => Class::Refused,
        () if all.contains("invalid peer certificate") => certificate(&all),
        // A server that refuses a certificate says so; one that dies ends the handshake without a word.
        () if all.contains("tls handshake eof") => Class::Lost,
        // With TLS 1.3 the server looks at our certificate when the handshake is over for us.
        () if is_by_tls && !is_known => Class::ClientRejected,
        () => Class::Lost,
    };
    Trouble { class, text }
}

fn certificate(text: &str) -> Class {
    let contains = |words: &[&str]| words.iter().any(|word| text.contains(word));
    match () {
        () if contains(&["not valid for name", "NotValidForName"]) => Class::ServerName,
        () if contains(&["expired", "Expired"]) => Class::ServerExpired,
        () => Class::ServerUntrusted,
    }
}

/// etcd's own words.
fn answered(message: &str) -> Trouble {
    let class = match () {
        () if message.contains("rpc not supported for learner") => Class::Learner,
        () if message.contains("etcdserver: not leader") => Class::NotLeader,
        () if message.contains("database space exceeded") => Class::NoSpace,
        () if message.contains("no leader") || message.contains("request timed out") => Class::NoQuorum,
        () => Class::Answered,
    };
    Trouble { class, text: message.to_owned() }
}

/// An address, or a certificate or key that is not one.
pub fn unusable(error: &tonic::transport::Error) -> Trouble {
    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    Trouble { class: Class::Lost, text }
}

/// The error and its causes, outermost first. What an I/O error carries counts as one.
fn causes(error: &etcd_client::Error) -> Vec<&(dyn std::error::Error + 'static)> {
    let mut cause: &(dyn std::error::Error + 'static) = match error {
        etcd_client::Error::GRpcStatus(status) => status,
        etcd_client::Error::TransportError(transport) => transport,
        other => other,
    };
    let mut found = vec![cause];
    loop {
        let carried = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let carried = carried.map(|inner| inner as &(dyn std::error::Error + 'static));
        let Some(deeper) = carried.or_else(|| cause.source()) else { return found };
        found.push(deeper);
        cause = deeper;
    }
}
