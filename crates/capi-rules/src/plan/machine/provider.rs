//! The Machine and its two provider objects: adoption, and what is copied from them to the spec.
//! Source: `machine_controller_phases.go` (`reconcileBootstrap`, `reconcileInfrastructure`), v1.14.2.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::why::Why;
use crate::plan::{Plan, Write, external, ownership};
use crate::status::contract::Provided;
use crate::status::machine::{Observed, initialization, offered_data_secret, offered_provider_id};
use capi_types::key::{ObjectRef, group_of};
use capi_types::names::CONTROL_PLANE_GROUP;

/// How soon a provider ID is looked for again.
const PROVIDER_ID_RETRY: Duration = Duration::from_secs(5);

pub(super) fn bootstrap(o: &Observed, plan: &mut Plan) {
    let name = o.machine.spec.bootstrap.config_ref.as_ref().map_or("", |r| r.name.as_str());
    let Some(config) = external::found(&o.bootstrap, name, false, o.is_deleting(), plan) else { return };
    // Before anything is waited for: without its owner the object would outlive the Machine.
    adopt(o, config, plan);
    // A name that is set stays: the host was started with it.
    let named = o.machine.spec.bootstrap.data_secret_name.as_ref().is_some_and(|name| !name.is_empty());
    if named || config.is_deleting() {
        return;
    }
    let kind = config.kind.clone();
    match offered_data_secret(config) {
        Some(name) => {
            let body = json!({"spec": {"bootstrap": {"dataSecretName": name}}});
            patch(o, body, Why::DataSecretName { name: name.to_owned() }, plan);
        }
        None if config.data_secret_created() => plan.block(Why::NoDataSecretName { kind }),
        None => plan.block(Why::WaitingForDataSecret { kind }),
    }
}

pub(super) fn infrastructure(o: &Observed, plan: &mut Plan) {
    let provisioned = initialization(&o.machine).infrastructure_provisioned == Some(true);
    let name = &o.machine.spec.infrastructure_ref.name;
    let Some(host) = external::found(&o.infrastructure, name, provisioned, o.is_deleting(), plan) else {
        return;
    };
    adopt(o, host, plan);
    if host.is_deleting() {
        return;
    }
    let kind = host.kind.clone();
    let Some(id) = offered_provider_id(o) else {
        if host.provisioned() {
            plan.block(Why::WaitingForProviderId { kind });
            // The ID may come without another change that wakes the Machine.
            plan.recheck_within(PROVIDER_ID_RETRY);
        } else {
            plan.block(external::Why::WaitingForInfrastructure { kind });
        }
        return;
    };
    // Providers may choose another domain than the one asked for.
    if let Some(domain) = host.text(&["spec", "failureDomain"])
        && o.machine.spec.failure_domain.as_deref() != Some(domain)
    {
        patch(
            o,
            json!({"spec": {"failureDomain": domain}}),
            Why::FailureDomain { name: domain.to_owned() },
            plan,
        );
    }
    if o.machine.spec.provider_id.as_deref() != Some(id) {
        patch(o, json!({"spec": {"providerID": id}}), Why::ProviderId { id: id.to_owned() }, plan);
    }
}

/// The Machine takes the place of the MachineSet or control plane that made the object.
fn adopt(o: &Observed, object: &Provided, plan: &mut Plan) {
    if object.is_deleting() {
        return;
    }
    // Only these made the object for the Machine; owners that others added stay.
    let creator =
        |r: &OwnerReference| r.kind == "MachineSet" || group_of(&r.api_version) == CONTROL_PLANE_GROUP;
    let owner = ownership::owner(&o.machine, true);
    let why = Why::Adopt { kind: object.kind.clone() };
    external::adopt(object, owner, &o.machine.spec.cluster_name, creator, why, plan);
}

fn patch(o: &Observed, body: Value, why: Why, plan: &mut Plan) {
    plan.step(Write::Patch { object: ObjectRef::of(&o.machine), body }, why);
}
