//! What an eviction comes to: which disruption budget refuses it, in which words, and how long a pod may take to go. Owns
//! the arithmetic of budgets; must not know who drains a Node, nor which pods a drain cares about.
//! Source: Kubernetes `pkg/registry/core/pod/storage/eviction.go`, v1.35.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use capi_types::key::ObjectKey;
use k8s_machinery::selector;

/// What a pod has that states no grace period.
const GRACE_S: i64 = 30;

/// How long a pod may take to end.
pub fn grace_s(pod: &Pod) -> i64 {
    pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(GRACE_S)
}

/// What the API server answers while a budget has no room.
pub fn no_room(budget: &str, needs: i32, has: i32) -> String {
    format!("{VIOLATED} The disruption budget {budget} needs {needs} healthy pods and has {has} currently")
}

const VIOLATED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Why a pod may not be evicted now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    NoRoom {
        budget: ObjectKey,
        needs: i32,
        has: i32,
    },
    /// A budget has changed, and nobody has counted its pods since.
    NotCounted {
        budget: ObjectKey,
    },
    /// An eviction knows what to do with one budget only.
    Several,
}

impl Hold {
    /// As the API server answers.
    pub fn answer(&self) -> String {
        match self {
            Self::NoRoom { budget, needs, has } => no_room(&budget.name, *needs, *has),
            Self::NotCounted { budget } => {
                format!("{VIOLATED} The disruption budget {} is still being processed by the server.", budget.name)
            }
            Self::Several => {
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
                    .to_owned()
            }
        }
    }

    /// For people who look at a Node.
    pub fn sentence(&self, pod: &ObjectKey) -> String {
        match self {
            Self::NoRoom { budget, .. } => format!("PodDisruptionBudget {budget} has no room for Pod {pod}"),
            Self::NotCounted { budget } => {
                format!("PodDisruptionBudget {budget} was changed and not counted anew")
            }
            Self::Several => format!("Pod {pod} has more than one PodDisruptionBudget: no eviction succeeds"),
        }
    }
}

/// One budget, and how many of its pods were evicted and do not run elsewhere yet.
#[derive(Clone, Debug)]
struct Budget {
    budget: PodDisruptionBudget,
    taken: i32,
}

impl Budget {
    /// One without a selector selects nothing, one with an empty selector every pod of its namespace (policy/v1).
    fn selects(&self, pod: &Pod) -> bool {
        let chosen = self.budget.spec.as_ref().and_then(|s| s.selector.as_ref());
        self.budget.metadata.namespace == pod.metadata.namespace
            && chosen.is_some_and(|chosen| selector::selects(Some(chosen), pod.metadata.labels.as_ref()))
    }

    fn healthy(&self) -> (i32, i32) {
        let status = self.budget.status.as_ref();
        // Evictions since are taken off: the status was counted before them.
        status.map_or((0, 0), |s| (s.desired_healthy, s.current_healthy - self.taken))
    }

    /// A pod that is not ready is not among the healthy ones that a budget counts, so its eviction takes none away.
    fn guards(&self, pod: &Pod) -> bool {
        let (needs, has) = self.healthy();
        let policy = self.budget.spec.as_ref().and_then(|s| s.unhealthy_pod_eviction_policy.as_deref());
        // Without the policy such a pod goes only where the budget has what it needs.
        is_ready(pod) || !(policy == Some("AlwaysAllow") || has >= needs && needs > 0)
    }

    fn hold(&self) -> Option<Hold> {
        let status = self.budget.status.as_ref();
        let budget = ObjectKey::of(&self.budget);
        let counted = status.and_then(|s| s.observed_generation).unwrap_or(0);
        // Counts of an earlier spec say nothing about this one.
        if counted < self.budget.metadata.generation.unwrap_or(0) {
            return Some(Hold::NotCounted { budget });
        }
        // Without a status nothing is allowed, as the server has it.
        let room = status.map_or(0, |s| s.disruptions_allowed) - self.taken;
        let (needs, has) = self.healthy();
        (room <= 0).then_some(Hold::NoRoom { budget, needs, has })
    }
}

/// The disruption budgets of one cluster.
#[derive(Clone, Debug, Default)]
pub struct Budgets(Vec<Budget>);

impl Budgets {
    pub fn new(budgets: impl IntoIterator<Item = PodDisruptionBudget>) -> Self {
        Self(budgets.into_iter().map(|budget| Budget { budget, taken: 0 }).collect())
    }

    /// What an eviction of the pod would be refused by; `None`: it goes.
    pub fn hold(&self, pod: &Pod) -> Option<Hold> {
        if is_unguarded(pod) {
            return None;
        }
        let mut selecting = self.0.iter().filter(|budget| budget.selects(pod));
        match (selecting.next(), selecting.next()) {
            // Before the pod itself: the server refuses several, whether it is ready or not.
            (_, Some(_)) => Some(Hold::Several),
            (Some(only), None) if only.guards(pod) => only.hold(),
            _ => None,
        }
    }

    /// Takes the room that the pod needs to go.
    ///
    /// # Errors
    /// What holds it.
    pub fn evict(&mut self, pod: &Pod) -> Result<(), Hold> {
        // Asked first, so that a refused eviction takes nothing.
        if let Some(hold) = self.hold(pod) {
            return Err(hold);
        }
        if !is_unguarded(pod) {
            let mine = self.0.iter_mut().filter(|budget| budget.selects(pod) && budget.guards(pod));
            mine.for_each(|budget| budget.taken += 1);
        }
        Ok(())
    }

    /// The pod runs elsewhere.
    pub fn runs_again(&mut self, pod: &Pod) {
        self.0.iter_mut().filter(|budget| budget.selects(pod)).for_each(|budget| budget.taken -= 1);
    }
}

/// It has ended, has not begun, or is going already.
fn is_unguarded(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    pod.metadata.deletion_timestamp.is_some() || matches!(phase, Some("Succeeded" | "Failed" | "Pending"))
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.any(|c| c.type_ == "Ready" && c.status == "True")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
    use k8s_openapi::api::policy::v1::{PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

    use super::*;

    fn labels() -> Option<BTreeMap<String, String>> {
        Some(BTreeMap::from([("app".to_owned(), "shop".to_owned())]))
    }

    fn pod(phase: &str, ready: &str) -> Pod {
        let condition =
            PodCondition { type_: "Ready".to_owned(), status: ready.to_owned(), ..PodCondition::default() };
        Pod {
            metadata: ObjectMeta {
                namespace: Some("ns".to_owned()),
                labels: labels(),
                ..ObjectMeta::default()
            },
            status: Some(PodStatus {
                phase: Some(phase.to_owned()),
                conditions: Some(vec![condition]),
                ..PodStatus::default()
            }),
            ..Pod::default()
        }
    }

    fn budget(needs: i32, has: i32) -> PodDisruptionBudget {
        let selector = LabelSelector { match_labels: labels(), ..LabelSelector::default() };
        PodDisruptionBudget {
            metadata: ObjectMeta {
                namespace: Some("ns".to_owned()),
                name: Some("b".to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(PodDisruptionBudgetSpec { selector: Some(selector), ..Default::default() }),
            status: Some(PodDisruptionBudgetStatus {
                desired_healthy: needs,
                current_healthy: has,
                disruptions_allowed: (has - needs).max(0),
                ..Default::default()
            }),
        }
    }

    #[test]
    fn a_budget_lets_go_as_many_as_it_can_spare_until_they_run_again() {
        let mut budgets = Budgets::new([budget(2, 3)]);
        let running = pod("Running", "True");
        assert_eq!(budgets.evict(&running), Ok(()));
        let held = budgets.evict(&running).expect_err("no room");
        assert_eq!(held.answer(), no_room("b", 2, 2));
        assert_eq!(
            held.sentence(&ObjectKey::new("ns", "p")),
            "PodDisruptionBudget ns/b has no room for Pod ns/p"
        );
        budgets.runs_again(&running);
        assert_eq!(budgets.evict(&running), Ok(()));
    }

    #[test]
    fn what_a_budget_guards() {
        let several = [budget(1, 3), budget(1, 3)];
        let full = [budget(3, 3)];
        let mut lenient = budget(3, 2);
        lenient.spec.as_mut().expect("a spec").unhealthy_pod_eviction_policy = Some("AlwaysAllow".to_owned());
        let mut changed = budget(1, 3);
        changed.metadata.generation = Some(2);
        let mut elsewhere = budget(3, 3);
        elsewhere.metadata.namespace = Some("other".to_owned());
        let mut empty = budget(3, 3);
        empty.spec.as_mut().expect("a spec").selector = Some(LabelSelector::default());
        let mut without = budget(3, 3);
        without.spec.as_mut().expect("a spec").selector = None;
        let table: [(&str, &[PodDisruptionBudget], Pod, bool); 12] = [
            ("a pod that runs, by a full budget", &full, pod("Running", "True"), true),
            ("by two budgets, whatever their room", &several, pod("Running", "True"), true),
            ("by one that was not counted anew", &[changed], pod("Running", "True"), true),
            ("not by one of another namespace", &[elsewhere], pod("Running", "True"), false),
            ("not by one without a selector", &[without], pod("Running", "True"), false),
            ("by one whose selector is empty", &[empty], pod("Running", "True"), true),
            ("not a pod that has ended", &several, pod("Succeeded", "False"), false),
            ("nor one that failed", &full, pod("Failed", "False"), false),
            ("nor one that has not begun", &full, pod("Pending", "False"), false),
            ("nor one that is not ready while enough others are", &full, pod("Running", "False"), false),
            (
                "but one that is not ready while others are missing",
                &[budget(3, 2)],
                pod("Running", "False"),
                true,
            ),
            ("unless the budget lets those go", &[lenient], pod("Running", "False"), false),
        ];
        for (case, budgets, pod, is_held) in table {
            assert_eq!(Budgets::new(budgets.iter().cloned()).hold(&pod).is_some(), is_held, "{case}");
        }
    }
}
