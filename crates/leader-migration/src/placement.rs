//! Under which lock a process runs a controller. The rule is upstream's filter, and the engine's own.
//!
//! Source: `k8s.io/controller-manager` `pkg/leadermigration/filter.go`.

use super::configuration::{ANY, Configuration};

/// The lock under which a process runs a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In no list: under the main lock.
    Main,
    /// Under the migration lock.
    Migration,
    /// Listed for another component: not in this process.
    Unowned,
}

/// `component`: the program's name, as files write it.
pub fn place(controller: &str, component: &str, configuration: &Configuration) -> Placement {
    match configuration.component_of(controller) {
        None => Placement::Main,
        Some(owner) if owner == ANY || owner == component => Placement::Migration,
        Some(_) => Placement::Unowned,
    }
}

impl Placement {
    /// For a cell.
    pub fn word(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Migration => "migration",
            Self::Unowned => "unowned",
        }
    }
}
