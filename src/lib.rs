//! capstan: a terminal dashboard and lifecycle engine for Cluster API.
//!
//! The library holds everything; `main.rs` only parses arguments and reports errors.
//! Modules are listed from the ground up. Each may import only what the layer matrix in
//! `tests/it/tidy.rs` allows, and `docs/architecture.md` explains why.

pub mod key_pair;
pub mod private_file;
pub mod rng;
pub mod text;
pub mod time;
pub mod toml_file;

pub mod api;

pub mod admission;
pub mod change;
pub mod leader_migration;
pub mod plan;
pub mod status;

pub mod forecast;
pub mod observe;
pub mod recompute;
pub mod samples;
pub mod simulate;

pub mod client;
pub mod locks;
pub mod store;

pub mod apiserver;
pub mod can_update;
pub mod engine;
pub mod runtime_sdk;
pub mod workload;

pub mod reconfigure;

pub mod controller_managers;
pub mod controllers;
pub mod extension;
pub mod fleet;
pub mod provider;
pub mod workload_api;

pub mod actions;
pub mod standalone;

pub mod tui;

pub mod cli;
