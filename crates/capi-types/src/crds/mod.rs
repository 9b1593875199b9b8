//! CustomResourceDefinitions of the typed kinds, made from the types: names, columns, subresources,
//! contract labels and structural schemas. Must not know who serves or installs them.

mod rules;
mod schema;

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps,
};
use kube::CustomResourceExt;
use kube::core::object::{HasSpec, HasStatus};
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::bootstrap::{KubeadmConfig, KubeadmConfigTemplate};
use super::cluster::Cluster;
use super::columns::{self, Column};
use super::control_plane::{KubeadmControlPlane, KubeadmControlPlaneTemplate};
use super::dev::{DevCluster, DevClusterTemplate, DevMachine, DevMachineTemplate};
use super::dev_pool::DevMachinePool;
use super::extension_config::ExtensionConfig;
use super::host::{self, Host, HostPool};
use super::host_cluster::{HostCluster, HostClusterTemplate};
use super::host_machine::{HostMachine, HostMachineTemplate};
use super::machine::Machine;
use super::machine_deployment::MachineDeployment;
use super::machine_drain_rule::MachineDrainRule;
use super::machine_health_check::MachineHealthCheck;
use super::machine_pool::MachinePool;
use super::machine_set::MachineSet;
use super::names;

use schema::Schemas;

/// Whether an object without `spec` is accepted, as upstream has it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spec {
    Required,
    /// And so is `metadata`, which upstream requires for this kind alone.
    RequiredWithMetadata,
    Optional,
}

/// One definition per typed kind, in the order of [`super::served`]. Each call builds them anew,
/// which takes some milliseconds.
pub fn all() -> Vec<CustomResourceDefinition> {
    // Shared by all, since machine templates and references are in most kinds.
    let schemas = &mut Schemas::default();
    vec![
        live::<Cluster>(schemas, Spec::Required),
        live::<MachineDeployment>(schemas, Spec::Required),
        live::<MachineSet>(schemas, Spec::Required),
        live::<Machine>(schemas, Spec::Required),
        live::<MachinePool>(schemas, Spec::Required),
        live::<MachineHealthCheck>(schemas, Spec::Required),
        inert::<MachineDrainRule>(schemas, Spec::RequiredWithMetadata),
        live::<ExtensionConfig>(schemas, Spec::Required),
        live::<KubeadmControlPlane>(schemas, Spec::Required),
        inert::<KubeadmControlPlaneTemplate>(schemas, Spec::Optional),
        live::<KubeadmConfig>(schemas, Spec::Optional),
        inert::<KubeadmConfigTemplate>(schemas, Spec::Optional),
        live::<DevCluster>(schemas, Spec::Optional),
        inert::<DevClusterTemplate>(schemas, Spec::Optional),
        live::<DevMachine>(schemas, Spec::Optional),
        live::<DevMachineTemplate>(schemas, Spec::Optional),
        live::<DevMachinePool>(schemas, Spec::Optional),
        live::<HostPool>(schemas, Spec::Optional),
        live::<Host>(schemas, Spec::Required),
        live::<HostMachine>(schemas, Spec::Optional),
        inert::<HostMachineTemplate>(schemas, Spec::Required),
        live::<HostCluster>(schemas, Spec::Optional),
        inert::<HostClusterTemplate>(schemas, Spec::Required),
    ]
}

/// A kind with a status.
fn live<K>(schemas: &mut Schemas, spec: Spec) -> CustomResourceDefinition
where
    K: CustomResourceExt + HasSpec<Spec: JsonSchema> + HasStatus<Status: JsonSchema>,
{
    let properties = json!({ "spec": schemas.of::<K::Spec>(), "status": schemas.of::<K::Status>() });
    definition(K::crd(), properties, spec)
}

/// A kind without a status: a template or a rule.
fn inert<K>(schemas: &mut Schemas, spec: Spec) -> CustomResourceDefinition
where
    K: CustomResourceExt + HasSpec<Spec: JsonSchema>,
{
    let properties = json!({ "spec": schemas.of::<K::Spec>() });
    definition(K::crd(), properties, spec)
}

fn definition(mut crd: CustomResourceDefinition, properties: Value, spec: Spec) -> CustomResourceDefinition {
    // kube derives none of these from the types.
    let served = crd.spec.versions.first().map_or(names::VERSION, |version| version.name.as_str());
    crd.metadata.labels = Some(labels(&crd.spec.group, served));
    // `clusterctl move` finds other kinds through their Cluster.
    if host::is_of_no_cluster(&crd.spec.group, &crd.spec.names.kind) {
        crd.metadata
            .labels
            .get_or_insert_default()
            .insert(names::label::CLUSTERCTL_MOVE.to_owned(), String::new());
    }
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    let schema = root_schema(&crd.spec.names.kind, properties, spec);
    for version in &mut crd.spec.versions {
        version.schema = Some(CustomResourceValidation { open_api_v3_schema: schema.clone() });
        version.additional_printer_columns = Some(printer_columns(&crd.spec.names.kind));
    }
    crd
}

fn printer_columns(kind: &str) -> Vec<CustomResourceColumnDefinition> {
    let definition = |column: &Column| CustomResourceColumnDefinition {
        name: column.name.to_owned(),
        type_: column.type_.as_str().to_owned(),
        json_path: column.path.render(),
        // Any number above 0 keeps a column out of the short list; upstream has 10.
        priority: column.wide.then_some(10),
        ..Default::default()
    };
    columns::of(kind).iter().map(definition).collect()
}

/// The envelope that every object has, around the parts that the types describe.
fn root_schema(kind: &str, mut properties: Value, spec: Spec) -> Option<JSONSchemaProps> {
    for (name, type_) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        // Bare types: what is below metadata is the server's own matter.
        properties[name] = json!({ "type": type_ });
    }
    let mut schema = json!({ "type": "object", "description": description(kind), "properties": properties });
    rules::add(&mut schema);
    match spec {
        Spec::Required => schema["required"] = json!(["spec"]),
        Spec::RequiredWithMetadata => schema["required"] = json!(["metadata", "spec"]),
        Spec::Optional => {}
    }
    serde_json::from_value(schema).ok()
}

/// The text of `kubectl explain` for a kind.
fn description(kind: &str) -> &'static str {
    match kind {
        "Cluster" => {
            "A Kubernetes cluster: its control plane, its infrastructure, and the network they share."
        }
        "Machine" => {
            "One node of a cluster: the server it runs on, the data it starts from, and the Node it became."
        }
        "MachineSet" => "A number of equal Machines, kept at that number.",
        "MachineDeployment" => "Worker Machines that are replaced step by step when their template changes.",
        "MachinePool" => "Worker nodes that the infrastructure itself scales as one group.",
        "MachineHealthCheck" => {
            "Says when Machines count as unhealthy, and how many may be replaced at a time."
        }
        "MachineDrainRule" => "How pods leave the Nodes of Machines that are deleted, and in which order.",
        "ExtensionConfig" => "A server that extends Cluster API through hooks, and what it offers.",
        "KubeadmControlPlane" => "Control plane Machines made with kubeadm, with their etcd members.",
        "KubeadmControlPlaneTemplate" => "What the KubeadmControlPlanes of a ClusterClass are made from.",
        "KubeadmConfig" => "How kubeadm and cloud-init turn one server into a node.",
        "KubeadmConfigTemplate" => "What KubeadmConfigs are made from.",
        "DevCluster" => {
            "The infrastructure of a cluster for development: containers, or simulated in memory."
        }
        "DevClusterTemplate" => "What DevClusters are made from.",
        "DevMachine" => "A server for development: a container, or simulated in memory.",
        "DevMachineTemplate" => "What DevMachines are made from.",
        "DevMachinePool" => "Servers for development that come and go as one group.",
        "HostPool" => "What Hosts have in common: how they are reached.",
        "Host" => "A machine that exists, reached over ssh.",
        "HostMachine" => "The use of a Host by a Machine, from its claim to its reset.",
        "HostMachineTemplate" => "What HostMachines are made from.",
        "HostCluster" => "Where the API server of a cluster on Hosts is reached.",
        "HostClusterTemplate" => "What HostClusters are made from.",
        _ => "",
    }
}

/// The component a definition belongs to, and the contract it fulfils. Kinds of the core group
/// carry no contract label: the core is what reads the contract. Neither do its extensions.
fn labels(group: &str, version: &str) -> BTreeMap<String, String> {
    let provider = match group {
        names::INFRASTRUCTURE_GROUP if version == host::VERSION => "infrastructure-capstan-hosts",
        names::CONTROL_PLANE_GROUP => "control-plane-kubeadm",
        names::BOOTSTRAP_GROUP => "bootstrap-kubeadm",
        names::INFRASTRUCTURE_GROUP => "infrastructure-docker",
        _ => "cluster-api",
    };
    let mut labels = BTreeMap::from([
        (names::label::PROVIDER.to_owned(), provider.to_owned()),
        (names::label::CLUSTERCTL.to_owned(), String::new()),
    ]);
    if ![names::CORE_GROUP, names::RUNTIME_GROUP].contains(&group) {
        labels.insert(names::label::CONTRACT.to_owned(), version.to_owned());
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_and_served_kinds_are_the_same_list() {
        let defined: Vec<_> = all().into_iter().map(|crd| crd.spec.names.kind).collect();
        let served: Vec<_> = crate::served().into_iter().map(|kind| kind.gvk.kind).collect();
        assert_eq!(defined, served);
    }

    #[test]
    fn kinds_of_hosts_fulfil_the_contract_in_their_own_version() {
        for crd in all().into_iter().filter(|crd| crd.spec.names.kind.starts_with("Host")) {
            let (labels, kind) = (crd.metadata.labels.unwrap_or_default(), crd.spec.names.kind);
            assert_eq!(labels.get(names::label::CONTRACT).map(String::as_str), Some(host::VERSION), "{kind}");
            assert!(labels.contains_key(names::label::CLUSTERCTL), "{kind}");
            let is_alone = matches!(kind.as_str(), "Host" | "HostPool");
            assert_eq!(labels.contains_key(names::label::CLUSTERCTL_MOVE), is_alone, "{kind}");
            assert_eq!(crd.spec.versions[0].name, host::VERSION);
        }
    }

    #[test]
    fn every_definition_has_a_schema_and_an_age_column() {
        for crd in all() {
            let version = &crd.spec.versions[0];
            let schema = version.schema.as_ref().and_then(|s| s.open_api_v3_schema.as_ref());
            let described = schema.and_then(|schema| schema.description.as_deref()).unwrap_or_default();
            assert!(described.ends_with('.'), "{}", crd.spec.names.kind);
            let columns = version.additional_printer_columns.as_deref().unwrap_or_default();
            assert!(columns.iter().any(|column| column.name == "Age"), "{}", crd.spec.names.kind);
        }
    }
}
