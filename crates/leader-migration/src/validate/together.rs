//! What is wrong between processes: locks that differ, flags that some have, controllers with two actors or none.

use std::collections::BTreeSet;

use crate::actors::{Behaviour, Holders, reachable_holders, who_runs};
use crate::controller_names::Function;
use crate::manager_kind::ManagerKind;
use crate::process::Process;
use crate::rules::Finding;

pub(super) fn findings(processes: &[Process]) -> Vec<Finding> {
    let migrating: Vec<&Process> = processes.iter().filter(|process| process.migrates()).collect();
    let mut found = Vec::new();
    found.extend(leader_names(&migrating));
    found.extend(unlisted(processes, &migrating));
    found.extend(missing_flags(processes));
    found.extend(lost_providers(processes));
    found.extend(places(processes));
    found.extend(times(processes));
    found.extend(node_ipam(processes));
    found.extend(equal_hosts(processes));
    found
}

fn names<'a>(processes: impl IntoIterator<Item = &'a Process>) -> Vec<String> {
    processes.into_iter().map(|process| process.name.clone()).collect()
}

fn leader_names(migrating: &[&Process]) -> Option<Finding> {
    let known =
        || migrating.iter().filter_map(|process| Some((process, process.configuration()?.leader_name)));
    let names_of: BTreeSet<String> = known().map(|(_, name)| name).collect();
    let list = names_of.iter().cloned().collect::<Vec<_>>().join(", ");
    let subjects = known().map(|(process, _)| process.name.clone()).collect();
    (names_of.len() > 1).then(|| Finding::new("F1", subjects, format!("the names are {list}")))
}

/// A controller that both kinds have, and that one of the migrating processes which have it does not list.
fn unlisted(processes: &[Process], migrating: &[&Process]) -> Vec<Finding> {
    // A controller of one kind alone stays under that kind's main lock, which excludes its
    // replicas.
    let both = |function: Function| {
        ManagerKind::ALL
            .into_iter()
            .all(|kind| processes.iter().any(|p| p.manager == kind && p.has(function)))
    };
    let missing = |function: Function| {
        let lists = |process: &Process| {
            process
                .configuration()
                // A file that is not known may list it: another finding says that it is not known.
                .is_none_or(|c| c.component_of(function.name_in(process.release)).is_some())
        };
        let without = migrating.iter().copied().filter(|p| p.has(function) && !lists(p));
        let without = names(without);
        let problem = format!("{} are in both kinds of process and not in this one's list", function.title());
        (!without.is_empty()).then(|| Finding::new("F3", without, problem))
    };
    Function::ALL.into_iter().filter(|function| both(*function)).filter_map(missing).collect()
}

/// A process without the flag, whose kind and the other one have a controller in common.
fn missing_flags(processes: &[Process]) -> Vec<Finding> {
    let mut found = Vec::new();
    // The flag alone: an election that is off is a finding of its own.
    for process in processes.iter().filter(|process| !process.flags.enable_migration) {
        let shares = |other: &&Process| {
            other.manager != process.manager
                && Function::ALL.into_iter().any(|f| other.has(f) && process.has(f))
        };
        let others: Vec<&Process> = processes.iter().filter(shares).collect();
        let Some(other) = others.first() else { continue };
        let subject = vec![process.name.clone()];
        let problem = format!("no --enable-leader-migration beside a {}", other.manager);
        found.push(Finding::new("F5", subject, problem));
        let same_node = others.iter().find(|other| process.node.is_some() && other.node == process.node);
        if let Some(other) = same_node.filter(|_| process.manager == ManagerKind::KubeControllerManager) {
            let node = process.node.as_deref().unwrap_or_default();
            let subjects = vec![other.name.clone(), process.name.clone()];
            found.push(Finding::new("F20", subjects, format!("both are on {node}")));
        }
    }
    found
}

/// Without a cloud-controller-manager a kube-controller-manager that names no provider beside one that does has lost it. One
/// with the enable flag is a finding by itself.
fn lost_providers(processes: &[Process]) -> Option<Finding> {
    let is_source = |process: &Process| process.has_cloud_provider();
    // With a cloud's process the others need no provider.
    let is_alone = processes.iter().all(|process| process.manager == ManagerKind::KubeControllerManager);
    let lost = processes.iter().filter(|process| process.names_no_provider() && !process.migrates());
    let lost = names(lost);
    let problem = "--cloud-provider is missing, which another one has, and no cloud-controller-manager runs";
    (is_alone && !lost.is_empty() && processes.iter().any(is_source))
        .then(|| Finding::new("F10", lost, problem.to_owned()))
}

fn places(processes: &[Process]) -> Vec<Finding> {
    let mut found = Vec::new();
    let namespaces: BTreeSet<&str> =
        processes.iter().map(|process| process.flags.resource_namespace.as_str()).collect();
    if namespaces.len() > 1 {
        let list = namespaces.into_iter().collect::<Vec<_>>().join(", ");
        found.push(Finding::new("F8", names(processes), format!("the namespaces are {list}")));
    }
    // Of the two kinds the main Leases differ by nature; within one they have to be the same.
    for kind in ManagerKind::ALL {
        let of_kind = || processes.iter().filter(move |process| process.manager == kind);
        let main: BTreeSet<&str> = of_kind().map(|process| process.flags.resource_name.as_str()).collect();
        if main.len() > 1 {
            let list = main.into_iter().collect::<Vec<_>>().join(", ");
            found.push(Finding::new("F8", names(of_kind()), format!("the main Leases are {list}")));
        }
    }
    found
}

fn times(processes: &[Process]) -> Option<Finding> {
    let shown: BTreeSet<String> = processes
        .iter()
        .map(|process| {
            let times = process.flags.times;
            let seconds = [times.lease_duration, times.renew_deadline, times.retry_period]
                .map(|d| d.as_secs_f64().to_string());
            format!("{} s", seconds.join("/"))
        })
        .collect();
    let list = shown.iter().cloned().collect::<Vec<_>>().join(", ");
    (shown.len() > 1).then(|| Finding::new("F19", names(processes), list))
}

fn node_ipam(processes: &[Process]) -> Option<Finding> {
    // Settings of a process that does not allocate ranges decide nothing.
    let having: Vec<&Process> = processes.iter().filter(|process| process.has(Function::NodeIpam)).collect();
    let settings: BTreeSet<(&str, &str)> = having
        .iter()
        .map(|process| (process.flags.cluster_cidr.as_str(), process.flags.node_cidr_mask_size.as_str()))
        .collect();
    let list =
        settings.iter().map(|(cidr, mask)| format!("{cidr:?} mask {mask:?}")).collect::<Vec<_>>().join(", ");
    (settings.len() > 1).then(|| Finding::new("node-ipam", names(having), list))
}

/// Names of hosts in identities do not decide anything.
fn equal_hosts(processes: &[Process]) -> Option<Finding> {
    let of_one_node = |process: &&Process| {
        processes.iter().any(|other| {
            // By identity: replicas in files may be equal in everything.
            !std::ptr::eq(other, *process)
                && other.manager == process.manager
                && other.node.is_some()
                && other.node == process.node
        })
    };
    let subjects = names(processes.iter().filter(of_one_node));
    (!subjects.is_empty()).then(|| Finding::new("F22", subjects, "one host name, two processes".to_owned()))
}

/// For each controller the first state with two actors, and the first with none.
pub(super) fn actors(processes: &[Process], behaviours: &[(usize, Behaviour)]) -> Vec<Finding> {
    let running: Vec<Behaviour> = behaviours.iter().map(|(_, behaviour)| behaviour.clone()).collect();
    // Every state that can be reached is tried: there are few, since only holders of main locks compete.
    let states = reachable_holders(&running);
    let name = |index: &usize| processes[behaviours[*index].0].name.clone();
    let mut found = Vec::new();
    for function in Function::ALL {
        let title = function.title();
        let acting = |holders: &Holders| who_runs(function, &running, holders);
        if let Some((state, two)) = states.iter().map(|s| (s, acting(s))).find(|(_, acting)| acting.len() > 1)
        {
            let problem = format!("{title}, while {}", described(state, &name));
            found.push(Finding::new("two-actors", two.iter().map(name).collect(), problem));
        }
        // A controller that none of them has is not missed.
        let is_wanted = processes.iter().any(|process| process.has(function));
        let idle = states.iter().find(|state| acting(state).is_empty());
        if let Some(state) = idle.filter(|_| is_wanted) {
            let problem = format!("{title}, while {}", described(state, &name));
            // Those that hold nothing because none of them runs.
            let idle: Vec<String> = state.main.iter().map(name).collect();
            let all = || names(processes.iter().filter(|process| process.has(function)));
            found.push(Finding::new("no-actor", if idle.is_empty() { all() } else { idle }, problem));
        }
    }
    found
}

fn described(state: &Holders, name: &impl Fn(&usize) -> String) -> String {
    let held = |holders: &BTreeSet<usize>, one: &str, several: &str| match holders.len() {
        0 => format!("nobody holds {one}"),
        1 => format!("{} holds {one}", holders.iter().map(name).collect::<String>()),
        _ => format!("{} hold {several}", holders.iter().map(name).collect::<Vec<_>>().join(" and ")),
    };
    let migration = "the migration lock";
    format!(
        "{}, and {}",
        held(&state.main, "a main lock", "their main locks"),
        held(&state.migration, migration, migration)
    )
}
