//! What happens to a KubeadmConfig next: wait, lock, render, store; keep the join token fresh until the
//! machine has joined. Owns the order of rules; must not know how steps are performed.
//! Source: cluster-api `bootstrap/kubeadm/reconcilers/kubeadmconfig/kubeadmconfig_controller.go`, v1.14.2.

pub mod cloud_init;
pub mod data;
mod discovery;
mod encoding;
mod file_template;
mod ignition;
pub mod kubeadm;
#[cfg(test)]
mod tests;
mod why;

use std::time::Duration;

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::keys::{KeyCall, KeySettings};
use super::{Plan, Step, WorkloadCall, Write, ownership};
use crate::status::bootstrap::{
    Certificates, Failure, Lock, Observed, Stage, Token, has_external_etcd, has_nodes, made_here, stage,
};
use crate::status::control_plane::certificates::Purpose;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::names::label;
use capstan_base::time::Timestamp;
use cloud_init::KubeadmPhase;
use discovery::Completion;
use why::Why;

/// Life of a join token.
pub const TOKEN_TTL: TimeDelta = TimeDelta::minutes(15);
const TOKEN_CHECK: Duration = Duration::from_secs(300);
const RETRY: Duration = Duration::from_secs(30);
const ENDPOINT_RETRY: Duration = Duration::from_secs(10);

/// The plan, and why the data could not be made, if it could not: that belongs in the status too.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Planned {
    /// What is stored next, and what it waits for.
    pub plan: Plan,
    /// `None`: nothing went wrong, or nothing was tried.
    pub failure: Option<Failure>,
    /// When every step succeeds, the bootstrap data is stored.
    pub stores_data: bool,
}

/// The plan for a KubeadmConfig that is not paused and whose Machine and Cluster exist. Nothing is done
/// for one on its way out.
pub fn plan(o: &Observed, now: Timestamp) -> Planned {
    let mut planned = Planned::default();
    if o.config.metadata.deletion_timestamp.is_some() {
        return planned;
    }
    let plan = &mut planned.plan;
    match stage(o) {
        Stage::WaitingForInfrastructure => plan.block(Why::WaitingForInfrastructure),
        Stage::NamedByMachine(_) => {}
        Stage::Created => keep_token(o, now, &mut planned),
        Stage::WaitingForControlPlane => {
            plan.block(Why::WaitingForControlPlane);
            plan.recheck_within(RETRY);
        }
        Stage::Init => init(o, &mut planned),
        Stage::JoinControlPlane => join(o, now, true, &mut planned),
        Stage::JoinWorker => join(o, now, false, &mut planned),
    }
    planned
}

/// What has to be read before the plan can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The status and the Machine say enough.
    Nothing,
    /// The join token's end.
    Token,
    /// Certificates, the lock, and the secrets that the config refers to.
    Secrets(Vec<Needed>),
}

/// A certificate that the data is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    /// Which pair it is.
    pub purpose: Purpose,
    /// It may lack its key.
    pub is_keyless: bool,
}

/// What the stage needs, and nothing else.
pub fn reads(o: &Observed) -> Reads {
    if o.config.metadata.deletion_timestamp.is_some() {
        return Reads::Nothing;
    }
    let stage = stage(o);
    match stage {
        Stage::Init | Stage::JoinControlPlane | Stage::JoinWorker => {}
        // Of a Machine that joined the token is of no use; a pool may grow again.
        Stage::Created if awaits_join(o) || o.pool.is_some() => return Reads::Token,
        _ => return Reads::Nothing,
    }
    Reads::Secrets(needed(o, &stage))
}

/// What a new token is put into the data with; `None` while the token may stay.
pub fn rotation_reads(o: &Observed, now: Timestamp) -> Option<Vec<Needed>> {
    is_rotated(o, now).then(|| needed(o, &Stage::JoinWorker))
}

fn needed(o: &Observed, stage: &Stage) -> Vec<Needed> {
    let external_etcd = has_external_etcd(o);
    let purposes: &[Purpose] =
        if *stage == Stage::JoinWorker { &[Purpose::Ca] } else { Purpose::needed(external_etcd) };
    // The first Machine may do without keys: the keys of the authorities may be kept elsewhere.
    let is_keyless = |p: Purpose| *stage == Stage::Init || p.is_external(external_etcd);
    let needed = |purpose: &Purpose| Needed { purpose: *purpose, is_keyless: is_keyless(*purpose) };
    purposes.iter().map(needed).collect()
}

/// The name of the Machine that holds the lock; empty when the lock does not say.
pub fn lock_holder(lock: &ConfigMap) -> String {
    let text = lock.data.as_ref().and_then(|data| data.get(LOCK_DATA)).map_or("", String::as_str);
    let information: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    information["machineName"].as_str().unwrap_or_default().to_owned()
}

/// Where the lock of a cluster is kept.
pub fn lock_reference(cluster: &ObjectKey) -> ObjectRef {
    let key = ObjectKey::new(&cluster.namespace, format!("{}-lock", cluster.name));
    ObjectRef { gvk: Gvk::of::<ConfigMap>(), key, uid: String::new() }
}

/// The key in the lock's data.
const LOCK_DATA: &str = "lock-information";

fn init(o: &Observed, planned: &mut Planned) {
    let plan = &mut planned.plan;
    match &o.lock {
        Lock::Free | Lock::Mine => {}
        held => {
            match held {
                Lock::HeldBy { machine, exists: true } => {
                    plan.block(Why::Locked { machine: machine.clone() });
                }
                // The holder went before the cluster came up, and only the holder releases the lock.
                Lock::HeldBy { machine, exists: false } => {
                    let object = lock_reference(&ObjectKey::of(&o.cluster));
                    plan.step(Write::Delete { object }, Why::BreakLock { machine: machine.clone() });
                }
                Lock::Unreadable(error) => plan.block(Why::LockUnreadable { error: error.clone() }),
                Lock::NotAsked | Lock::Free | Lock::Mine => {}
            }
            plan.recheck_within(RETRY);
            return;
        }
    }
    // Only without a control plane object, which makes them otherwise.
    if !made_here(o).is_empty() {
        return make_certificates(o, &mut planned.plan);
    }
    if !certificates_found(o, planned) {
        return;
    }
    let Some(text) = rendered(data::init(o), planned) else { return };
    let plan = &mut planned.plan;
    take_lock(o, plan);
    plan.steps.extend(keep_endpoint(o).map(|write| Step::new(write, Why::Endpoint)));
    store(o, KubeadmPhase::Init, &text, planned);
}

fn take_lock(o: &Observed, plan: &mut Plan) {
    if o.lock != Lock::Free {
        return;
    }
    let object = lock_reference(&ObjectKey::of(&o.cluster));
    let machine = o.machine.metadata.name.as_deref().unwrap_or_default();
    let content = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": object.key.name,
            "namespace": object.key.namespace,
            "labels": {label::CLUSTER_NAME: o.cluster.metadata.name},
            "ownerReferences": [ownership::owner(&o.cluster, false)],
        },
        "data": {LOCK_DATA: json!({"machineName": machine}).to_string()},
    });
    plan.step(Write::Create { object, content, manager: None }, Why::TakeLock);
}

/// Under the lock, so that no other Machine makes them too. No key passes through a plan: the data is made from the
/// Secrets in the next run.
fn make_certificates(o: &Observed, plan: &mut Plan) {
    take_lock(o, plan);
    let settings = KeySettings::of(o.config.spec.cluster_configuration.as_ref());
    let call = KeyCall::CreateCertificates { purposes: made_here(o).to_vec(), settings };
    let (cluster, owner) = (ObjectKey::of(&o.cluster), ownership::owner(&o.config, true));
    plan.step(Write::Keys { cluster, owner, call }, Why::NoControlPlaneObject);
    plan.recheck_within(Duration::ZERO);
}

/// The endpoint that the data is made with, where the configuration names none.
fn keep_endpoint(o: &Observed) -> Option<Write> {
    let given = o.config.spec.cluster_configuration.as_ref();
    let given = given.and_then(|c| c.control_plane_endpoint.as_deref()).unwrap_or_default();
    let endpoint = kubeadm::endpoint(&o.cluster).filter(|_| given.is_empty())?;
    let body = json!({"spec": {"clusterConfiguration": {"controlPlaneEndpoint": endpoint}}});
    Some(Write::Patch { object: ObjectRef::of(&o.config), body })
}

fn join(o: &Observed, now: Timestamp, control_plane: bool, planned: &mut Planned) {
    let plan = &mut planned.plan;
    // Joining means that the cluster is initialized: the lock has done its work, whoever holds it.
    if matches!(o.lock, Lock::Mine | Lock::HeldBy { .. }) {
        let object = lock_reference(&ObjectKey::of(&o.cluster));
        plan.step(Write::Delete { object }, Why::ReleaseLock);
    }
    if !certificates_found(o, planned) {
        return;
    }
    // A copy: the stored object is patched only once the data can be rendered.
    let mut join = o.config.spec.join_configuration.clone().unwrap_or_default();
    let completion = match discovery::complete(o, &mut join) {
        Ok(completion) => completion,
        Err(why @ Why::WaitingForEndpoint) => {
            planned.plan.block(why);
            return planned.plan.recheck_within(ENDPOINT_RETRY);
        }
        Err(why) => return other(planned, why),
    };
    if !control_plane && join.control_plane.is_some() {
        let error =
            "Machine is a Worker, but JoinConfiguration.ControlPlane is set in the KubeadmConfig object";
        return other(planned, Why::Unusable { error: error.to_owned() });
    }
    if control_plane {
        // kubeadm joins as a control plane where the section is there, even an empty one.
        join.control_plane.get_or_insert_default();
    }
    if completion == Completion::TokenIsNew {
        // Before the data is stored: a machine must not
        // boot with a token that the cluster does not know.
        let call = WorkloadCall::StoreToken { token: o.new_token.clone(), expires: now + TOKEN_TTL };
        planned.plan.step(Write::Workload { cluster: ObjectKey::of(&o.cluster), call }, Why::MakeToken);
    }
    let Some(text) = rendered(data::join(o, &join, control_plane), planned) else { return };
    let plan = &mut planned.plan;
    if o.config.spec.join_configuration.as_ref() != Some(&join) {
        let object = ObjectRef::of(&o.config);
        let body = json!({"spec": {"joinConfiguration": join}});
        plan.step(Write::Patch { object, body }, Why::Discovery);
    }
    store(o, KubeadmPhase::Join, &text, planned);
    planned.plan.recheck_within(TOKEN_CHECK);
}

/// The join token of a machine that has not joined yet is kept alive.
fn keep_token(o: &Observed, now: Timestamp, planned: &mut Planned) {
    let Some(token) = join_token(o).filter(|_| awaits_join(o) || o.pool.is_some()) else { return };
    if is_rotated(o, now) {
        return rotate(o, now, planned);
    }
    match &o.token {
        Token::NotAsked => {}
        // Its Nodes have joined; the token is for those that come later.
        Token::Expires(_) if has_nodes(o) => {}
        Token::Missing => other(planned, Why::TokenMissing { id: token_id(token).to_owned() }),
        Token::Unreadable(error) => other(planned, Why::TokenUnreadable { error: error.clone() }),
        // Checks come every five minutes: two may fail before the token is over.
        Token::Expires(at) if *at > now + TOKEN_TTL * 5 / 6 => {}
        Token::Expires(_) => {
            let call = WorkloadCall::StoreToken { token: token.to_owned(), expires: now + TOKEN_TTL };
            let cluster = ObjectKey::of(&o.cluster);
            planned.plan.step(Write::Workload { cluster, call }, Why::RefreshToken);
        }
    }
    planned.plan.recheck_within(TOKEN_CHECK);
}

/// A MachinePool whose Nodes have joined gets a new token in good time, for the data is used again when it grows; one that
/// is gone is made anew at any time.
fn is_rotated(o: &Observed, now: Timestamp) -> bool {
    if o.pool.is_none() || stage(o) != Stage::Created || join_token(o).is_none() {
        return false;
    }
    match &o.token {
        // Deleted or expired: the stored data would let no machine join.
        Token::Missing => true,
        Token::Expires(at) => has_nodes(o) && *at < now + TOKEN_TTL / 2,
        Token::NotAsked | Token::Unreadable(_) => false,
    }
}

/// The data once more, with a token that does not exist yet.
fn rotate(o: &Observed, now: Timestamp, planned: &mut Planned) {
    let mut renewed = o.clone();
    let join = renewed.config.spec.join_configuration.as_mut();
    let token = join.and_then(|j| j.discovery.as_mut()).and_then(|d| d.bootstrap_token.as_mut());
    if let Some(discovery) = token {
        // A new token instead of a renewed one: `join` puts it in where none is set.
        discovery.token = None;
    }
    self::join(&renewed, now, false, planned);
}

/// The token that this machine joins with, if it joins with one.
pub fn join_token(o: &Observed) -> Option<&str> {
    let discovery = o.config.spec.join_configuration.as_ref()?.discovery.as_ref()?;
    discovery.bootstrap_token.as_ref()?.token.as_deref().filter(|token| !token.is_empty())
}

/// Its data is made and its Node is not there yet.
pub fn awaits_join(o: &Observed) -> bool {
    stage(o) == Stage::Created && !has_nodes(o)
}

/// The public half of a token.
pub fn token_id(token: &str) -> &str {
    token.split_once('.').map_or(token, |(id, _)| id)
}

fn certificates_found(o: &Observed, planned: &mut Planned) -> bool {
    match &o.certificates {
        Certificates::Found(_) => return true,
        Certificates::Missing(missing) => {
            let cluster = o.cluster.metadata.name.as_deref().unwrap_or_default();
            let names = missing.iter().map(|purpose| purpose.secret_name(cluster)).collect();
            other(planned, Why::Certificates { names });
        }
        Certificates::Unreadable(error) => {
            other(planned, Why::CertificatesUnreadable { error: error.clone() });
        }
        Certificates::NotAsked => planned.plan.recheck_within(RETRY),
    }
    false
}

fn rendered(result: Result<String, Failure>, planned: &mut Planned) -> Option<String> {
    match result {
        Ok(text) => Some(text),
        Err(failure) => {
            let (Failure::Files(error)
            | Failure::Users(error)
            | Failure::Discovery(error)
            | Failure::Other(error)) = failure.clone();
            fail(planned, Why::Unusable { error }, failure);
            None
        }
    }
}

/// A failure that has no words of its own in the status.
fn other(planned: &mut Planned, why: Why) {
    let failure = Failure::Other(why.to_string());
    fail(planned, why, failure);
}

/// Where upstream returns an error: the generation does not count as observed.
fn fail(planned: &mut Planned, why: Why, failure: Failure) {
    planned.plan.block(why);
    planned.plan.recheck_within(RETRY);
    planned.failure = Some(failure);
}

fn store(o: &Observed, phase: KubeadmPhase, text: &str, planned: &mut Planned) {
    let what = match phase {
        KubeadmPhase::Init => "init",
        KubeadmPhase::Join => "join",
    };
    planned.plan.step(data::secret_write(o, text), Why::StoreData { what });
    planned.stores_data = true;
}
