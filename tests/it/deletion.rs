//! The whole way out of one Machine in simulated time: hooks, a drain with rules, budgets and jobs,
//! volumes, host, configuration, Node. `UPDATE_GOLDEN=1` writes the timelines anew.

use std::fmt::Write as _;
use std::time::Duration;

use capi_types::condition::{Conditioned as _, find};
use capi_types::dev::PODS_ANNOTATION;
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capstan_base::time::{Timestamp, parse_rfc3339};
use capstan_worlds::provider::faults::Fault;
use k8s_openapi::api::core::v1::Event;
use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::golden::golden;
use super::simulation::{Sim, manifest, settled, worker_names};

const PRE_DRAIN: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io/backup";
const PRE_TERMINATE: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/dns";

/// One control plane Machine and two workers, with these pods on each worker.
async fn start(seed: u64, pods: Value) -> (Sim, String) {
    let sim = Sim::start(seed).await;
    let mut objects = manifest(1, 2);
    let template = objects
        .iter_mut()
        .find(|o| o["kind"] == "DevMachineTemplate" && o["metadata"]["name"] == "harbor-md-0");
    template.expect("a template")["spec"]["template"]["metadata"] =
        json!({"annotations": {PODS_ANNOTATION: pods.to_string()}});
    sim.create(objects).await;
    sim.until("1 + 2 machines up", 180, async |s| settled(s, 1, 2, "v1.34.1").await).await;
    let name = worker_names(&sim).await.remove(0);
    (sim, name)
}

fn rule(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule",
           "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// What people see of a deletion, with the Machine's name as `MACHINE` and times as they are after its begin: how long the
/// cluster took to come up is no part of it.
struct Timeline {
    name: String,
    began: Timestamp,
    began_s: u64,
    last: String,
    text: String,
}

impl Timeline {
    fn new(sim: &Sim, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            began: sim.clock.now(),
            began_s: sim.elapsed_s(),
            last: String::new(),
            text: String::new(),
        }
    }

    /// Looks every second until `done`, or until the Machine is gone.
    async fn watch(&mut self, sim: &Sim, done: impl Fn(&Machine) -> bool) {
        for _ in 0..1200 {
            let machine: Option<Machine> = sim.get(&self.name).await;
            self.note(sim, machine.as_ref());
            if machine.as_ref().is_none_or(&done) {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("the deletion does not go on:\n{}", self.text);
    }

    fn note(&mut self, sim: &Sim, machine: Option<&Machine>) {
        let shown = machine.map_or("gone\n".to_owned(), shown).replace(&self.name, "MACHINE");
        let shown = self.after_its_begin(&shown);
        if shown != self.last {
            writeln!(self.text, "+{} s\n{shown}", sim.elapsed_s() - self.began_s).expect("a String");
            self.last = shown;
        }
    }

    /// Moments in a text as seconds after the begin.
    fn after_its_begin(&self, text: &str) -> String {
        let moment = Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").expect("a pattern");
        let after = |found: &Captures<'_>| {
            let at = parse_rfc3339(&found[0]).expect("a moment");
            format!("+{} s", at.timestamp() - self.began.timestamp())
        };
        moment.replace_all(text, after).into_owned()
    }

    /// Every event about the Machine since the deletion, each text once.
    async fn events(&mut self, sim: &Sim) {
        let mut events: Vec<Event> = sim.list().await;
        events.retain(|event| event.involved_object.name.as_deref() == Some(&self.name));
        // Names are drawn by chance; the reason orders what was told in the same moment.
        events.sort_by_key(|event| (event.last_timestamp.as_ref().map(|time| time.0), event.reason.clone()));
        let mut told = Vec::new();
        for event in events {
            let text = |part: &Option<String>| part.clone().unwrap_or_default();
            let line = format!("  {} {}: {}", text(&event.type_), text(&event.reason), text(&event.message));
            if !told.contains(&line) {
                told.push(line);
            }
        }
        writeln!(self.text, "events\n{}", told.join("\n").replace(&self.name, "MACHINE")).expect("a String");
    }
}

fn shown(machine: &Machine) -> String {
    let mut text = String::new();
    for type_ in ["Deleting", "Ready"] {
        let Some(c) = find(machine.conditions(), type_) else { continue };
        writeln!(text, "  {type_}={} {}", c.status, c.reason).expect("a String");
        c.message.lines().for_each(|line| writeln!(text, "    {line}").expect("a String"));
    }
    let progress = machine.status.as_ref().map(|status| json!(status.deletion));
    for (name, at) in progress.iter().filter_map(Value::as_object).flatten() {
        writeln!(text, "  {name} {}", at.as_str().unwrap_or_default()).expect("a String");
    }
    text
}

fn reason(machine: &Machine) -> &str {
    find(machine.conditions(), "Deleting").map_or("", |c| c.reason.as_str())
}

#[tokio::test(start_paused = true)]
async fn every_step_of_a_deletion_shows() {
    let pods = json!([
        {"namespace": "web", "name": "shop", "budgetSeconds": 30, "terminationSeconds": 15, "claim": "cart",
         "detachSeconds": 75},
        {"namespace": "web", "name": "front", "terminationSeconds": 5},
        {"namespace": "batch", "name": "import", "labels": {"cluster.x-k8s.io/drain": "wait-completed"},
         "completionSeconds": 50},
        {"namespace": "data", "name": "db", "labels": {"tier": "database"}, "terminationSeconds": 25},
        {"namespace": "data", "name": "cache", "labels": {"tier": "cache"}, "claim": "warm"},
        {"namespace": "logs", "name": "agent", "daemonSet": "agent"},
    ]);
    let (sim, name) = start(21, pods).await;
    let tier = |value: &str| json!([{"selector": {"matchLabels": {"tier": value}}}]);
    let workers = json!([{"selector": {"matchExpressions": [
        {"key": "cluster.x-k8s.io/control-plane", "operator": "DoesNotExist"}]}}]);
    sim.create(vec![
        rule("databases-last", json!({"drain": {"behavior": "Drain", "order": 10}, "machines": workers, "pods": tier("database")})),
        rule("keep-caches", json!({"drain": {"behavior": "Skip"}, "pods": tier("cache")})),
    ])
    .await;
    let hooks = json!({PRE_DRAIN: "ops", PRE_TERMINATE: "ops"});
    sim.patch::<Machine>(&name, json!({"metadata": {"annotations": hooks}})).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    sim.delete::<Machine>(&name).await;
    let mut timeline = Timeline::new(&sim, &name);
    timeline.watch(&sim, |m| reason(m) == "WaitingForPreDrainHook").await;
    sim.patch::<Machine>(&name, json!({"metadata": {"annotations": {PRE_DRAIN: null}}})).await;
    timeline.watch(&sim, |m| reason(m) == "WaitingForPreTerminateHook").await;
    sim.patch::<Machine>(&name, json!({"metadata": {"annotations": {PRE_TERMINATE: null}}})).await;
    timeline.watch(&sim, |_| false).await;
    timeline.events(&sim).await;
    golden("machine_deletion", &timeline.text);
    sim.until("a replacement", 180, async |s| settled(s, 1, 2, "v1.34.1").await).await;
}

#[tokio::test(start_paused = true)]
async fn timeouts_end_a_drain_and_a_wait_for_volumes() {
    let pods = json!([
        {"name": "stubborn", "budgetSeconds": 86_400},
        {"name": "holder", "claim": "data", "detachSeconds": 86_400},
    ]);
    let (sim, name) = start(22, pods).await;
    let limits = json!({"nodeDrainTimeoutSeconds": 30, "nodeVolumeDetachTimeoutSeconds": 45});
    sim.patch::<Machine>(&name, json!({"spec": {"deletion": limits}})).await;
    sim.delete::<Machine>(&name).await;
    let mut timeline = Timeline::new(&sim, &name);
    timeline.watch(&sim, |_| false).await;
    timeline.events(&sim).await;
    golden("machine_deletion_timeouts", &timeline.text);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_node_is_not_waited_for() {
    let pods = json!([{"name": "web", "terminationSeconds": 600, "claim": "data", "detachSeconds": 600}]);
    let (sim, name) = start(23, pods).await;
    sim.world.set_fault(&ObjectKey::new("default", "harbor"), Fault::NodeSilent(name.clone()), true);
    sim.delete::<Machine>(&name).await;
    let mut timeline = Timeline::new(&sim, &name);
    timeline.watch(&sim, |_| false).await;
    timeline.events(&sim).await;
    golden("machine_deletion_unreachable", &timeline.text);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_stops_a_drain_and_says_so() {
    let (sim, name) = start(24, json!([{"name": "web", "terminationSeconds": 30}])).await;
    let cluster = ObjectKey::new("default", "harbor");
    sim.world.set_fault(&cluster, Fault::Unreachable, true);
    sim.delete::<Machine>(&name).await;
    let mut timeline = Timeline::new(&sim, &name);
    timeline.watch(&sim, |m| reason(m) == "DrainingNode").await;
    assert!(
        timeline.text.contains("Error draining Node, please check controller logs for errors"),
        "{}",
        timeline.text
    );
    sim.world.set_fault(&cluster, Fault::Unreachable, false);
    timeline.watch(&sim, |_| false).await;
    assert!(timeline.text.contains("deletionTimestamp set, but still not removed"), "{}", timeline.text);
    timeline.events(&sim).await;
    assert!(
        timeline.text.contains("Warning FailedDrainNode: error draining Machine's node"),
        "{}",
        timeline.text
    );
}

/// The first eviction is answered, the second cut off, the third not begun; nobody asks again, and what was
/// said stays, until the next round.
#[tokio::test(start_paused = true)]
async fn a_round_of_evictions_ends_after_ten_seconds() {
    let pod = |name: &str| json!({"name": name, "terminationSeconds": 60});
    let (sim, name) = start(25, json!([pod("a"), pod("b"), pod("c")])).await;
    sim.world.set_fault(&ObjectKey::new("default", "harbor"), Fault::SlowEvictions, true);
    sim.delete::<Machine>(&name).await;
    let mut timeline = Timeline::new(&sim, &name);
    timeline.watch(&sim, |_| false).await;
    timeline.events(&sim).await;
    golden("machine_deletion_slow_evictions", &timeline.text);
}
