//! A kubeadm configuration as KubeadmConfigs and control planes have it. Must not know where it stands.

use serde_json::Value;

use super::moves::Conversion::{Arguments, Seconds};
use super::moves::{Move, carry_out, each, leave_out, put, take};

const FORMS: &[Move] = &[
    ("clusterConfiguration.apiServer.extraArgs", "clusterConfiguration.apiServer.extraArgs", Arguments),
    (
        "clusterConfiguration.controllerManager.extraArgs",
        "clusterConfiguration.controllerManager.extraArgs",
        Arguments,
    ),
    ("clusterConfiguration.scheduler.extraArgs", "clusterConfiguration.scheduler.extraArgs", Arguments),
    ("clusterConfiguration.etcd.local.extraArgs", "clusterConfiguration.etcd.local.extraArgs", Arguments),
    (
        "initConfiguration.nodeRegistration.kubeletExtraArgs",
        "initConfiguration.nodeRegistration.kubeletExtraArgs",
        Arguments,
    ),
    (
        "joinConfiguration.nodeRegistration.kubeletExtraArgs",
        "joinConfiguration.nodeRegistration.kubeletExtraArgs",
        Arguments,
    ),
    (
        "clusterConfiguration.apiServer.timeoutForControlPlane",
        "initConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds",
        Seconds,
    ),
    ("joinConfiguration.discovery.timeout", "joinConfiguration.timeouts.tlsBootstrapSeconds", Seconds),
];

/// What kubeadm is told by other fields, or by its controller.
const GONE: [&str; 10] = [
    "useExperimentalRetryJoin",
    "clusterConfiguration.networking",
    "clusterConfiguration.kubernetesVersion",
    "clusterConfiguration.clusterName",
    "clusterConfiguration.apiVersion",
    "clusterConfiguration.kind",
    "initConfiguration.apiVersion",
    "initConfiguration.kind",
    "joinConfiguration.apiVersion",
    "joinConfiguration.kind",
];

const HEALTH_CHECK: &str = "timeouts.controlPlaneComponentHealthCheckSeconds";

pub(super) fn convert(spec: &mut Value) {
    carry_out(FORMS, spec);
    leave_out(&GONE, spec);
    // The time for the first control plane counts for those that join as well.
    let own = format!("/{}", format!("initConfiguration.{HEALTH_CHECK}").replace('.', "/"));
    if let Some(seconds) = spec.pointer(&own).cloned() {
        put(spec, &format!("joinConfiguration.{HEALTH_CHECK}"), seconds);
    }
    each(spec, "initConfiguration.bootstrapTokens", |token| {
        carry_out(&[("ttl", "ttlSeconds", Seconds)], token);
    });
    // `{}` in v1beta1 and nothing in v1beta2 mean the same.
    for part in ["ntp", "diskSetup", "ignition"] {
        if spec[part].as_object().is_some_and(serde_json::Map::is_empty) {
            take(spec, part);
        }
    }
}
