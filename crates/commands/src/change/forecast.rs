//! The forecast of the rollout that a change of a KubeadmControlPlane leads to. Must not know what may be changed.

use super::Session;
use crate::simulate;
use capstan_dashboard::operations::change::source::SourceReading;
use kubeadm_change::plan::ChangePlan;

/// What the rollout will look like, as text; empty when nothing is patched.
pub(super) async fn forecast(found: &SourceReading, plan: &ChangePlan, session: &Session) -> String {
    let managed = found.live.as_ref().and_then(|live| live.managed.as_ref());
    let (Some(managed), Some(patch)) = (managed, &plan.control_plane_patch) else { return String::new() };
    if plan.steps.is_empty() {
        return String::new();
    }
    let (now, style) = (session.guard.clock.now(), session.style);
    let text = simulate::with_patch(&managed.management, &managed.control_plane, patch, now, style).await;
    match text {
        Ok(text) => format!("\nFORECAST OF THE ROLLOUT\n{text}"),
        Err(error) => format!("\nthe rollout cannot be forecast: {error}\n"),
    }
}
