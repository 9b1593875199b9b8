//! A Kubernetes-style API over a store, as a tower service first and a socket second.
//! Owns API semantics; must not know who calls it, nor any controller.

pub mod admission;
pub mod failure;
pub mod naming;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod schema;
pub mod select;
pub mod strategic;
pub mod table;
