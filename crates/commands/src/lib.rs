//! The commands that end by themselves: what each reads, judges and answers, as text for people and as JSON for programs, with its
//! arguments beside it. Must not end the process, nor start what goes on: that is the program's.

pub mod act;
mod archive;
pub mod arguments;
pub mod change;
pub mod cluster;
mod confirmation;
pub mod creation;
mod derived;
pub mod describe;
pub mod documents;
pub mod engine_status;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod exit_code;
pub mod get;
pub mod host;
pub mod leader_migration;
pub mod leases;
mod live;
pub mod metrics;
pub mod output;
pub mod plan;
mod reading;
pub mod simulate;
pub mod status_compute;
mod status_report;
pub mod target;
pub mod wait;
pub mod watch;
