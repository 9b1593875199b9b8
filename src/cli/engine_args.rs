//! Arguments of `capstan engine status`, with their help.

use clap::{Args, Subcommand};

use super::output_arg::PlanOutputArg;

#[derive(Clone, Debug, Subcommand)]
pub enum EngineCommand {
    /// Print the Leases of the engines: who holds them, since when, and which controllers run under each
    Status(EngineStatusArgs),
}

#[derive(Clone, Debug, Args)]
pub struct EngineStatusArgs {
    /// Namespace of the Leases; without it that of --namespace, else `default`
    #[arg(long, value_name = "NS")]
    pub lease_namespace: Option<String>,
    #[arg(short, long, default_value = "text")]
    pub output: PlanOutputArg,
}
