//! Is a Host a machine of its own? Two Hosts with one machine id, product UUID, name or host key are one machine, or copies of one:
//! then neither may be used, and each names the other. Must not know how Hosts are read.

use std::collections::BTreeSet;

use capi_types::host::{Host, HostIdentity};
use capi_types::key::ObjectKey;
use capstan_hosts::facts::HostFacts;
use capstan_hosts::finding::{Fitness, HostFinding};
use capstan_hosts::identity;

/// Never ignorable: Hosts that share one of these are treated as one machine; other shared facts can be ignored.
pub const NEVER_IGNORED: [&str; 2] = ["machine-id", "host-key"];

/// What `host` has in common with others, which are named.
pub fn of(host: &Host, all: &[&Host]) -> Vec<HostFinding> {
    let Some(own) = identity_of(host) else { return Vec::new() };
    // Most share nothing, so that no more than one comparison is made with each.
    let others: Vec<(String, &HostIdentity)> = sharing(own, all)
        .into_iter()
        .filter(|other| other.metadata.uid != host.metadata.uid)
        .filter_map(|other| Some((ObjectKey::of(other).to_string(), identity_of(other)?)))
        .collect();
    let (own_facts, other_facts) = (facts(own), others.iter().map(|(_, it)| facts(it)).collect::<Vec<_>>());
    let names = others.iter().map(|(name, _)| name.as_str());
    let machines: Vec<(&str, &HostFacts)> =
        std::iter::once(("", &own_facts)).chain(names.zip(&other_facts)).collect();
    let mut found = identity::shared(&machines).into_iter().next().unwrap_or_default();
    found.extend(shared_key(own, &others));
    found
}

/// Hosts that have to be judged anew when this identity is another one.
pub fn sharing<'a>(identity: &HostIdentity, all: &[&'a Host]) -> Vec<&'a Host> {
    let is_same =
        |a: Option<&String>, b: Option<&String>| a.zip(b).is_some_and(|(a, b)| a.eq_ignore_ascii_case(b));
    let shares = |other: &HostIdentity| {
        is_same(identity.machine_id.as_ref(), other.machine_id.as_ref())
            || is_same(identity.product_uuid.as_ref(), other.product_uuid.as_ref())
            || is_same(identity.hostname.as_ref(), other.hostname.as_ref())
            || identity.host_keys.iter().any(|key| other.host_keys.contains(key))
    };
    all.iter().copied().filter(|host| identity_of(host).is_some_and(shares)).collect()
}

fn identity_of(host: &Host) -> Option<&HostIdentity> {
    host.status.as_ref()?.identity.as_ref()
}

fn facts(identity: &HostIdentity) -> HostFacts {
    HostFacts {
        machine_id: identity.machine_id.clone(),
        product_uuid: identity.product_uuid.clone(),
        hostname: identity.hostname.clone(),
        ..HostFacts::default()
    }
}

fn shared_key(own: &HostIdentity, others: &[(String, &HostIdentity)]) -> Option<HostFinding> {
    let keys: BTreeSet<&String> = own.host_keys.iter().collect();
    let has_one = |it: &HostIdentity| it.host_keys.iter().find(|key| keys.contains(key)).cloned();
    let shared: Vec<(&str, String)> =
        others.iter().filter_map(|(name, it)| Some((name.as_str(), has_one(it)?))).collect();
    let (_, key) = shared.first()?;
    let names: Vec<&str> = shared.iter().map(|(name, _)| *name).collect();
    Some(HostFinding {
        rule: "host-key",
        outcome: Fitness::Unfit,
        evidence: format!("{key} is that of {} as well", names.join(", ")),
        remedy: "if they are copies: make new host keys on one of them (`rm /etc/ssh/ssh_host_*; ssh-keygen -A`); if they are one \
                 machine, delete one Host"
            .to_owned(),
        kubeadm_check: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::host::{HostSpec, HostStatus};

    fn host(name: &str, machine_id: &str, key: &str) -> Host {
        let mut host = Host::new(name, HostSpec::default());
        host.metadata.namespace = Some("ns".to_owned());
        host.metadata.uid = Some(name.to_owned());
        let identity = HostIdentity {
            machine_id: Some(machine_id.to_owned()),
            host_keys: vec![key.to_owned()],
            ..HostIdentity::default()
        };
        host.status = Some(HostStatus { identity: Some(identity), ..HostStatus::default() });
        host
    }

    #[test]
    fn two_hosts_of_one_machine_name_each_other() {
        let hosts = [host("a", "1", "K"), host("b", "1", "L"), host("c", "2", "K"), host("d", "3", "M")];
        let all: Vec<&Host> = hosts.iter().collect();
        let said = |host: &Host| {
            let found = of(host, &all);
            found.iter().map(|it| (it.rule, it.evidence.clone())).collect::<Vec<_>>()
        };
        let same = |rule, text: &str| (rule, text.to_owned());
        assert_eq!(
            said(&hosts[0]),
            [same("machine-id", "1 is that of ns/b as well"), same("host-key", "K is that of ns/c as well")]
        );
        assert_eq!(said(&hosts[1]), [same("machine-id", "1 is that of ns/a as well")]);
        assert_eq!(said(&hosts[2]), [same("host-key", "K is that of ns/a as well")]);
        assert_eq!(said(&hosts[3]), []);
        assert_eq!(of(&Host::new("e", HostSpec::default()), &all), [], "nothing is known of it");
        let identity = identity_of(&hosts[0]).expect("an identity");
        let names: Vec<_> = sharing(identity, &all).iter().map(|host| host.metadata.name.clone()).collect();
        assert_eq!(names, ["a", "b", "c"].map(|name| Some(name.to_owned())));
    }
}
