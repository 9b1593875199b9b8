//! What comes before Machines: pause, ownership, template, certificates, endpoint,
//! kubeconfig. Must not know how any of it is stored.
//! Source: KCP-1 to KCP-4; `kubeadmcontrolplane_controller.go`, `helpers.go`, v1.14.2.

use chrono::TimeDelta;

use super::{
    Act, Blocked, Flow, Kubeconfig, Observed, PREFLIGHT_RETRY, Pending, SLOW_RETRY, Template, Why,
    paused_condition,
};
use crate::plan::keys::{KeyCall, KeySettings, server_url};
use crate::plan::{Write, template as templates, version};
use crate::status::conditions::setter::condition;
use crate::status::control_plane::OwnedMachine;
use crate::status::control_plane::certificates::{Certificates, Purpose};
use capi_types::condition::Status;
use capi_types::key::{ObjectKey, ObjectRef};

/// Half a year: with less left, the kubeconfig's client certificate is renewed.
const RENEW_BEFORE_DAYS: i64 = 182;

pub fn paused(p: &mut Pending) -> Flow {
    let now = paused_condition(&p.observed);
    let message = now.message.clone();
    p.paused = now.status == "True";
    p.conditions.push(now);
    // Before ownership: paused objects may be on the way to another management cluster.
    if p.paused { p.wait(Blocked::Paused { message }, None) } else { Flow::Continue(()) }
}

/// Adopts Machines without a controller (all or none), and refuses to share with another controller.
pub fn ownership(p: &mut Pending) -> Flow {
    if p.observed.is_deleting() {
        return Flow::Continue(());
    }
    let wanted = &p.observed.control_plane.spec.version;
    let mut adopted = Vec::new();
    for machine in &p.observed.orphans {
        let refuse = |detail: String| Blocked::AdoptionRefused { machine: machine.name().to_owned(), detail };
        let config = machine.machine.spec.bootstrap.config_ref.as_ref();
        if config.is_none_or(|r| r.kind != "KubeadmConfig") {
            let refusal = refuse("its bootstrap configuration is not a KubeadmConfig".to_owned());
            return p.wait(refusal, None);
        }
        // Upstream skips it, and ends the pass all the same.
        if machine.version().is_empty() {
            continue;
        }
        if !version::adoptable(wanted, machine.version()) {
            let refusal = refuse(format!("its version {} is too far from {wanted}", machine.version()));
            let event = adoption_failed(&p.observed, machine);
            p.plan.step(event, Why::NotAdoptable);
            return p.wait(refusal, None);
        }
        adopted.push(machine.name().to_owned());
    }
    // The pass ends: owners are read from the next list, not assumed.
    if !p.observed.orphans.is_empty() {
        for machine in adopted {
            p.step(Act::Adopt { machine }, Why::NoController);
        }
        return Flow::Break(());
    }
    if p.observed.foreign.is_empty() {
        return Flow::Continue(());
    }
    let foreign = p.observed.foreign.clone();
    p.fail(Blocked::MixedManagement { foreign })
}

fn adoption_failed(observed: &Observed, machine: &OwnedMachine) -> Write {
    let message = format!(
        "Could not adopt Machine {}: its version (\"{}\") is outside supported +/- one minor version skew from KCP's \
         (\"{}\")",
        ObjectKey::of(&machine.machine),
        machine.version(),
        observed.control_plane.spec.version
    );
    let about = ObjectRef::of(&observed.control_plane);
    Write::Event { about, warning: true, reason: "AdoptionFailed", message }
}

pub fn template(p: &mut Pending) -> Flow {
    let reference = &p.observed.control_plane.spec.machine_template.spec.infrastructure_ref;
    match &p.observed.template {
        Template::Found(object) => {
            if templates::own(&p.observed.cluster, object).is_some() {
                p.step(Act::OwnTemplate, Why::NotOwned);
            }
            Flow::Continue(())
        }
        Template::Missing => {
            let (kind, name) = (reference.kind.clone(), reference.name.clone());
            p.fail(Blocked::TemplateMissing { kind, name })
        }
        Template::Unreadable(detail) => {
            let detail = detail.clone();
            p.fail(Blocked::TemplateUnreadable { detail })
        }
    }
}

pub fn infrastructure(p: &mut Pending) -> Flow {
    if p.observed.infrastructure_is_provisioned() {
        return Flow::Continue(());
    }
    gate(p, &Blocked::InfrastructureNotProvisioned)
}

pub fn endpoint(p: &mut Pending) -> Flow {
    if p.observed.endpoint().is_some() {
        return Flow::Continue(());
    }
    gate(p, &Blocked::EndpointMissing)
}

/// Nothing to inspect yet, and the two conditions say so in the blocker's words.
fn gate(p: &mut Pending, blocked: &Blocked) -> Flow {
    for type_ in ["EtcdClusterHealthy", "ControlPlaneComponentsHealthy"] {
        p.conditions.push(condition(type_, Status::Unknown, "InspectionFailed", blocked.to_string()));
    }
    p.wait(blocked.clone(), None)
}

/// Before initialization missing pairs are made; afterwards they are only reported, because new
/// authorities would not match the running cluster. The pass goes on either way.
pub fn certificates(p: &mut Pending) -> Flow {
    let external = !p.observed.etcd_is_managed();
    let initialized = p.observed.was_initialized();
    p.conditions.push(p.observed.certificates.condition(external, initialized));
    if let Certificates::Unreadable(detail) = &p.observed.certificates {
        let detail = detail.clone();
        return p.fail(Blocked::CertificatesUnreadable { detail });
    }
    let (foreign, ours): (Vec<Purpose>, Vec<Purpose>) = p
        .observed
        .certificates
        .missing(external)
        .into_iter()
        // What belongs to an external etcd comes from people; no pair made here would fit.
        .partition(|purpose| purpose.is_external(external));
    if !foreign.is_empty() {
        let names = foreign.iter().map(|purpose| purpose.name()).collect();
        return p.fail(Blocked::ExternalCertificatesMissing { names });
    }
    if !p.observed.unowned_certificates.is_empty() {
        let adopt = KeyCall::AdoptCertificates { purposes: p.observed.unowned_certificates.clone() };
        p.step(Act::Keys(adopt), Why::CertificatesNotOurs);
    }
    // Once initialized a missing pair only shows in the
    // condition, and preflight keeps new Machines back.
    if initialized || ours.is_empty() {
        return Flow::Continue(());
    }
    let settings = key_settings(&p.observed);
    let create = KeyCall::CreateCertificates { purposes: ours, settings };
    p.step(Act::Keys(create), Why::NotYetInitialized);
    Flow::Continue(())
}

fn key_settings(observed: &Observed) -> KeySettings {
    let spec = observed.control_plane.spec.kubeadm_config_spec.as_ref();
    KeySettings::of(spec.and_then(|s| s.cluster_configuration.as_ref()))
}

pub fn kubeconfig(p: &mut Pending) -> Flow {
    match &p.observed.kubeconfig {
        Kubeconfig::Unreadable(detail) => {
            let detail = detail.clone();
            p.fail(Blocked::KubeconfigUnreadable { detail })
        }
        Kubeconfig::Missing => {
            let has_ca = match &p.observed.certificates {
                Certificates::Found(found) => found.contains(&Purpose::Ca),
                Certificates::Unreadable(_) => false,
            };
            // In the pass that makes the authority it is not
            // found yet, but stands earlier in the plan.
            if !has_ca && !is_made_here(p, Purpose::Ca) {
                return p.wait(Blocked::AuthorityMissing, Some(SLOW_RETRY));
            }
            if let Some(server) = server_url(&p.observed.cluster) {
                let algorithm = key_settings(&p.observed).algorithm;
                p.step(Act::Keys(KeyCall::CreateKubeconfig { server, algorithm }), Why::NoKubeconfig);
            }
            Flow::Continue(())
        }
        Kubeconfig::Found { ours, controlled, expires } => {
            let renew = expires.is_some_and(|at| at - p.now < TimeDelta::days(RENEW_BEFORE_DAYS));
            match (controlled, ours) {
                // Only a kubeconfig of our own is renewed: one
                // that a person provided is theirs to replace.
                (true, _) if renew => {
                    let algorithm = key_settings(&p.observed).algorithm;
                    p.step(Act::Keys(KeyCall::RenewKubeconfig { algorithm }), Why::KubeconfigExpires);
                }
                (false, true) => p.step(Act::Keys(KeyCall::AdoptKubeconfig), Why::KubeconfigNotOurs),
                _ => {}
            }
            Flow::Continue(())
        }
    }
}

/// Is this certificate made in this very pass?
fn is_made_here(p: &Pending, purpose: Purpose) -> bool {
    p.plan.steps.iter().flat_map(|step| &step.writes).any(|write| {
        matches!(write, Write::Keys { call: KeyCall::CreateCertificates { purposes, .. }, .. }
            if purposes.contains(&purpose))
    })
}

/// How long to wait before preflight is tried again.
pub const fn preflight_retry(deleting: bool) -> std::time::Duration {
    if deleting { SLOW_RETRY } else { PREFLIGHT_RETRY }
}
