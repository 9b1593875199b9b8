//! Arguments of `capstan host`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::arguments::{PlanOutputArg, duration, kubernetes_version, object_name};
use capstan_hosts::finding::NodeRole;
use capstan_remote::destination::{Destination, user_of};

#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// What machines are, and what keeps kubeadm from making nodes of them
    ///
    /// Asked over the system's ssh, with its configuration, agent and known hosts; host keys are always verified. Nothing is
    /// changed on a machine. See docs/hosts.md.
    Check(HostCheckArgs),
    /// Make Hosts of machines: each is asked what it is, and becomes an object of the server
    ///
    /// A machine whose key ssh does not know is not talked to: compare the fingerprints that are shown with what its own console
    /// says, and name them with --fingerprint.
    Add(HostAddArgs),
    /// The Hosts of a server: state, who has each, what each is, and why it is not available
    List(HostListArgs),
    /// Pin the host key of a Host: the key that a person compared with what the machine's own console says
    ///
    /// The machine is asked for its keys; the one with the fingerprint is written into spec.hostKeys, and no other is trusted from
    /// then on.
    Trust(HostTrustArgs),
    /// The exact steps and files of a Host's bootstrap run, with contents as digests
    Plan(HostNamedArgs),
    /// The log of the run on a Host, with secrets left out; the machine is asked over ssh from here
    Log(HostLogArgs),
    /// Have a Host reset that nobody uses and that is not clean; with --abandon let go of one whose machine is gone
    Release(HostReleaseArgs),
    /// Take a Host from the owner that its owner file names; where no HostMachine has it, it is reset
    Adopt(HostActArgs),
}

#[derive(Clone, Debug, Args)]
pub struct HostListArgs {
    #[arg(short, long, default_value = "text")]
    pub output: PlanOutputArg,
}

#[derive(Clone, Debug, Args)]
pub struct HostNamedArgs {
    /// Name of the Host
    pub name: String,
    #[arg(short, long, default_value = "text")]
    pub output: PlanOutputArg,
}

#[derive(Clone, Debug, Args)]
pub struct HostLogArgs {
    /// Name of the Host
    pub name: String,
    /// The program that is called as ssh is
    #[arg(long, value_name = "PROGRAM", default_value = "ssh")]
    pub ssh_program: String,
}

#[derive(Clone, Debug, Args)]
pub struct HostTrustArgs {
    /// Name of the Host
    pub name: String,
    /// Fingerprint of the key to trust, as `ssh-keygen -lf` prints it; without it the offered ones are shown
    #[arg(long, value_name = "SHA256:…", value_parser = fingerprint)]
    pub fingerprint: Option<String>,
    /// The program that is called as ssh is
    #[arg(long, value_name = "PROGRAM", default_value = "ssh")]
    pub ssh_program: String,
    #[command(flatten)]
    pub confirm: HostConfirmArgs,
}

#[derive(Clone, Debug, Args)]
pub struct HostActArgs {
    /// Name of the Host
    pub name: String,
    #[command(flatten)]
    pub confirm: HostConfirmArgs,
}

#[derive(Clone, Debug, Args)]
pub struct HostReleaseArgs {
    /// Name of the Host
    pub name: String,
    /// The machine is gone for good: its Machine, which is deleted, is let go without a reset
    #[arg(long)]
    pub abandon: bool,
    #[command(flatten)]
    pub confirm: HostConfirmArgs,
}

/// How a change of a Host is confirmed.
#[derive(Clone, Debug, Args)]
pub struct HostConfirmArgs {
    /// Do it without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Show findings and difference, write nothing
    #[arg(long)]
    pub dry_run: bool,
}

fn fingerprint(text: &str) -> Result<String, &'static str> {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
    let digest =
        text.strip_prefix("SHA256:").filter(|digest| digest.len() == 43 && digest.chars().all(is_base64));
    digest.map(|_| text.to_owned()).ok_or("expected SHA256: and 43 letters, digits, `+` and `/`")
}

/// What a machine is to become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RoleArg {
    #[default]
    ControlPlane,
    Worker,
}

impl RoleArg {
    pub fn of(self) -> NodeRole {
        match self {
            Self::ControlPlane => NodeRole::ControlPlane,
            Self::Worker => NodeRole::Worker,
        }
    }
}

/// How machines are reached that no server knows.
#[derive(Clone, Debug, Args)]
pub struct HostReachArgs {
    /// User on the machines; without it that of the ssh configuration
    #[arg(long, value_name = "NAME", value_parser = user_of)]
    pub ssh_user: Option<String>,
    /// Machines to go through, in their order; without them those of the ssh configuration
    #[arg(short = 'J', long, value_name = "HOST,…", value_delimiter = ',')]
    pub jump: Vec<Destination>,
    /// The program that is called as ssh is
    #[arg(long, value_name = "PROGRAM", default_value = "ssh")]
    pub ssh_program: String,
    /// A machine that does not answer by then is unknown
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    pub timeout: Duration,
}

/// The one form beside text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectsOutputArg {
    Yaml,
}

#[derive(Clone, Debug, Args)]
pub struct HostAddArgs {
    /// Machines as ssh takes them: a name of its configuration, or USER@ADDRESS:PORT, user and port where they are needed
    #[arg(required = true, value_name = "HOST")]
    pub hosts: Vec<Destination>,
    /// The HostPool that they belong to; it is made where it is not there
    #[arg(long, value_name = "NAME", value_parser = object_name, default_value = "hosts")]
    pub pool: String,
    /// Name of the Host; without it what ssh calls the machine, or the machine's own name where that is an address
    #[arg(long, value_parser = object_name)]
    pub name: Option<String>,
    /// Fingerprints of keys to trust, one for each machine, as `ssh-keygen -lf` prints them on the machine's own console
    #[arg(long, value_name = "SHA256:…,…", value_delimiter = ',', value_parser = fingerprint)]
    pub fingerprint: Vec<String>,
    /// The failure domain of Machines on them
    #[arg(long, value_name = "NAME")]
    pub failure_domain: Option<String>,
    /// Rules of `capstan host check` that do not speak against these machines, such as cgroup
    #[arg(long, value_name = "RULE,…", value_delimiter = ',', value_parser = object_name)]
    pub ignore: Vec<String>,
    /// What they are checked for
    #[arg(long, value_name = "ROLE", default_value = "control-plane")]
    pub role: RoleArg,
    #[command(flatten)]
    pub reach: HostReachArgs,
    /// Only print the objects
    #[arg(short, long, conflicts_with_all = ["yes", "dry_run"])]
    pub output: Option<ObjectsOutputArg>,
    #[command(flatten)]
    pub confirm: HostConfirmArgs,
}

#[derive(Clone, Debug, Args)]
pub struct HostCheckArgs {
    /// Machines as ssh takes them: a name of its configuration, or USER@ADDRESS:PORT, user and port where they are needed
    #[arg(required = true, value_name = "HOST")]
    pub hosts: Vec<Destination>,
    /// What they are to become
    #[arg(long, value_name = "ROLE", default_value = "control-plane")]
    pub role: RoleArg,
    /// The Kubernetes that they are to run; without it that of their kubeadm
    #[arg(long, value_name = "VERSION", value_parser = kubernetes_version)]
    pub kubernetes_version: Option<String>,
    #[command(flatten)]
    pub reach: HostReachArgs,
    /// Show what speaks for a machine, too
    #[arg(long)]
    pub all: bool,
    #[arg(short, long, default_value = "text")]
    pub output: PlanOutputArg,
}
