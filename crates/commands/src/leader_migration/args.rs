//! Arguments of `capstan leader-migration`, with their help.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::arguments::{PlanOutputArg, object_name};
use crate::change::args::{CarryOutArgs, ClusterName};
use leader_migration::configuration::{ANY, DEFAULT_LEADER_NAME};
use leader_migration::controller_names::{Function, function_named};
use leader_migration::flags::{FlagError, Flags};
use leader_migration::manager_kind::ManagerKind;
use leader_migration::release::Release;
use leader_migration::rights::Grantee;
use leader_migration::stages::MigrationStage;

#[derive(Debug, Subcommand)]
pub enum LeaderMigrationCommand {
    /// Judge migration files and the processes that read them; exit 11 when something must be put right
    ///
    /// Nothing is asked of a server.
    Validate(ValidateArgs),
    /// Print migration files for given releases
    Generate(GenerateArgs),
    /// Print the file that is built into a release
    #[command(disable_version_flag = true)]
    Defaults {
        /// Release of Kubernetes
        #[arg(long, value_name = "V", value_parser = Release::parse)]
        version: Release,
    },
    /// How far the migration of a running cluster is, stage by stage, with the evidence; exit 12 when a stage is blocked
    ///
    /// The server of the kubeconfig is the cluster's own. Nothing is written.
    Status(WalkthroughArgs),
    /// What to do next in a running cluster, with the edits and how to take them back; with --apply it is done
    ///
    /// With --apply it exits 0 when the step is done, 10 when people have to go on, 11 when it failed, 12 when a stage is blocked.
    Next(Box<NextArgs>),
    /// All that is left to do in a running cluster, stage by stage
    Plan(WalkthroughArgs),
    /// The way back in a running cluster as steps, with the edits of the next one; exit 12 when a step is blocked
    Back(BackArgs),
    /// Play a migration in virtual time: simulated processes with these releases, stage by stage, and who acted when
    ///
    /// Nothing is asked of a server. Exit 11 when two ran one controller at once on the way or on a way back.
    Rehearse(RehearseArgs),
    /// Print Role and RoleBinding for the migration Lease, or ask whether they are needed
    Rights(RightsArgs),
}

#[derive(Clone, Debug, Args)]
pub struct ValidateArgs {
    /// Migration file, manifest of a controller manager (a static pod, pods as a List, DaemonSet, Deployment), ConfigMap
    /// with a file, or a folder of these; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Release of kube-controller-manager, where no image tag has it
    #[arg(long, value_name = "V", value_parser = Release::parse)]
    pub kcm_version: Option<Release>,
    /// Release of the k8s.io/cloud-provider library in cloud-controller-manager
    #[arg(long, value_name = "V", value_parser = Release::parse)]
    pub ccm_version: Option<Release>,
    /// Flags of a kube-controller-manager, as one word
    #[arg(long, value_name = "FLAGS", value_parser = kcm_flags, allow_hyphen_values = true, requires = "kcm_version")]
    pub kcm_flags: Option<Flags>,
    /// Flags of a cloud-controller-manager, as one word
    #[arg(long, value_name = "FLAGS", value_parser = ccm_flags, allow_hyphen_values = true, requires = "ccm_version")]
    pub ccm_flags: Option<Flags>,
    #[arg(short, long, default_value = "text")]
    pub output: PlanOutputArg,
}

#[derive(Clone, Debug, Args)]
pub struct GenerateArgs {
    /// Release of kube-controller-manager
    #[arg(long, value_name = "V", value_parser = Release::parse, required_unless_present = "ccm_version")]
    pub kcm_version: Option<Release>,
    /// Release of the k8s.io/cloud-provider library in cloud-controller-manager
    #[arg(long, value_name = "V", value_parser = Release::parse)]
    pub ccm_version: Option<Release>,
    /// Name of the migration Lease
    #[arg(long, value_name = "NAME", value_parser = object_name, default_value = DEFAULT_LEADER_NAME)]
    pub leader_name: String,
    /// Controllers to migrate, by their old or canonical names
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = function,
          default_value = "route,service,cloud-node-lifecycle")]
    pub controllers: Vec<Function>,
    /// Who runs them: kube-controller-manager, cloud-controller-manager, or * for whoever holds the Lease
    #[arg(long, value_name = "COMPONENT", default_value = ANY,
          value_parser = ["*", "kube-controller-manager", "cloud-controller-manager"])]
    pub component: String,
}

#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("carried out").multiple(true).requires("apply").args([
    "executor", "ssh_program", "ssh_user", "ssh_host", "sudo", "log", "timeout", "poll", "yes", "acknowledge", "force",
]))]
pub struct NextArgs {
    #[command(flatten)]
    pub walk: WalkthroughArgs,
    /// Make the next change: looked at, asked for, and written down in the journal as `capstan change apply` does
    #[arg(long, conflicts_with = "output")]
    pub apply: bool,
    #[command(flatten)]
    pub carry_out: CarryOutArgs,
}

#[derive(Clone, Debug, Args)]
pub struct WalkthroughArgs {
    /// A workload cluster of the management cluster of the kubeconfig, by its Cluster; without it the cluster of the
    /// kubeconfig itself
    #[arg(long, value_name = "[NS/]NAME")]
    pub cluster: Option<ClusterName>,
    /// Name of the migration Lease
    #[arg(long, value_name = "NAME", value_parser = object_name, default_value = DEFAULT_LEADER_NAME)]
    pub leader_name: String,
    /// Namespace of the Leases and of the controller managers' pods
    #[arg(long, value_name = "NS", default_value = "kube-system")]
    pub lease_namespace: String,
    /// Service account of the cloud-controller-manager
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "kube-system/cloud-controller-manager",
          value_parser = service_account)]
    pub ccm_service_account: Grantee,
    /// Controllers to migrate, by their old or canonical names
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = function,
          default_value = "route,service,cloud-node-lifecycle")]
    pub controllers: Vec<Function>,
    /// Migration file of a host, which an API cannot show (without it the generated one is assumed); or the
    /// KubeadmControlPlane as the management cluster has it, for the patch of it (--cluster reads it)
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Release of kube-controller-manager, where no image tag has it
    #[arg(long, value_name = "V", value_parser = Release::parse)]
    pub kcm_version: Option<Release>,
    /// Release of the k8s.io/cloud-provider library in cloud-controller-manager
    #[arg(long, value_name = "V", value_parser = Release::parse)]
    pub ccm_version: Option<Release>,
    #[arg(short, long, default_value = "text")]
    pub output: PlanOutputArg,
}

#[derive(Clone, Debug, Args)]
pub struct BackArgs {
    #[command(flatten)]
    pub walk: WalkthroughArgs,
    /// Stage whose beginning is gone back to: 3 keeps the flags, 2 the Lease and its rights, 0 nothing
    #[arg(long, value_name = "STAGE", default_value = "0", value_parser = back_to)]
    pub to: MigrationStage,
    /// The cloud provider that kube-controller-manager had, where no process has it any more
    #[arg(long, value_name = "NAME")]
    pub cloud_provider: Option<String>,
    /// Release that the nodes go back to; without it the one that runs there
    #[arg(long, value_name = "V", value_parser = Release::parse)]
    pub old_version: Option<Release>,
}

#[derive(Clone, Debug, Args)]
pub struct RehearseArgs {
    /// Control plane nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub nodes: u16,
    /// Release of the old kube-controller-manager
    #[arg(long, value_name = "V", value_parser = Release::parse, default_value = "1.26")]
    pub kcm_version: Release,
    /// Release of the new kube-controller-manager, and of the library in cloud-controller-manager
    #[arg(long, value_name = "V", value_parser = Release::parse, default_value = "1.27")]
    pub ccm_version: Release,
    /// Bring the processes into this failure instead, F1 to F22, with the releases that it is about
    #[arg(long, value_name = "CODE", value_parser = failure, conflicts_with = "back_from")]
    pub failure: Option<String>,
    /// Go to this stage, 2 to 6, and all the way back
    #[arg(long, value_name = "STAGE", value_parser = clap::value_parser!(u8).range(2..=6))]
    pub back_from: Option<u8>,
    /// Chance that repeats
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub seed: u64,
}

#[derive(Clone, Debug, Args)]
pub struct RightsArgs {
    /// Name of the migration Lease
    #[arg(long, value_name = "NAME", value_parser = object_name, default_value = DEFAULT_LEADER_NAME)]
    pub leader_name: String,
    /// Namespace of the Leases
    #[arg(long, value_name = "NS", default_value = "kube-system")]
    pub lease_namespace: String,
    /// Service account of the cloud-controller-manager
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "kube-system/cloud-controller-manager",
          value_parser = service_account)]
    pub ccm_service_account: Grantee,
    /// Ask the server of the kubeconfig by access reviews instead; exit 11 when a right is missing
    #[arg(long)]
    pub check: bool,
}

fn back_to(text: &str) -> Result<MigrationStage, &'static str> {
    match text {
        "0" => Ok(MigrationStage::Preflight),
        "2" => Ok(MigrationStage::Enable),
        "3" => Ok(MigrationStage::Introduce),
        _ => Err("expected 0, 2 or 3"),
    }
}

fn function(text: &str) -> Result<Function, String> {
    function_named(text).ok_or_else(|| {
        let known = Function::ALL.map(Function::alias).join(", ");
        format!("expected one of {known}, or a canonical name")
    })
}

fn service_account(text: &str) -> Result<Grantee, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok(Grantee::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err("expected NAMESPACE/NAME".to_owned()),
    }
}

fn kcm_flags(text: &str) -> Result<Flags, FlagError> {
    flags(ManagerKind::KubeControllerManager, text)
}

fn ccm_flags(text: &str) -> Result<Flags, FlagError> {
    flags(ManagerKind::CloudControllerManager, text)
}

pub(super) fn flags(manager: ManagerKind, text: &str) -> Result<Flags, FlagError> {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    Flags::parse(manager, &words)
}

/// How many failures can be played.
const FAILURES: u8 = 22;

fn failure(text: &str) -> Result<String, String> {
    let code = text.to_ascii_uppercase();
    let number = code.strip_prefix('F').and_then(|number| number.parse::<u8>().ok());
    match number {
        Some(1..=FAILURES) => Ok(code),
        Some(_) | None => Err(format!("expected one of F1 to F{FAILURES}")),
    }
}
