//! The plan of a Cluster from outside. Must not decide it.

use std::sync::Arc;

use super::evidence::About;
use super::next_steps;
use super::paused::paused;
use super::{Held, Look, ObjectPlan};
use capi_rules::observe;
use capi_rules::observe::dump::Dump;
use capi_rules::plan::cluster as planned;
use capi_types::cluster::Cluster;
use capi_types::key::ObjectKey;
use capi_types::names::CORE_GROUP;
use capstan_base::time::Timestamp;

const KIND: &str = "Cluster";

pub(super) fn plan(dump: &Dump, key: &ObjectKey, object: &Arc<Cluster>, now: Timestamp) -> ObjectPlan {
    let plan = ObjectPlan::new(KIND, key, &key.name);
    let about = About { dump, group: CORE_GROUP, kind: KIND, key, cluster: &key.name };
    if let Some(paused) = paused(about, object.as_ref(), Some(object.as_ref()), &plan) {
        return paused;
    }
    let mut plan = plan;
    let observed = observe::cluster(dump, object, dump.probe(key, object, now));
    let decided = planned::plan(&observed);
    plan.next = next_steps(&decided.steps, &|_| None);
    plan.blockers = decided.blockers.iter().map(|b| Held::of(b, |e| about.seen(e))).collect();
    // What the Cluster refers to would be made of its topology, which nothing here computes.
    if object.spec.topology.is_some() && !observed.looks() {
        plan.blockers = vec![topology_not_computed()];
    }
    plan.next_look = Look::of(&decided, now);
    for reference in [&object.spec.infrastructure_ref, &object.spec.control_plane_ref].into_iter().flatten() {
        if dump.left_out(Some(reference)) {
            let (kind, name) = (&reference.kind, &reference.name);
            plan.assumptions
                .push(format!("{kind} {name} was not read: it is as the Cluster's conditions say"));
        }
    }
    plan.judged()
}

fn topology_not_computed() -> Held {
    let sentence =
        "its topology is not computed here: Cluster API's topology controller makes what its class asks for";
    Held {
        rule: "topology-not-computed".to_owned(),
        sentence: sentence.to_owned(),
        on_its_way: true,
        evidence: Vec::new(),
    }
}

/// Why nothing can be planned for an object whose Cluster is not there.
pub(super) fn missing(cluster: &str) -> String {
    if cluster.is_empty() {
        "it does not say which Cluster it belongs to".to_owned()
    } else {
        format!("Cluster {cluster} is not among the objects")
    }
}
