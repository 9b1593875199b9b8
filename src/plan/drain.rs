//! The next writes of a drain: cordon, then evict. Which pods count is `status::drain`'s judgement.
//! Source: cluster-api `core/reconcilers/machine/drain/drain.go`, v1.14.0.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::{Plan, Rule, WorkloadCall, Write};
use crate::api::key::ObjectKey;
use crate::status::drain::Drain;

/// Between two rounds of a drain.
const RETRY: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    Cordon,
    Evict,
    Waiting(usize),
}

impl Rule for Why {
    fn name(&self) -> &'static str {
        match self {
            Self::Cordon => "cordon",
            Self::Evict => "drain",
            Self::Waiting(_) => "draining",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cordon => f.write_str("nothing new may be scheduled to a Node that goes away"),
            Self::Evict => f.write_str("pods leave the Node before its machine is deleted"),
            Self::Waiting(1) => f.write_str("1 pod has not left the Node yet"),
            Self::Waiting(pods) => write!(f, "{pods} pods have not left the Node yet"),
        }
    }
}

/// Cordons `node` and evicts what is due. `drain` is `None` while its pods are not known.
#[must_use]
pub fn plan(cluster: &ObjectKey, node: &Node, drain: Option<&Drain>) -> Plan {
    let mut plan = Plan::default();
    let name = node.metadata.name.clone().unwrap_or_default();
    let call = |call| Write::Workload { cluster: cluster.clone(), call };
    if node.spec.as_ref().and_then(|s| s.unschedulable) != Some(true) {
        let body = json!({"spec": {"unschedulable": true}});
        plan.step(call(WorkloadCall::PatchNode { node: name.clone(), body }), Why::Cordon);
    }
    if let Some(drain) = drain {
        if !drain.evict.is_empty() {
            plan.step(call(WorkloadCall::Evict { node: name, pods: drain.evict.clone() }), Why::Evict);
        }
        let left = drain.evict.len() + drain.terminating.len() + drain.completing.len();
        plan.block(Why::Waiting(left));
    }
    plan.recheck_within(RETRY);
    plan
}
