//! The JSON of synthetic machines: Machine, DevMachine, and on control planes KubeadmConfig. Decides
//! nothing about who is in which state.

use chrono::TimeDelta;
use serde_json::{Value, json};
use uuid::Uuid;

use super::census::{ClusterCensus, Group, Member, Set, State};
use super::conditions;
use super::objects::{GENERATION, Owner, reference};
use capi_types::names::{
    BOOTSTRAP_GROUP, CONTROL_PLANE_GROUP, CORE_GROUP, INFRASTRUCTURE_GROUP, annotation, finalizer, label,
};
use capstan_base::time::rfc3339;

/// A Machine, its infrastructure, and on control planes its bootstrap configuration.
pub(super) fn machine_level(census: &ClusterCensus, group: &Group, set: &Set, member: &Member) -> Vec<Value> {
    let mut objects =
        vec![machine(census, group, set, member), infrastructure_machine(census, group, set, member)];
    if group.control_plane {
        objects.push(bootstrap_config(census, group, set, member));
    }
    objects
}

fn machine_labels(census: &ClusterCensus, group: &Group, set: &Set) -> Value {
    if group.control_plane {
        return json!({
            label::CLUSTER_NAME: census.name,
            label::CONTROL_PLANE: "",
            label::CONTROL_PLANE_NAME: group.name,
        });
    }
    json!({
        label::CLUSTER_NAME: census.name,
        label::DEPLOYMENT_NAME: group.name,
        label::SET_NAME: set.name,
        label::MACHINE_TEMPLATE_HASH: set.hash,
    })
}

fn machine(census: &ClusterCensus, group: &Group, set: &Set, member: &Member) -> Value {
    let owner = if group.control_plane {
        Owner { group: CONTROL_PLANE_GROUP, kind: "KubeadmControlPlane", name: &group.name, controller: true }
    } else {
        Owner { group: CORE_GROUP, kind: "MachineSet", name: &set.name, controller: true }
    };
    let mut object = census.object(CORE_GROUP, "Machine", &member.name, member.created, Some(&owner));
    object["metadata"]["labels"] = machine_labels(census, group, set);
    object["metadata"]["finalizers"] = json!([finalizer::MACHINE]);
    object["spec"] = machine_spec(census, group, set, member);
    object["status"] = machine_status(census, group, set, member);
    object
}

fn machine_spec(census: &ClusterCensus, group: &Group, set: &Set, member: &Member) -> Value {
    let mut spec = json!({
        "clusterName": census.name,
        "version": set.version_of(member),
        "bootstrap": { "dataSecretName": format!("{}-bootstrap", group.name) },
        "infrastructureRef": reference(INFRASTRUCTURE_GROUP, "DevMachine", &member.name),
        "deletion": { "nodeDeletionTimeoutSeconds": 10 },
    });
    if group.control_plane {
        spec["bootstrap"] = json!({
            "configRef": reference(BOOTSTRAP_GROUP, "KubeadmConfig", &member.name),
            "dataSecretName": member.name,
        });
        let gates = [
            "NodeKubeadmLabelsAndTaintsSet",
            "APIServerPodHealthy",
            "ControllerManagerPodHealthy",
            "SchedulerPodHealthy",
            "EtcdPodHealthy",
            "EtcdMemberHealthy",
        ];
        spec["readinessGates"] = json!(gates.map(|gate| json!({ "conditionType": gate })));
    }
    if member.state != State::Provisioning {
        spec["providerID"] = json!(provider_id(member));
    }
    spec
}

fn machine_status(census: &ClusterCensus, group: &Group, set: &Set, member: &Member) -> Value {
    let table = if group.control_plane { conditions::CONTROL_PLANE_MACHINE } else { conditions::WORKER };
    let version = set.version_of(member);
    let loud = conditions::machine(member.state, (version, group.version));
    let provisioned = member.state != State::Provisioning;
    let mut status = json!({
        "phase": if provisioned { "Running" } else { "Provisioning" },
        "lastUpdated": rfc3339((member.created + TimeDelta::minutes(3)).min(census.now)),
        "observedGeneration": GENERATION,
        "initialization": { "bootstrapDataSecretCreated": true, "infrastructureProvisioned": provisioned },
        "conditions": census.conditions(table, &loud, member.created),
    });
    if provisioned {
        status["nodeRef"] = json!({ "name": member.name });
        status["nodeInfo"] = node_info(census, member, version);
        status["addresses"] = addresses(census, member);
    }
    if group.control_plane {
        status["certificatesExpiryDate"] = json!(rfc3339(member.created + TimeDelta::days(450)));
    }
    status
}

fn node_info(census: &ClusterCensus, member: &Member, version: &str) -> Value {
    json!({
        "machineID": census.uid("machine-id", &member.name).replace('-', ""),
        "systemUUID": census.uid("system", &member.name),
        "bootID": census.uid("boot", &member.name),
        "kernelVersion": "6.12.48-generic",
        "osImage": "Simulated Linux 1",
        "containerRuntimeVersion": "containerd://2.2.1",
        "kubeletVersion": version,
        "kubeProxyVersion": version,
        "operatingSystem": "linux",
        "architecture": "amd64",
    })
}

fn provider_id(member: &Member) -> String {
    format!("in-memory://{}", member.name)
}

/// Derived from the name: stable, and different often enough for a screen.
fn addresses(census: &ClusterCensus, member: &Member) -> Value {
    let uid = Uuid::new_v5(&Uuid::NAMESPACE_OID, member.name.as_bytes());
    let [a, b, ..] = *uid.as_bytes();
    let address = format!("10.{}.{a}.{b}", 128 + census.number % 64);
    json!([{ "type": "InternalIP", "address": address }, { "type": "Hostname", "address": member.name }])
}

fn machine_owner(member: &Member) -> Owner<'_> {
    Owner { group: CORE_GROUP, kind: "Machine", name: &member.name, controller: true }
}

fn infrastructure_machine(census: &ClusterCensus, group: &Group, set: &Set, member: &Member) -> Value {
    let owner = machine_owner(member);
    let mut object =
        census.object(INFRASTRUCTURE_GROUP, "DevMachine", &member.name, member.created, Some(&owner));
    object["metadata"]["labels"] = machine_labels(census, group, set);
    object["metadata"]["annotations"] = json!({
        annotation::CLONED_FROM_NAME: group.name,
        annotation::CLONED_FROM_GROUP_KIND: format!("DevMachineTemplate.{INFRASTRUCTURE_GROUP}"),
    });
    let provisioned = member.state != State::Provisioning;
    let table =
        if group.control_plane { conditions::DEV_CONTROL_PLANE_MACHINE } else { conditions::DEV_WORKER };
    let loud = conditions::infrastructure_machine(member.state);
    object["spec"] = json!({ "backend": { "inMemory": {} } });
    object["status"] = json!({
        "initialization": { "provisioned": provisioned },
        "conditions": census.conditions(table, &loud, member.created),
    });
    if provisioned {
        object["spec"]["providerID"] = json!(provider_id(member));
        object["status"]["addresses"] = addresses(census, member);
    }
    object
}

fn bootstrap_config(census: &ClusterCensus, group: &Group, set: &Set, member: &Member) -> Value {
    let owner = machine_owner(member);
    let mut object =
        census.object(BOOTSTRAP_GROUP, "KubeadmConfig", &member.name, member.created, Some(&owner));
    object["metadata"]["labels"] = machine_labels(census, group, set);
    object["spec"] =
        json!({ "joinConfiguration": { "controlPlane": { "localAPIEndpoint": { "bindPort": 6443 } } } });
    object["status"] = json!({
        "dataSecretName": member.name,
        "observedGeneration": GENERATION,
        "initialization": { "dataSecretCreated": true },
        "conditions": census.conditions(conditions::KUBEADM_CONFIG, &[], member.created),
    });
    object
}
