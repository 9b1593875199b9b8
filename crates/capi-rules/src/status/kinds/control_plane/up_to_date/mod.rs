//! Does a control plane Machine match what its owner wants, and if not, in which fields? Owns the
//! comparison and its upstream wording; must not decide what follows. The comparison of worker
//! templates is `machine_template`.
//! Source: cluster-api `controlplane/kubeadm/pkg/filters.go` (`UpToDate`), v1.14.2.

pub mod kubeadm;

use std::fmt;

use chrono::TimeDelta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::Value;

use crate::status::conditions::setter::condition;
use crate::status::conditions::wording::IN_PLACE;
use crate::status::control_plane::OwnedMachine;
use crate::status::fields::FieldDifference;
use capi_types::condition as conditions;
use capi_types::condition::Status;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::names::annotation;
use capi_types::reference::ContractRef;
use capstan_base::time::{Timestamp, from_k8s};

/// One reason why a Machine is not what its owner wants. `Display` is upstream's message.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// Within `rollout.before.certificatesExpiryDays`.
    CertificatesExpire,
    /// `rollout.after` passed and the Machine is older.
    RolloutAfter,
    /// Of Kubernetes.
    Version {
        /// The Machine's.
        current: String,
        /// The control plane's.
        required: String,
    },
    /// `kind` of the bootstrap configuration; fields where they were compared.
    Bootstrap {
        /// Of the configuration.
        kind: String,
        /// Empty where they were not compared.
        fields: Vec<FieldDifference>,
    },
    /// `kind` of the infrastructure machine; templates are compared by name and kind.
    Infrastructure {
        /// Of the infrastructure machine.
        kind: String,
        /// Empty where only the template differs.
        fields: Vec<FieldDifference>,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CertificatesExpire => f.write_str("Certificates will expire soon"),
            Self::RolloutAfter => f.write_str("KubeadmControlPlane spec.rolloutAfter expired"),
            Self::Version { current, required } => write!(f, "Version {current}, {required} required"),
            Self::Bootstrap { kind, .. } | Self::Infrastructure { kind, .. } => {
                write!(f, "{kind} is not up-to-date")
            }
        }
    }
}

impl Difference {
    /// Where exactly, as far as it was compared field by field.
    pub fn fields(&self) -> &[FieldDifference] {
        match self {
            Self::Bootstrap { fields, .. } | Self::Infrastructure { fields, .. } => fields,
            _ => &[],
        }
    }
}

/// In what `machine` differs from what `owner` wants, in upstream's order. Empty: up to date.
/// What is missing (bootstrap configuration, infrastructure machine, clone annotations) matches.
pub fn control_plane_machine(
    owner: &KubeadmControlPlane,
    machine: &OwnedMachine,
    now: Timestamp,
) -> Vec<Difference> {
    let mut found = Vec::new();
    if certificates_due_at(owner, machine).is_some_and(|due| due < now) {
        found.push(Difference::CertificatesExpire);
    }
    let rollout_after = owner.spec.rollout.as_ref().and_then(|r| r.after.as_ref());
    if is_due(rollout_after, machine.created_at(), now) {
        found.push(Difference::RolloutAfter);
    }
    if machine.version() != owner.spec.version {
        let (current, required) = (machine.version().to_owned(), owner.spec.version.clone());
        found.push(Difference::Version { current, required });
    }
    let fields = bootstrap_fields(owner, machine);
    if !fields.is_empty() {
        found.push(Difference::Bootstrap { kind: "KubeadmConfig".to_owned(), fields });
    }
    let fields = infrastructure_fields(&owner.spec.machine_template.spec.infrastructure_ref, machine);
    if !fields.is_empty() {
        let kind = machine.machine.spec.infrastructure_ref.kind.clone();
        found.push(Difference::Infrastructure { kind, fields });
    }
    found
}

/// When time alone will make `machine` outdated: the soonest moment after `now`.
pub fn next_due(owner: &KubeadmControlPlane, machine: &OwnedMachine, now: Timestamp) -> Option<Timestamp> {
    let after = owner.spec.rollout.as_ref().and_then(|r| r.after.as_ref()).map(from_k8s);
    let after = after.filter(|at| machine.created_at() < *at);
    [after, certificates_due_at(owner, machine)].into_iter().flatten().filter(|at| *at > now).min()
}

fn certificates_due_at(owner: &KubeadmControlPlane, machine: &OwnedMachine) -> Option<Timestamp> {
    let days = owner.spec.rollout.as_ref()?.before.as_ref()?.certificates_expiry_days?;
    let expiry = machine.machine.status.as_ref()?.certificates_expiry_date.as_ref()?;
    // Checked: a number of days from outside may lead out of the range of dates.
    from_k8s(expiry).checked_sub_signed(TimeDelta::days(i64::from(days)))
}

/// `rollout.after` has passed, for something created before it.
pub fn is_due(rollout_after: Option<&Time>, created: Timestamp, now: Timestamp) -> bool {
    rollout_after.map(from_k8s).is_some_and(|at| at < now && created < at)
}

fn bootstrap_fields(owner: &KubeadmControlPlane, machine: &OwnedMachine) -> Vec<FieldDifference> {
    // As upstream, what is not there to be compared counts as a match.
    let Some(config) = &machine.bootstrap else { return Vec::new() };
    let json = |value| serde_json::to_value(value).unwrap_or(Value::Null);
    let wanted = owner.spec.kubeadm_config_spec.as_ref().map_or(Value::Null, json);
    kubeadm::differences(&json(&config.spec), &wanted, &owner.spec.version)
}

fn infrastructure_fields(template: &ContractRef, machine: &OwnedMachine) -> Vec<FieldDifference> {
    let annotations = machine.infrastructure.as_ref().and_then(|i| i.pointer("/metadata/annotations"));
    let wanted = [
        (annotation::CLONED_FROM_NAME, template.name.clone()),
        (annotation::CLONED_FROM_GROUP_KIND, format!("{}.{}", template.kind, template.api_group)),
    ];
    let found = |key: &str| annotations.and_then(|a| a.get(key)).and_then(Value::as_str);
    // Without both annotations nothing is known of its origin, which counts as a match.
    if wanted.iter().any(|(key, _)| found(key).is_none()) {
        return Vec::new();
    }
    let differs = wanted.into_iter().filter(|(key, value)| found(key) != Some(value));
    differs
        .map(|(key, value)| FieldDifference {
            path: format!("metadata.annotations[{key}]"),
            current: found(key).map(Value::from),
            desired: Some(Value::from(value)),
            hidden: false,
        })
        .collect()
}

/// What a Machine records of an update of its own, besides its spec.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// As stored.
    pub conditions: &'a [Condition],
    /// It is marked for it.
    pub updating_in_place: bool,
    /// `spec.version`.
    pub version: &'a str,
    /// As its Node reports it.
    pub kubelet_version: Option<&'a str>,
}

/// The `UpToDate` condition of a Machine with these differences.
pub fn up_to_date_condition(differences: &[Difference], machine: Progress<'_>) -> Condition {
    const TYPE: &str = "UpToDate";
    if !differences.is_empty() {
        let lines: Vec<String> = differences.iter().map(|d| format!("* {d}")).collect();
        return condition(TYPE, Status::False, "NotUpToDate", lines.join("\n"));
    }
    if machine.updating_in_place {
        let updating = conditions::find(machine.conditions, "Updating");
        let message = updating.filter(|c| c.status == "True" && !c.message.is_empty());
        let message = message.map_or(IN_PLACE, |c| c.message.as_str());
        return condition(TYPE, Status::False, "Updating", format!("* {message}"));
    }
    // After an update in place the spec has the new version before the host does.
    match machine.kubelet_version.filter(|kubelet| *kubelet != machine.version) {
        Some(kubelet) => condition(
            TYPE,
            Status::False,
            "Updating",
            format!("* Node.status.nodeInfo.kubeletVersion {kubelet}, {} required", machine.version),
        ),
        None => condition(TYPE, Status::True, "UpToDate", ""),
    }
}

#[cfg(test)]
mod tests;
