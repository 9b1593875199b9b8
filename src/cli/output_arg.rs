//! The forms of output that several commands have.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanOutputArg {
    Text,
    Json,
}
