//! Which key pairs a cluster needs, which of them exist, and the condition about it. Must not
//! read or make keys.
//! Source: cluster-api `util/secret/certificates.go`, KCP `reconcileClusterCertificates`, v1.14.2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::status::conditions::setter::{condition, internal_error};
use capi_types::condition::Status;

/// What a key pair is for. The order is that of messages and of files on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Signs what talks to the API server.
    Ca,
    /// Signs tokens of service accounts; has no certificate.
    ServiceAccount,
    /// Signs what talks through the API server's aggregation.
    FrontProxy,
    /// Only with an external etcd, and supplied by the user.
    ApiserverEtcdClient,
    /// Signs what talks to etcd.
    Etcd,
}

impl Purpose {
    /// As in the name of the secret.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ca => "ca",
            Self::ServiceAccount => "sa",
            Self::FrontProxy => "proxy",
            Self::ApiserverEtcdClient => "apiserver-etcd-client",
            Self::Etcd => "etcd",
        }
    }

    /// `CLUSTER-ca` and so on.
    pub fn secret_name(self, cluster: &str) -> String {
        format!("{cluster}-{}", self.name())
    }

    /// The key pairs of a cluster.
    pub fn needed(external_etcd: bool) -> &'static [Self] {
        if external_etcd {
            &[Self::Ca, Self::ServiceAccount, Self::FrontProxy, Self::ApiserverEtcdClient, Self::Etcd]
        } else {
            &[Self::Ca, Self::ServiceAccount, Self::FrontProxy, Self::Etcd]
        }
    }

    /// Certificates around an external etcd come from the user: never generated.
    pub fn is_external(self, external_etcd: bool) -> bool {
        external_etcd && matches!(self, Self::Etcd | Self::ApiserverEtcdClient)
    }
}

/// What is known of the certificate secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// The secrets that exist.
    Found(Vec<Purpose>),
    /// They could not be read; an operator's sentence.
    Unreadable(String),
}

impl Certificates {
    /// What is needed and does not exist; nothing when that is not known.
    pub fn missing(&self, external_etcd: bool) -> Vec<Purpose> {
        match self {
            Self::Found(found) => {
                Purpose::needed(external_etcd).iter().filter(|p| !found.contains(p)).copied().collect()
            }
            // A pair that could not be read must not be made
            // a second time: it would not fit the cluster.
            Self::Unreadable(_) => Vec::new(),
        }
    }

    /// The `CertificatesAvailable` condition. Before initialization missing pairs are generated in
    /// the same pass. A missing pair of the user's is trouble at any time.
    pub fn condition(&self, external_etcd: bool, initialized: bool) -> Condition {
        const TYPE: &str = "CertificatesAvailable";
        let missing = match self {
            Self::Unreadable(_) => return internal_error(TYPE).into(),
            Self::Found(_) => self.missing(external_etcd),
        };
        // Upstream ends the pass with an error here, whose condition is this one.
        if missing.iter().any(|p| p.is_external(external_etcd)) {
            return internal_error(TYPE).into();
        }
        if missing.is_empty() || !initialized {
            return condition(TYPE, Status::True, "Available", "");
        }
        let names: Vec<&str> = missing.iter().map(|p| p.name()).collect();
        let message = match names.as_slice() {
            [one] => format!("Cluster certificate for {one} is"),
            many => format!("Cluster certificates for {} are", many.join(", ")),
        };
        let message = format!("{message} not available, please check cluster certificate secrets");
        condition(TYPE, Status::False, "NotAvailable", message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_follows_what_is_missing() {
        let all = || Purpose::needed(false).to_vec();
        let check = |found: Certificates, external: bool, initialized: bool, expected: (&str, &str, &str)| {
            let got = found.condition(external, initialized);
            assert_eq!((got.status.as_str(), got.reason.as_str(), got.message.as_str()), expected);
        };
        check(Certificates::Found(all()), false, true, ("True", "Available", ""));
        check(Certificates::Found(vec![]), false, false, ("True", "Available", ""));
        check(
            Certificates::Found(vec![Purpose::Ca, Purpose::ServiceAccount, Purpose::Etcd]),
            false,
            true,
            (
                "False",
                "NotAvailable",
                "Cluster certificate for proxy is not available, please check cluster certificate secrets",
            ),
        );
        check(
            Certificates::Found(vec![Purpose::FrontProxy]),
            false,
            true,
            (
                "False",
                "NotAvailable",
                "Cluster certificates for ca, sa, etcd are not available, please check cluster certificate secrets",
            ),
        );
        let internal = ("Unknown", "InternalError", "Please check controller logs for errors");
        for initialized in [false, true] {
            check(Certificates::Found(all()), true, initialized, internal);
        }
        check(Certificates::Unreadable("refused".into()), false, true, internal);
    }
}
