//! The next writes of a drain: cordon, then evict. Which pods count is `status::drain`'s judgement.
//! Source: cluster-api `core/reconcilers/machine/drain/drain.go`, v1.14.2.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::evidence::Evidence;
use super::{OnFailure, Plan, Rule, Shown, Wait, WorkloadCall, Write};
use crate::status::drain::{Drain, is_unreachable};
use crate::status::machine::Failed;
use capi_types::key::ObjectKey;

/// Between two rounds of a drain.
const RETRY: Duration = Duration::from_secs(20);
/// Nobody is there to terminate the pods of an unreachable Node: they need not be given time.
const UNREACHABLE_GRACE_S: u32 = 1;

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

    fn wait(&self) -> Wait {
        match self {
            Self::Waiting(_) => Wait::UnderWay,
            _ => Wait::Stuck,
        }
    }

    fn evidence(&self) -> Vec<Evidence> {
        match self {
            Self::Waiting(_) => Evidence::own("Deleting"),
            Self::Cordon | Self::Evict => Vec::new(),
        }
    }

    /// Evictions do not fail, they have outcomes.
    fn on_failure(&self) -> OnFailure {
        let shown = matches!(self, Self::Cordon).then_some(Shown::MachineDeletion(Failed::Cordon));
        OnFailure { shown, ..OnFailure::default() }
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

/// Cordons `node`, so that the pods that are read next are all there will be.
pub fn begin(cluster: &ObjectKey, node: &Node) -> Plan {
    let mut plan = Plan::default();
    // Someone else may have cordoned it; a write would change nothing.
    if node.spec.as_ref().and_then(|s| s.unschedulable) != Some(true) {
        let node = node.metadata.name.clone().unwrap_or_default();
        let call = WorkloadCall::PatchNode { node, body: json!({"spec": {"unschedulable": true}}) };
        plan.step(Write::Workload { cluster: cluster.clone(), call }, Why::Cordon);
    }
    plan
}

/// Evicts what is due, and waits: not even a change is looked at before the next round.
pub fn plan(cluster: &ObjectKey, node: &Node, drain: &Drain) -> Plan {
    let mut plan = Plan::default();
    if !drain.evict.is_empty() {
        let call = WorkloadCall::Evict {
            node: node.metadata.name.clone().unwrap_or_default(),
            // Every pod in one step, since each answer is of one pod and stops no other.
            pods: drain.evict.clone(),
            grace_period_s: is_unreachable(node).then_some(UNREACHABLE_GRACE_S),
        };
        plan.step(Write::Workload { cluster: cluster.clone(), call }, Why::Evict);
    }
    // Even after evictions: a pod is gone only when a later look does not find it.
    plan.block(Why::Waiting(drain.left()));
    // Pods that go wake the Machine one by one; each look would list and judge them all.
    plan.hold_for(RETRY);
    plan
}
