//! Arguments of `capstan engine`, with their help, beyond those that it has in common with others.

use std::time::Duration;

use clap::{Args, Subcommand};

use capstan_base::go_duration::GoDuration;
use capstan_commands::engine_status::EngineStatusArgs;
use capstan_commands::exit_code::WrongUsage;
use capstan_engine::controllers::Graces;

/// A connection counts as lost before it ends, whatever the probes take.
/// Source: cluster-api `core/main.go`, v1.14.2.
const CONDITIONS_MIN: Duration = Duration::from_secs(120);

/// How long what was known of a workload cluster outlives its last successful probe. Names and defaults are upstream's.
#[derive(Clone, Debug, Args)]
pub struct GraceArgs {
    /// After so long without a successful probe, RemoteConnectionProbe of a Cluster is False
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = duration)]
    pub remote_connection_grace_period: Duration,
    /// After so long without a successful probe, conditions that rest on the workload cluster are Unknown; 2m at least
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub remote_conditions_grace_period: Duration,
}

fn duration(text: &str) -> Result<Duration, &'static str> {
    let parsed = GoDuration::parse(text).and_then(GoDuration::to_std);
    parsed.ok_or("expected a duration as Go writes it, such as 50s or 5m")
}

impl GraceArgs {
    /// # Errors
    /// Periods that upstream's managers refuse, too.
    pub fn graces(&self) -> Result<Graces, WrongUsage> {
        let (connection, conditions) =
            (self.remote_connection_grace_period, self.remote_conditions_grace_period);
        if conditions <= connection {
            let why = "--remote-conditions-grace-period must be longer than --remote-connection-grace-period";
            return Err(WrongUsage(why.to_owned()));
        }
        if conditions < CONDITIONS_MIN {
            return Err(WrongUsage("--remote-conditions-grace-period must be 2m at least".to_owned()));
        }
        Graces::of(connection, conditions).ok_or_else(|| WrongUsage("a grace period is too long".to_owned()))
    }
}

#[derive(Clone, Debug, Subcommand)]
pub enum EngineCommand {
    /// Print the Leases of the engines: who holds them, since when, and which controllers run under each
    Status(EngineStatusArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grace_periods_are_refused_as_upstream_refuses_them() {
        let graces = |connection_s, conditions_s| GraceArgs {
            remote_connection_grace_period: Duration::from_secs(connection_s),
            remote_conditions_grace_period: Duration::from_secs(conditions_s),
        };
        let refused = |connection_s, conditions_s| graces(connection_s, conditions_s).graces().is_err();
        let usual = graces(50, 300).graces().ok();
        assert_eq!(usual, Some(Graces::default()), "the defaults are the same");
        for (connection_s, conditions_s, is_refused) in
            [(50, 120, false), (50, 119, true), (300, 300, true), (400, 300, true), (0, 7_200, false)]
        {
            assert_eq!(refused(connection_s, conditions_s), is_refused, "{connection_s} {conditions_s}");
        }
    }
}
