//! What the client's identity may write, asked before anything is written. Owns which rights a plan needs; must not know how a
//! missing one is shown.

use crate::client::Client;
use crate::client::access::{Attempt, may};
use kubeadm_change::plan::ChangePlan;
use kubeadm_change::steps::StepId;

/// The rights that a plan needs and that are missing, as `VERB RESOURCE in NAMESPACE`. A server that does not answer such
/// questions counts as allowing.
pub async fn missing(client: &Client, plan: &ChangePlan, drains: bool) -> Vec<String> {
    let mut needed = vec![("create", "", "configmaps", ""), ("patch", "", "configmaps", "")];
    let has = |id: StepId| plan.steps.iter().any(|step| step.id == id);
    if has(StepId::P1) {
        needed.push(("patch", "apps", "daemonsets", ""));
    }
    if has(StepId::D1) {
        needed.push(("patch", "apps", "deployments", ""));
    }
    if drains && has(StepId::K2) {
        needed.extend([
            ("patch", "", "nodes", ""),
            ("list", "", "pods", ""),
            ("create", "", "pods", "eviction"),
        ]);
    }
    let mut missing = Vec::new();
    for (verb, group, resource, subresource) in needed {
        let is_everywhere = resource == "nodes" || resource == "pods";
        let attempt = Attempt {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: if is_everywhere { String::new() } else { super::KUBE_SYSTEM.to_owned() },
            name: String::new(),
        };
        if may(client, &attempt).await.is_ok_and(|access| !access.allowed) {
            let resource = if subresource.is_empty() {
                resource.to_owned()
            } else {
                format!("{resource}/{subresource}")
            };
            let place = if is_everywhere { "" } else { " in kube-system" };
            missing.push(format!("{verb} {resource}{place}"));
        }
    }
    missing
}
