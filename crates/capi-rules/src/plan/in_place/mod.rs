//! Can a change be made in place? Owns how the answers of extensions count: what is left of a difference, the verdict
//! and its words, how many extensions may answer, and the list of hooks that an object waits for. Must not know how
//! extensions are reached, which Machine is asked about, or what is done with the verdict.
//! Source: cluster-api `controlplane/kubeadm/reconcilers/kubeadmcontrolplane/inplace_canupdatemachine.go`,
//! `core/reconcilers/machinedeployment/machinedeployment_canupdatemachineset.go`, `internal/util/{patch,inplace}`,
//! v1.14.2 (KCP-CAN, MD-CAN, §8.6 of the notes).

pub mod handlers;
mod hooks;
pub mod remaining;
#[cfg(test)]
mod tests;

pub use handlers::{Handlers, TooManyHandlers};
pub use hooks::{mark_pending, pending_without};
