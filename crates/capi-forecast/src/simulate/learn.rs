//! How long the steps of Machines took, by the times in their own conditions: per pool and per kind of infrastructure,
//! as a median and a spread. Must not know how a duration is used.
//!
//! A condition's time is that of its last turn, so that a Machine whose conditions turned since it came up tells nothing
//! of its beginning: what lies behind the next step's time, and what is absurdly long, is left out.

use std::collections::BTreeMap;

use chrono::TimeDelta;

use super::timing::{Samples, Span, Timing};
use super::timings::{Timings, cluster_of};
use capi_rules::observe::dump::Dump;
use capi_types::condition::{Conditioned as _, find};
use capi_types::key::{ObjectKey, controller_of, label as label_of};
use capi_types::machine::Machine;
use capi_types::names::label;
use capstan_base::time::{Timestamp, from_k8s};

/// A step that took longer tells of a fault that was repaired, not of how long it takes.
const LONGEST: TimeDelta = TimeDelta::hours(2);
/// A controller that looks every so often reports a step that much late, behind what came after it: upstream's reports the
/// infrastructure of control plane Machines 2 to 6 s after their Nodes.
const REPORT_DELAY_MAX: TimeDelta = TimeDelta::minutes(1);
/// From so many samples on, what is usual for the provider does not count any more.
const ENOUGH: usize = 5;

/// Durations of the three steps that conditions tell of, in seconds.
#[derive(Clone, Debug, Default)]
struct Seen {
    bootstrap: Vec<u32>,
    infrastructure: Vec<u32>,
    node: Vec<u32>,
}

/// What was learnt, and what it rests on.
#[derive(Clone, Debug, Default)]
pub struct Learnt {
    pub timings: Timings,
    /// Sentences.
    pub grounds: Vec<String>,
}

/// Durations of earlier Machines of one pool, as they were kept, seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    pub cluster: ObjectKey,
    pub pool: String,
    /// Kind of its infrastructure machines.
    pub kind: String,
    pub bootstrap: Vec<u32>,
    pub infrastructure: Vec<u32>,
    pub node: Vec<u32>,
}

/// From the Machines of a dump.
pub fn learn(dump: &Dump) -> Learnt {
    learn_with(dump, &[])
}

/// From the Machines of a dump, and from earlier ones of the same pools.
pub fn learn_with(dump: &Dump, remembered: &[Remembered]) -> Learnt {
    let mut pools = BTreeMap::<(ObjectKey, String), (String, Seen)>::new();
    let mut kinds = BTreeMap::<String, Seen>::new();
    for machine in dump.machines.values() {
        let kind = machine.spec.infrastructure_ref.kind.clone();
        let begun = initialized(dump, machine);
        if let Some(pool) = pool_of(machine) {
            let of = (cluster_of(machine), pool);
            let (_, seen) = pools.entry(of).or_insert_with(|| (kind.clone(), Seen::default()));
            seen.note(machine, begun);
        }
        kinds.entry(kind).or_default().note(machine, begun);
    }
    let mine = remembered.iter().filter(|one| dump.clusters.contains_key(&one.cluster));
    for one in mine {
        let of = (one.cluster.clone(), one.pool.clone());
        let (_, seen) = pools.entry(of).or_insert_with(|| (one.kind.clone(), Seen::default()));
        seen.recall(one);
        kinds.entry(one.kind.clone()).or_default().recall(one);
    }
    let mut learnt = Learnt::default();
    for (kind, seen) in &kinds {
        let count = seen.node.len();
        let usual = Timing::usual(kind);
        if count > 0 {
            learnt.timings.kinds.insert(kind.clone(), seen.timing(usual));
        }
        learnt.grounds.push(match count {
            0 => format!(
                "durations of a {kind} are what is usual for its provider: no Machine tells of its own"
            ),
            1 => {
                format!("durations of a {kind} are learnt from 1 Machine, and what is usual for its provider")
            }
            few if few < ENOUGH => {
                format!(
                    "durations of a {kind} are learnt from {few} Machines, and what is usual for its provider"
                )
            }
            many => format!("durations of a {kind} are learnt from {many} Machines"),
        });
    }
    for (pool, (kind, seen)) in pools.iter().filter(|(_, (_, seen))| !seen.node.is_empty()) {
        let of_kind = learnt.timings.kinds.get(kind).copied().unwrap_or_else(|| Timing::usual(kind));
        learnt.timings.pools.insert(pool.clone(), seen.timing(of_kind));
    }
    learnt
}

/// Since when the Cluster of a Machine has a control plane.
fn initialized(dump: &Dump, machine: &Machine) -> Option<Timestamp> {
    let turned = find(dump.clusters.get(&cluster_of(machine))?.conditions(), "ControlPlaneInitialized")?;
    (turned.status == "True").then(|| from_k8s(&turned.last_transition_time))
}

/// The name of the MachineDeployment or control plane.
fn pool_of(machine: &Machine) -> Option<String> {
    let deployment = label_of(machine, label::DEPLOYMENT_NAME).map(str::to_owned);
    deployment.or_else(|| controller_of(machine).map(|owner| owner.name.clone()))
}

impl Seen {
    /// `begun`: since when its Cluster has a control plane, for which the bootstrap data of others waits.
    fn note(&mut self, machine: &Machine, begun: Option<Timestamp>) {
        let turned = |type_: &str| {
            let holds = find(machine.conditions(), type_).filter(|c| c.status == "True");
            holds.map(|c| from_k8s(&c.last_transition_time))
        };
        let created = machine.metadata.creation_timestamp.as_ref().map(from_k8s);
        let bootstrap = turned("BootstrapConfigReady");
        let host = turned("InfrastructureReady");
        // The earlier one: either may have turned again since.
        let node = turned("NodeReady").into_iter().chain(turned("NodeHealthy")).min();
        let host = in_order(host, node);
        let bootstrap = in_order(bootstrap, host);
        let took = |from: Option<Timestamp>, to: Option<Timestamp>| {
            let passed = to? - from?;
            let is_sane = passed >= TimeDelta::zero() && passed <= LONGEST;
            is_sane.then(|| u32::try_from(passed.num_seconds()).ok()).flatten()
        };
        // Data of others waits for the control plane, and that wait is not part of the step.
        self.bootstrap.extend(took(created.max(begun), bootstrap));
        self.infrastructure.extend(took(bootstrap, host));
        self.node.extend(took(host, node));
    }

    /// Those that are gone, or whose conditions turned since. One that is still there may count twice.
    fn recall(&mut self, earlier: &Remembered) {
        self.bootstrap.extend(&earlier.bootstrap);
        self.infrastructure.extend(&earlier.infrastructure);
        self.node.extend(&earlier.node);
    }

    fn timing(&self, usual: Timing) -> Timing {
        Timing {
            bootstrap: span(&self.bootstrap, usual.bootstrap),
            infrastructure: span(&self.infrastructure, usual.infrastructure),
            node: span(&self.node, usual.node),
            ..usual
        }
    }
}

/// When a step was done that was reported at `reported`, and whose successor was done by `next`: not after that, where the report
/// alone can be late.
fn in_order(reported: Option<Timestamp>, next: Option<Timestamp>) -> Option<Timestamp> {
    match (reported?, next) {
        (step, Some(next)) if step > next && step - next <= REPORT_DELAY_MAX => Some(next),
        (step, _) => Some(step),
    }
}

/// The median and the ends of the middle eight tenths. With few samples they are at least two thirds and three halves of
/// the median; very few are widened by what is usual, in proportion.
fn span(samples: &[u32], usual: Span) -> Span {
    if samples.is_empty() {
        return usual;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let at = |tenths: usize| sorted[(sorted.len() - 1) * tenths / 10];
    let median = at(5);
    let count = u32::try_from(sorted.len()).unwrap_or(u32::MAX);
    // Without the outer tenths: one host that was repaired must not make the range.
    let mut own = Span::new(at(1), median, sorted[((sorted.len() - 1) * 9).div_ceil(10)])
        .of_samples(Samples::Of(count));
    if count < Samples::ENOUGH_FOR_ENDS {
        own.short_s = own.short_s.min(median - median / 3);
        own.long_s = own.long_s.max(median + median / 2);
    }
    if sorted.len() >= ENOUGH {
        return own;
    }
    // As far from the median as it is usually from the usual, in proportion.
    let scaled = |part: u32| {
        let ratio = f64::from(part) / f64::from(usual.usual_s.max(1));
        (f64::from(median) * ratio) as u32
    };
    Span {
        short_s: own.short_s.min(scaled(usual.short_s)),
        long_s: own.long_s.max(scaled(usual.long_s)),
        ..own
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn machine(name: &str, created: &str, times: [&str; 3]) -> Value {
        let turned = |type_: &str, at: &str| json!({"type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": at});
        let [bootstrap, host, node] = times;
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": "n", "creationTimestamp": created,
                "labels": {"cluster.x-k8s.io/deployment-name": "md"}},
            "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "i.io", "kind": "AWSMachine", "name": name}},
            "status": {"conditions": [turned("BootstrapConfigReady", bootstrap), turned("InfrastructureReady", host), turned("NodeReady", node)]}
        })
    }

    fn md(cluster: &str) -> (ObjectKey, String) {
        (ObjectKey::new("n", cluster), "md".to_owned())
    }

    fn learnt(machines: Vec<Value>) -> Learnt {
        learn(&Dump::new(machines.into_iter().map(Into::into).collect()))
    }

    const BORN: &str = "2026-11-20T10:00:00Z";

    #[test]
    fn few_machines_keep_the_spread_that_is_usual() {
        let times = ["2026-11-20T10:00:02Z", "2026-11-20T10:01:02Z", "2026-11-20T10:02:32Z"];
        let learnt = learnt(vec![machine("a", BORN, times)]);
        let pool = learnt.timings.pools[&md("c")];
        assert_eq!(
            pool.infrastructure,
            Span::new(30, 60, 133).of_samples(Samples::Of(1)),
            "half and 2.2 times as long, as usual for AWS"
        );
        assert_eq!(pool.node.usual_s, 90);
        assert_eq!(
            learnt.grounds,
            ["durations of a AWSMachine are learnt from 1 Machine, and what is usual for its provider"]
        );
    }

    #[test]
    fn many_machines_tell_their_own_spread() {
        let one = |n: u32| {
            let host = format!("2026-11-20T10:01:{n:02}Z");
            machine(&format!("m{n}"), BORN, [BORN, &host, "2026-11-20T10:02:00Z"])
        };
        let learnt = learnt((0..11).map(one).collect());
        assert_eq!(
            learnt.timings.pools[&md("c")].infrastructure,
            Span::new(61, 65, 69).of_samples(Samples::Of(11))
        );
        assert_eq!(learnt.grounds, ["durations of a AWSMachine are learnt from 11 Machines"]);
    }

    #[test]
    fn pools_of_one_name_in_two_clusters_are_two() {
        let of = |name, cluster, host| {
            let mut machine = machine(name, BORN, ["2026-11-20T10:00:02Z", host, "2026-11-20T10:20:00Z"]);
            machine["spec"]["clusterName"] = json!(cluster);
            machine
        };
        let (fast, slow) = (of("a", "c", "2026-11-20T10:01:02Z"), of("b", "d", "2026-11-20T10:10:02Z"));
        let pools = learnt(vec![fast, slow]).timings.pools;
        assert_eq!(["c", "d"].map(|cluster| pools[&md(cluster)].infrastructure.usual_s), [60, 600]);
    }

    #[test]
    fn what_was_kept_counts_beside_what_is_there() {
        let times = ["2026-11-20T10:00:02Z", "2026-11-20T10:01:02Z", "2026-11-20T10:02:32Z"];
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c", "namespace": "n"}, "spec": {}});
        let dump = Dump::new(vec![machine("a", BORN, times).into(), cluster.into()]);
        let kept = |cluster: &str| Remembered {
            cluster: ObjectKey::new("n", cluster),
            pool: "md".to_owned(),
            kind: "AWSMachine".to_owned(),
            bootstrap: vec![2; 4],
            infrastructure: vec![62, 64, 66, 68],
            node: vec![90; 4],
        };
        let pool = learn_with(&dump, &[kept("c"), kept("other")]).timings.pools[&md("c")];
        assert_eq!(
            pool.infrastructure,
            Span::new(43, 64, 96).of_samples(Samples::Of(5)),
            "five of this cluster, none of the other"
        );
    }

    #[test]
    fn a_step_that_is_reported_after_the_next_one_was_done_by_then() {
        for (host, expected) in [
            ("2026-11-20T10:00:36Z", Some((28, 0))),
            ("2026-11-20T10:01:30Z", Some((28, 0))),
            ("2026-11-20T10:01:31Z", None),
        ] {
            let times = ["2026-11-20T10:00:02Z", host, "2026-11-20T10:00:30Z"];
            let pools = learnt(vec![machine("a", BORN, times)]).timings.pools;
            let steps = pools.get(&md("c")).map(|pool| (pool.infrastructure.usual_s, pool.node.usual_s));
            assert_eq!(steps, expected, "{host}");
        }
        let data_last = ["2026-11-20T10:00:33Z", "2026-11-20T10:00:31Z", "2026-11-20T10:00:30Z"];
        let pool = learnt(vec![machine("a", BORN, data_last)]).timings.pools[&md("c")];
        assert_eq!((pool.bootstrap.usual_s, pool.infrastructure.usual_s, pool.node.usual_s), (30, 0, 0));
    }

    #[test]
    fn a_condition_that_turned_again_tells_nothing() {
        let late = ["2026-11-20T10:00:02Z", "2026-11-22T10:01:02Z", "2026-11-20T10:02:32Z"];
        let learnt = learnt(vec![machine("a", BORN, late)]);
        assert!(
            learnt.timings.pools.is_empty(),
            "neither two days for a host nor less than nothing for a Node"
        );
    }
}
