//! Arguments of `capstan host`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::arguments::{PlanOutputArg, duration, kubernetes_version};
use capstan_hosts::finding::NodeRole;
use capstan_remote::destination::{Destination, user_of};

#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// What machines are, and what keeps kubeadm from making nodes of them
    ///
    /// Asked over the system's ssh, with its configuration, agent and known hosts; host keys are always verified. Nothing is
    /// changed on a machine. See docs/hosts.md.
    Check(HostCheckArgs),
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
    /// Show what speaks for a machine, too
    #[arg(long)]
    pub all: bool,
    #[arg(short, long, default_value = "text")]
    pub output: PlanOutputArg,
}
