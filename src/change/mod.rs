//! Changing a running kubeadm cluster: stored configuration + request + facts of the cluster → what would
//! happen, component by component and node by node, before anything does.
//!
//! Owns the configuration documents as data, their schema, conversion and merge. Must not know a client, a
//! clock or chance; reading a cluster and printing are somebody else's.

pub mod check;
pub mod convert;
pub mod difference;
pub mod document;
pub mod facts;
pub mod kind;
pub mod live;
pub mod merge;
pub mod network;
pub mod path;
pub mod plan;
pub mod render;
pub mod report;
pub mod request;
pub mod rules;
pub mod schema;
pub mod steps;
pub mod units;
pub mod yaml;
