//! Objects that are not reconciled while they are paused. Owns the words; `status` decides whether an object is
//! paused.
//! Source: cluster-api `util/paused/paused.go`, v1.14.2.

use kube::Resource;

use super::evidence::About;
use super::{Held, ObjectPlan, State};
use capi_rules::plan::evidence::{Evidence, Subject};
use capi_types::cluster::Cluster;
use capi_types::key::annotation;
use capi_types::names;

/// `plan` as that of a paused object, when it is one.
pub(super) fn paused<K: Resource>(
    about: About<'_>,
    object: &K,
    cluster: Option<&Cluster>,
    plan: &ObjectPlan,
) -> Option<ObjectPlan> {
    let by_cluster = cluster.is_some_and(|c| c.spec.paused == Some(true));
    let (sentence, evidence) = if by_cluster {
        let sentence = format!("Cluster {} is paused", about.cluster);
        (sentence, Evidence::field(Subject::Cluster, "spec.paused"))
    } else if annotation(object, names::annotation::PAUSED).is_some() {
        let sentence = format!("it has the annotation {}", names::annotation::PAUSED);
        (sentence, Evidence::condition(Subject::Own, "Paused"))
    } else {
        return None;
    };
    let mut plan = plan.clone();
    plan.state = State::Paused;
    plan.blockers = vec![Held {
        rule: "paused".to_owned(),
        sentence,
        on_its_way: false,
        evidence: about.seen(&evidence),
    }];
    Some(plan)
}
