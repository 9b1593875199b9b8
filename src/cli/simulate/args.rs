//! Arguments of `capstan simulate`, with their help.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::output_arg::PlanOutputArg;

/// In which order controllers run that are due at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderArg {
    Fixed,
    Random,
}

#[derive(Clone, Debug, Args)]
pub struct SimulateArgs {
    /// KIND/NAME, or KIND NAME: only the Cluster of this object; --set and --change without a name are about the object
    #[arg(num_args = 0..=2)]
    pub target: Vec<String>,
    /// File, folder, or - for standard input, instead of a server; YAML or JSON, streams and lists
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Nodes and Pods in FILE are of the workload cluster NAMESPACE/NAME
    #[arg(long = "workload", value_name = "NAMESPACE/NAME=FILE", requires = "files")]
    pub workloads: Vec<String>,
    /// Merge patches to try, each with kind and metadata.name unless it is about the named object
    #[arg(long = "change", value_name = "FILE")]
    pub changes: Vec<PathBuf>,
    /// A field to try, such as spec.replicas=5; `\.` is a dot within a name
    #[arg(long = "set", value_name = "[KIND/NAME:]PATH=VALUE")]
    pub sets: Vec<String>,
    /// A Machine whose Node stops to report at the beginning
    #[arg(long, value_name = "MACHINE")]
    pub failing: Vec<String>,
    /// How long a step takes, instead of what the Machines tell: bootstrap, infrastructure, node, drain or removal
    #[arg(long = "timing", value_name = "STEP=DURATION")]
    pub timings: Vec<String>,
    #[arg(long, default_value = "fixed")]
    pub order: OrderArg,
    /// Of a random order or of --faults; the same seed gives the same run
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Many runs in which things go wrong by chance: orders, durations, one Machine that fails, controllers that are
    /// stopped in the middle of their writes; with --seed only that one, step by step
    #[arg(long)]
    pub faults: bool,
    /// How many runs with --faults
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub seeds: u64,
    /// When to stop: settled, or after so many steps such as 20steps
    #[arg(long, value_name = "WHEN", default_value = "settled")]
    pub until: String,
    /// Tell every step, not only what happens to Machines and replicas
    #[arg(long)]
    pub trace: bool,
    /// The moment to begin at: 2026-11-20T10:00:00Z, or from now: +2h, +30m, +1d; without it the present
    #[arg(long, value_name = "TIME")]
    pub now: Option<String>,
    #[arg(short, long, default_value = "text")]
    pub output: PlanOutputArg,
}
