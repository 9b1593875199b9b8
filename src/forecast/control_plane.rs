//! The plan of a KubeadmControlPlane from outside. Must not decide it.

use std::sync::Arc;

use chrono::TimeDelta;
use serde_json::json;

use super::evidence::About;
use super::half_read::Parts;
use super::paused::paused;
use super::step::steps;
use super::{Held, Look, ObjectPlan, course};
use crate::api::cluster::Cluster;
use crate::api::control_plane::KubeadmControlPlane;
use crate::api::key::{ObjectKey, cluster_label};
use crate::api::names::CONTROL_PLANE_GROUP;
use crate::observe::dump::Dump;
use crate::plan::control_plane::{Decision, Observed, Template, Workload, decide};
use crate::plan::evidence::{Evidence, Subject};
use crate::plan::ownership::owner;
use crate::plan::{Blocker, Reason, Wait};
use crate::time::{Timestamp, from_k8s};

const KIND: &str = "KubeadmControlPlane";

pub(super) fn plan(
    dump: &Dump,
    key: &ObjectKey,
    object: &Arc<KubeadmControlPlane>,
    now: Timestamp,
) -> ObjectPlan {
    let stated = stated_cluster(object);
    let cluster = stated.or_else(|| referring_cluster(dump, key)).unwrap_or_default();
    let mut plan = ObjectPlan::new(KIND, key, cluster);
    plan.within.push(format!("Cluster/{cluster}"));
    let about = About { dump, group: CONTROL_PLANE_GROUP, kind: KIND, key, cluster };
    let of = dump.clusters.get(&ObjectKey::new(&key.namespace, cluster));
    if let Some(paused) = paused(about, object.as_ref(), of.map(AsRef::as_ref), &plan) {
        return paused;
    }
    if stated.is_none() && of.is_some() {
        return not_owned(plan, &about);
    }
    let Some(mut observed) = dump.control_plane(key, object) else {
        return plan.unknown(&super::cluster::missing(cluster));
    };
    let reported = object.status.as_ref().and_then(|status| status.replicas);
    let parts = Parts { kind: "Machine", reported, here: observed.machines.len() };
    if let Some(why) = parts.unread(dump) {
        return plan.unknown(&why);
    }
    observed.name_suffix = course::placeholder(1);
    plan.assumptions = assumptions(dump, key, &observed);
    parts.assume(dump, &mut plan);
    if dump.left_out(Some(&object.spec.machine_template.spec.infrastructure_ref)) {
        assume_owned(&mut observed);
    }
    fill(plan, &about, &decide(observed, now), now)
}

fn stated_cluster(object: &KubeadmControlPlane) -> Option<&str> {
    let owner = object.metadata.owner_references.iter().flatten().find(|o| o.kind == "Cluster");
    owner.map(|o| o.name.as_str()).or_else(|| cluster_label(object))
}

/// The Cluster that names this control plane, and that the control plane does not name yet.
fn referring_cluster<'a>(dump: &'a Dump, key: &ObjectKey) -> Option<&'a str> {
    let names_it = |cluster: &Cluster| {
        let named = cluster.spec.control_plane_ref.as_ref();
        named.is_some_and(|named| named.kind == KIND && named.name == key.name)
    };
    let mut here = dump.clusters.iter().filter(|(cluster, _)| cluster.namespace == key.namespace);
    here.find(|(_, cluster)| names_it(cluster)).map(|(cluster, _)| cluster.name.as_str())
}

fn not_owned(mut plan: ObjectPlan, about: &About<'_>) -> ObjectPlan {
    let sentence = format!("Cluster {} has not made itself its owner yet", about.cluster);
    let reason = Reason { rule: "waiting-for-owner", sentence };
    let evidence = Evidence::own_field("metadata.ownerReferences");
    let blocker = Blocker { reason, wait: Wait::UnderWay, evidence };
    plan.blockers = vec![Held::of(&blocker, |e| about.seen(e))];
    plan.judged()
}

/// A Machine that was created a short time ago is coming up: what it lacks is on its way.
fn held(blocker: &Blocker, about: &About<'_>, now: Timestamp) -> Held {
    const COMES_UP_WITHIN: TimeDelta = TimeDelta::minutes(20);
    let is_new = |evidence: &Evidence| {
        let Subject::Machine(name) = &evidence.subject else { return false };
        let machine = about.dump.machines.get(&ObjectKey::new(&about.key.namespace, name));
        let created = machine.and_then(|m| m.metadata.creation_timestamp.as_ref()).map(from_k8s);
        created.is_some_and(|created| now - created < COMES_UP_WITHIN)
    };
    let mut held = Held::of(blocker, |e| about.seen(e));
    held.on_its_way |= blocker.wait == Wait::Machine && blocker.evidence.iter().all(is_new);
    held
}

fn fill(mut plan: ObjectPlan, about: &About<'_>, decision: &Decision, now: Timestamp) -> ObjectPlan {
    plan.next = steps(&decision.plan.steps, &|_| None);
    plan.blockers = decision.plan.blockers.iter().map(|b| held(b, about, now)).collect();
    plan.next_look = Look::of(&decision.plan, now);
    let mut plan = plan.judged();
    plan.then = course::of_control_plane(decision, &plan, now);
    if plan.next.iter().chain(&plan.then).any(|step| step.action.starts_with("create Machine")) {
        plan.assumptions.push(course::NAMES.to_owned());
    }
    if !plan.then.is_empty() {
        plan.assumptions.push(course::ALL_GOES_WELL.to_owned());
    }
    let deletes = plan.next.iter().chain(&plan.then).any(|step| step.action.starts_with("delete Machine"));
    if deletes && decision.observed.etcd_is_managed() {
        plan.assumptions.push(
            "who leads etcd is not known: leadership moves first when the Machine that goes has it"
                .to_owned(),
        );
    }
    plan
}

/// A template that was not read counts as one that the Cluster owns already.
fn assume_owned(observed: &mut Observed) {
    if let Template::Found(template) = &mut observed.template {
        template["metadata"]["ownerReferences"] = json!([owner(&observed.cluster, false)]);
    }
}

/// What the plan assumes beyond the objects.
fn assumptions(dump: &Dump, key: &ObjectKey, observed: &Observed) -> Vec<String> {
    let mut all = Vec::new();
    if let Workload::Assumed(_) = &observed.workload {
        all.push(
            "the workload cluster was not asked: components and etcd members are as the Machines' conditions say"
                .to_owned(),
        );
    }
    if dump.secrets(&key.namespace).is_empty() && !observed.is_deleting() {
        all.push("Secrets were not read: certificates and kubeconfig are there and valid".to_owned());
    }
    let template = &observed.control_plane.spec.machine_template.spec.infrastructure_ref;
    if dump.left_out(Some(template)) {
        all.push(format!("{} {} was not read: it is there", template.kind, template.name));
    }
    if observed.machines.iter().any(|m| m.infrastructure.is_none() || m.bootstrap.is_none()) {
        all.push(
            "some Machines' infrastructure or KubeadmConfigs were not read: they are as the control plane wants them"
                .to_owned(),
        );
    }
    all
}
