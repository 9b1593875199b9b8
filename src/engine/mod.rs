//! Runs controllers: queue, runner, triggers, lease. Knows keys, not kinds.

pub mod controller;

pub use controller::{Controller, Outcome, ReconcileError, Trigger};
