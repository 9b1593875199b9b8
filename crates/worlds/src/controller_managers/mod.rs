//! What pretends to be kube-controller-manager and cloud-controller-manager: processes that obey their flags and files,
//! compete for real Leases, and say which controllers they run. Owns how such a process starts and ends; shares no rule
//! with what judges a migration (`leader_migration::{actors, validate, stages}`), or a mistake there would hide itself.
//!
//! Source: `cmd/kube-controller-manager/app/controllermanager.go`, `k8s.io/cloud-provider` `app/controllermanager.go`,
//! `k8s.io/controller-manager` `pkg/leadermigration`; v1.24 to v1.37.

pub mod host;
pub mod ledger;
mod pods;
mod process;
mod program;
mod site;

pub use host::{FileSource, SimulatedHosts};
pub use ledger::{Ledger, Spell};
pub use pods::follow;
pub use program::{Program, StartError};
pub use site::{HostFiles, Site};
