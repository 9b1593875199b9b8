//! Arguments of `capstan engine status`, with their help.

use clap::Subcommand;

use capstan_commands::engine_status::EngineStatusArgs;

#[derive(Clone, Debug, Subcommand)]
pub enum EngineCommand {
    /// Print the Leases of the engines: who holds them, since when, and which controllers run under each
    Status(EngineStatusArgs),
}
