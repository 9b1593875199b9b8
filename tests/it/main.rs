//! Integration tests in this process: server, engine, screens and commands as functions. What starts programs is in
//! `tests/real`, what both need in `tests/support`. Each module is one kind of test; see docs/testing.md.

#![allow(
    clippy::too_many_arguments,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on should say so and stop"
)]

// As in the program: an eighth of the time of these tests was that of glibc's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[path = "../support/at_rest.rs"]
mod at_rest;
#[path = "../support/fleet_fixture/mod.rs"]
mod fleet_fixture;
#[path = "../support/proxy_rules.rs"]
mod proxy_rules;
#[path = "../support/things.rs"]
mod things;

mod actions;
mod actions_older_version;
mod adoption;
mod any_provider;
mod apiserver;
mod arguments;
mod audit;
mod busy;
mod change;
mod change_live;
mod change_screen;
mod columns;
mod conformance;
mod controller_managers;
mod crds;
mod credentials;
mod deletion;
mod demo_screens;
mod dependencies;
mod depth;
mod described_files;
mod documents;
mod editing;
mod ends_of_support;
mod engine;
mod etcd_screen;
mod extensions;
mod external_etcd;
mod field_owners;
mod forecast_lives;
mod golden;
mod growth;
mod harbor_screen;
mod health_checks;
mod host_life;
mod hostile;
mod hunts;
mod in_place;
mod in_place_asked;
mod in_place_lives;
mod lagoon;
mod launching;
mod layouts;
mod leader_migration;
mod lease;
mod links;
mod lives;
mod lives_of_faults;
mod lives_of_upstream;
mod lives_older;
mod lives_replayed;
mod lock_screens;
mod logins;
mod logs_screen;
mod lost_connections;
mod machine_pools;
mod mangled;
mod manifest_shapes;
mod objects_screen;
mod older_changes;
mod older_files;
mod older_server;
mod one_namespace;
mod one_truth;
mod oneshot;
mod other_control_planes;
mod outdated;
mod past;
mod plan;
mod previews;
mod proposals;
mod proxies;
mod reconfigure;
mod refusals;
mod remediation;
mod replay;
mod rereading;
mod rights;
mod rollout;
mod rollout_life;
mod rollout_screen;
mod rollout_transcripts;
mod schema;
mod screens;
mod set_elsewhere;
mod shared_files;
mod sharing;
mod simulate;
mod simulated_handovers;
mod simulation;
mod simulation_screen;
mod stand_alone_machines;
mod status_appendix;
mod status_bad_input;
mod status_compute;
mod takeover;
mod tasks;
mod tidy;
mod tidy_docs;
mod tidy_layers;
mod tidy_matches;
mod tidy_names;
mod tidy_prose;
mod tidy_recipes;
mod tidy_sources;
mod topologies;
mod unused_clones;
mod upstream_extension;
mod verdicts;
mod watched_lines;
mod web_links;
mod workload_api;
