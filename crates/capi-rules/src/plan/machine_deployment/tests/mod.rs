//! Rule tables of the deployment planner, and rollouts driven to their end with bounds checked at
//! every step.

mod moves;

use std::fmt::Write as _;

use super::*;
use capi_types::machine::Bootstrap;
use capi_types::machine_deployment::{
    DeploymentRollingUpdate, DeploymentRollout, DeploymentStrategy, MachineDeploymentStatus,
};
use capi_types::machine_set::MachineSetStatus;
use capi_types::reference::{ContractRef, TemplateMeta};
use capstan_base::time::{parse_rfc3339, to_k8s};
use chrono::Duration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

pub(super) fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

pub(super) fn deployment(replicas: i32, surge: i32, unavailable: i32, version: &str) -> MachineDeployment {
    let mut md = MachineDeployment::default();
    md.metadata.name = Some("md".into());
    md.metadata.namespace = Some("ns".into());
    md.metadata.uid = Some("md-uid".into());
    md.spec.cluster_name = "c".into();
    md.spec.replicas = Some(replicas);
    md.spec.selector.match_labels = Some([("pool".to_owned(), "md".to_owned())].into());
    md.spec.template.spec.version = Some(version.into());
    let template = |kind: &str| ContractRef { api_group: "g".into(), kind: kind.into(), name: "t".into() };
    md.spec.template.spec.infrastructure_ref = template("DevMachineTemplate");
    md.spec.template.spec.bootstrap =
        Bootstrap { config_ref: Some(template("KubeadmConfigTemplate")), data_secret_name: None };
    md.spec.rollout = Some(DeploymentRollout {
        after: None,
        strategy: Some(DeploymentStrategy {
            type_: "RollingUpdate".into(),
            rolling_update: Some(DeploymentRollingUpdate {
                max_surge: Some(IntOrString::Int(surge)),
                max_unavailable: Some(IntOrString::Int(unavailable)),
            }),
        }),
    });
    md
}

/// MachineSets as a store would keep them: a list that plans are carried out on.
struct World {
    deployment: MachineDeployment,
    sets: Vec<MachineSet>,
    created: u32,
    now: Timestamp,
}

impl World {
    fn new(deployment: MachineDeployment) -> Self {
        Self { deployment, sets: Vec::new(), created: 0, now: now() }
    }

    fn observed(&self) -> Observed {
        Observed {
            deployment: self.deployment.clone(),
            sets: self.sets.iter().cloned().map(Arc::new).collect(),
            missing_templates: Vec::new(),
            suffix: format!("aaaa{}", self.created),
            machines: Vec::new(),
            in_place: InPlace::Off,
        }
    }

    /// Carries one plan out; the sentences of its steps.
    fn step(&mut self) -> Vec<String> {
        let plan = plan(&self.observed(), self.now);
        let mut said = Vec::new();
        for step in plan.steps {
            let sentence = step.to_string();
            let [write] = step.writes.try_into().expect("one write each");
            if !matches!(write, Write::Event { .. }) {
                said.push(sentence);
            }
            match write {
                Write::Create { content, .. } => {
                    let mut set: MachineSet = serde_json::from_value(content).expect("a MachineSet");
                    self.created += 1;
                    set.metadata.uid = Some(format!("uid-{}", self.created));
                    set.metadata.creation_timestamp = Some(to_k8s(self.now));
                    self.sets.push(set);
                }
                Write::Patch { object, body } | Write::Apply { object, body, .. }
                    if object.gvk.kind == "MachineSet" =>
                {
                    let set = self
                        .sets
                        .iter_mut()
                        .find(|s| s.metadata.uid.as_ref() == Some(&object.uid))
                        .expect("known");
                    let mut value = serde_json::to_value(&*set).expect("JSON");
                    json_patch::merge(&mut value, &body);
                    *set = serde_json::from_value(value).expect("still a MachineSet");
                }
                Write::Patch { body, .. } => {
                    let mut value = serde_json::to_value(&self.deployment).expect("JSON");
                    json_patch::merge(&mut value, &body);
                    self.deployment = serde_json::from_value(value).expect("still a deployment");
                }
                Write::Delete { object } => {
                    self.sets.retain(|s| s.metadata.uid.as_ref() != Some(&object.uid));
                }
                _ => {}
            }
        }
        said
    }

    /// MachineSets reach what they want: Machines appear at once, and become available one pass later.
    fn machines_follow(&mut self) {
        for set in &mut self.sets {
            let wanted = set.spec.replicas.unwrap_or(0);
            let status = set.status.get_or_insert_default();
            let had = status.replicas.unwrap_or(0);
            status.available_replicas = Some(had.min(wanted));
            status.replicas = Some(wanted);
        }
        let sum = |f: fn(&MachineSetStatus) -> Option<i32>| {
            self.sets.iter().filter_map(|s| s.status.as_ref().and_then(f)).sum::<i32>()
        };
        let current = self.deployment.spec.template.spec.version.clone();
        let updated = self.sets.iter().filter(|s| s.spec.template.spec.version == current);
        self.deployment.status = Some(MachineDeploymentStatus {
            replicas: Some(sum(|s| s.replicas)),
            available_replicas: Some(sum(|s| s.available_replicas)),
            up_to_date_replicas: Some(
                updated.filter_map(|s| s.status.as_ref().and_then(|s| s.replicas)).sum(),
            ),
            ..MachineDeploymentStatus::default()
        });
        self.now += Duration::seconds(30);
    }

    fn total(&self) -> i32 {
        self.sets.iter().map(|s| s.spec.replicas.unwrap_or(0)).sum()
    }

    fn available(&self) -> i32 {
        self.sets.iter().filter_map(|s| s.status.as_ref().and_then(|s| s.available_replicas)).sum()
    }

    /// Until three passes in a row had nothing to do: Machines need time to follow.
    fn settle(&mut self) -> String {
        let mut transcript = String::new();
        let mut quiet = 0;
        for pass in 0..60 {
            let said = self.step();
            self.machines_follow();
            quiet = if said.is_empty() { quiet + 1 } else { 0 };
            if quiet == 3 {
                return transcript;
            }
            for line in said {
                let _ = writeln!(transcript, "{pass:>2} {line}");
            }
        }
        panic!("no end in sight:\n{transcript}");
    }
}

#[test]
fn a_fresh_deployment_gets_one_machine_set_with_all_replicas() {
    let mut world = World::new(deployment(3, 1, 0, "v1.35.4"));
    let transcript = world.settle();
    assert!(transcript.contains("create MachineSet ns/md-aaaa0: no MachineSets exist"), "{transcript}");
    let set = &world.sets[0];
    assert_eq!(set.spec.replicas, Some(3));
    let hash = &set.metadata.labels.as_ref().expect("labels")[names::label::MACHINE_TEMPLATE_HASH];
    assert!(hash.ends_with("-aaaa0"), "{hash}");
    assert_eq!(
        set.spec.selector.match_labels.as_ref().expect("labels")[names::label::MACHINE_TEMPLATE_HASH],
        *hash
    );
    assert_eq!(annotation(set, names::annotation::REVISION), Some("1"));
    assert_eq!(annotation(&world.deployment, names::annotation::REVISION), Some("1"));
}

#[test]
fn a_rollout_stays_within_surge_and_unavailability() {
    for (replicas, surge, unavailable) in [(3, 1, 0), (3, 0, 1), (5, 2, 1), (1, 1, 0), (10, 3, 2), (4, 0, 0)]
    {
        let mut world = World::new(deployment(replicas, surge, unavailable, "v1.35.4"));
        world.settle();
        world.deployment.spec.template.spec.version = Some("v1.36.2".into());
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        for _ in 0..60 {
            world.step();
            assert!(
                world.total() <= replicas + surge,
                "{replicas} {surge} {unavailable}: {} Machines",
                world.total()
            );
            world.machines_follow();
            assert!(
                world.available() >= replicas - unavailable - surge,
                "{replicas} {surge} {unavailable}: {} available",
                world.available()
            );
        }
        assert_eq!(world.sets.len(), 1, "old MachineSets are cleaned up");
        assert_eq!(world.sets[0].spec.template.spec.version.as_deref(), Some("v1.36.2"));
        assert_eq!(world.sets[0].spec.replicas, Some(replicas));
        assert_eq!(annotation(&world.sets[0], names::annotation::REVISION), Some("2"));
    }
}

#[test]
fn scaling_goes_to_the_current_machine_set() {
    let mut world = World::new(deployment(3, 1, 0, "v1.35.4"));
    world.settle();
    world.deployment.spec.replicas = Some(5);
    let transcript = world.settle();
    assert!(
        transcript.contains("3 current Machines < 5 MachineDeployment spec.replicas + 1 maxSurge"),
        "{transcript}"
    );
    world.deployment.spec.replicas = Some(1);
    world.settle();
    assert_eq!((world.sets.len(), world.sets[0].spec.replicas), (1, Some(1)));
}

#[test]
fn rollout_after_replaces_once_its_moment_has_come() {
    let mut world = World::new(deployment(2, 1, 0, "v1.35.4"));
    world.settle();
    let moment = world.now + Duration::minutes(10);
    world.deployment.spec.rollout.as_mut().expect("rollout").after = Some(to_k8s(moment));
    let waiting = plan(&world.observed(), world.now);
    assert!(!waiting.steps.iter().any(|s| matches!(s.writes[0], Write::Create { .. })));
    assert_eq!(waiting.recheck, Some(std::time::Duration::from_secs(600)));
    world.now = moment;
    let transcript = world.settle();
    assert!(transcript.contains("no MachineSet has been created afterwards"), "{transcript}");
    assert_eq!((world.sets.len(), world.sets[0].metadata.name.as_deref()), (1, Some("md-aaaa1")));
}

#[test]
fn on_delete_waits_for_somebody_to_delete() {
    let mut world = World::new(deployment(3, 1, 0, "v1.35.4"));
    world.deployment.spec.rollout.as_mut().expect("rollout").strategy =
        Some(DeploymentStrategy { type_: "OnDelete".into(), rolling_update: None });
    world.settle();
    world.deployment.spec.template.spec.version = Some("v1.36.2".into());
    world.settle();
    let spec = |world: &World| world.sets.iter().map(|s| s.spec.replicas.unwrap_or(0)).collect::<Vec<_>>();
    assert_eq!(spec(&world), [3, 0]);
    assert_eq!(annotation(&world.sets[0], names::annotation::DISABLE_MACHINE_CREATE), Some("true"));
    world.sets[0].status.as_mut().expect("status").replicas = Some(2);
    world.step();
    world.step();
    assert_eq!(spec(&world), [2, 1]);
}

#[test]
fn a_paused_deployment_scales_and_does_not_roll() {
    let mut world = World::new(deployment(3, 1, 0, "v1.35.4"));
    world.settle();
    world.deployment.spec.paused = Some(true);
    world.deployment.spec.template.spec.version = Some("v1.36.2".into());
    world.deployment.spec.replicas = Some(4);
    world.settle();
    assert_eq!((world.sets.len(), world.sets[0].spec.replicas), (1, Some(4)));
    assert_eq!(world.sets[0].spec.template.spec.version.as_deref(), Some("v1.35.4"));
}

/// What the plan tells people.
fn events(plan: &Plan) -> Vec<String> {
    let events = plan.steps.iter().flat_map(|step| &step.writes).filter_map(|write| match write {
        Write::Event { reason, message, .. } => Some(format!("{reason}: {message}")),
        _ => None,
    });
    events.collect()
}

#[test]
fn scaling_while_paused_was_reported_like_a_rollout() {
    let mut world = World::new(deployment(3, 1, 0, "v1.35.4"));
    world.settle();
    world.deployment.spec.paused = Some(true);
    world.deployment.spec.replicas = Some(4);
    let paused = plan(&world.observed(), world.now);
    assert_eq!(events(&paused), ["SuccessfulScale: Scaled MachineSet ns/md-aaaa0: 3 -> 4"]);
    let complaints: Vec<_> = paused.steps.iter().filter_map(|s| s.on_failure.event.as_ref()).collect();
    let last = complaints.last().expect("a complaint");
    assert_eq!((last.reason, last.tried.as_str()), ("FailedScale", "Failed to scale MachineSet ns/md-aaaa0"));
}

#[test]
fn a_write_that_failed_was_not_reported() {
    let complaints = |world: &World| -> Vec<String> {
        let plan = plan(&world.observed(), world.now);
        let complaints = plan.steps.iter().filter_map(|step| step.on_failure.event.as_ref());
        complaints.map(|c| format!("{} {}", c.reason, c.tried)).collect()
    };
    let mut world = World::new(deployment(2, 1, 0, "v1.35.4"));
    assert_eq!(complaints(&world), ["FailedCreate Failed to create MachineSet ns/md-aaaa0"]);
    world.settle();
    world.deployment.spec.replicas = Some(3);
    assert_eq!(complaints(&world), ["FailedUpdate Failed to update MachineSet ns/md-aaaa0"]);
    world.deployment.spec.template.spec.version = Some("v1.36.2".into());
    for _ in 0..60 {
        let found = complaints(&world);
        if found.iter().any(|c| c.starts_with("FailedDelete")) {
            assert_eq!(found, ["FailedDelete Failed to delete MachineSet \"md-aaaa0\""]);
            return;
        }
        world.step();
        world.machines_follow();
    }
    panic!("the old MachineSet stays");
}

#[test]
fn a_machine_set_that_is_current_again_was_scaled_without_saying_so() {
    let mut world = World::new(deployment(4, 0, 2, "v1.35.4"));
    world.settle();
    world.deployment.spec.template.spec.version = Some("v1.36.2".into());
    world.step();
    world.machines_follow();
    world.deployment.spec.template.spec.version = Some("v1.35.4".into());
    let said = world.settle();
    assert!(said.contains("apply MachineSet ns/md-aaaa0: this is now the current MachineSet, "), "{said}");
}

#[test]
fn missing_templates_block_with_a_reason() {
    let mut observed = World::new(deployment(3, 1, 0, "v1.35.4")).observed();
    observed.missing_templates = vec!["DevMachineTemplate".into()];
    let plan = plan(&observed, now());
    assert!(plan.steps.is_empty());
    assert_eq!(plan.blockers[0].reason.rule, "templates-missing");
}

#[test]
fn an_unknown_strategy_stops_the_plan() {
    let mut observed = World::new(deployment(3, 1, 0, "v1.35.4")).observed();
    observed.deployment.spec.rollout.get_or_insert_default().strategy =
        Some(DeploymentStrategy { type_: "Recreate".into(), rolling_update: None });
    let plan = plan(&observed, now());
    assert_eq!(plan.steps, []);
    assert_eq!(plan.blockers[0].to_string(), "unexpected deployment strategy type: Recreate");
}

#[test]
fn a_stuck_rollout_gives_up_one_unavailable_machine() {
    let mut world = World::new(deployment(2, 0, 1, "v1.35.4"));
    world.settle();
    world.deployment.spec.template.spec.version = Some("v1.36.2".into());
    for set in &mut world.sets {
        set.status.as_mut().expect("status").available_replicas = Some(0);
    }
    let said = world.step().join("\n");
    assert!(said.contains("2 -> 1") || world.sets[0].spec.replicas < Some(2), "{said}");
}

#[test]
fn labels_and_timeouts_follow_without_a_rollout() {
    let mut world = World::new(deployment(2, 1, 0, "v1.35.4"));
    world.settle();
    world.deployment.spec.template.metadata = Some(TemplateMeta {
        labels: [("team".to_owned(), "a".to_owned())].into(),
        ..TemplateMeta::default()
    });
    world.deployment.spec.template.spec.min_ready_seconds = Some(10);
    let transcript = world.settle();
    assert!(transcript.contains("labels, annotations and in-place fields follow"), "{transcript}");
    assert_eq!(world.sets.len(), 1);
    let template = &world.sets[0].spec.template;
    assert_eq!(template.spec.min_ready_seconds, Some(10));
    assert_eq!(template.metadata.as_ref().expect("metadata").labels["team"], "a");
}

#[test]
fn a_deleted_deployment_goes_when_no_set_is_left() {
    let mut world = World::new(deployment(1, 1, 0, "v1.34.1"));
    world.step();
    world.deployment.metadata.deletion_timestamp = Some(to_k8s(now()));
    let first = plan(&world.observed(), now());
    assert!(!first.is_last && first.steps[0].to_string().starts_with("delete MachineSet ns/md-"));
    world.sets.clear();
    let last = plan(&world.observed(), now());
    assert_eq!(last.steps[0].to_string(), "patch MachineDeployment ns/md: no MachineSet is left");
    assert!(last.is_last, "nothing is left to report on");
}
