//! Integration tests with real programs: capstan itself, kubectl, etcd, Go, clusterctl, k9s, a dashboard in a pseudo-terminal. A
//! test that lacks a tool says so and skips. What runs in one process is in `tests/it`, what both need in `tests/support`.

#![allow(
    clippy::too_many_arguments,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on should say so and stop"
)]

#[allow(dead_code, reason = "the tests in process use the rest of it")]
#[path = "../support/at_rest.rs"]
mod at_rest;
#[allow(dead_code, unused_imports, reason = "the tests in process use the rest of it")]
#[path = "../support/fleet_fixture/mod.rs"]
mod fleet_fixture;
#[path = "../support/proxy_rules.rs"]
mod proxy_rules;
#[path = "../support/things.rs"]
mod things;

mod attack;
mod browse;
mod clusterctl;
mod contexts;
mod crash;
mod editing;
#[cfg(feature = "etcd")]
mod etcd_members;
#[cfg(feature = "etcd")]
mod etcd_status;
#[cfg(feature = "etcd")]
mod etcd_workload;
mod exit_codes;
mod extension_command;
mod fences;
mod files;
mod golang;
mod handovers;
mod history;
mod host_network;
mod host_trust;
mod hosts;
mod hung;
mod k9s;
mod keeping;
mod kubeadm_configurations;
mod kubeadm_program;
mod kubeconfigs;
mod kubectl;
mod recording;
mod running;
mod standalone;
mod status_command;
mod terminal;
mod two_engines;
