//! The arguments of `capstan change`. Owns words and defaults; must not know how anything is done.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub enum ChangeCommand {
    /// Check stored configuration: unknown fields, which kubeadm ignores in silence, wrong types, traps of YAML
    ///
    /// Exits 0 when there is nothing to say about it or only warnings, 5 when there are errors.
    Validate(ValidateArgs),
    /// What a request makes of the stored configuration, field by field
    ///
    /// Exits 0 when nothing differs, 2 when something does.
    Diff(DiffArgs),
    /// What a request means: verdicts, what follows, components and nodes, steps in order; nothing is written
    ///
    /// Exits 0 when there is nothing to do, 2 when the plan is ready, 3 when a change must not be made, 4 when something
    /// has to be acknowledged, 5 when the documents that are asked for are wrong.
    Plan(PlanChangeArgs),
    /// The rule base: what a change of each attribute means
    Rules(RulesArgs),
    /// What kubeadm writes on each control plane node from the configuration: static pods, certificate names, images
    Render(RenderArgs),
}

/// Where the configuration is read.
#[derive(Clone, Debug, Args)]
pub struct SourceArgs {
    /// Folder with the documents, in any number of YAML or JSON files: ClusterConfiguration, KubeletConfiguration,
    /// KubeProxyConfiguration, or the ConfigMaps that hold them; Nodes and Pods beside them
    #[arg(long, value_name = "DIR", required = true)]
    pub from_dir: Option<PathBuf>,
}

/// What should be different.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Request")]
pub struct RequestArgs {
    /// A patch, merged into the document of its kind; without a kind into ClusterConfiguration
    #[arg(short = 'f', long = "patch", value_name = "FILE")]
    pub patches: Vec<PathBuf>,
    /// strategic merges lists by key, merge replaces them (RFC 7386), json is a list of operations (RFC 6902)
    #[arg(long, value_name = "TYPE", default_value = "strategic")]
    pub patch_type: PatchTypeArg,
    /// A whole document that takes the place of the stored one; what it leaves out goes back to its default
    #[arg(long = "to", value_name = "FILE")]
    pub to: Vec<PathBuf>,
    /// One value, such as maxPods=50 or apiServer.extraArgs[audit-log-maxage]=30; null takes it away
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PatchTypeArg {
    Strategic,
    Merge,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ChangeOutputArg {
    Text,
    Json,
}

#[derive(Clone, Debug, Args)]
pub struct ValidateArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    #[arg(short, long, default_value = "text")]
    pub output: ChangeOutputArg,
}

#[derive(Clone, Debug, Args)]
pub struct DiffArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub request: RequestArgs,
    #[arg(short, long, default_value = "text")]
    pub output: ChangeOutputArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RenderOutputArg {
    Json,
    Yaml,
}

#[derive(Clone, Debug, Args)]
pub struct RenderArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// A control plane node and its advertise address; without it that of the InitConfiguration, or those of the
    /// mirror pods
    #[arg(long = "node", value_name = "NAME=ADDRESS")]
    pub nodes: Vec<String>,
    /// The release of kubeadm that writes, such as 1.36; without it that of the cluster's version
    #[arg(long, value_name = "VERSION")]
    pub kubeadm_version: Option<String>,
    /// A folder of certificate authorities that the nodes have; without it those of Debian
    #[arg(long = "ca-folder", value_name = "PATH")]
    pub ca_folders: Vec<String>,
    #[arg(short, long, default_value = "json")]
    pub output: RenderOutputArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanFormatArg {
    Text,
    Json,
    /// A runbook in Markdown
    Md,
}

#[derive(Clone, Debug, Args)]
pub struct PlanChangeArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub request: RequestArgs,
    /// Take what is said about the changes as read
    #[arg(long)]
    pub acknowledge: bool,
    /// Pass blocks of rules that allow it; never one that can lose data
    #[arg(long)]
    pub force: bool,
    /// Write the files that the commands of the plan name into this folder (mode 0600)
    #[arg(long, value_name = "DIR")]
    pub files: Option<PathBuf>,
    #[arg(short, long, default_value = "text")]
    pub output: PlanFormatArg,
}

#[derive(Clone, Debug, Args)]
pub struct RulesArgs {
    /// Only this attribute, such as networking.podSubnet or apiServer.extraArgs[audit-log-path]
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
}
