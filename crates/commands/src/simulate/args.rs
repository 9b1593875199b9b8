//! Arguments of `capstan simulate`, with their help.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::arguments::HandlersArg;
use crate::arguments::PlanOutputArg;

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ActorsArg {
    All,
    Planner,
}

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
    /// A field to try, such as spec.replicas=5; `\.` is a dot within a name; surge, unavailable, replicas and version stand
    /// for the fields of a MachineDeployment or KubeadmControlPlane
    #[arg(long = "set", value_name = "[KIND/NAME:]PATH=VALUE")]
    pub sets: Vec<String>,
    /// A Machine whose Node stops to report at the beginning
    #[arg(long, value_name = "MACHINE")]
    pub failing: Vec<String>,
    /// Another forecast beside the first, with this changed too: as for --set, or failing=MACHINE
    #[arg(long, value_name = "[KIND/NAME:]PATH=VALUE", conflicts_with_all = ["faults", "calendar", "upgrade", "score"])]
    pub beside: Vec<String>,
    /// Ask the registered extensions which Machines they can update in place; they are told what would change
    #[arg(long, conflicts_with_all = ["files", "beside", "calendar", "upgrade", "score"])]
    pub ask_extensions: bool,
    /// How many extensions may answer a hook, as the engine was told
    #[arg(long, value_enum, default_value_t = HandlersArg::One, value_name = "HOW", requires = "ask_extensions")]
    pub in_place_handlers: HandlersArg,
    /// How long a step takes, instead of what the Machines tell: bootstrap, infrastructure, node, drain, removal or update
    #[arg(long = "timing", value_name = "STEP=DURATION")]
    pub timings: Vec<String>,
    /// planner: only MachineDeployments and MachineSets, in turns, with Machines that are up at once; moments are rounds
    #[arg(long, default_value = "all", conflicts_with_all = ["faults", "calendar", "upgrade", "score"])]
    pub actors: ActorsArg,
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
    /// What begins by itself until then, such as 7d or 90d: scheduled rollouts, and those that certificates ask for
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["faults", "upgrade", "score"])]
    pub calendar: Option<String>,
    /// Every Cluster to this version of Kubernetes, in waves: in each the control plane, then its pools one after another
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["faults", "score"])]
    pub upgrade: Option<String>,
    /// Pools in the order in which they follow their control plane, by name; the others after them
    #[arg(long, value_name = "NAME,NAME...", value_delimiter = ',', requires = "upgrade")]
    pub pools: Vec<String>,
    /// The Clusters of a wave, by name or NAMESPACE/NAME; once for each wave, in order; the others follow
    #[arg(long = "wave", value_name = "CLUSTER,CLUSTER...", requires = "upgrade")]
    pub waves: Vec<String>,
    /// How many Clusters are in a wave that is not named
    #[arg(long, value_name = "N", default_value_t = 5, requires = "upgrade",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub at_once: u16,
    /// How long a wave is watched before the next begins
    #[arg(long, value_name = "DURATION", default_value = "0s", requires = "upgrade")]
    pub rest: String,
    /// A wave begins only in this part of the day, UTC: 22:00-04:00
    #[arg(long, value_name = "HH:MM-HH:MM", requires = "upgrade")]
    pub window: Option<String>,
    /// An earlier forecast (what -o json printed) beside what has happened since
    #[arg(long, value_name = "FORECAST", conflicts_with_all = ["faults", "changes", "sets", "failing"])]
    pub score: Vec<PathBuf>,
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
