//! What a provider's object is taken to say when its whole kind was left out of the dump: what its owner
//! stored of it. Must not judge anything; owns the way back from a mirrored or summed up condition to
//! the one it was made from.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Map, Value, json};

use super::Dump;
use crate::observe::{Source as _, namespace};
use crate::status::contract::{External, Provided};
use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned as _, find};
use capi_types::machine::Machine;
use capi_types::names::{VERSION, annotation};
use capi_types::reference::ContractRef;

/// A provider object with which its provider did nothing yet.
pub fn made_just_now(reference: &ContractRef) -> External {
    External::Found(Provided::new(json!({
        "apiVersion": format!("{}/{VERSION}", reference.api_group),
        "kind": reference.kind,
        "metadata": {"name": reference.name},
    })))
}

impl Dump {
    /// Nothing of the kind that a reference names is here, and its definition does not exclude it.
    pub fn left_out(&self, reference: Option<&ContractRef>) -> bool {
        let Some(reference) = reference.filter(|r| !r.name.is_empty()) else { return false };
        !self.has_kind(&reference.api_group, &reference.kind) && !self.is_misdefined(reference)
    }

    /// What the reference leads to; what was left out is made from `stored`, and is unreadable when nothing is stored of it.
    fn or_assumed(
        &self,
        namespace: &str,
        reference: Option<&ContractRef>,
        stored: Option<Value>,
    ) -> External {
        match (reference, stored) {
            // Only a kind that is wholly absent was left
            // out; one missing among others does not exist.
            (Some(named), Some(mut content)) if self.left_out(reference) => {
                // Whole enough to be written to: who deletes it finds it by its group.
                content["apiVersion"] = format!("{}/{VERSION}", named.api_group).into();
                content["kind"] = named.kind.clone().into();
                content["metadata"]["name"] = named.name.clone().into();
                External::Found(Provided::new(content))
            }
            _ => self.external(namespace, reference),
        }
    }

    /// A template whose kind was left out counts as there, and as empty.
    pub(super) fn template_or_assumed(&self, namespace: &str, reference: Option<&ContractRef>) -> External {
        match reference {
            Some(named) if self.left_out(reference) => External::Found(Provided::new(json!({
                "apiVersion": format!("{}/{VERSION}", named.api_group),
                "kind": named.kind,
                "metadata": {"name": named.name, "namespace": namespace},
                "spec": {"template": {"spec": {}}},
            }))),
            _ => self.external(namespace, reference),
        }
    }

    pub(super) fn machine_infrastructure_or_assumed(&self, machine: &Machine) -> External {
        let flags = machine.status.as_ref().and_then(|s| s.initialization.clone()).unwrap_or_default();
        let stored = stored(machine.conditions(), "InfrastructureReady", flags.infrastructure_provisioned);
        let content = stored.map(|(conditions, provisioned)| {
            json!({"spec": {"providerID": machine.spec.provider_id},
                "status": {"initialization": {"provisioned": provisioned}, "conditions": conditions}})
        });
        self.or_assumed(namespace(machine), Some(&machine.spec.infrastructure_ref), content)
    }

    pub(super) fn machine_bootstrap_or_assumed(&self, machine: &Machine) -> External {
        let status = machine.status.clone().unwrap_or_default();
        let flags = status.initialization.unwrap_or_default();
        let stored =
            stored(machine.conditions(), "BootstrapConfigReady", flags.bootstrap_data_secret_created);
        let content = stored.map(|(conditions, created)| {
            let expiry =
                status.certificates_expiry_date.map(|date| json!({annotation::CERTIFICATES_EXPIRY: date}));
            json!({"metadata": {"annotations": expiry}, "status": {
                "initialization": {"dataSecretCreated": created},
                "dataSecretName": machine.spec.bootstrap.data_secret_name, "conditions": conditions}})
        });
        self.or_assumed(namespace(machine), machine.spec.bootstrap.config_ref.as_ref(), content)
    }

    pub(super) fn cluster_infrastructure_or_assumed(&self, cluster: &Cluster) -> External {
        let status = cluster.status.clone().unwrap_or_default();
        let flags = status.initialization.unwrap_or_default();
        let stored = stored(cluster.conditions(), "InfrastructureReady", flags.infrastructure_provisioned);
        let content = stored.map(|(conditions, provisioned)| {
            json!({"status": {"initialization": {"provisioned": provisioned},
                "failureDomains": status.failure_domains, "conditions": conditions}})
        });
        self.or_assumed(namespace(cluster), cluster.spec.infrastructure_ref.as_ref(), content)
    }

    pub(super) fn cluster_control_plane_or_assumed(&self, cluster: &Cluster) -> External {
        let stored = find(cluster.conditions(), "ControlPlaneAvailable");
        let content = stored.map(|available| {
            let status = cluster.status.clone().unwrap_or_default();
            let flags = status.initialization.unwrap_or_default();
            let mut content = json!({"status": status.control_plane.clone().unwrap_or_default()});
            let reported = &mut content["status"];
            if let Some(map) = reported.as_object_mut() {
                // The Cluster's own counter: control planes have it in their spec.
                map.remove("desiredReplicas");
            }
            reported["initialization"] =
                json!({"controlPlaneInitialized": flags.control_plane_initialized == Some(true)});
            let mut conditions = vec![source("Available", available)];
            let named = cluster.spec.control_plane_ref.as_ref();
            let prefix = named.map(|r| format!("* {} {}:", r.kind, r.name)).unwrap_or_default();
            for type_ in ["RollingOut", "ScalingUp", "ScalingDown"] {
                conditions.extend(find(cluster.conditions(), type_).map(|whole| part(whole, &prefix)));
            }
            reported["conditions"] = conditions.into();
            content["spec"] = json!({"replicas": status.control_plane.and_then(|c| c.desired_replicas)});
            content
        });
        self.or_assumed(namespace(cluster), cluster.spec.control_plane_ref.as_ref(), content)
    }
}

/// The mirrored condition of an object as its own, and whether it has done its part. One that has is there, also where nobody
/// mirrored a condition of it, as in older statuses and long deletions.
fn stored(conditions: &[Condition], mirrored: &str, is_done: Option<bool>) -> Option<(Vec<Value>, bool)> {
    let is_done = is_done == Some(true);
    let ready: Vec<Value> =
        find(conditions, mirrored).map(|ready| source("Ready", ready)).into_iter().collect();
    (is_done || !ready.is_empty()).then_some((ready, is_done))
}

/// The condition that was mirrored into `stored`.
fn source(type_: &str, stored: &Condition) -> Value {
    let mut content = serde_json::to_value(stored).unwrap_or_else(|_| Map::new().into());
    content["type"] = type_.into();
    content
}

/// What one object contributed to a sum over several: the lines under its name. Without any it was as
/// it should be, with nothing to say.
fn part(whole: &Condition, prefix: &str) -> Value {
    let mut lines = whole.message.lines().skip_while(|line| !line.starts_with(prefix));
    let Some(first) = lines.next() else {
        let reason = format!("Not{}", whole.type_);
        return source(
            &whole.type_,
            &Condition { status: "False".to_owned(), reason, message: String::new(), ..whole.clone() },
        );
    };
    let rest = first[prefix.len()..].trim_start();
    let message = if rest.is_empty() {
        outdented(lines.take_while(|line| line.starts_with("  ")))
    } else {
        rest.to_owned()
    };
    source(&whole.type_, &Condition { message, ..whole.clone() })
}

/// Lines as they were before they were put under a name: all bullets got two spaces; else lines without
/// a bullet got one, and the others four spaces.
fn outdented<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let lines: Vec<&str> = lines.collect();
    let depth = if lines.iter().any(|line| line.starts_with("    ")) { 4 } else { 2 };
    lines.iter().map(|line| line.get(depth..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::conditions::setter::condition;
    use capi_types::condition::Status;

    #[test]
    fn a_part_of_a_sum_is_found_again() {
        let rolling_out = |message: &str| {
            let part = part(&condition("ScalingUp", Status::True, "ScalingUp", message), "* XPlane cp:");
            (
                part["status"].as_str().unwrap_or_default().to_owned(),
                part["message"].as_str().unwrap_or_default().to_owned(),
            )
        };
        let yes = |message: &str| ("True".to_owned(), message.to_owned());
        assert_eq!(rolling_out("* MachineDeployment md: more"), ("False".to_owned(), String::new()));
        assert_eq!(rolling_out("* MachineDeployment md: more\n* XPlane cp: from 1 to 3"), yes("from 1 to 3"));
        assert_eq!(
            rolling_out("* XPlane cp:\n  * from 1 to 3 is blocked because:\n    * a\n    * b\n* Z z: c"),
            yes("from 1 to 3 is blocked because:\n* a\n* b")
        );
        assert_eq!(rolling_out("* XPlane cp:\n  * a\n  * b\n* Z z: c"), yes("* a\n* b"));
    }
}
