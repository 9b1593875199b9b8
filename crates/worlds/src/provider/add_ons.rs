//! The add-ons of a simulated cluster: kube-proxy and CoreDNS, what their pods are made from, and how a rollout of
//! them goes on. Owns that; must not know who asked for it.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use serde_json::{Value, json};

use capstan_base::time::Timestamp;
use capstan_engine::workload::Addon;

/// How long one pod of an add-on takes to be replaced.
const REPLACED_IN: TimeDelta = TimeDelta::milliseconds(1500);
const CORE_DNS_REPLICAS: usize = 2;

#[derive(Clone, Debug, PartialEq)]
pub struct AddOn {
    pub image: String,
    /// Of its pods: `kubectl rollout restart` notes its time there.
    annotations: BTreeMap<String, String>,
    /// When its pods began to be replaced. `None`: they are as they should be.
    rolls_since: Option<Timestamp>,
}

impl AddOn {
    pub fn new(image: String) -> Self {
        Self { image, annotations: BTreeMap::new(), rolls_since: None }
    }

    /// Takes over what a client made of the pods' template. `false`: nothing that pods are made from changed.
    pub fn accept(&mut self, template: &Value, now: Timestamp) -> bool {
        let mut after = self.clone();
        // A template that leaves a part out leaves it as it was.
        if let Some(image) = template.pointer("/spec/containers/0/image").and_then(Value::as_str) {
            image.clone_into(&mut after.image);
        }
        if let Some(annotations) = template.pointer("/metadata/annotations") {
            after.annotations = serde_json::from_value(annotations.clone()).unwrap_or_default();
        }
        let changed = after != *self;
        if changed {
            *self = Self { rolls_since: Some(now), ..after };
        }
        changed
    }

    /// How many of `wanted` pods are new at `now`.
    fn replaced(&self, wanted: usize, now: Timestamp, time_scale: f64) -> usize {
        let Some(since) = self.rolls_since else { return wanted };
        // Never 0, by which the line below would divide.
        let each = pace(time_scale).num_milliseconds().max(1);
        usize::try_from((now - since).num_milliseconds() / each).unwrap_or(0).min(wanted)
    }

    /// When the next pod will have been replaced, after `now`.
    pub fn next_moment(&self, wanted: usize, now: Timestamp, time_scale: f64) -> Option<Timestamp> {
        let done = self.replaced(wanted, now, time_scale);
        let next = self.rolls_since? + pace(time_scale) * i32::try_from(done + 1).unwrap_or(i32::MAX);
        (done < wanted).then_some(next)
    }

    /// The DaemonSet or Deployment that a client sees, on a cluster of so many nodes.
    pub fn object(&self, addon: Addon, nodes: usize, now: Timestamp, time_scale: f64) -> Value {
        let (kind, name, wanted) = match addon {
            Addon::KubeProxy => ("DaemonSet", "kube-proxy", nodes),
            Addon::CoreDns => ("Deployment", "coredns", CORE_DNS_REPLICAS),
        };
        let new = self.replaced(wanted, now, time_scale);
        let app = match addon {
            Addon::KubeProxy => "kube-proxy",
            // kubeadm kept the old name in the label of CoreDNS.
            Addon::CoreDns => "kube-dns",
        };
        let mut object = json!({
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": { "namespace": "kube-system", "name": name, "labels": { "k8s-app": app } },
            "spec": {
                "selector": { "matchLabels": { "k8s-app": app } },
                "template": {
                    "metadata": { "labels": { "k8s-app": app } },
                    "spec": { "containers": [{ "name": name, "image": self.image }] },
                },
            },
        });
        if !self.annotations.is_empty() {
            object["spec"]["template"]["metadata"]["annotations"] = json!(self.annotations);
        }
        match addon {
            Addon::KubeProxy => {
                object["spec"]["updateStrategy"] = json!({ "type": "RollingUpdate" });
                object["status"] = json!({
                    "currentNumberScheduled": wanted, "desiredNumberScheduled": wanted, "numberMisscheduled": 0,
                    "numberReady": wanted, "numberAvailable": wanted, "updatedNumberScheduled": new,
                });
            }
            Addon::CoreDns => {
                object["spec"]["replicas"] = json!(wanted);
                object["status"] = json!({
                    "replicas": wanted, "readyReplicas": wanted, "availableReplicas": wanted,
                    "updatedReplicas": new,
                });
            }
        }
        object
    }

    /// How many pods it has on a cluster of so many nodes.
    pub fn wanted(addon: Addon, nodes: usize) -> usize {
        match addon {
            Addon::KubeProxy => nodes,
            Addon::CoreDns => CORE_DNS_REPLICAS,
        }
    }
}

fn pace(time_scale: f64) -> TimeDelta {
    let millis = REPLACED_IN.num_milliseconds() as f64 / time_scale;
    // The clamp keeps a tiny scale from a moment beyond the calendar.
    TimeDelta::milliseconds(millis.clamp(1.0, 1e9) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_image_rolls_out_pod_by_pod() {
        let start = Timestamp::UNIX_EPOCH;
        let mut add_on = AddOn::new("old".to_owned());
        let updated = |add_on: &AddOn, seconds: i64| {
            let at = start + TimeDelta::seconds(seconds);
            add_on.object(Addon::KubeProxy, 3, at, 1.0)["status"]["updatedNumberScheduled"].clone()
        };
        assert_eq!(updated(&add_on, 0), json!(3), "nothing rolls");
        let template = json!({"spec": {"containers": [{"name": "kube-proxy", "image": "new"}]}});
        assert!(add_on.accept(&template, start) && !add_on.accept(&template, start));
        assert_eq!([0, 2, 3, 60].map(|at| updated(&add_on, at)), [0, 1, 2, 3].map(|n| json!(n)));
        assert_eq!(add_on.next_moment(3, start, 1.0), Some(start + REPLACED_IN));
        assert_eq!(add_on.next_moment(3, start + TimeDelta::seconds(60), 1.0), None);
        let restart = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}});
        assert!(add_on.accept(&restart, start), "a restart rolls as well");
        assert_eq!(add_on.image, "new");
    }
}
