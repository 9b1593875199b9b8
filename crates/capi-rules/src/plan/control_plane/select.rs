//! Which Machine goes, and where a new one is put. Must not decide whether any does.
//! Source: KCP-11 and KCP-FD1; `scale.go` (`selectMachineForInPlaceUpdateOrScaleDown`),
//! `controlplane/kubeadm/pkg/control_plane.go`, `util/failuredomains`, v1.14.2.
//!
//! Where upstream leaves a tie between failure domains to the order of a map, the random part of the next
//! Machine's name decides: chance that came with the facts, so that a plan is the same until it is carried out.

use super::Observed;
use crate::status::control_plane::OwnedMachine;
use crate::status::control_plane::machine::ETCD_MEMBER;
use capi_types::names::annotation;

/// The Machine to go first: marked, then unhealthy, then outdated ones; from the fullest failure
/// domain; the oldest. `outdated` lists names. `None` only without Machines.
pub fn machine_to_go<'a>(observed: &'a Observed, outdated: &[&str]) -> Option<&'a OwnedMachine> {
    let eligible = eligible(observed, outdated);
    let domain = fullest_domain(observed, &eligible);
    eligible
        .into_iter()
        .filter(|m| domain_of(observed, m) == domain)
        // Names break ties of Machines made within one second.
        .min_by_key(|m| (m.created_at(), m.name()))
}

fn eligible<'a>(observed: &'a Observed, outdated: &[&str]) -> Vec<&'a OwnedMachine> {
    let is_outdated = |m: &OwnedMachine| outdated.contains(&m.name());
    let marked = |m: &OwnedMachine| m.annotation(annotation::DELETE_MACHINE).is_some();
    let unhealthy = |m: &OwnedMachine| {
        // Of an external etcd no Machine has a member condition.
        let etcd = observed.etcd_is_managed().then_some(ETCD_MEMBER);
        observed.component_conditions().iter().copied().chain(etcd).any(|t| m.is_false(t))
    };
    let preferences: [&dyn Fn(&OwnedMachine) -> bool; 5] = [
        &|m| is_outdated(m) && marked(m),
        &marked,
        &|m| is_outdated(m) && unhealthy(m),
        &is_outdated,
        &|_| true,
    ];
    let mut groups =
        preferences.iter().map(|wanted| observed.machines.iter().filter(|m| wanted(m)).collect::<Vec<_>>());
    groups.find(|group| !group.is_empty()).unwrap_or_default()
}

/// The domain of a Machine, when the Cluster knows it as one for control planes.
fn domain_of<'a>(observed: &Observed, machine: &'a OwnedMachine) -> Option<&'a str> {
    machine.failure_domain().filter(|name| observed.failure_domains().iter().any(|d| d.name == *name))
}

/// `None` stands for "no known domain", whose Machines go first.
fn fullest_domain<'a>(observed: &Observed, eligible: &[&'a OwnedMachine]) -> Option<&'a str> {
    let domains: Option<Vec<&'a str>> = eligible.iter().map(|m| domain_of(observed, m)).collect();
    // A single Machine in no known domain is enough:
    // such Machines go before any domain is looked at.
    let domains = domains?;
    let in_domain = |name: &str| domains.iter().filter(|d| **d == name).count();
    let overall =
        |name: &str| observed.machines.iter().filter(|m| domain_of(observed, m) == Some(name)).count();
    domains.iter().copied().max_by_key(|name| (in_domain(name), overall(name), drawn(observed, name)))
}

/// The failure domain of a new Machine: fewest up-to-date Machines that stay, then fewest Machines.
/// `None` when the Cluster has no domains for control planes.
pub fn domain_for_new(observed: &Observed) -> Option<String> {
    let count = |name: &str, wanted: &dyn Fn(&OwnedMachine) -> bool| {
        observed.machines.iter().filter(|m| m.failure_domain() == Some(name) && wanted(m)).count()
    };
    let staying = |m: &OwnedMachine| m.is_true("UpToDate") && !m.is_deleting();
    observed
        .failure_domains()
        .iter()
        .map(|d| d.name.as_str())
        .min_by_key(|name| (count(name, &staying), count(name, &|_| true), drawn(observed, name)))
        .map(str::to_owned)
}

/// Where a domain stands among its equals.
fn drawn(observed: &Observed, domain: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(
        domain.as_bytes(),
        xxhash_rust::xxh3::xxh3_64(observed.name_suffix.as_bytes()),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::status::control_plane::fixtures;
    use capstan_base::rng::Rng;

    fn drawn_often(pick: impl Fn(&Observed) -> String) -> BTreeMap<String, usize> {
        let (mut often, rng) = (BTreeMap::new(), Rng::seeded(3));
        let mut observed = fixtures::three();
        let domains: Vec<_> = ["a", "b", "c", "d"].map(|n| json!({"name": n, "controlPlane": true})).into();
        observed.cluster.status.as_mut().expect("a status").failure_domains =
            serde_json::from_value(json!(domains)).expect("domains");
        for (machine, domain) in observed.machines.iter_mut().zip(["a", "b", "b"]) {
            machine.machine.spec.failure_domain = Some(domain.to_owned());
        }
        for _ in 0..200 {
            observed.name_suffix = rng.suffix(10);
            *often.entry(pick(&observed)).or_default() += 1;
            assert_eq!(pick(&observed), pick(&observed.clone()), "the same facts, the same domain");
        }
        often
    }

    #[test]
    fn a_new_machine_goes_to_any_of_the_emptiest_domains() {
        let often = drawn_often(|o| domain_for_new(o).expect("a domain"));
        assert_eq!(often.keys().map(String::as_str).collect::<Vec<_>>(), ["c", "d"]);
        assert!(often.values().all(|times| *times > 60), "{often:?}");
    }

    #[test]
    fn a_machine_goes_from_any_of_the_fullest_domains() {
        let often = drawn_often(|o| {
            let mut o = o.clone();
            o.machines[2].machine.spec.failure_domain = Some("c".to_owned());
            machine_to_go(&o, &[]).expect("a Machine").name().to_owned()
        });
        assert_eq!(often.len(), 3, "{often:?}");
        assert!(often.values().all(|times| *times > 40), "{often:?}");
        let fullest = drawn_often(|o| machine_to_go(o, &[]).expect("a Machine").name().to_owned());
        assert_eq!(fullest.keys().map(String::as_str).collect::<Vec<_>>(), ["m2"]);
    }
}
