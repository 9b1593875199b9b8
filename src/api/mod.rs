//! Objects as data: typed Cluster API v1beta2 kinds, names, keys and conditions. Owns shapes and
//! accessors; makes no decisions and must not know how objects are fetched, judged or shown.

pub mod condition;
pub mod key;
pub mod names;
