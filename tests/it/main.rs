//! The one integration binary. Each module is one kind of test; see docs/testing.md.

#![allow(
    clippy::too_many_arguments,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on should say so and stop"
)]

mod actions;
mod actions_older_version;
mod adoption;
mod any_provider;
mod apiserver;
mod attack;
mod audit;
mod browse;
mod busy;
mod change;
mod change_live;
mod change_screen;
mod clusterctl;
mod columns;
mod conformance;
mod contexts;
mod controller_managers;
mod crash;
mod crds;
mod deletion;
mod demo_screens;
mod dependencies;
mod depth;
mod documents;
mod engine;
#[cfg(feature = "etcd")]
mod etcd_members;
mod etcd_screen;
#[cfg(feature = "etcd")]
mod etcd_status;
#[cfg(feature = "etcd")]
mod etcd_workload;
mod exit_codes;
mod extensions;
mod external_etcd;
mod fences;
mod field_owners;
mod files;
mod fleet_fixture;
mod golang;
mod golden;
mod growth;
mod handovers;
mod harbor_screen;
mod health_checks;
mod hostile;
mod hung;
mod hunts;
mod in_place;
mod in_place_asked;
mod in_place_lives;
mod k9s;
mod keeping;
mod kubectl;
mod lagoon;
mod layouts;
mod leader_migration;
mod lease;
mod links;
mod lives;
mod lives_of_faults;
mod lives_of_upstream;
mod lives_replayed;
mod lock_screens;
mod machine_pools;
mod mangled;
mod one_namespace;
mod oneshot;
mod past;
mod plan;
mod reconfigure;
mod refusals;
mod remediation;
mod rights;
mod rollout;
mod rollout_life;
mod rollout_screen;
mod rollout_transcripts;
mod running;
mod schema;
mod screens;
mod shared_files;
mod sharing;
mod simulate;
mod simulation;
mod simulation_screen;
mod stand_alone_machines;
mod standalone;
mod status_appendix;
mod status_bad_input;
mod status_compute;
mod takeover;
mod terminal;
mod tidy;
mod tidy_layers;
mod tidy_matches;
mod tidy_names;
mod tidy_prose;
mod tidy_sources;
mod two_engines;
mod unused_clones;
mod upstream_extension;
mod verdicts;
mod workload_api;
