//! The JSON of synthetic objects, from the census of a cluster. Knows paths and owner references;
//! decides nothing about who is in which state.

use chrono::TimeDelta;
use serde_json::{Value, json};
use uuid::Uuid;

use super::census::{ClusterCensus, Counters, Group, Set, State};
use super::conditions::{self, Deviation, Report, Since, aggregate, failed, nested, ongoing};
use capi_types::names::{
    CONTROL_PLANE_GROUP, CORE_GROUP, INFRASTRUCTURE_GROUP, VERSION, annotation, finalizer, label,
};
use capstan_base::time::{Timestamp, rfc3339};

/// What most objects are after a first edit by a controller.
pub(super) const GENERATION: u64 = 2;

/// Condition types for readiness and up-to-dateness of machines, as each kind names them.
const MACHINES: [&str; 2] = ["MachinesReady", "MachinesUpToDate"];
const CONTROL_PLANE_MACHINES: [&str; 2] = ["ControlPlaneMachinesReady", "ControlPlaneMachinesUpToDate"];
const WORKER_MACHINES: [&str; 2] = ["WorkerMachinesReady", "WorkerMachinesUpToDate"];

/// The owner of an object, and whether it controls it.
pub(super) struct Owner<'a> {
    pub group: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    pub controller: bool,
}

impl ClusterCensus {
    pub(super) fn uid(&self, kind: &str, name: &str) -> String {
        // From names, so that the uid of an owner is known without the owner.
        Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{kind}/{}/{name}", self.namespace).as_bytes()).to_string()
    }

    pub(super) fn object(
        &self,
        group: &str,
        kind: &str,
        name: &str,
        created: Timestamp,
        owner: Option<&Owner<'_>>,
    ) -> Value {
        let mut object = json!({
            "apiVersion": format!("{group}/{VERSION}"),
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "uid": self.uid(kind, name),
                "generation": GENERATION,
                "creationTimestamp": rfc3339(created),
                "labels": { label::CLUSTER_NAME: self.name },
            },
        });
        if let Some(owner) = owner {
            object["metadata"]["ownerReferences"] = json!([self.owner_reference(owner)]);
        }
        object
    }

    fn owner_reference(&self, owner: &Owner<'_>) -> Value {
        let mut reference = json!({
            "apiVersion": format!("{}/{VERSION}", owner.group),
            "kind": owner.kind,
            "name": owner.name,
            "uid": self.uid(owner.kind, owner.name),
        });
        if owner.controller {
            reference["controller"] = json!(true);
            reference["blockOwnerDeletion"] = json!(true);
        }
        reference
    }

    fn cluster_owner(&self, controller: bool) -> Owner<'_> {
        Owner { group: CORE_GROUP, kind: "Cluster", name: &self.name, controller }
    }

    fn endpoint(&self) -> Value {
        json!({ "host": format!("10.{}.{}.1", 64 + self.number / 256 % 64, self.number % 256), "port": 6443 })
    }

    /// Settled since a little after it was made, loud since some minutes.
    pub(super) fn conditions(
        &self,
        table: &[conditions::Settled],
        loud: &[Deviation],
        created: Timestamp,
    ) -> Vec<Value> {
        // An object may be younger than these spans: no time is in the future or before its
        // creation.
        let quiet = rfc3339((created + TimeDelta::minutes(4)).min(self.now));
        let recently = rfc3339((self.now - TimeDelta::minutes(7)).max(created));
        conditions::list(table, loud, Since { quiet: &quiet, loud: &recently }, GENERATION)
    }

    fn workers(&self) -> &[Group] {
        self.groups.get(1..).unwrap_or_default()
    }
}

/// Cluster and infrastructure cluster.
pub(super) fn cluster_level(census: &ClusterCensus) -> Vec<Value> {
    vec![cluster(census), infrastructure_cluster(census)]
}

/// What there is once per group: control plane or machine deployment, machine sets, templates.
pub(super) fn group_level(census: &ClusterCensus, group: &Group) -> Vec<Value> {
    if group.control_plane {
        return vec![machine_template(census, group), control_plane(census, group)];
    }
    let mut objects = vec![machine_template(census, group), machine_deployment(census, group)];
    objects.extend(group.sets.iter().enumerate().map(|(at, set)| machine_set(census, group, set, at + 1)));
    objects
}

pub(super) fn reference(group: &str, kind: &str, name: &str) -> Value {
    json!({ "apiGroup": group, "kind": kind, "name": name })
}

fn cluster(census: &ClusterCensus) -> Value {
    let mut cluster = census.object(CORE_GROUP, "Cluster", &census.name, census.created, None);
    cluster["metadata"]["finalizers"] = json!([finalizer::CLUSTER]);
    cluster["spec"] = json!({
        "clusterNetwork": {
            "pods": { "cidrBlocks": ["10.244.0.0/16"] },
            "services": { "cidrBlocks": ["10.96.0.0/16"] },
        },
        "controlPlaneEndpoint": census.endpoint(),
        "controlPlaneRef": reference(CONTROL_PLANE_GROUP, "KubeadmControlPlane", &census.groups[0].name),
        "infrastructureRef": reference(INFRASTRUCTURE_GROUP, "DevCluster", &census.name),
    });
    let workers = census.workers().iter().fold(Counters::default(), |sum, group| sum.plus(&group.counters()));
    cluster["status"] = json!({
        "phase": "Provisioned",
        "observedGeneration": GENERATION,
        "initialization": { "infrastructureProvisioned": true, "controlPlaneInitialized": true },
        "controlPlane": cluster_counters(&census.groups[0].counters()),
        "workers": cluster_counters(&workers),
        "conditions": census.conditions(conditions::CLUSTER, &cluster_loud(census), census.created),
        "failureDomains": failure_domains(),
    });
    cluster
}

fn failure_domains() -> Value {
    json!(["a", "b", "c"].map(|name| json!({ "name": name, "controlPlane": true })))
}

/// What the groups report to their cluster.
fn cluster_loud(census: &ClusterCensus) -> Vec<Deviation> {
    let mut loud = Vec::new();
    let unavailable: Vec<Report> = census
        .workers()
        .iter()
        .filter_map(|group| Some(("MachineDeployment", group.name.clone(), unavailable(&group.counters())?)))
        .collect();
    if !unavailable.is_empty() {
        let message = aggregate(&unavailable);
        loud.push(failed("Available", "NotAvailable", format!("* WorkersAvailable:{}", nested(&message))));
        loud.push(failed("WorkersAvailable", "NotAvailable", message));
    }
    for (type_, of) in [
        ("RollingOut", rolling_out as fn(&Group) -> Option<String>),
        ("ScalingDown", scaling_down),
        ("ScalingUp", scaling_up),
    ] {
        let reports: Vec<Report> = census
            .groups
            .iter()
            .filter_map(|group| Some((group.kind(), group.name.clone(), of(group)?)))
            .collect();
        if !reports.is_empty() {
            loud.push(ongoing(type_, aggregate(&reports)));
        }
    }
    loud.extend(machines_loud(sets(&census.groups[..1]), CONTROL_PLANE_MACHINES));
    loud.extend(machines_loud(sets(census.workers()), WORKER_MACHINES));
    loud
}

impl Group {
    fn kind(&self) -> &'static str {
        if self.control_plane { "KubeadmControlPlane" } else { "MachineDeployment" }
    }
}

fn sets(groups: &[Group]) -> impl Iterator<Item = (&Group, &Set)> {
    groups.iter().flat_map(|group| group.sets.iter().map(move |set| (group, set)))
}

/// What machines report: the two condition types for readiness and up-to-dateness.
fn machines_loud<'a>(
    sets: impl IntoIterator<Item = (&'a Group, &'a Set)>,
    [ready, up_to_date]: [&'static str; 2],
) -> Vec<Deviation> {
    let (mut troubled, mut old): (Vec<Report>, Vec<Report>) = (Vec::new(), Vec::new());
    for (group, set) in sets {
        for member in &set.members {
            if !member.state.ready() {
                troubled.push(("Machine", member.name.clone(), conditions::trouble(member.state)));
            }
            if !member.state.up_to_date() {
                let message = conditions::outdated(set.version_of(member), group.version);
                old.push(("Machine", member.name.clone(), message));
            }
        }
    }
    let mut loud = Vec::new();
    if !troubled.is_empty() {
        loud.push(failed(ready, "NotReady", aggregate(&troubled)));
    }
    if !old.is_empty() {
        loud.push(failed(up_to_date, "NotUpToDate", aggregate(&old)));
    }
    loud
}

fn unavailable(counters: &Counters) -> Option<String> {
    let (ready, desired) = (counters.ready, counters.desired);
    (ready < desired).then(|| {
        format!(
            "{ready} available replicas, at least {desired} required \
             (spec.strategy.rollout.maxUnavailable is 0, spec.replicas is {desired})"
        )
    })
}

fn rolling_out(group: &Group) -> Option<String> {
    let counters = group.counters();
    let old = counters.replicas - counters.up_to_date;
    let has = counters.versions.first().map_or(group.version, |&(version, _)| version);
    (old > 0).then(|| {
        format!("Rolling out {old} not up-to-date replicas\n{}", conditions::outdated(has, group.version))
    })
}

fn scaling_down(group: &Group) -> Option<String> {
    let Counters { replicas, desired, .. } = group.counters();
    (replicas > desired).then(|| format!("Scaling down from {replicas} to {desired} replicas"))
}

fn scaling_up(group: &Group) -> Option<String> {
    let Counters { replicas, desired, .. } = group.counters();
    (replicas < desired).then(|| format!("Scaling up from {replicas} to {desired} replicas"))
}

/// The conditions that control planes and machine deployments share.
fn group_loud(group: &Group) -> Vec<Deviation> {
    let mut loud = machines_loud(sets(std::slice::from_ref(group)), MACHINES);
    loud.extend(rolling_out(group).map(|message| ongoing("RollingOut", message)));
    loud.extend(scaling_down(group).map(|message| ongoing("ScalingDown", message)));
    loud.extend(scaling_up(group).map(|message| ongoing("ScalingUp", message)));
    loud
}

fn versions(counters: &Counters) -> Vec<Value> {
    counters
        .versions
        .iter()
        .map(|(version, replicas)| json!({ "version": version, "replicas": replicas }))
        .collect()
}

fn cluster_counters(counters: &Counters) -> Value {
    let mut value = status_counters(counters);
    value["desiredReplicas"] = json!(counters.desired);
    value
}

fn status_counters(counters: &Counters) -> Value {
    let mut value = json!({
        "replicas": counters.replicas,
        "readyReplicas": counters.ready,
        "availableReplicas": counters.ready,
        "upToDateReplicas": counters.up_to_date,
    });
    if !counters.versions.is_empty() {
        value["versions"] = json!(versions(counters));
    }
    value
}

fn infrastructure_cluster(census: &ClusterCensus) -> Value {
    let owner = census.cluster_owner(true);
    let mut cluster =
        census.object(INFRASTRUCTURE_GROUP, "DevCluster", &census.name, census.created, Some(&owner));
    cluster["spec"] = json!({ "backend": { "inMemory": {} }, "controlPlaneEndpoint": census.endpoint() });
    cluster["status"] = json!({
        "initialization": { "provisioned": true },
        "conditions": census.conditions(conditions::DEV_CLUSTER, &[], census.created),
    });
    cluster
}

fn machine_template(census: &ClusterCensus, group: &Group) -> Value {
    let owner = census.cluster_owner(false);
    let mut template =
        census.object(INFRASTRUCTURE_GROUP, "DevMachineTemplate", &group.name, census.created, Some(&owner));
    template["spec"] = json!({ "template": { "spec": { "backend": { "inMemory": {} } } } });
    template
}

fn control_plane(census: &ClusterCensus, group: &Group) -> Value {
    let owner = census.cluster_owner(true);
    let mut object =
        census.object(CONTROL_PLANE_GROUP, "KubeadmControlPlane", &group.name, census.created, Some(&owner));
    object["metadata"]["finalizers"] = json!([finalizer::KUBEADM_CONTROL_PLANE]);
    object["spec"] = json!({
        "replicas": group.desired,
        "version": group.version,
        "machineTemplate": { "spec": {
            "infrastructureRef": reference(INFRASTRUCTURE_GROUP, "DevMachineTemplate", &group.name),
        } },
        "rollout": { "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1 } } },
    });
    let counters = group.counters();
    let mut loud = group_loud(group);
    let alarms: Vec<Report> = group
        .members()
        .filter(|member| member.state == State::EtcdAlarm)
        .map(|member| ("Machine", member.name.clone(), conditions::trouble(member.state)))
        .collect();
    if !alarms.is_empty() {
        loud.push(failed("EtcdClusterHealthy", "NotHealthy", aggregate(&alarms)));
    }
    let mut status = status_counters(&counters);
    status["selector"] = json!(format!("{}={},{}", label::CLUSTER_NAME, census.name, label::CONTROL_PLANE));
    status["observedGeneration"] = json!(GENERATION);
    status["initialization"] = json!({ "controlPlaneInitialized": true });
    status["version"] = json!(counters.versions.first().map(|(version, _)| version));
    status["conditions"] = json!(census.conditions(conditions::CONTROL_PLANE, &loud, census.created));
    object["status"] = status;
    object
}

/// Template, selector labels and strategy that a machine deployment and its sets share.
fn worker_spec(
    census: &ClusterCensus,
    group: &Group,
    replicas: usize,
    version: &str,
    hash: Option<&str>,
) -> Value {
    let mut labels = json!({ label::CLUSTER_NAME: census.name, label::DEPLOYMENT_NAME: group.name });
    if let Some(hash) = hash {
        labels[label::MACHINE_TEMPLATE_HASH] = json!(hash);
    }
    json!({
        "clusterName": census.name,
        "replicas": replicas,
        "deletion": { "order": "Random" },
        "selector": { "matchLabels": labels },
        "template": {
            "metadata": { "labels": labels },
            "spec": {
                "clusterName": census.name,
                "version": version,
                "bootstrap": { "dataSecretName": format!("{}-bootstrap", group.name) },
                "infrastructureRef": reference(INFRASTRUCTURE_GROUP, "DevMachineTemplate", &group.name),
            },
        },
    })
}

fn selector_text(spec: &Value) -> String {
    let labels = spec["selector"]["matchLabels"].as_object();
    let pairs: Vec<_> = labels
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.join(",")
}

fn machine_deployment(census: &ClusterCensus, group: &Group) -> Value {
    let owner = census.cluster_owner(false);
    let mut object =
        census.object(CORE_GROUP, "MachineDeployment", &group.name, census.created, Some(&owner));
    object["metadata"]["finalizers"] = json!([finalizer::MACHINE_DEPLOYMENT]);
    object["metadata"]["annotations"] = json!({ annotation::REVISION: group.sets.len().to_string() });
    object["spec"] = worker_spec(census, group, group.desired, group.version, None);
    object["spec"]["rollout"] = json!({
        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
    });
    let counters = group.counters();
    let mut loud = group_loud(group);
    loud.extend(unavailable(&counters).map(|message| failed("Available", "NotAvailable", message)));
    let mut status = status_counters(&counters);
    status["selector"] = json!(selector_text(&object["spec"]));
    status["observedGeneration"] = json!(GENERATION);
    status["phase"] = json!(if counters.replicas > counters.desired { "ScalingDown" } else { "Running" });
    status["conditions"] = json!(census.conditions(conditions::MACHINE_DEPLOYMENT, &loud, census.created));
    object["status"] = status;
    object
}

fn machine_set(census: &ClusterCensus, group: &Group, set: &Set, revision: usize) -> Value {
    let owner = Owner { group: CORE_GROUP, kind: "MachineDeployment", name: &group.name, controller: true };
    let current = revision == group.sets.len();
    // The set that a rollout made is new; the first one is as old as its cluster.
    let created = if current && revision > 1 { census.now - TimeDelta::minutes(12) } else { census.created };
    let mut object = census.object(CORE_GROUP, "MachineSet", &set.name, created, Some(&owner));
    let metadata = &mut object["metadata"];
    metadata["finalizers"] = json!([finalizer::MACHINE_SET]);
    metadata["labels"][label::DEPLOYMENT_NAME] = json!(group.name);
    metadata["labels"][label::MACHINE_TEMPLATE_HASH] = json!(set.hash);
    metadata["annotations"] = json!({
        annotation::REVISION: revision.to_string(),
        annotation::DESIRED_REPLICAS: group.desired.to_string(),
        // With maxSurge of the MachineDeployment, which is 1.
        annotation::MAX_REPLICAS: (group.desired + 1).to_string(),
    });
    object["spec"] = worker_spec(census, group, set.members.len(), set.version, Some(&set.hash));
    let mut status = status_counters(&set.counters());
    status["selector"] = json!(selector_text(&object["spec"]));
    status["observedGeneration"] = json!(GENERATION);
    status["conditions"] =
        json!(census.conditions(conditions::MACHINE_SET, &machines_loud([(group, set)], MACHINES), created));
    object["status"] = status;
    object
}
