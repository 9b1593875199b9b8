//! The lifecycle engine: how API servers and workload clusters are reached, and how each kind is reconciled. Must not
//! know screens, nor the embedded server.

pub mod can_update;
pub mod client;
pub mod controllers;
pub mod engine;
pub mod locks;
pub mod reconfigure;
pub mod runtime_sdk;
pub mod workload;
