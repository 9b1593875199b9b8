//! Every command, the options that all have and those of commands that run until they are stopped. Owns words and defaults; a one-shot
//! command has its own beside it (`commands`), actions have a table (`action_args`). Must not know how anything is done.

#[cfg(feature = "worlds")]
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Args, Parser, Subcommand};
use regex::Regex;
use tracing_subscriber::EnvFilter;

use super::action_args::ActionArgs;
use super::encryption_args::{EncryptionArgs, EncryptionKeyCommand};
pub use super::engine_args::{EngineCommand, GraceArgs};
use super::exit_code;
use super::gates::GateArgs;
use super::hosts::HostsArgs;
#[cfg(feature = "worlds")]
use super::listen_args::ListenArgs;
#[cfg(feature = "worlds")]
use super::screen_args::positive;
pub use super::screen_args::{ColorArg, LinksArg, ScreenArgs};
#[cfg(feature = "worlds")]
use super::simulated_ssh::SimulatedSshArgs;
use super::store_args::StoreArgs;
use capstan_commands::arguments::{Moment, duration};
use capstan_commands::change::args::ChangeCommand;
use capstan_commands::cluster::args::ClusterCommand;
use capstan_commands::describe::DescribeArgs;
#[cfg(feature = "etcd")]
use capstan_commands::etcd::EtcdStatusArgs;
use capstan_commands::get::GetArgs;
use capstan_commands::host::args::HostCommand;
use capstan_commands::leader_migration::args::LeaderMigrationCommand;
use capstan_commands::leases::LeasesArgs;
use capstan_commands::metrics::MetricsArgs;
use capstan_commands::plan::PlanArgs;
use capstan_commands::simulate::args::SimulateArgs;
use capstan_commands::status_compute::StatusComputeArgs;
use capstan_commands::wait::WaitArgs;
use capstan_commands::watch::WatchArgs;
use capstan_engine::client::Impersonated;
#[cfg(feature = "worlds")]
use capstan_worlds::{extension::Cover, samples::Sample};

/// Dashboard and lifecycle engine for Cluster API.
///
/// Without a command: the dashboard over the current kubeconfig context.
#[derive(Debug, Parser)]
#[command(name = "capstan", version, max_term_width = 110, propagate_version = true)]
#[command(after_help = exit_code::help())]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub connect: ConnectArgs,
    #[command(flatten)]
    pub screen: ScreenArgs,
    #[command(flatten)]
    pub log: LogArgs,
}

/// Which API server, and what may be sent to it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectArgs {
    /// Kubeconfig file; without it $KUBECONFIG, then ~/.kube/config, then the pod's service account
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; without it the current one
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// Only this namespace
    #[arg(short, long, global = true, value_name = "NS", conflicts_with = "all_namespaces")]
    pub namespace: Option<String>,
    /// Every namespace
    #[arg(short = 'A', long, global = true)]
    pub all_namespaces: bool,
    /// Let only reads leave this process
    #[arg(long, global = true, env = "CAPSTAN_READ_ONLY", value_parser = BoolishValueParser::new())]
    pub read_only: bool,
    /// Send every request in the name of this user, who has to exist only for the server
    #[arg(long = "as", global = true, value_name = "USER")]
    pub as_user: Option<String>,
    /// And of this group; may be given several times
    #[arg(long = "as-group", global = true, value_name = "GROUP", requires = "as_user")]
    pub as_groups: Vec<String>,
}

impl ConnectArgs {
    /// In whose name requests are sent.
    pub fn impersonated(&self) -> Impersonated {
        Impersonated { user: self.as_user.clone(), groups: self.as_groups.clone() }
    }
}

/// Where the program's own log goes: never to the terminal while the dashboard is up.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// Write a log to this file
    #[arg(long, global = true, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
    /// error, warn, info, debug, or a filter such as capstan=debug
    #[arg(long, global = true, value_name = "LEVEL", value_parser = log_filter, default_value = "info")]
    pub log_level: String,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// The dashboard: over the kubeconfig's server, as without a command, or over files
    Dashboard(DashboardArgs),
    /// Write down what the watches of a server bring, to be replayed by `dashboard --replay FILE`
    ///
    /// Until ctrl-c. The file (0600) grows line by line, so that one whose writer was killed can be replayed up to there. Objects of the
    /// kinds that the dashboard follows are in it in full, and Events about them; Secrets are not read.
    Record(RecordArgs),
    /// Dashboard over a small living fleet, all in memory: nothing to install, nothing kept
    #[cfg(feature = "worlds")]
    Demo(DemoArgs),
    /// Embedded API server, engine, simulated infrastructure and dashboard; state is kept
    #[cfg(feature = "worlds")]
    Standalone(StandaloneArgs),
    /// Only the engine, against the API server of a kubeconfig
    ///
    /// For all namespaces; with --namespace for the objects of one, which other engines leave alone.
    Engine(EngineArgs),
    /// Print objects, as kubectl would
    Get(GetArgs),
    /// Print one Cluster and everything below it
    Describe(DescribeArgs),
    /// What happens next to the objects of a cluster or of files, why, and why not yet
    ///
    /// Nothing is written. Without TARGET: everything in the namespace, or in the files.
    Plan(PlanArgs),
    /// Run what is there ahead of time, with changes that are only tried: what happens, how long it takes, how low it goes
    ///
    /// Nothing is changed.
    Simulate(SimulateArgs),
    /// Wait until an object reaches a state
    Wait(WaitArgs),
    /// Say every change of a verdict in the fleet, line by line
    Watch(WatchArgs),
    /// Serve the verdicts of all clusters, or of --namespace, as a page that Prometheus reads
    Metrics(MetricsArgs),
    #[command(flatten)]
    Act(ActionArgs),
    /// Run a line on a simulated host, called as ssh is
    #[cfg(feature = "worlds")]
    #[command(hide = true)]
    SimulatedSsh(SimulatedSshArgs),
    /// Write everything a server holds into one file (0600)
    ///
    /// Through the server of the kubeconfig; with --data-dir or --store, from a store directly: a data
    /// directory that no server has open, or an etcd.
    Backup(BackupArgs),
    /// Fill an empty store from a backup
    Restore(RestoreArgs),
    /// Files with the keys that keep Secrets encrypted in a store and in backups
    #[command(subcommand)]
    EncryptionKey(EncryptionKeyCommand),
    /// Statuses of objects from files
    #[command(subcommand)]
    Status(StatusCommand),
    /// Change the kubeadm configuration of a running cluster: see what it means before anything happens
    #[command(subcommand)]
    Change(ChangeCommand),
    /// Machines that are reached over ssh: is each fit to become a node?
    #[command(subcommand)]
    Host(HostCommand),
    /// Clusters on machines of your own
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// The etcd of a cluster, or any other, member by member
    #[cfg(feature = "etcd")]
    #[command(subcommand)]
    Etcd(EtcdCommand),
    /// Leases as locks: who holds each, whether the holder lives, and what is odd
    ///
    /// Of kube-system, or of --namespace, or of all with -A. It looks for some seconds, since only a change shows that a holder lives.
    Leases(LeasesArgs),
    /// Kubernetes' own controller managers: move controllers from one to the other without an overlap
    #[command(subcommand)]
    LeaderMigration(LeaderMigrationCommand),
    /// Extensions that update machines in place
    #[cfg(feature = "worlds")]
    #[command(subcommand)]
    Extension(ExtensionCommand),
    /// Print the CustomResourceDefinitions that capstan serves
    Crds,
    /// Print a completion script
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

#[cfg(feature = "worlds")]
#[derive(Debug, Subcommand)]
pub enum ExtensionCommand {
    /// Serve the reference extension, which updates simulated machines, over HTTPS
    ///
    /// Prints the ExtensionConfig that registers it, or registers itself. Hosts are changed through the server of the
    /// kubeconfig. See docs/extensions.md.
    Serve(ExtensionServeArgs),
}

#[cfg(feature = "worlds")]
#[derive(Clone, Debug, Args)]
pub struct ExtensionServeArgs {
    /// Address of this machine alone; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9443")]
    pub listen: SocketAddr,
    /// TOML file that says what it covers, how long updates take, and what goes wrong
    #[arg(long, value_name = "FILE")]
    pub options: Option<PathBuf>,
    /// A field that it updates, such as machine:/spec/version; infrastructure: and bootstrap: likewise. Instead of
    /// those of the file
    #[arg(long, value_name = "PATH")]
    pub covers: Vec<Cover>,
    /// How long the update of one machine takes
    #[arg(long, value_name = "SECONDS")]
    pub update_seconds: Option<u32>,
    /// When it wants to be asked again meanwhile
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub retry_after_seconds: Option<u32>,
    /// Divides how long updates take
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = positive)]
    pub time_scale: f64,
    /// Where tls.crt and tls.key are, or are made; without it a folder in the XDG data directory
    #[arg(long, value_name = "DIR")]
    pub cert_dir: Option<PathBuf>,
    /// Create or change the ExtensionConfig of this name on the server
    #[arg(long, value_name = "NAME")]
    pub register: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct DashboardArgs {
    /// File, folder or archive (.tar.gz, .tgz, .tar) instead of a server, such as a support bundle; YAML or JSON, streams
    /// and lists. Nothing is asked, nothing can be changed
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// The moment at which the files were made, 2026-11-20T10:00:00Z, or +0s for the present; without it the last moment
    /// that stands in them, which may be long before
    #[arg(long, value_name = "WHEN", requires = "files")]
    pub now: Option<Moment>,

    /// Replay a file of `capstan record`: every screen as it was, from where everything was listed; -f knows such a file, too. `x`
    /// plays, `,` and `.` step, `<` and `>` jump, `{` and `}` go to where a cluster turned. Nothing can be changed
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    pub replay: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct RecordArgs {
    /// The new file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// End when the file is so large
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub max_size: u64,
    /// End after so long: 30m, 8h
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub duration: Option<Duration>,
}

#[cfg(feature = "worlds")]
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// How much faster than real time the simulated machines start
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = positive)]
    pub time_scale: f64,
    /// Seed of names and jitter; the same seed gives the same fleet
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub listening: ListenArgs,
    /// Write a program that is called as ssh is, and runs commands on the simulated hosts of clusters whose API is served
    /// (docs/changing-clusters.md)
    #[arg(long, value_name = "FILE")]
    pub simulated_ssh: Option<PathBuf>,
    #[command(flatten)]
    pub gates: GateArgs,
}

#[cfg(feature = "worlds")]
#[derive(Clone, Debug, Args)]
pub struct StandaloneArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub encryption: EncryptionArgs,
    #[command(flatten)]
    pub sharing: SharingArgs,
    #[command(flatten)]
    pub listening: ListenArgs,
    /// Write who asked for what to this file (mode 0600), one JSON event per request
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "repair"])]
    pub audit_log: Option<PathBuf>,
    /// Keep a longer audit log as FILE.1, in the place of the one before it, and begin another; in megabytes
    #[arg(long, value_name = "MB", requires = "audit_log", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub audit_log_maxsize: Option<u64>,
    /// Fill the store from this backup first; it must be empty
    #[arg(long, value_name = "FILE", conflicts_with = "sample")]
    pub restore: Option<PathBuf>,
    /// Start with an empty store where there was one that is gone; resource versions go on above its
    #[arg(long, conflicts_with = "restore")]
    pub new_store: bool,
    /// Read the data file, compare every checksum, say what is there, and end
    #[arg(long, conflicts_with = "repair")]
    pub check: bool,
    /// Save what can be read of a damaged data file, keep the damaged one beside it, and end
    #[arg(long)]
    pub repair: bool,
    /// Also serve the reference extension on a free loopback port, and register it; it updates simulated machines in
    /// place (docs/extensions.md)
    #[arg(long, conflicts_with = "no_engine")]
    pub extension: bool,
    /// Write a program that is called as ssh is, and runs commands on the simulated hosts of clusters whose API is served
    /// (docs/changing-clusters.md)
    #[arg(long, value_name = "FILE", conflicts_with = "no_engine")]
    pub simulated_ssh: Option<PathBuf>,
    /// Start with these objects when the store is empty: a sample's name, or `synthetic:clusters=C,machines=M`
    #[arg(long, value_name = "NAME", value_parser = Sample::parse)]
    pub sample: Option<Sample>,
    /// No dashboard; run until stopped
    #[arg(long)]
    pub headless: bool,
    /// Only the API server: no controllers, no simulated infrastructure
    #[arg(long)]
    pub no_engine: bool,
    /// How much faster than real time the simulated machines start
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = positive)]
    pub time_scale: f64,
    /// Seed of names and jitter
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub hosts: HostsArgs,
    #[command(flatten)]
    pub gates: GateArgs,
}

#[derive(Clone, Debug, Args)]
pub struct BackupArgs {
    /// The file to write; it must not be there yet
    pub file: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub encryption: EncryptionArgs,
    /// Write Secrets in clear although there is a key file, so that nobody needs it to restore them
    #[arg(long, requires = "encryption_key")]
    pub in_clear: bool,
}

impl BackupArgs {
    /// True when no server is asked.
    pub fn is_at_rest(&self) -> bool {
        self.store.data_dir.is_some() || self.store.store.is_some()
    }
}

#[derive(Clone, Debug, Args)]
pub struct RestoreArgs {
    /// The file to read
    pub file: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub encryption: EncryptionArgs,
}

/// How several engines share one server's work.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Sharing")]
pub struct SharingArgs {
    /// Run controllers by these locks, which other engines have too: LeaderMigrationConfigurations, one document each
    #[arg(long, value_name = "FILE")]
    pub leader_migration_config: Option<PathBuf>,
    /// What the file calls this process; without it `engine` or `standalone`
    #[arg(long, value_name = "NAME", requires = "leader_migration_config", value_parser = component)]
    pub component: Option<String>,
}

#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct EngineArgs {
    #[command(subcommand)]
    pub command: Option<EngineCommand>,
    #[command(flatten)]
    pub sharing: SharingArgs,
    /// Namespace of the Lease that keeps a second engine waiting; without it that of --namespace, else `default`
    #[arg(long, value_name = "NS")]
    pub lease_namespace: Option<String>,
    /// Take the Leases of upstream's managers, which then stop, and give them back at the end
    ///
    /// Without it the engine waits while one of them leads.
    #[arg(long)]
    pub take_over: bool,
    /// Labels of Machines that their Nodes get too, by regular expression; may be repeated
    #[arg(long, value_name = "REGEX")]
    pub additional_sync_machine_labels: Vec<Regex>,
    /// Annotations of Machines that their Nodes get too
    #[arg(long, value_name = "REGEX")]
    pub additional_sync_machine_annotations: Vec<Regex>,
    #[command(flatten)]
    pub graces: GraceArgs,
    /// Also play infrastructure provider and workload clusters for DevClusters and DevMachines in memory
    #[cfg(feature = "worlds")]
    #[arg(long)]
    pub simulate_infrastructure: bool,
    /// How much faster than real time the simulated machines start
    #[cfg(feature = "worlds")]
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = positive, requires = "simulate_infrastructure")]
    pub time_scale: f64,
    #[command(flatten)]
    pub hosts: HostsArgs,
    #[command(flatten)]
    pub gates: GateArgs,
}

impl EngineArgs {
    /// How much faster than real time the simulated machines start; `None`: there are none.
    pub fn simulated_time_scale(&self) -> Option<f64> {
        #[cfg(feature = "worlds")]
        return self.simulate_infrastructure.then_some(self.time_scale);
        #[cfg(not(feature = "worlds"))]
        None
    }
}

#[derive(Debug, Subcommand)]
pub enum StatusCommand {
    /// Compute the status of every object in a dump and print it, or what differs from the stored one
    Compute(StatusComputeArgs),
}

#[cfg(feature = "etcd")]
#[derive(Debug, Subcommand)]
pub enum EtcdCommand {
    /// Ask every member for itself: leader, member lists, alarms, database, lag, and how many more may be lost
    ///
    /// Nothing is changed.
    Status(EtcdStatusArgs),
}

fn log_filter(text: &str) -> Result<String, &'static str> {
    match EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("expected error, warn, info, debug or a filter such as capstan=debug"),
    }
}

fn component(text: &str) -> Result<String, String> {
    match k8s_machinery::validation::naming::dns_label(text).first() {
        None => Ok(text.to_owned()),
        Some(complaint) => Err(complaint.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[cfg(feature = "worlds")]
    #[test]
    fn the_simulated_machines_are_not_stopped() {
        assert!(Cli::try_parse_from(["capstan", "demo", "--time-scale", "0"]).is_err());
    }
}
