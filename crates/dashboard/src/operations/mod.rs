//! Writing what a person asked for, whatever it is: what is looked at before, what speaks against it, the journal; and the ways from
//! screens and commands to the etcd, the locks, the disruption budgets and the kubeadm configuration of clusters. Must not know the terminal, nor which
//! actions there are.

mod budgets;
pub mod change;
mod configuration;
mod confirmation;
pub mod diff;
mod etcd;
mod field_path;
mod finding;
pub mod guard;
pub mod journal;
mod kubeconfig;
mod locks;
mod logs;
pub mod migration;
pub mod object_writes;
mod objects;
mod secrets;
mod served;

pub use budgets::{BudgetReader, HeldBudget, ServerBudgets};
pub use configuration::{
    ChangeOrder, ChangePreview, ConfigurationReader, ConfigurationReading, PatchedObject, Underway,
};
pub use confirmation::Confirmation;
#[cfg(feature = "etcd")]
pub use etcd::ClusterEtcd;
pub use etcd::EtcdReader;
pub use field_path::{FieldPath, PathError};
pub use finding::{Finding, Severity, blocked};
pub use kubeconfig::workload_kubeconfig;
pub use locks::{LockPlace, LockReader, ServerLocks};
pub use logs::{HostLogReader, LogLine, LogNews, LogPlace, LogReader, ServerLogs};
pub use objects::{
    ObjectQuery, ObjectTable, PathColumn, ROWS_MAX, TableColumn, TableRow, cell_text, read_objects,
};
pub use secrets::without_secrets;
