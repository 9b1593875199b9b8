//! Which Host a HostMachine claims. Owns the order among those that fit; must not know how a claim is written.

use capi_types::condition::{Conditioned, find, is_true};
use capi_types::host::Host;
use capi_types::host::condition::AVAILABLE;
use capi_types::host_machine::HostMachineSpec;

/// What is asked of a Host.
#[derive(Clone, Debug, Default)]
pub struct WantedHost<'a> {
    pub pool: Option<&'a str>,
    pub labels: Vec<(&'a str, &'a str)>,
    /// This Host alone.
    pub name: Option<&'a str>,
    pub failure_domain: Option<&'a str>,
    /// This Host is for somebody else, such as the endpoint of a cluster for its control plane.
    pub reserved: Vec<&'a str>,
}

impl<'a> WantedHost<'a> {
    /// What a HostMachine asks for by itself.
    pub fn of(spec: &'a HostMachineSpec) -> Self {
        Self {
            pool: spec.pool.as_deref(),
            labels: spec.host_labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            name: spec.host_name.as_deref(),
            ..Self::default()
        }
    }

    fn fits(&self, host: &Host) -> bool {
        let name = host.metadata.name.as_deref().unwrap_or_default();
        let labels = host.metadata.labels.as_ref();
        let has = |(name, value): &(&str, &str)| {
            labels.and_then(|labels| labels.get(*name)).is_some_and(|it| it == value)
        };
        self.pool.is_none_or(|pool| host.spec.pool.as_deref() == Some(pool))
            && self.labels.iter().all(has)
            && self.name.is_none_or(|wanted| wanted == name)
            && self.failure_domain.is_none_or(|domain| host.spec.failure_domain.as_deref() == Some(domain))
            && (self.name.is_some() || !self.reserved.contains(&name))
    }
}

/// No Host can be claimed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoHost {
    /// So many fit but for their condition, with the first of them and what it says.
    pub fitting: usize,
    pub first: Option<String>,
}

impl NoHost {
    /// For the condition of the HostMachine.
    pub fn sentence(&self) -> String {
        match (&self.first, self.fitting) {
            (None, _) => "no Host fits pool, labels, name and failure domain".to_owned(),
            (Some(first), 1) => format!("the one Host that fits is not available: {first}"),
            (Some(first), fitting) => format!("none of the {fitting} Hosts that fit is available; {first}"),
        }
    }
}

/// The Host to claim: the first by name of those that are available and fit.
///
/// # Errors
/// There is none, and why.
pub fn choose<'h>(wanted: &WantedHost<'_>, hosts: &[&'h Host]) -> Result<&'h Host, NoHost> {
    let mut fitting: Vec<&Host> = hosts.iter().copied().filter(|host| wanted.fits(host)).collect();
    fitting.sort_by_key(|host| host.metadata.name.clone());
    let is_free = |host: &&&Host| {
        // The condition may be of a moment ago; the claim itself is in the object.
        host.spec.consumer_ref.is_none()
            && host.metadata.deletion_timestamp.is_none()
            && is_true(host.conditions(), AVAILABLE)
    };
    let free = fitting.iter().find(is_free).copied();
    free.ok_or_else(|| NoHost { fitting: fitting.len(), first: fitting.first().map(|host| why_not(host)) })
}

fn why_not(host: &Host) -> String {
    let name = host.metadata.name.as_deref().unwrap_or_default();
    match find(host.conditions(), AVAILABLE) {
        Some(it) if it.message.is_empty() => format!("{name}: {}", it.reason),
        Some(it) => format!("{name}: {}: {}", it.reason, it.message),
        None => format!("{name}: it was not looked at yet"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use capi_rules::status::conditions::setter::condition;
    use capi_types::condition::Status;
    use capi_types::host::{HostConsumer, HostSpec, HostStatus};

    fn host(name: &str, pool: &str, domain: &str, is_available: bool) -> Host {
        let spec = HostSpec {
            pool: Some(pool.to_owned()),
            failure_domain: Some(domain.to_owned()),
            ..HostSpec::default()
        };
        let mut host = Host::new(name, spec);
        host.metadata.labels = Some(BTreeMap::from([("rack".to_owned(), pool.to_owned())]));
        let (status, reason) =
            if is_available { (Status::True, "Available") } else { (Status::False, "Unfit") };
        let conditions = vec![condition(AVAILABLE, status, reason, if is_available { "" } else { "swap" })];
        host.status = Some(HostStatus { conditions, ..HostStatus::default() });
        host
    }

    #[test]
    fn the_first_that_fits_and_is_free_is_taken() {
        let mut taken = host("a", "p", "x", true);
        taken.spec.consumer_ref = Some(HostConsumer::default());
        let hosts = [taken, host("d", "p", "x", true), host("c", "p", "y", true), host("b", "q", "x", false)];
        let all: Vec<&Host> = hosts.iter().collect();
        let labels = vec![("rack", "p")];
        for (wanted, expected) in [
            (WantedHost::default(), Ok("c")),
            (WantedHost { failure_domain: Some("x"), ..WantedHost::default() }, Ok("d")),
            (WantedHost { labels, reserved: vec!["c"], ..WantedHost::default() }, Ok("d")),
            (WantedHost { name: Some("c"), reserved: vec!["c"], ..WantedHost::default() }, Ok("c")),
            (
                WantedHost { pool: Some("q"), ..WantedHost::default() },
                Err("the one Host that fits is not available: b: Unfit: swap"),
            ),
            (
                WantedHost { pool: Some("r"), ..WantedHost::default() },
                Err("no Host fits pool, labels, name and failure domain"),
            ),
        ] {
            let found = choose(&wanted, &all);
            let found = found.map(|host| host.metadata.name.as_deref().expect("a name"));
            let found = found.map_err(|none| none.sentence());
            assert_eq!(found, expected.map_err(str::to_owned), "{wanted:?}");
        }
    }
}
