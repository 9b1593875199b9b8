//! Arguments of `capstan simulate`, with their help. Owns how their values are read.

use std::path::PathBuf;
use std::str::FromStr;

use chrono::{NaiveTime, TimeDelta};
use clap::{Args, ValueEnum};

use super::change::{BesideArg, FieldArg};
use crate::arguments::{HandlersArg, Moment, PlanOutputArg, days, kubernetes_version};
use crate::documents::WorkloadFile;
use crate::exit_code::WrongUsage;
use crate::target::TargetArgs;
use capi_forecast::simulate::{Span, Timing, Until, Window};
use capstan_base::time::parse_duration;

/// Longer steps are not believed.
const STEP_MAX_S: u64 = 7 * 86_400;

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

const TARGET_HELP: &str = "KIND/NAME, or KIND NAME: only the Cluster of this object; --set and --change without a name are about the object";

#[derive(Clone, Debug, Args)]
#[command(mut_arg("target", |arg| arg.help(TARGET_HELP)))]
pub struct SimulateArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// File, folder, or - for standard input, instead of a server; YAML or JSON, streams and lists
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Nodes and Pods in FILE are of the workload cluster NAMESPACE/NAME
    #[arg(long = "workload", value_name = "NAMESPACE/NAME=FILE", requires = "files")]
    pub workloads: Vec<WorkloadFile>,
    /// Merge patches to try, each with kind and metadata.name unless it is about the named object
    #[arg(long = "change", value_name = "FILE")]
    pub changes: Vec<PathBuf>,
    /// A field to try, such as spec.replicas=5; `\.` is a dot within a name; surge, unavailable, replicas and version stand
    /// for the fields of a MachineDeployment or KubeadmControlPlane
    #[arg(long = "set", value_name = "[KIND/NAME:]PATH=VALUE")]
    pub sets: Vec<FieldArg>,
    /// A Machine whose Node stops to report at the beginning
    #[arg(long, value_name = "MACHINE")]
    pub failing: Vec<String>,
    /// Another forecast beside the first, with this changed too: as for --set, or failing=MACHINE
    #[arg(long, value_name = "[KIND/NAME:]PATH=VALUE", conflicts_with_all = ["faults", "calendar", "upgrade", "score"])]
    pub beside: Vec<BesideArg>,
    /// Ask the registered extensions which Machines they can update in place; they are told what would change
    #[arg(long, conflicts_with_all = ["files", "beside", "calendar", "upgrade", "score"])]
    pub ask_extensions: bool,
    /// How many extensions may answer a hook; without it as the engine says on its Lease, else one
    #[arg(long, value_enum, value_name = "HOW", requires = "ask_extensions")]
    pub in_place_handlers: Option<HandlersArg>,
    /// How long a step takes, instead of what the Machines tell: bootstrap, infrastructure, node, drain, removal or update
    #[arg(long = "timing", value_name = "STEP=DURATION")]
    pub timings: Vec<TimingArg>,
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
    #[arg(long, value_name = "DURATION", value_parser = days, conflicts_with_all = ["faults", "upgrade", "score"])]
    pub calendar: Option<TimeDelta>,
    /// Every Cluster to this version of Kubernetes, in waves: in each the control plane, then its pools one after another
    #[arg(long, value_name = "VERSION", value_parser = kubernetes_version, conflicts_with_all = ["faults", "score"])]
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
    #[arg(long, value_name = "DURATION", value_parser = days, default_value = "0s", requires = "upgrade")]
    pub rest: TimeDelta,
    /// A wave begins only in this part of the day, UTC: 22:00-04:00
    #[arg(long, value_name = "HH:MM-HH:MM", value_parser = window, requires = "upgrade")]
    pub window: Option<Window>,
    /// An earlier forecast (what -o json printed) beside what has happened since
    #[arg(long, value_name = "FORECAST", conflicts_with_all = ["faults", "changes", "sets", "failing"])]
    pub score: Vec<PathBuf>,
    /// When to stop: settled, or after so many steps such as 20steps
    #[arg(long, value_name = "WHEN", value_parser = until, default_value = "settled")]
    pub until: Until,
    /// Tell every step, not only what happens to Machines and replicas
    #[arg(long)]
    pub trace: bool,
    /// The moment to begin at: 2026-11-20T10:00:00Z, or from now: +2h, +30m, +1d; without it the present
    #[arg(long, value_name = "TIME")]
    pub now: Option<Moment>,
    #[arg(short, long, default_value = "text")]
    pub output: PlanOutputArg,
}

impl SimulateArgs {
    /// Of a random order; `None` for the fixed one.
    ///
    /// # Errors
    /// A seed of what draws nothing.
    pub fn order_seed(&self) -> Result<Option<u64>, WrongUsage> {
        match (self.order, self.seed) {
            // A seed by default: the same command has the same answer.
            (OrderArg::Random, seed) => Ok(Some(seed.unwrap_or(1))),
            (OrderArg::Fixed, Some(_)) if !self.faults => {
                Err(WrongUsage("--seed is for --order random: a fixed order draws nothing".to_owned()))
            }
            (OrderArg::Fixed, _) => Ok(None),
        }
    }
}

/// How long a step takes.
#[derive(Clone, Copy, Debug)]
pub struct TimingArg {
    pub step: fn(&mut Timing) -> &mut Span,
    pub span: Span,
}

impl FromStr for TimingArg {
    type Err = String;

    /// `STEP=DURATION`, or with the short, the usual and the long duration.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "expected STEP=DURATION or STEP=SHORT..USUAL..LONG, such as node=90s; steps are bootstrap, \
             infrastructure, node, drain, removal, update"
                .to_owned()
        };
        let (step, durations) = text.split_once('=').ok_or_else(wrong)?;
        let parts = durations.split("..").map(|part| seconds(part).ok_or_else(wrong)?);
        let span = match parts.collect::<Result<Vec<u32>, String>>()?[..] {
            [usual] => Span::exactly(usual),
            [short, usual, long] if short <= usual && usual <= long => Span::new(short, usual, long),
            _ => return Err(wrong()),
        };
        let step: fn(&mut Timing) -> &mut Span = match step {
            "bootstrap" => |t| &mut t.bootstrap,
            "infrastructure" => |t| &mut t.infrastructure,
            "node" => |t| &mut t.node,
            "drain" => |t| &mut t.drain,
            "removal" => |t| &mut t.removal,
            "update" => |t| &mut t.update,
            _ => return Err(wrong()),
        };
        Ok(Self { step, span })
    }
}

/// `None`: it is not a duration.
fn seconds(text: &str) -> Option<Result<u32, String>> {
    let seconds = parse_duration(text)?.as_secs();
    let too_long = || format!("{text} is longer than any step takes: 7 days are the limit");
    let is_believed = |seconds: &u32| u64::from(*seconds) <= STEP_MAX_S;
    Some(u32::try_from(seconds).ok().filter(is_believed).ok_or_else(too_long))
}

fn until(text: &str) -> Result<Until, &'static str> {
    if text == "settled" {
        return Ok(Until::Settled);
    }
    let steps = text.strip_suffix("steps").and_then(|steps| steps.parse().ok());
    steps.map(Until::Steps).ok_or("expected settled, or a number of steps such as 20steps")
}

fn window(text: &str) -> Result<Window, &'static str> {
    let time = |text: &str| NaiveTime::parse_from_str(text, "%H:%M").ok();
    let window =
        text.split_once('-').and_then(|(from, to)| Some(Window { from: time(from)?, to: time(to)? }));
    match window {
        Some(Window { from, to }) if from == to => {
            Err("it would never be open; expected such as 22:00-04:00")
        }
        Some(window) => Ok(window),
        None => Err("expected HH:MM-HH:MM such as 22:00-04:00, in UTC"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timing_is_one_duration_or_three() {
        let taken = |text: &str| text.parse::<TimingArg>().map(|timing| timing.span);
        assert_eq!(taken("node=90s"), Ok(Span::exactly(90)));
        assert_eq!(taken("node=30s..1m..3m"), Ok(Span::new(30, 60, 180)));
        for wrong in ["node", "node=", "node=3m..1m..30s", "node=1s..2s", "boot=3s", "node=soon"] {
            let said = taken(wrong).expect_err(wrong);
            assert!(said.starts_with("expected STEP=DURATION"), "{wrong}: {said}");
        }
        let absurd = taken("node=400d").expect_err("too long");
        assert_eq!(absurd, "400d is longer than any step takes: 7 days are the limit");
    }

    #[test]
    fn ends_and_windows_are_read() {
        assert_eq!((until("settled"), until("20steps")), (Ok(Until::Settled), Ok(Until::Steps(20))));
        assert!(until("soon").is_err() && until("steps").is_err());
        assert!(window("22:00-04:00").is_ok());
        assert!(window("22-4").is_err() && window("22:00").is_err());
        assert!(window("22:00-22:00").is_err_and(|why| why.contains("never be open")));
    }
}
