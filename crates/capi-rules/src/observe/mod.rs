//! What a status or a plan is judged by, gathered from objects: one function per kind, over any source.
//! Owns who belongs to whom; must not judge anything, and must not wait.
//!
//! A [`Source`] is what a reader has at hand: the engine's live copies, or a [`dump`] of objects, which come from
//! files or from the lists that a client read of a server (`client::clusters`). What has to be waited for (Nodes, pods, etcd, Secrets) is put into the
//! gathered value by the reader afterwards; until then it is "not asked".

mod cluster;
mod config_owner;
mod control_plane;
pub mod dump;
mod etcd;
mod machine;
mod machine_deployment;
mod machine_health_check;
mod machine_pool;
mod machine_set;
pub mod older_version;
mod ownership;
mod source;
mod templates;

pub use cluster::cluster;
pub use config_owner::{ConfigOwner, config_owner};
pub use control_plane::{assumed_members, control_plane};
pub use etcd::{hosts, simulated_members};
pub use machine::{NamedNode, machine, named_node, node_with};
pub use machine_deployment::{machine_deployment, machines_of_deployment};
pub use machine_health_check::{NodeFinder, follows_nodes, machine_health_check};
pub use machine_pool::{is_of_pool, machine_pool};
pub use machine_set::{clones, machine_set};
pub use ownership::{Member, machine_sets_of, machines_of_set};
pub use source::{Objects, Source, key_of, namespace};
pub use templates::Templates;
