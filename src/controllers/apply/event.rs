//! Kubernetes events about objects. Must not know why one is sent.

use serde_json::json;

use crate::api::key::{Gvk, ObjectKey, ObjectRef};
use crate::client::Mode;
use crate::controllers::Context;
use crate::time::{rfc3339, to_k8s_micro};

/// Events are for people: one that cannot be stored is logged and nothing else.
pub async fn send(context: &Context, about: &ObjectRef, warning: bool, reason: &str, message: &str) {
    let now = context.clock.now();
    let name = format!("{}.{}", about.key.name, context.rng.suffix(10));
    let gvk = Gvk::of::<k8s_openapi::api::core::v1::Event>();
    let target = ObjectRef { gvk, key: ObjectKey::new(&about.key.namespace, name), uid: String::new() };
    let content = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": target.key.name, "namespace": target.key.namespace},
        "involvedObject": {
            "apiVersion": about.gvk.api_version(),
            "kind": about.gvk.kind,
            "namespace": about.key.namespace,
            "name": about.key.name,
            "uid": about.uid,
        },
        "type": if warning { "Warning" } else { "Normal" },
        "reason": reason,
        "message": message,
        "source": {"component": "capstan"},
        "reportingComponent": "capstan",
        "firstTimestamp": rfc3339(now),
        "lastTimestamp": rfc3339(now),
        "eventTime": to_k8s_micro(now),
        "count": 1,
    });
    if let Err(error) = context.writer.create_value(&target, &content, Mode::Real).await {
        tracing::warn!("event {reason} about {about} was not stored: {error}");
    }
}
