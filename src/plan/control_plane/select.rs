//! Which Machine goes, and where a new one is put. Must not decide whether any does.
//! Source: KCP-11 and KCP-FD1; `scale.go` (`selectMachineForInPlaceUpdateOrScaleDown`),
//! `controlplane/kubeadm/pkg/control_plane.go`, `util/failuredomains`, v1.14.0.
//!
//! Intended difference: where upstream leaves a tie between failure domains to the order of a map,
//! the first by name wins, so that a plan can be shown before it is carried out.

use super::Observed;
use crate::api::names::annotation;
use crate::status::control_plane::OwnedMachine;
use crate::status::control_plane::machine::ETCD_MEMBER;

/// The Machine to go first: marked, then unhealthy, then outdated ones; from the fullest failure
/// domain; the oldest. `outdated` lists names. `None` only without Machines.
pub fn machine_to_go<'a>(observed: &'a Observed, outdated: &[&str]) -> Option<&'a OwnedMachine> {
    let eligible = eligible(observed, outdated);
    let domain = fullest_domain(observed, &eligible);
    eligible
        .into_iter()
        .filter(|m| domain_of(observed, m) == domain)
        .min_by_key(|m| (m.created_at(), m.name()))
}

fn eligible<'a>(observed: &'a Observed, outdated: &[&str]) -> Vec<&'a OwnedMachine> {
    let is_outdated = |m: &OwnedMachine| outdated.contains(&m.name());
    let marked = |m: &OwnedMachine| m.annotation(annotation::DELETE_MACHINE).is_some();
    let unhealthy = |m: &OwnedMachine| {
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
    let domains = domains?;
    let in_domain = |name: &str| domains.iter().filter(|d| **d == name).count();
    let overall =
        |name: &str| observed.machines.iter().filter(|m| domain_of(observed, m) == Some(name)).count();
    domains.iter().copied().max_by_key(|name| (in_domain(name), overall(name), std::cmp::Reverse(*name)))
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
        .min_by_key(|name| (count(name, &staying), count(name, &|_| true), *name))
        .map(str::to_owned)
}
