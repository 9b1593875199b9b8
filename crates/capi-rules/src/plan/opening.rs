//! What comes before the plan of a MachineDeployment, MachineSet or MachineHealthCheck: it belongs to its Cluster, so do the templates
//! that it refers to, and each orphan is adopted. Pure; must not know how many Machines are wanted.
//! Source: cluster-api `core/reconcilers/{machinedeployment,machineset}` (the opening of `reconcile`), v1.14.2.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Serialize;
use serde_json::Value;

use super::ownership::{add_owner, owner, take_over};
use super::{Rule, Step, Write, template};
use capi_types::cluster::Cluster;
use capi_types::key::{ObjectRef, controller_of, label as label_of};
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_health_check::MachineHealthCheck;
use capi_types::machine_set::MachineSet;
use capi_types::names::label;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    OfCluster { cluster: String },
    Template,
    Orphan { owner: String },
}

impl Rule for Why {
    fn name(&self) -> &'static str {
        match self {
            Self::OfCluster { .. } => "follow-cluster",
            Self::Template => "template-not-owned",
            Self::Orphan { .. } => "adopt-orphan",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfCluster { cluster } => write!(f, "it belongs to Cluster {cluster}"),
            Self::Template => f.write_str("a template moves and goes with its Cluster"),
            Self::Orphan { owner } => write!(f, "the selector of {owner} matches it and nothing controls it"),
        }
    }
}

/// A MachineDeployment with the label of its Cluster, and the Cluster as an owner that does not control.
pub fn followed_deployment(deployment: &MachineDeployment, cluster: &Cluster) -> MachineDeployment {
    let mut after = deployment.clone();
    let labels = after.metadata.labels.get_or_insert_default();
    labels.insert(label::CLUSTER_NAME.to_owned(), deployment.spec.cluster_name.clone());
    add_owner(&mut after.metadata, owner(cluster, false));
    after
}

/// A MachineSet with the label of its Cluster everywhere it is needed; one that stands alone belongs to its Cluster.
pub fn followed_set(set: &MachineSet, cluster: &Cluster) -> MachineSet {
    let mut after = set.clone();
    let pair = (label::CLUSTER_NAME.to_owned(), set.spec.cluster_name.clone());
    after.metadata.labels.get_or_insert_default().extend([pair.clone()]);
    after.spec.selector.match_labels.get_or_insert_default().extend([pair.clone()]);
    after.spec.template.metadata.get_or_insert_default().labels.extend([pair]);
    // With the Cluster as owner an orphan of a MachineDeployment would count as standing alone.
    if label_of(set, label::DEPLOYMENT_NAME).is_none() && controller_of(set).is_none() {
        add_owner(&mut after.metadata, owner(cluster, false));
    }
    after
}

/// A MachineHealthCheck with the label of its Cluster, and the Cluster as an owner that does not control.
pub fn followed_check(check: &MachineHealthCheck, cluster: &Cluster) -> MachineHealthCheck {
    let mut after = check.clone();
    let labels = after.metadata.labels.get_or_insert_default();
    labels.insert(label::CLUSTER_NAME.to_owned(), check.spec.cluster_name.clone());
    add_owner(&mut after.metadata, owner(cluster, false));
    after
}

/// Makes `after` of `before`, then the Cluster an owner of `templates` (not for an object that goes).
pub fn steps<K>((before, after): (&K, &K), cluster: &Cluster, templates: &[&Value]) -> Vec<Step>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let mut steps = Vec::new();
    if let Some(patch) = Write::difference(before, after) {
        let why = Why::OfCluster { cluster: cluster.metadata.name.clone().unwrap_or_default() };
        steps.push(Step::new(patch.if_unchanged(before.meta()), why));
    }
    // A template that is deleted together with its user needs no owner any more.
    if before.meta().deletion_timestamp.is_none() {
        let owned = templates.iter().filter_map(|found| template::own(cluster, found));
        steps.extend(owned.map(|write| Step::new(write, Why::Template)));
    }
    steps
}

/// Makes `owner` the controller of `orphan`. One that cannot be adopted does not hold up the other adoptions.
pub fn adoption<K, O>(owner: &K, orphan: &O) -> Step
where
    K: Resource<DynamicType = ()>,
    O: Resource<DynamicType = ()>,
{
    let name = |meta: &ObjectMeta| meta.name.clone().unwrap_or_default();
    let what = format!("{} {:?}", O::kind(&()), name(orphan.meta()));
    let why = Why::Orphan { owner: format!("{} {}", K::kind(&()), name(owner.meta())) };
    let about = ObjectRef::of(owner);
    let message = format!("Adopted {what}");
    let event = Write::Event { about: about.clone(), warning: false, reason: "SuccessfulAdopt", message };
    let mut step = Step::new(take_over(owner, orphan), why);
    // After the adoption in one step: a failure leaves the event out.
    step.writes.push(event);
    step.on_failure.is_independent = true;
    step.or_complain(about, "FailedAdopt", format!("Failed to adopt {what}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use capi_types::machine::Machine;

    fn of<K: serde::de::DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).expect("an object")
    }

    fn cluster() -> Cluster {
        of(json!({"metadata": {"name": "c", "namespace": "ns", "uid": "c-uid"}, "spec": {}}))
    }

    fn set(metadata: &Value) -> MachineSet {
        of(json!({"metadata": metadata, "spec": {"clusterName": "c", "selector": {}, "template": {"spec": {
            "clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}}}}))
    }

    fn template(owners: &Value) -> Value {
        json!({"apiVersion": "i.io/v1", "kind": "XTemplate",
            "metadata": {"name": "t", "namespace": "ns", "uid": "t", "resourceVersion": "3", "ownerReferences": owners}})
    }

    fn opened(set: &MachineSet, templates: &[&Value]) -> Vec<Step> {
        steps((set, &followed_set(set, &cluster())), &cluster(), templates)
    }

    #[test]
    fn only_a_set_that_stands_alone_belongs_to_its_cluster() {
        let controller = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "md",
            "uid": "md", "controller": true}]);
        for (metadata, owners) in [
            (json!({"name": "s"}), 1),
            (json!({"name": "s", "labels": {label::DEPLOYMENT_NAME: "md"}}), 0),
            (json!({"name": "s", "ownerReferences": controller}), 1),
        ] {
            let after = followed_set(&set(&metadata), &cluster());
            assert_eq!(after.metadata.owner_references.iter().flatten().count(), owners, "{metadata}");
            let selected = after.spec.selector.match_labels.unwrap_or_default();
            assert_eq!(selected.get(label::CLUSTER_NAME).map(String::as_str), Some("c"));
        }
        let deployment: MachineDeployment =
            of(serde_json::to_value(set(&json!({"name": "md"}))).expect("JSON"));
        let after = followed_deployment(&deployment, &cluster());
        assert_eq!(after.metadata.owner_references.iter().flatten().count(), 1);
        assert_eq!(
            after.spec.selector, deployment.spec.selector,
            "a MachineDeployment's selector is its user's"
        );
    }

    #[test]
    fn the_object_comes_first_then_templates_and_each_once() {
        let fresh = set(&json!({"name": "s", "namespace": "ns", "uid": "s", "resourceVersion": "1"}));
        let unowned = template(&json!([]));
        let steps = opened(&fresh, &[&unowned]);
        let found: Vec<String> = steps.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "patch MachineSet ns/s: it belongs to Cluster c",
                "patch XTemplate ns/t: a template moves and goes with its Cluster",
            ]
        );
        let Write::Patch { body, .. } = &steps[0].writes[0] else { unreachable!("a patch") };
        assert_eq!(body["metadata"]["resourceVersion"], "1", "lists are replaced as a whole");
        let owned =
            template(&json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c",
            "uid": "c-uid"}]));
        assert_eq!(opened(&followed_set(&fresh, &cluster()), &[&owned]), []);
    }

    #[test]
    fn what_goes_takes_no_template_over() {
        let leaving = json!({"name": "s", "deletionTimestamp": "2026-11-20T10:00:00Z"});
        let leaving = followed_set(&set(&leaving), &cluster());
        assert_eq!(opened(&leaving, &[&template(&json!([]))]), []);
    }

    #[test]
    fn an_adoption_went_without_an_event() {
        let owner = set(&json!({"name": "s", "namespace": "ns", "uid": "s"}));
        let machine: Machine = of(json!({"metadata": {"name": "m", "namespace": "ns", "uid": "m"}, "spec": {
            "clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}}));
        let step = adoption(&owner, &machine);
        assert_eq!(
            step.to_string(),
            "patch Machine ns/m, report SuccessfulAdopt on MachineSet ns/s: the selector of MachineSet s matches it and \
             nothing controls it"
        );
        let complaint = step.on_failure.event.expect("an event");
        assert_eq!(
            (complaint.reason, complaint.tried.as_str()),
            ("FailedAdopt", "Failed to adopt Machine \"m\"")
        );
    }
}
