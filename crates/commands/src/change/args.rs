//! The arguments of `capstan change`. Owns words and defaults; must not know how anything is done.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use capstan_base::time::parse_duration;
use k8s_machinery::validation::naming::dns_subdomain;
use kubeadm_change::change_id::{ChangeId, ChangeIdError};
use kubeadm_change::document::DocumentKind;
use kubeadm_change::other_names;
use kubeadm_change::path::FieldPath;
use kubeadm_change::render::Release;
use kubeadm_change::schema::Schema;
use kubeadm_change::steps::StepId;

#[derive(Debug, Subcommand)]
pub enum ChangeCommand {
    /// Check stored configuration: unknown fields, which kubeadm ignores in silence, wrong types, traps of YAML
    ///
    /// Exits 0 when there is nothing to say about it or only warnings, 11 when there are errors.
    Validate(ValidateArgs),
    /// What a request makes of the stored configuration, field by field
    ///
    /// Exits 0 when nothing differs, 1 when something does, 3 when it failed.
    Diff(DiffArgs),
    /// What a request means: verdicts, what follows, components and nodes, steps in order; nothing is written
    ///
    /// Exits 0 when there is nothing to do, 10 when the plan is ready, 11 when the documents that are asked for are wrong,
    /// 12 when a change must not be made, 14 when something has to be acknowledged.
    Plan(PlanChangeArgs),
    /// Carry a request out: ConfigMaps and add-ons first, then node by node; every step is checked before the next one
    ///
    /// Interrupted at any point, the same command goes on where the cluster is: nothing is remembered here. Without a request
    /// it goes on with the change that was begun. Exits 0 when it is complete, 10 when steps for people are left, 11 when a
    /// check failed, 12 when a change must not be made, 14 when something has to be acknowledged.
    Apply(ApplyArgs),
    /// How far a change is, node by node and component by component, and what runs otherwise than stored
    ///
    /// Exits 0 when nothing is left, 10 when something is pending, 11 when something failed or runs otherwise.
    Status(ChangeStatusArgs),
    /// Take the last change back: a plan from what is stored to what was stored before, carried out like any other
    Rollback(RollbackArgs),
    /// The rule base: what a change of each attribute means
    Rules(RulesArgs),
    /// The documents in a newer version of kubeadm's API, as `kubeadm config migrate` writes them, without its defaults
    Migrate(MigrateArgs),
    /// What kubeadm writes on each control plane node from the configuration: static pods, certificate names, images
    Render(RenderArgs),
}

/// Where the configuration is read: the cluster of the kubeconfig, one of the fleet, or files.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub struct SourceArgs {
    /// Folder with the documents, in any number of YAML or JSON files: ClusterConfiguration, KubeletConfiguration,
    /// KubeProxyConfiguration, or the ConfigMaps that hold them; Nodes and Pods beside them. Nothing is asked of a server
    #[arg(long, value_name = "DIR")]
    pub from_dir: Option<PathBuf>,
    /// A workload cluster of the management cluster of the kubeconfig, by its Cluster; without it the cluster of the
    /// kubeconfig itself
    #[arg(long, value_name = "[NS/]NAME", conflicts_with = "from_dir")]
    pub cluster: Option<ClusterName>,
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
    /// Roll out what is stored as it stands, where it runs otherwise: somebody stored it by hand
    #[arg(long, conflicts_with_all = ["patches", "to", "set"])]
    pub as_stored: bool,
    /// One value, such as maxPods=50 or apiServer.extraArgs[audit-log-maxage]=30; null takes it away
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
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

#[derive(Clone, Debug, Args)]
pub struct MigrateArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// The version that is written; v1 is experimental, and only kubeadm 1.37 and later read it
    #[arg(long, value_name = "VERSION", default_value = "v1beta4")]
    pub api_version: KubeadmVersionArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KubeadmVersionArg {
    V1beta4,
    V1,
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
    pub nodes: Vec<NodeAddress>,
    /// The release of kubeadm that writes, such as 1.36; without it that of the cluster's version
    #[arg(long, value_name = "VERSION", value_parser = release)]
    pub kubeadm_version: Option<Release>,
    /// A folder of certificate authorities that the nodes have; without it those of Debian
    #[arg(long = "ca-folder", value_name = "DIR")]
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
    /// The manifests of each node line by line, as they run and as they are going to be
    Diff,
}

#[derive(Clone, Debug, Args)]
pub struct PlanChangeArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub request: RequestArgs,
    /// Take what is said about the changes as read
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub acknowledge: Vec<String>,
    /// Pass blocks of rules that allow it; never one that can lose data
    #[arg(long)]
    pub force: bool,
    /// A folder on the nodes with patches that kubeadm applies to the manifests and kubelet files that it writes
    #[arg(long = "patches", value_name = "DIR", value_parser = folder)]
    pub patch_folder: Option<String>,
    /// Write the files that the commands of the plan name into this folder (mode 0600)
    #[arg(long, value_name = "DIR")]
    pub files: Option<PathBuf>,
    #[arg(short, long, default_value = "text")]
    pub output: PlanFormatArg,
}

/// Who does what is done on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExecutorArg {
    /// People: a runbook with exact commands, whose state is read back from the cluster
    None,
    /// The system's ssh, one node at a time
    Ssh,
}

/// How a node is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SshHostArg {
    InternalIp,
    Name,
}

/// How hosts are reached.
#[derive(Clone, Debug, Args)]
pub struct HostArgs {
    /// Who does what is done on nodes
    #[arg(long, value_name = "WHO", default_value = "none")]
    pub executor: ExecutorArg,
    /// The program that is called as ssh is; a wrapper can go through a bastion (CAPSTAN_NODE names the node)
    #[arg(long, value_name = "PROGRAM", default_value = "ssh")]
    pub ssh_program: String,
    /// User on the nodes; without it that of the ssh configuration
    #[arg(long, value_name = "NAME")]
    pub ssh_user: Option<String>,
    /// What ssh connects to: the Node's InternalIP, or its name
    #[arg(long, value_name = "WHAT", default_value = "internal-ip")]
    pub ssh_host: SshHostArg,
    /// The user on the nodes is not root: commands run through `sudo -n`
    #[arg(long)]
    pub sudo: bool,
}

/// How a plan is carried out.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Carrying out")]
pub struct CarryOutArgs {
    #[command(flatten)]
    pub hosts: HostArgs,
    /// Every command and what it printed is added to this file (mode 0600); without it change-PLAN.log beside the journal
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// How long a step may take to show before the plan stops
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    /// How often the cluster is looked at meanwhile
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub poll: Duration,
    /// Do it without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Take what is said about the changes, and drift that is taken back, as read
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub acknowledge: Vec<String>,
    /// Pass blocks of rules that allow it; never one that can lose data
    #[arg(long)]
    pub force: bool,
    /// A folder on the nodes with patches that kubeadm applies to the manifests and kubelet files that it writes; who goes on with
    /// a change, or takes it back, names it again
    #[arg(long = "patches", value_name = "DIR", value_parser = folder)]
    pub patch_folder: Option<String>,
    /// A step that only people do and that is done, such as R1: without it the change is not complete
    #[arg(long = "done", value_name = "STEP", value_parser = step_for_people)]
    pub done: Vec<StepId>,
}

fn folder(text: &str) -> Result<String, &'static str> {
    if text.starts_with('/') { Ok(text.to_owned()) } else { Err("expected the path of a folder, from / on") }
}

fn step_for_people(text: &str) -> Result<StepId, &'static str> {
    let step = StepId::named(text).filter(|step| step.is_for_people());
    step.ok_or("expected a step that only people do: P2 or R1")
}

fn assignment(text: &str) -> Result<String, &'static str> {
    if text.contains('=') { Ok(text.to_owned()) } else { Err("expected PATH=VALUE, such as maxPods=50") }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "expected a duration such as 5m or 90s".to_owned())
}

#[derive(Clone, Debug, Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub request: RequestArgs,
    #[command(flatten)]
    pub carry_out: CarryOutArgs,
}

#[derive(Clone, Debug, Args)]
pub struct RollbackArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Only print the plan
    #[arg(long)]
    pub plan: bool,
    /// The change that is meant, where the last one took another one back: that one is then stored again
    #[arg(long, value_name = "ID", value_parser = change_id)]
    pub change: Option<ChangeId>,
    /// While no API server answers: put back on hosts what stood there before the change, by ssh, and write nothing through the
    /// API. When it answers again, `change rollback` takes back what is stored
    #[arg(long, requires = "nodes", conflicts_with_all = ["plan", "from_dir", "cluster"])]
    pub offline: bool,
    /// A node for --offline and the address of its host
    #[arg(long = "node", value_name = "NAME=ADDRESS", requires = "offline")]
    pub nodes: Vec<NodeAddress>,
    #[command(flatten)]
    pub carry_out: CarryOutArgs,
}

#[derive(Clone, Debug, Args)]
pub struct ChangeStatusArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Ask every kubelet, too, whether it runs with what is stored: a request for each node
    #[arg(long)]
    pub kubelets: bool,
    /// Ask every API server and member of etcd, too, whether the certificate that it serves has the names that are stored
    #[arg(long)]
    pub certificates: bool,
    #[command(
        flatten,
        next_help_heading = "Hosts, asked for certificates and kubelet flags that are not those of their files"
    )]
    pub hosts: HostArgs,
    #[arg(short, long, default_value = "text")]
    pub output: ChangeOutputArg,
}

#[derive(Clone, Debug, Args)]
pub struct RulesArgs {
    /// Only this attribute, such as networking.podSubnet or apiServer.extraArgs[audit-log-path]
    #[arg(long, value_name = "PATH", value_parser = attribute)]
    pub path: Option<FieldPath>,
}

/// Documents whose fields have rules.
pub const RULED: [DocumentKind; 3] = [DocumentKind::Cluster, DocumentKind::Kubelet, DocumentKind::Proxy];

/// The name of a Cluster, with its namespace where that is not the connection's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterName {
    pub namespace: Option<String>,
    pub name: String,
}

impl FromStr for ClusterName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, text),
        };
        let is_name = |text: &str| dns_subdomain(text).is_empty();
        if is_name(name) && namespace.is_none_or(is_name) {
            return Ok(Self { namespace: namespace.map(str::to_owned), name: name.to_owned() });
        }
        Err("expected NAME or NAMESPACE/NAME of a Cluster")
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.namespace.iter().try_for_each(|namespace| write!(f, "{namespace}/"))?;
        f.write_str(&self.name)
    }
}

/// A control plane node and its advertise address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    pub name: String,
    pub address: String,
}

impl FromStr for NodeAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text.split_once('=') {
            Some((name, address)) if !name.is_empty() && !address.is_empty() => {
                Ok(Self { name: name.to_owned(), address: address.to_owned() })
            }
            _ => Err("expected NAME=ADDRESS, such as n1=10.0.0.1"),
        }
    }
}

fn release(text: &str) -> Result<Release, &'static str> {
    Release::of(text).ok_or("expected a version such as 1.36 or v1.36.2")
}

fn change_id(text: &str) -> Result<ChangeId, ChangeIdError> {
    ChangeId::try_from(text.to_owned())
}

fn attribute(text: &str) -> Result<FieldPath, String> {
    let path = FieldPath::parse(text).map_err(|error| error.to_string())?;
    let is_known = |kind: &DocumentKind| Schema::embedded().type_at(kind.name(), &path).is_ok();
    if RULED.iter().any(is_known) {
        return Ok(path);
    }
    let expected = "expected a path such as apiServer.extraArgs[audit-log-path] or maxPods";
    Err(format!("no document has this field; {}", other_names::instead_of(&path).unwrap_or(expected)))
}
