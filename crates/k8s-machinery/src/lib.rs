//! What every Kubernetes-style API has in common and no kind owns: admission as a contract, merge patches, names and
//! labels that are valid, paths to fields, versions, the words of Leases. Must not know Cluster API.

pub mod admission;
pub mod json_path;
pub mod lease;
pub mod merge;
pub mod names;
pub mod selector;
pub mod validation;
pub mod version;
