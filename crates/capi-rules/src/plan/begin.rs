//! How every run begins, whichever the kind: with a missing finalizer, then with the `Paused` condition. Pure; must
//! not know what a finalizer guards.
//! Source: cluster-api `util/finalizers/finalizers.go`, `util/paused/paused.go` (`EnsurePausedCondition`), v1.14.2.

use std::fmt;

use kube::Resource;

use super::{Rule, Step, ownership};
use crate::status::conditions::setter;
use capi_types::cluster::Cluster;
use capi_types::condition::{Condition, Conditioned, find};
use capi_types::names::annotation;

/// May the run go on?
#[derive(Clone, Debug, PartialEq)]
pub enum Begin {
    /// The finalizer comes alone: it is stored before anything else is made. Its echo starts the next run.
    Finalizer(Box<Step>),
    /// The stored `Paused` condition is not this one. It is written, and its echo starts the next run.
    Paused(Box<Condition>),
    /// Paused, and the condition of the object is up to date.
    Stop,
    /// Nothing is in the way.
    Run,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct MissingFinalizer {
    kind: String,
}

impl Rule for MissingFinalizer {
    fn name(&self) -> &'static str {
        "add-finalizer"
    }
}

impl fmt::Display for MissingFinalizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} must not vanish before what it is made of", self.kind)
    }
}

/// How the run for `object` begins. An object that is being deleted gets no finalizer any more.
pub fn begin<K>(object: &K, cluster: &Cluster, finalizer: Option<&str>) -> Begin
where
    K: Resource<DynamicType = ()> + Conditioned,
{
    let meta = object.meta();
    let lacks = |finalizer: &&str| !ownership::has_finalizer(object, finalizer);
    // Before the pause, as upstream: a paused object, too, must not vanish unseen.
    if let Some(finalizer) = finalizer.filter(lacks).filter(|_| meta.deletion_timestamp.is_none()) {
        let why = MissingFinalizer { kind: K::kind(&()).into_owned() };
        return Begin::Finalizer(Box::new(Step::new(ownership::add_finalizer(object, finalizer), why)));
    }
    let annotated = meta.annotations.as_ref().is_some_and(|all| all.contains_key(annotation::PAUSED));
    let wanted = setter::paused(&K::kind(&()), cluster.spec.paused == Some(true), annotated);
    let is_paused = wanted.status == "True";
    let is_stored = find(object.conditions(), "Paused").is_some_and(|stored| {
        (&stored.status, &stored.reason, &stored.message) == (&wanted.status, &wanted.reason, &wanted.message)
            // While paused, nothing else records that the generation was seen.
            && (!is_paused || stored.observed_generation == meta.generation)
    });
    match (is_stored, is_paused) {
        (false, _) => Begin::Paused(Box::new(wanted)),
        (true, true) => Begin::Stop,
        (true, false) => Begin::Run,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use capi_types::machine_set::MachineSet;

    fn set(metadata: Value, conditions: Value) -> MachineSet {
        serde_json::from_value(json!({
            "metadata": metadata, "status": {"conditions": conditions},
            "spec": {"clusterName": "c", "selector": {}, "template": {"spec": {
                "clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}}},
        }))
        .expect("a MachineSet")
    }

    fn paused(status: &str, reason: &str, message: &str, generation: i64) -> Value {
        json!([{"type": "Paused", "status": status, "reason": reason, "message": message,
            "observedGeneration": generation, "lastTransitionTime": "2026-11-20T10:00:00Z"}])
    }

    #[test]
    fn a_run_begins_with_the_finalizer_then_with_the_pause() {
        let owned = || json!({"name": "s", "generation": 2, "finalizers": ["f"]});
        let marked = || {
            json!({"name": "s", "generation": 2, "finalizers": ["f"],
            "annotations": {"cluster.x-k8s.io/paused": ""}})
        };
        let leaving = json!({"name": "s", "generation": 2, "deletionTimestamp": "2026-11-20T10:00:00Z"});
        let running = || paused("False", "NotPaused", "", 1);
        let stopped = |generation| {
            let message = "MachineSet has the cluster.x-k8s.io/paused annotation";
            paused("True", "Paused", message, generation)
        };
        for (why, metadata, conditions, expected) in [
            ("a finalizer comes first", json!({"name": "s"}), json!([]), "finalizer"),
            ("not when it goes", leaving, running(), "run"),
            ("the condition is not stored yet", owned(), json!([]), "Paused=False"),
            ("it is", owned(), running(), "run"),
            ("the annotation came", marked(), running(), "Paused=True"),
            ("it was said", marked(), stopped(2), "stop"),
            ("of an older generation", marked(), stopped(1), "Paused=True"),
            ("the annotation went", owned(), stopped(2), "Paused=False"),
        ] {
            let did = match begin(&set(metadata, conditions), &Cluster::default(), Some("f")) {
                Begin::Finalizer(_) => "finalizer".to_owned(),
                Begin::Paused(condition) => format!("Paused={}", condition.status),
                Begin::Stop => "stop".to_owned(),
                Begin::Run => "run".to_owned(),
            };
            assert_eq!(did, expected, "{why}");
        }
    }

    #[test]
    fn a_finalizer_is_put_beside_those_of_others() {
        let metadata = json!({"name": "s", "resourceVersion": "7", "finalizers": ["other"]});
        let Begin::Finalizer(step) = begin(&set(metadata, json!([])), &Cluster::default(), Some("f")) else {
            unreachable!("it is missing")
        };
        let crate::plan::Write::Patch { body, .. } = &step.writes[0] else { unreachable!("a patch") };
        assert_eq!(*body, json!({"metadata": {"finalizers": ["other", "f"], "resourceVersion": "7"}}));
        let sentence = "the MachineSet must not vanish before what it is made of";
        assert_eq!(step.reason.sentence, sentence);
    }
}
