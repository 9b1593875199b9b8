//! Changing a running kubeadm cluster: stored configuration + request + facts of the cluster → what would
//! happen, component by component and node by node, before anything does.
//!
//! Owns the configuration documents as data, their schema, conversion and merge, the plan, and how far a change is.
//! Must not know a client, a clock or chance; reading a cluster, writing to it and printing are somebody else's.

#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod accepted;
mod beyond;
pub mod certificate_drift;
pub mod change_id;
pub mod check;
pub mod control_plane_object;
pub mod convert;
pub mod difference;
pub mod document;
pub mod facts;
pub mod gate;
mod go_url;
pub mod host_drift;
pub mod host_folder;
pub mod host_lock;
pub mod image;
pub mod kind;
pub mod kubelet_drift;
pub mod live;
pub mod manifest_texts;
pub mod merge;
pub mod migrate;
pub mod network;
pub mod node_file;
pub mod other_names;
pub mod path;
pub mod plan;
pub mod preflight;
pub mod progress;
pub mod record;
pub mod render;
pub mod report;
pub mod request;
pub mod rollouts;
pub mod rules;
pub mod running;
pub mod schema;
pub mod steps;
pub mod units;
pub mod way_back;
pub mod yaml;

#[cfg(test)]
mod first_contact_tests;
