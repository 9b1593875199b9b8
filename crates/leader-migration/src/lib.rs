//! Leader migration of Kubernetes' controller managers: the configuration file, who runs which controller under
//! which lock, and what is wrong with a set of processes. Owns the rules; must not know where flags, files and
//! facts come from (no client, no clock, no files).
//!
//! Source: `k8s.io/controller-manager` `pkg/leadermigration` and `config/{v1alpha1,v1beta1,v1}`;
//! `cmd/kube-controller-manager` and `k8s.io/cloud-provider` for what the processes do with it.

#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod actors;
pub mod back;
pub mod back_edits;
pub mod command_line;
pub mod configuration;
pub mod controller_names;
pub mod edits;
pub mod flag_lists;
pub mod flag_places;
pub mod flags;
pub mod inventory;
pub mod known_flags;
pub mod lock_view;
pub mod lock_watch;
pub mod look;
pub mod manager_kind;
pub mod manifest;
pub mod matrix;
mod object_words;
pub mod place_edits;
pub mod placement;
pub mod process;
pub mod reading;
pub mod release;
pub mod rights;
pub mod rules;
pub mod stages;
pub mod validate;
pub mod writing;

#[cfg(test)]
mod back_tests;
#[cfg(test)]
mod edit_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod walkthrough_tests;
