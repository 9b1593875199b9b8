//! The plan of a KubeadmControlPlane from outside. Must not decide it.

use std::rc::Rc;
use std::sync::Arc;

use chrono::TimeDelta;
use serde_json::json;

use super::ahead::{self, Ahead, AssumedAnswers};
use super::evidence::About;
use super::half_read::Parts;
use super::in_place::{
    Cost, InPlaceQuestion, Known, MachineUpdate, SURGE, Sides, Updates, Way, Whom, offered,
};
use super::next_steps;
use super::paused::paused;
use super::{Held, Look, NextStep, ObjectPlan, State};
use crate::simulate::Following;
use capi_rules::observe::dump::Dump;
use capi_rules::plan::control_plane::{Decision, Observed, Template, Workload, decide, in_place as updates};
use capi_rules::plan::evidence::{Evidence, Subject};
use capi_rules::plan::ownership::owner;
use capi_rules::plan::{Blocker, Reason, Wait};
use capi_rules::status::in_place::{InPlace, Verdict};
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::hook::Hook;
use capi_types::key::{ObjectKey, annotation as annotation_of, cluster_label};
use capi_types::names::{CONTROL_PLANE_GROUP, annotation};
use capstan_base::time::{Timestamp, from_k8s};

const KIND: &str = "KubeadmControlPlane";

pub(super) fn plan(
    dump: &Dump,
    (known, ahead): (&Known, &Ahead<'_>),
    key: &ObjectKey,
    object: &Arc<KubeadmControlPlane>,
    now: Timestamp,
) -> ObjectPlan {
    let stated = stated_cluster(object);
    // By the Cluster's own reference as well: a new control plane names no owner yet.
    let cluster = stated.or_else(|| referring_cluster(dump, key)).unwrap_or_default();
    let mut plan = ObjectPlan::new(KIND, key, cluster);
    plan.within.push(format!("Cluster/{cluster}"));
    let about = About { dump, group: CONTROL_PLANE_GROUP, kind: KIND, key, cluster };
    let of = dump.clusters.get(&ObjectKey::new(&key.namespace, cluster));
    if let Some(paused) = paused(about, object.as_ref(), of.map(AsRef::as_ref), &plan) {
        return paused;
    }
    // The controller waits for the owner reference, so
    // a plan made without it would promise too much.
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
    // A name by chance would differ with each look at the same objects.
    observed.name_suffix = ahead::placeholder(1);
    plan.has_members = observed.etcd_is_managed();
    plan.assumptions = assumptions(dump, key, &observed);
    parts.assume(dump, &mut plan);
    if dump.left_out(Some(&object.spec.machine_template.spec.infrastructure_ref)) {
        // Otherwise the first step would be to own an object that was not read.
        assume_owned(&mut observed);
    }
    let candidates = updates::candidates(&observed, now);
    observed.in_place = known.of("Machine", &key.namespace, &candidates);
    // A copy from before the decision, which takes `observed` over.
    let updates = Outlook { dump, known, ahead, before: observed.clone() };
    let decision = decide(observed, now);
    let mut plan = fill(plan, &about, &decision, ahead, now);
    updates.fill(&mut plan, now);
    plan
}

/// What could be asked about its Machines. Nothing where it is not reconciled.
pub(super) fn questions(
    dump: &Dump,
    key: &ObjectKey,
    object: &Arc<KubeadmControlPlane>,
    now: Timestamp,
) -> Vec<InPlaceQuestion> {
    let paused = annotation_of(object.as_ref(), annotation::PAUSED).is_some();
    let observed = dump
        .control_plane(key, object)
        .filter(|observed| !paused && observed.cluster.spec.paused != Some(true) && !observed.is_deleting());
    let Some(observed) = observed else { return Vec::new() };
    let question = |name: String| InPlaceQuestion {
        whom: Whom { kind: "Machine", key: ObjectKey::new(&key.namespace, &name) },
        owner: (KIND, key.name.clone()),
        about: updates::question(&observed, &name).map(|asked| Sides::Machine(Box::new(asked))),
    };
    updates::candidates(&observed, now).into_iter().map(question).collect()
}

/// What the plan says of updates in place.
struct Outlook<'a> {
    dump: &'a Dump,
    known: &'a Known,
    ahead: &'a Ahead<'a>,
    before: Observed,
}

impl Outlook<'_> {
    fn fill(&self, plan: &mut ObjectPlan, now: Timestamp) {
        let handlers = offered(self.dump, Hook::CanUpdateMachine);
        let names = updates::candidates(&self.before, now);
        // Machines that are updated already show that updates in place are on.
        let is_off = handlers.is_empty() && !self.before.machines.iter().any(|m| m.is_updating_in_place());
        if is_off || names.is_empty() || self.before.is_deleting() {
            return;
        }
        let is_asked = self.before.in_place.is_on();
        let is_its = |name: &str| self.before.machines.iter().any(|machine| machine.name() == name);
        let changes = self.run(plan, AssumedAnswers::Known).changes(is_its);
        let answer = |name: &String| self.before.in_place.of(name);
        let update = |(machine, step): &(String, NextStep)| {
            let is_candidate = names.contains(machine);
            let (way, mut covered, mut reason) = (Way::of(&step.does), Vec::new(), step.reason.clone());
            match answer(machine) {
                Some(Ok(Verdict::InPlace { covered: by })) if way == Way::InPlace => covered = by.clone(),
                // Covered, and yet replaced: only the surge does that.
                Some(Ok(Verdict::InPlace { .. })) => SURGE.clone_into(&mut reason),
                _ => {}
            }
            // The run ahead took it for a replacement, which is only one of both.
            let way = if is_candidate && !is_asked { Way::Unknown } else { way };
            MachineUpdate { machine: machine.clone(), way, reason, covered }
        };
        let mut machines: Vec<MachineUpdate> = changes.iter().map(update).collect();
        // Candidates that the run never came to are named too, or they would seem to stay.
        for name in names.iter().filter(|name| changes.iter().all(|(known, _)| known != *name)) {
            let reason = match answer(name) {
                Some(Err(why)) => why.clone(),
                _ => "the plan does not come to it".to_owned(),
            };
            machines.push(MachineUpdate {
                machine: name.clone(),
                way: Way::Unknown,
                reason,
                covered: Vec::new(),
            });
        }
        let is_known = is_asked && machines.iter().all(|update| update.way != Way::Unknown);
        let updates =
            Updates { availability: self.cost(plan, is_known), machines, handlers, asked: is_asked };
        plan.assumptions.extend(self.known.assumptions(&updates));
        if !is_asked {
            self.leave_open(plan, &updates, now);
        }
        plan.updates = Some(updates);
    }

    /// The extensions were not asked: the plan keeps the steps that both ways share, and names both ways for each Machine after them.
    fn leave_open(&self, plan: &mut ObjectPlan, updates: &Updates, now: Timestamp) {
        let names: Vec<String> = updates.machines.iter().map(|update| update.machine.clone()).collect();
        let decision = decide(Observed { in_place: all_covered(&names), ..self.before.clone() }, now);
        let mut in_place = next_steps(&decision.plan.steps, &|_| None);
        let all = self.run(plan, AssumedAnswers::Covered).of(KIND, &plan.name);
        in_place.extend(ahead::after(&in_place, all));
        let mut in_place = in_place.into_iter();
        let mut is_common = |step: &NextStep| in_place.next().is_some_and(|other| other.does == step.does);
        // Only the common beginning is certain; from the first difference on both ways stay open.
        let next = plan.next.iter().take_while(|step| is_common(step)).count();
        let is_all = next == plan.next.len();
        let then = if is_all { plan.then.iter().take_while(|step| is_common(step)).count() } else { 0 };
        // Both ways are the same steps: nothing is open.
        if is_all && then == plan.then.len() {
            return;
        }
        let open = updates.machines.iter().filter(|update| update.way == Way::Unknown);
        let either = open.map(|update| NextStep::either(&update.machine, &update.reason));
        plan.then.truncate(then);
        if is_all {
            plan.then.extend(either);
        } else {
            plan.next.truncate(next);
            plan.next.extend(either);
        }
    }

    /// Of what is expected, beside what it would be otherwise.
    fn cost(&self, plan: &ObjectPlan, is_known: bool) -> String {
        let cost = |assumed: AssumedAnswers| Cost {
            wanted: self.before.desired(),
            lowest: self.run(plan, assumed).lowest(KIND, &plan.name),
            has_members: self.before.etcd_is_managed(),
        };
        cost(AssumedAnswers::Known).sentence(
            cost(AssumedAnswers::Covered),
            cost(AssumedAnswers::Refused),
            is_known,
        )
    }

    fn run(&self, plan: &ObjectPlan, assumed: AssumedAnswers) -> Rc<Following> {
        self.ahead.of(&ObjectKey::new(&plan.namespace, &plan.cluster), assumed)
    }
}

/// As if extensions covered the change of every one of these Machines.
fn all_covered(names: &[String]) -> InPlace {
    let can = |name: &String| (name.clone(), Ok(Verdict::InPlace { covered: Vec::new() }));
    InPlace::On(names.iter().map(can).collect())
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
    // Every Machine must be new: an old one that lacks something will not get it by waiting.
    held.on_its_way |= blocker.wait == Wait::Machine && blocker.evidence.iter().all(is_new);
    held
}

fn fill(
    mut plan: ObjectPlan,
    about: &About<'_>,
    decision: &Decision,
    ahead: &Ahead<'_>,
    now: Timestamp,
) -> ObjectPlan {
    plan.next = next_steps(&decision.plan.steps, &|_| None);
    plan.blockers = decision.plan.blockers.iter().map(|b| held(b, about, now)).collect();
    plan.next_look = Look::of(&decision.plan, now);
    let mut plan = plan.judged();
    // What follows a blocker would begin with what is not going to happen.
    if matches!(plan.state, State::Acting | State::Waiting) && !decision.observed.is_deleting() {
        let all = ahead
            .of(&ObjectKey::new(&plan.namespace, &plan.cluster), AssumedAnswers::Known)
            .of(KIND, &plan.name);
        plan.then = ahead::after(&plan.next, all);
    }
    if plan.next.iter().chain(&plan.then).any(|step| step.does.created_machine().is_some()) {
        plan.assumptions.push(ahead::NAMES.to_owned());
    }
    if !plan.then.is_empty() {
        plan.assumptions.push(ahead::ALL_GOES_WELL.to_owned());
    }
    let deletes = plan.next.iter().chain(&plan.then).any(|step| step.does.deleted_machine().is_some());
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
