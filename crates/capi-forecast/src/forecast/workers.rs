//! The plans of MachineDeployments and MachineSets from outside. Must not decide them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ahead::{self, Ahead, AssumedAnswers};
use super::evidence::About;
use super::half_read::Parts;
use super::in_place::{InPlaceQuestion, Known, Sides, Whom, is_moving};
use super::next_steps;
use super::paused::paused;
use super::{Held, Look, ObjectPlan, State, moves};
use crate::simulate::agreed_move;
use capi_rules::observe::dump::Dump;
use capi_rules::observe::{self, Member, Templates};
use capi_rules::plan::{Plan, Write, machine_deployment as planned_deployment, machine_set as planned_set};
use capi_rules::status::in_place::{InPlace, Replace, Verdict};
use capi_rules::status::machines::is_updating_in_place;
use capi_types::key::{ObjectKey, annotation, label as label_of};
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capi_types::names::{self, CORE_GROUP, label};
use capi_types::reference::ContractRef;
use capstan_base::time::Timestamp;
use k8s_machinery::merge;

pub(super) fn deployment(
    dump: &Dump,
    (known, ahead): (&Known, &Ahead<'_>),
    key: &ObjectKey,
    object: &Arc<MachineDeployment>,
    now: Timestamp,
) -> ObjectPlan {
    const KIND: &str = "MachineDeployment";
    let cluster = object.spec.cluster_name.as_str();
    let mut plan = ObjectPlan::new(KIND, key, cluster);
    plan.within.push(format!("Cluster/{cluster}"));
    let about = About { dump, group: CORE_GROUP, kind: KIND, key, cluster };
    let Some(of) = dump.clusters.get(&ObjectKey::new(&key.namespace, cluster)) else {
        return plan.unknown(&super::cluster::missing(cluster));
    };
    if let Some(paused) = paused(about, object.as_ref(), Some(of.as_ref()), &plan) {
        return paused;
    }
    let spec = &object.spec.template.spec;
    let observed = observed(dump, known, object, now);
    let reported = object.status.as_ref().and_then(|status| status.replicas);
    let sets = Parts { kind: "MachineSet", reported, here: observed.sets.len() };
    // A plan made without the MachineSets would create one that is there.
    if let Some(why) = sets.unread(dump) {
        return plan.unknown(&why);
    }
    let decided = planned_deployment::plan(&observed, now);
    plan.next = next_steps(&decided.steps, &|name| replicas_of(&observed.sets, name));
    let mut plan = filled(plan, &about, &decided, now);
    let deleting = object.metadata.deletion_timestamp.is_some();
    let goes_on = match plan.state {
        State::Acting | State::Waiting => true,
        // Two MachineSets with replicas: a rollout waits for its Machines, and goes on by itself.
        State::Settled => observed.sets.iter().filter(|set| set.spec.replicas.unwrap_or(0) > 0).count() > 1,
        // What follows would begin with what is not going to happen.
        State::Blocked | State::Paused | State::Unknown => false,
    };
    if goes_on && !deleting && object.spec.paused != Some(true) {
        let all =
            ahead.of(&ObjectKey::new(&key.namespace, cluster), AssumedAnswers::Known).of(KIND, &key.name);
        plan.then = ahead::after(&plan.next, all);
    }
    if !plan.then.is_empty() {
        plan.assumptions.push(ahead::ALL_GOES_WELL.to_owned());
    }
    assume_templates(dump, [spec.bootstrap.config_ref.as_ref(), Some(&spec.infrastructure_ref)], &mut plan);
    moves::fill(&mut plan, dump, (known, ahead), &observed, now);
    plan
}

/// How many replicas a MachineSet has, by name.
fn replicas_of(sets: &[Arc<MachineSet>], name: &str) -> Option<i32> {
    sets.iter().find(|set| set.metadata.name.as_deref() == Some(name))?.spec.replicas
}

fn observed(
    dump: &Dump,
    known: &Known,
    object: &MachineDeployment,
    now: Timestamp,
) -> planned_deployment::Observed {
    let templates = Templates::of_deployment(dump, object);
    let sets = observe::machine_sets_of(dump, object).into_iter().map(Member::into_object).collect();
    // Without the gate: the planner needs no Machines then, and reading them costs.
    let closed = planned_deployment::Observed {
        deployment: object.clone(),
        sets,
        missing_templates: templates.missing,
        suffix: ahead::placeholder(1),
        machines: Vec::new(),
        in_place: InPlace::Off,
    };
    if !known.is_asked() {
        return under_way(dump, &closed, now).unwrap_or(closed);
    }
    let open = with_gate(dump, &closed);
    // Only about those whose answer the plan depends on.
    let names = planned_deployment::in_place::questions(&open, now).into_iter();
    let names: Vec<String> = names.filter_map(|question| question.old.metadata.name).collect();
    match known.of("MachineSet", object.metadata.namespace.as_deref().unwrap_or_default(), &names) {
        InPlace::Off => closed,
        in_place @ InPlace::On(_) => planned_deployment::Observed { in_place, ..open },
    }
}

/// Machines that move already show that updates in place are on, and their MachineSets what extensions said to them. Of a
/// MachineSet about which that is not known the numbers are those of a replacement. `None`: nothing moves.
fn under_way(
    dump: &Dump,
    closed: &planned_deployment::Observed,
    now: Timestamp,
) -> Option<planned_deployment::Observed> {
    let open = with_gate(dump, closed);
    let moves = open.sets.iter().any(|set| is_moving(set))
        || open.machines.iter().any(|machine| is_updating_in_place(machine));
    let asked = if moves { planned_deployment::in_place::questions(&open, now) } else { return None };
    let answer = |question: planned_deployment::in_place::Question| {
        let name = question.old.metadata.name?;
        let live = open.sets.iter().find(|set| set.metadata.name.as_ref() == Some(&name))?;
        let is_agreed = agreed_move(live) == question.new.metadata.name.as_deref();
        let verdict = match is_agreed && agreed_move(live).is_some() {
            true => Verdict::InPlace { covered: Vec::new() },
            false => Verdict::Replace(Replace::NoExtension),
        };
        Some((name, Ok(verdict)))
    };
    let in_place = InPlace::On(asked.into_iter().filter_map(answer).collect());
    Some(planned_deployment::Observed { in_place, ..open })
}

/// As controllers see it that may update in place, before anybody is asked.
fn with_gate(dump: &Dump, closed: &planned_deployment::Observed) -> planned_deployment::Observed {
    let of_set = |set: &Arc<MachineSet>| {
        observe::machines_of_set(dump, set).into_iter().map(Member::into_object).collect::<Vec<_>>()
    };
    let machines = closed.sets.iter().flat_map(of_set).collect();
    let in_place = InPlace::On(BTreeMap::new());
    planned_deployment::Observed { machines, in_place, ..closed.clone() }
}

/// What could be asked about its MachineSets.
pub(super) fn questions(
    dump: &Dump,
    key: &ObjectKey,
    object: &Arc<MachineDeployment>,
    now: Timestamp,
) -> Vec<InPlaceQuestion> {
    let cluster = dump.clusters.get(&ObjectKey::new(&key.namespace, &object.spec.cluster_name));
    let is_paused = annotation(object.as_ref(), names::annotation::PAUSED).is_some();
    if is_paused || cluster.is_none_or(|cluster| cluster.spec.paused == Some(true)) {
        return Vec::new();
    }
    // As if no extension had been asked: the questions must not depend on earlier answers.
    let open = with_gate(dump, &observed(dump, &Known::Nothing, object, now));
    let asked = planned_deployment::in_place::questions(&open, now);
    let question = |pair: planned_deployment::in_place::Question| {
        let sides = [&pair.old, &pair.new].map(|set| {
            let templates = Templates::of(dump, &key.namespace, &set.spec.template.spec);
            planned_deployment::in_place::sent(
                set,
                templates.infrastructure.as_deref(),
                templates.bootstrap.as_deref(),
            )
        });
        InPlaceQuestion {
            whom: Whom {
                kind: "MachineSet",
                key: ObjectKey::new(&key.namespace, pair.old.metadata.name.as_deref().unwrap_or_default()),
            },
            owner: ("MachineDeployment", key.name.clone()),
            about: match planned_deployment::in_place::not_comparable(&sides) {
                // Asked about all the same: the reason is an answer for people.
                Some(replace) => Err(replace),
                None => Ok(Sides::MachineSets(Box::new(sides))),
            },
        }
    };
    asked.into_iter().map(question).collect()
}

fn of_paused_cluster(dump: &Dump, key: &ObjectKey, object: &MachineDeployment) -> bool {
    let cluster = dump.clusters.get(&ObjectKey::new(&key.namespace, &object.spec.cluster_name));
    cluster.is_some_and(|cluster| cluster.spec.paused == Some(true))
}

/// Does in the dump what the plan of a MachineDeployment does next to its MachineSets, so that these can be
/// planned as they will be.
pub fn carry_out(dump: &mut Dump, known: &Known, key: &ObjectKey, now: Timestamp) {
    let Some(object) = dump.machine_deployments.get(key).cloned() else { return };
    if annotation(object.as_ref(), names::annotation::PAUSED).is_some()
        || of_paused_cluster(dump, key, &object)
    {
        return;
    }
    let decided = planned_deployment::plan(&observed(dump, known, &object, now), now);
    for write in decided.steps.into_iter().flat_map(|step| step.writes) {
        let changed = match write {
            Write::Create { object, content, .. } if object.gvk.kind == "MachineSet" => Some(content),
            Write::Patch { object, body } | Write::Apply { object, body, .. }
                if object.gvk.kind == "MachineSet" =>
            {
                let stored = dump.raw(CORE_GROUP, "MachineSet", &object.key).cloned();
                stored.map(|mut value| {
                    merge::apply(&mut value, &body);
                    value
                })
            }
            _ => None,
        };
        if let Some(changed) = changed {
            dump.replace(changed);
        }
    }
}

pub(super) fn set(
    dump: &Dump,
    known: &Known,
    key: &ObjectKey,
    object: &Arc<MachineSet>,
    now: Timestamp,
) -> ObjectPlan {
    const KIND: &str = "MachineSet";
    let cluster = object.spec.cluster_name.as_str();
    let mut plan = ObjectPlan::new(KIND, key, cluster);
    let deployment = label_of(object.as_ref(), label::DEPLOYMENT_NAME);
    plan.within.extend(deployment.map(|name| format!("MachineDeployment/{name}")));
    plan.within.push(format!("Cluster/{cluster}"));
    let about = About { dump, group: CORE_GROUP, kind: KIND, key, cluster };
    let Some(of) = dump.clusters.get(&ObjectKey::new(&key.namespace, cluster)) else {
        return plan.unknown(&super::cluster::missing(cluster));
    };
    if let Some(paused) = paused(about, object.as_ref(), Some(of.as_ref()), &plan) {
        return paused;
    }
    let spec = &object.spec.template.spec;
    let templates = Templates::of(dump, &key.namespace, spec);
    let machines: Vec<_> =
        observe::machines_of_set(dump, object).into_iter().map(Member::into_object).collect();
    let reported = object.status.as_ref().and_then(|status| status.replicas);
    let parts = Parts { kind: "Machine", reported, here: machines.len() };
    if let Some(why) = parts.unread(dump) {
        return plan.unknown(&why);
    }
    parts.assume(dump, &mut plan);
    let names = planned_set::names_wanted(object, machines.len());
    let suffixes = (1..=names).map(ahead::placeholder).collect();
    let clones = observe::clones(dump, &machines);
    let mut observed = observe::machine_set(dump, object, of, machines, &templates, suffixes);
    observed.clones = clones;
    if dump.left_out(of.spec.control_plane_ref.as_ref()) {
        // The state of the control plane is not known, so the checks do not count.
        observed.preflight = planned_set::preflight::Preflight::default();
        plan.assumptions.push("the control plane was not read: it lets new Machines join".to_owned());
    }
    // Where Machines move already, the gate is open.
    let moves = is_moving(object) || observed.machines.iter().any(|machine| is_updating_in_place(machine));
    observed.updates_in_place = known.is_asked() || moves;
    let decided = planned_set::plan(&observed, now);
    plan.next = next_steps(&decided.steps, &|_| None);
    if plan.next.iter().any(|step| step.does.created_machine().is_some()) {
        plan.assumptions.push(ahead::NAMES.to_owned());
    }
    assume_templates(dump, [spec.bootstrap.config_ref.as_ref(), Some(&spec.infrastructure_ref)], &mut plan);
    filled(plan, &about, &decided, now)
}

fn filled(mut plan: ObjectPlan, about: &About<'_>, decided: &Plan, now: Timestamp) -> ObjectPlan {
    plan.blockers = decided.blockers.iter().map(|b| Held::of(b, |e| about.seen(e))).collect();
    plan.next_look = Look::of(decided, now);
    plan.judged()
}

fn assume_templates(dump: &Dump, references: [Option<&ContractRef>; 2], plan: &mut ObjectPlan) {
    let matters = plan.next.iter().chain(&plan.then).any(|step| step.does.creates());
    for reference in references.into_iter().filter(|_| matters) {
        if let (true, Some(named)) = (dump.left_out(reference), reference) {
            plan.assumptions.push(format!("{} {} was not read: it is there", named.kind, named.name));
        }
    }
}
