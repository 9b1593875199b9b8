//! What is true of a KubeadmConfig, and how far its bootstrap data is. Owns judgement; must not know
//! how facts were read or what is rendered.
//! Source: cluster-api `bootstrap/kubeadm/reconcilers/kubeadmconfig`, v1.14.2.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;

use super::control_plane::certificates::Purpose;
use super::machine::{cluster_provisioned, control_plane_initialized_since};
use crate::status::conditions::merge::{Reasons, Summary};
use crate::status::conditions::setter::{self, Draft, condition, internal_error};
use crate::status::contract::External;
use crate::status::machines::is_control_plane;
use capi_types::bootstrap::{BootstrapInitialization, KubeadmConfig, KubeadmConfigStatus};
use capi_types::cluster::Cluster;
use capi_types::condition::Status;
use capi_types::machine::Machine;
use capi_types::machine_pool::MachinePool;
use capstan_base::time::Timestamp;
use k8s_machinery::version;

/// Condition types that the KubeadmConfig controller owns.
pub const OWNED: [&str; 4] = ["Paused", "Ready", "DataSecretAvailable", "CertificatesAvailable"];

/// Everything a KubeadmConfig is judged by.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// As it is now, this run's own writes included.
    pub config: KubeadmConfig,
    /// The Machine that it is for; for a MachinePool, one of its name as its template has it.
    pub machine: Machine,
    /// In place of a Machine.
    pub pool: Option<Arc<MachinePool>>,
    /// Its endpoint and its conditions decide when data can be made.
    pub cluster: Cluster,
    /// Its version is for templates in files.
    pub control_plane: External,
    /// Only a Machine that may begin the cluster asks for it.
    pub lock: Lock,
    /// Only what the stage needs is looked for.
    pub certificates: Certificates,
    /// Values of secrets that files and users refer to, by secret name and key; absent when there is no
    /// such secret.
    pub secret_values: BTreeMap<(String, String), SecretValue>,
    /// The secret with the name of the config, if there is one.
    pub data_secret: Option<Secret>,
    /// A fresh token, for when one is needed.
    pub new_token: String,
    /// Only of a Machine that has data and no Node yet.
    pub token: Token,
    /// Why the data could not be made in this run.
    pub failure: Option<Failure>,
    /// This run stored the data secret.
    pub stored: bool,
}

/// The lock that lets only one Machine of a cluster run `kubeadm init`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lock {
    /// No stage needs it.
    #[default]
    NotAsked,
    /// No Machine has it.
    Free,
    /// The Machine of this config has it.
    Mine,
    /// Another Machine began the cluster, or is about to.
    HeldBy {
        /// Name of the Machine.
        machine: String,
        /// That Machine still exists.
        exists: bool,
    },
    /// A sentence of the reader.
    Unreadable(String),
}

/// Certificate and key of each purpose, PEM, as far as they were looked for.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Certificates {
    /// No stage needs them.
    #[default]
    NotAsked,
    /// A key that is not needed may be empty.
    Found(BTreeMap<Purpose, (String, String)>),
    /// There are no secrets for these.
    Missing(Vec<Purpose>),
    /// Some could not be read, or hold nothing usable.
    Unreadable(String),
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotAsked => f.write_str("NotAsked"),
            // Logs and failed assertions print this, and keys must not get there.
            Self::Found(all) => write!(f, "Found({} pairs, not shown)", all.len()),
            Self::Missing(purposes) => write!(f, "Missing({purposes:?})"),
            Self::Unreadable(error) => write!(f, "Unreadable({error:?})"),
        }
    }
}

/// What an existing secret has under a key.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretValue {
    /// As it is, never shown.
    Text(String),
    /// Bytes that are not text.
    NotText,
    /// The secret is there without it.
    NoSuchKey,
}

impl std::fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text(not shown)",
            Self::NotText => "NotText",
            Self::NoSuchKey => "NoSuchKey",
        })
    }
}

/// The join token in the workload cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Token {
    /// No stage needs it.
    #[default]
    NotAsked,
    /// It is not in the workload cluster.
    Missing,
    /// It is there until then.
    Expires(Timestamp),
    /// A sentence of the reader.
    Unreadable(String),
}

/// Why bootstrap data could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Contents of a file.
    Files(String),
    /// A password of a user.
    Users(String),
    /// The kubeconfig of a discovery file.
    Discovery(String),
    /// A sentence for a person.
    Other(String),
}

/// How far the bootstrap data is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing can be made for a Machine that is nowhere.
    WaitingForInfrastructure,
    /// The Machine names a data secret that this object does not know of, as after a restore.
    NamedByMachine(String),
    /// The data is stored.
    Created,
    /// A worker before the control plane is initialized.
    WaitingForControlPlane,
    /// It begins the cluster.
    Init,
    /// Its kubeadm joins as control plane.
    JoinControlPlane,
    /// Its kubeadm joins as worker.
    JoinWorker,
}

/// The stage of a config whose Machine and Cluster exist.
pub fn stage(o: &Observed) -> Stage {
    let status = o.config.status.as_ref();
    let named = o.machine.spec.bootstrap.data_secret_name.as_deref().filter(|name| !name.is_empty());
    let created =
        status.and_then(|s| s.initialization.as_ref()).and_then(|i| i.data_secret_created) == Some(true);
    let known = status.and_then(|s| s.data_secret_name.as_ref()).is_some_and(|name| !name.is_empty());
    let control_plane = is_control_plane(&o.machine);
    // First of all: the endpoint, which the data is made with, comes with the infrastructure.
    if !cluster_provisioned(&o.cluster) {
        return Stage::WaitingForInfrastructure;
    }
    match (named, created) {
        // People may bring the data themselves, and so does a move to another management cluster.
        (Some(name), _) if !(created && known) => Stage::NamedByMachine(name.to_owned()),
        (_, true) => Stage::Created,
        _ if control_plane_initialized_since(&o.cluster).is_some() => {
            if control_plane {
                Stage::JoinControlPlane
            } else {
                Stage::JoinWorker
            }
        }
        _ if control_plane => Stage::Init,
        _ => Stage::WaitingForControlPlane,
    }
}

/// Whom it is for has its Node; a MachinePool has as many as it wants.
pub fn has_nodes(o: &Observed) -> bool {
    match &o.pool {
        None => o.machine.status.as_ref().is_some_and(|s| s.node_ref.is_some()),
        Some(pool) => {
            let found = pool.status.as_ref().map_or(0, |s| s.node_refs.len());
            // Exactly: a pool that shrinks or grows still needs its token.
            usize::try_from(pool.spec.replicas.unwrap_or(1)) == Ok(found)
        }
    }
}

/// The key pairs that the first control plane Machine makes for its cluster: all that are missing, when no control plane
/// object makes them. Nothing while some are missing that the user has to supply.
pub fn made_here(o: &Observed) -> &[Purpose] {
    let Certificates::Missing(missing) = &o.certificates else { return &[] };
    let stands_alone = stage(o) == Stage::Init && o.control_plane == External::NotSet;
    let external = has_external_etcd(o);
    if stands_alone && missing.iter().all(|purpose| !purpose.is_external(external)) { missing } else { &[] }
}

/// Does the cluster use an etcd of the user's?
pub fn has_external_etcd(o: &Observed) -> bool {
    let etcd = o.config.spec.cluster_configuration.as_ref().and_then(|c| c.etcd.as_ref());
    etcd.is_some_and(|etcd| etcd.external.is_some())
}

/// The status of a config that is not paused. One on its way out is only summed up.
pub fn status(o: &Observed, now: Timestamp) -> KubeadmConfigStatus {
    let mut status = o.config.status.clone().unwrap_or_default();
    let mut draft = Draft::new(std::mem::take(&mut status.conditions), o.config.metadata.generation, now);
    draft.set(setter::not_paused());
    if o.config.metadata.deletion_timestamp.is_none() {
        judge(&mut status, &mut draft, o);
    }
    draft.set(Summary::new("Ready", vec![DATA, CERTIFICATES], Reasons::READY).of(draft.list()));
    status.conditions = draft.finish();
    status
}

fn judge(status: &mut KubeadmConfigStatus, draft: &mut Draft, o: &Observed) {
    let stage = stage(o);
    match &stage {
        Stage::NamedByMachine(name) => status.data_secret_name = Some(name.clone()),
        // The name may be unknown; upstream does not mind.
        Stage::Created => {}
        _ if o.stored => status.data_secret_name.clone_from(&o.config.metadata.name),
        _ => return waiting(draft, o, &stage),
    }
    status.initialization = Some(BootstrapInitialization { data_secret_created: Some(true) });
    draft.set(condition(DATA, Status::True, "Available", ""));
    draft.set(condition(CERTIFICATES, Status::True, "Available", ""));
}

const DATA: &str = "DataSecretAvailable";
const CERTIFICATES: &str = "CertificatesAvailable";

fn waiting(draft: &mut Draft, o: &Observed, stage: &Stage) {
    let no = |message: &str| condition(DATA, Status::False, "NotAvailable", message);
    match stage {
        Stage::WaitingForInfrastructure => {
            draft.set(no("Waiting for Cluster status.infrastructureReady to be true"));
        }
        // Only when it is missing: an older text stays, as it does upstream.
        Stage::WaitingForControlPlane | Stage::Init if draft.find(DATA).is_none() => {
            draft.set(no("Waiting for Cluster control plane to be initialized"));
        }
        _ => {}
    }
    match &o.certificates {
        _ if !looks_for_certificates(o, stage) => {}
        Certificates::NotAsked => {}
        Certificates::Found(_) => draft.set(condition(CERTIFICATES, Status::True, "Available", "")),
        // Certificates are made in this pass, so a doubt would last for a moment only.
        Certificates::Missing(_) if !made_here(o).is_empty() => {
            draft.set(condition(CERTIFICATES, Status::True, "Available", ""));
        }
        Certificates::Missing(_) | Certificates::Unreadable(_) => draft.set(internal_error(CERTIFICATES)),
    }
    match &o.failure {
        Some(Failure::Files(error)) => draft.set(no(&format!("Failed to prepare spec.files: {error}"))),
        Some(Failure::Users(_)) => draft.set(no("Failed to read password from secrets for spec.users")),
        Some(Failure::Discovery(_)) => {
            draft.set(no("Failed to create kubeconfig for spec.joinConfiguration.discovery.file"));
        }
        Some(Failure::Other(_)) | None => {}
    }
}

/// The first Machine does so only with the lock in hand and a version that can be read.
fn looks_for_certificates(o: &Observed, stage: &Stage) -> bool {
    // Upstream returns before it looks, and leaves the condition as it is.
    let locked_out = matches!(o.lock, Lock::HeldBy { .. } | Lock::Unreadable(_));
    let version = o.machine.spec.version.as_deref().unwrap_or_default();
    *stage != Stage::Init || (!locked_out && version::parse(version).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::status::tests::witness;
    use capi_types::condition::find;

    fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("an object")
    }

    fn worker() -> Observed {
        Observed {
            config: object(json!({"metadata": {"name": "m"}, "spec": {}})),
            machine: object(json!({"metadata": {"name": "m"}, "spec": {"clusterName": "c", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}})),
            cluster: object(json!({"metadata": {"name": "c"}, "spec": {}})),
            ..Observed::default()
        }
    }

    fn provisioned() -> Cluster {
        object(
            json!({"metadata": {"name": "c"}, "spec": {}, "status": {"initialization": {"infrastructureProvisioned": true}}}),
        )
    }

    fn said(status: &KubeadmConfigStatus, type_: &str) -> (String, String) {
        find(&status.conditions, type_).map(|c| (c.status.clone(), c.message.clone())).unwrap_or_default()
    }

    #[test]
    fn a_worker_keeps_the_first_text_as_upstream_does() {
        let mut o = worker();
        let first = status(&o, Timestamp::default());
        let text = "Waiting for Cluster status.infrastructureReady to be true";
        assert_eq!(said(&first, DATA), ("False".to_owned(), text.to_owned()));
        o.config.status = Some(first);
        o.cluster = provisioned();
        assert_eq!(stage(&o), Stage::WaitingForControlPlane);
        assert_eq!(said(&status(&o, Timestamp::default()), DATA).1, text);
        o.config.status = None;
        assert_eq!(
            said(&status(&o, Timestamp::default()), "Ready").1,
            "* DataSecretAvailable: Waiting for Cluster control plane to be initialized\n\
             * CertificatesAvailable: Condition not yet reported"
        );
    }

    #[test]
    fn every_reason() {
        let expect = |o: &Observed, type_: &str, expected: (&str, &str, &str)| {
            witness::expect("KubeadmConfig", &status(o, Timestamp::default()).conditions, type_, expected);
        };
        let mut o = worker();
        let waiting = "Waiting for Cluster status.infrastructureReady to be true";
        expect(&o, DATA, ("False", "NotAvailable", waiting));
        let both =
            format!("* DataSecretAvailable: {waiting}\n* CertificatesAvailable: Condition not yet reported");
        expect(&o, "Ready", ("False", "NotReady", &both));
        o.certificates = Certificates::Unreadable("refused".to_owned());
        expect(&o, CERTIFICATES, ("Unknown", "InternalError", setter::CHECK_LOGS));
        o.cluster = object(json!({"metadata": {"name": "c"}, "spec": {}, "status": {
            "initialization": {"infrastructureProvisioned": true}, "conditions": [{"type": "ControlPlaneInitialized",
                "status": "True", "reason": "Initialized", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}));
        let lines = format!(
            "* DataSecretAvailable: Condition not yet reported\n* CertificatesAvailable: {}",
            setter::CHECK_LOGS
        );
        expect(&o, "Ready", ("Unknown", "ReadyUnknown", &lines));
        o.stored = true;
        for (type_, reason) in [(DATA, "Available"), (CERTIFICATES, "Available"), ("Ready", "Ready")] {
            expect(&o, type_, ("True", reason, ""));
        }
    }

    #[test]
    fn stored_data_makes_it_ready_for_good() {
        let mut o = worker();
        o.cluster = provisioned();
        o.stored = true;
        let after = status(&o, Timestamp::default());
        assert_eq!(said(&after, "Ready").0, "True");
        assert_eq!(after.data_secret_name.as_deref(), Some("m"));
        o.config.status = Some(after.clone());
        o.stored = false;
        assert_eq!(stage(&o), Stage::Created);
        assert_eq!(status(&o, Timestamp::default()), after);
    }

    #[test]
    fn every_failure_has_its_words() {
        let no = |message: &str| ("False".to_owned(), message.to_owned());
        for (failure, expected) in [
            (Failure::Files("boom".into()), no("Failed to prepare spec.files: boom")),
            (Failure::Users("boom".into()), no("Failed to read password from secrets for spec.users")),
            (
                Failure::Discovery("boom".into()),
                no("Failed to create kubeconfig for spec.joinConfiguration.discovery.file"),
            ),
            (Failure::Other("boom".into()), no("Waiting for Cluster control plane to be initialized")),
        ] {
            let o = Observed { cluster: provisioned(), failure: Some(failure), ..worker() };
            let status = status(&o, Timestamp::default());
            assert_eq!(said(&status, DATA), expected);
            assert_eq!(find(&status.conditions, DATA).map(|c| c.reason.as_str()), Some("NotAvailable"));
        }
    }

    #[test]
    fn certificates_that_cannot_be_used_are_an_internal_error() {
        for certificates in [Certificates::Missing(vec![Purpose::Ca]), Certificates::Unreadable("no".into())]
        {
            let o = Observed { cluster: provisioned(), certificates, ..worker() };
            let status = status(&o, Timestamp::default());
            let found = find(&status.conditions, CERTIFICATES).expect("set");
            assert_eq!((found.status.as_str(), found.reason.as_str()), ("Unknown", "InternalError"));
            let ready = find(&status.conditions, "Ready").expect("set");
            assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "NotReady"));
        }
    }

    #[test]
    fn the_first_machine_looks_for_certificates_with_lock_and_version_only() {
        let held = || Lock::HeldBy { machine: "other".into(), exists: true };
        for (lock, version, expected) in [
            (Lock::Free, "v1.34.1", "True"),
            (Lock::Mine, "v1.34.1", "True"),
            (held(), "v1.34.1", ""),
            (Lock::Unreadable("refused".into()), "v1.34.1", ""),
            (Lock::Free, "latest", ""),
        ] {
            let mut o = Observed { cluster: provisioned(), lock, ..worker() };
            o.machine.metadata.labels =
                Some([(capi_types::names::label::CONTROL_PLANE.to_owned(), String::new())].into());
            o.machine.spec.version = Some(version.to_owned());
            o.certificates = Certificates::Found(BTreeMap::new());
            assert_eq!(stage(&o), Stage::Init);
            let status = status(&o, Timestamp::default());
            assert_eq!(said(&status, CERTIFICATES).0, expected, "{:?} {version}", o.lock);
        }
    }

    #[test]
    fn data_without_a_known_name_is_there_all_the_same() {
        let mut o = worker();
        o.cluster = provisioned();
        o.config.status = Some(object(json!({"initialization": {"dataSecretCreated": true}})));
        let status = status(&o, Timestamp::default());
        assert_eq!((said(&status, "Ready").0.as_str(), status.data_secret_name), ("True", None));
    }

    #[test]
    fn a_restored_machine_brings_its_secret_along() {
        let mut o = worker();
        o.cluster = provisioned();
        o.machine.spec.bootstrap.data_secret_name = Some("old".to_owned());
        assert_eq!(status(&o, Timestamp::default()).data_secret_name.as_deref(), Some("old"));
        // Half of a lock is as good as none.
        for status in [
            json!({"dataSecretName": "other"}),
            json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": ""}),
        ] {
            o.config.status = Some(object(status));
            assert_eq!(stage(&o), Stage::NamedByMachine("old".to_owned()));
        }
    }

    #[test]
    fn a_config_on_its_way_out_is_only_summed_up() {
        let mut o = worker();
        o.config.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(Timestamp::default()));
        let status = status(&o, Timestamp::default());
        assert_eq!(said(&status, DATA), (String::new(), String::new()));
        assert_eq!(
            said(&status, "Ready").1,
            "* DataSecretAvailable: Condition not yet reported\n* CertificatesAvailable: Condition not yet reported"
        );
    }
}
