//! `capstan leader-migration`: files of Kubernetes' controller managers judged and written, and the rights they need.

pub mod args;
pub mod back;
mod inputs;
pub mod next;
mod report;
pub mod walkthrough;

use std::fmt::Write as _;

use anyhow::bail;

use super::exit_code::WrongUsage;
use super::output::{self, Style};
use crate::arguments::PlanOutputArg;
use args::{GenerateArgs, RightsArgs, ValidateArgs};
use capstan_engine::client::Client;
use capstan_engine::locks::review;
use leader_migration::configuration::{ConfigVersion, Configuration};
use leader_migration::controller_names::{Function, RENAMED_IN, WITHOUT_CLOUD_PROVIDER};
use leader_migration::manager_kind::ManagerKind;
use leader_migration::release::Release;
use leader_migration::rights::{self, Grantee};
use leader_migration::validate::{self, ClusterFacts};
use leader_migration::writing;

/// What a command prints, and whether it ends well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    pub document: String,
    pub remarks: Vec<String>,
    /// Nothing has to be put right.
    pub is_fine: bool,
}

impl Printed {
    fn fine(document: String) -> Self {
        Self { document, remarks: Vec::new(), is_fine: true }
    }
}

/// Judges files and processes.
///
/// # Errors
/// Input that cannot be read, in a sentence.
pub fn validate(args: &ValidateArgs, style: Style) -> anyhow::Result<Printed> {
    let inputs::Inputs { processes, remarks, .. } = inputs::gather(args)?;
    let findings = validate::validate(&processes, &ClusterFacts::default());
    let document = match args.output {
        PlanOutputArg::Text => report::text(&processes, &findings, style),
        PlanOutputArg::Json => output::json(&report::json(&processes, &findings))?,
    };
    Ok(Printed { document, remarks, is_fine: !validate::has_errors(&findings) })
}

/// One file for each reader that needs another one.
///
/// # Errors
/// A release without leader migration.
pub fn generate(args: &GenerateArgs) -> anyhow::Result<Printed> {
    let readers = [
        (ManagerKind::KubeControllerManager, args.kcm_version),
        (ManagerKind::CloudControllerManager, args.ccm_version),
    ];
    let mut files: Vec<(Vec<String>, String)> = Vec::new();
    // A file of the oldest version is read by all, so only names make a difference.
    let oldest = readers.iter().filter_map(|(_, release)| *release).min();
    for (manager, release) in readers.into_iter().filter_map(|(m, release)| Some((m, release?))) {
        let made = writing::generate(&args.leader_name, &args.controllers, &args.component, release);
        let version = oldest.and_then(ConfigVersion::for_readers);
        let (Some((configuration, _)), Some(version)) = (made, version) else {
            bail!(WrongUsage(format!("{manager} {release} has no leader migration: it began with 1.21")));
        };
        let text = writing::write(&configuration, version);
        let reader = format!("{manager} {release}");
        match files.iter_mut().find(|(_, other)| *other == text) {
            Some((readers, _)) => readers.push(reader),
            None => files.push((vec![reader], text)),
        }
    }
    let documents = files.iter().map(|(readers, text)| format!("# for {}\n{text}", readers.join(" and ")));
    let mut printed = Printed::fine(documents.collect::<Vec<_>>().join("---\n"));
    printed.remarks = remarks(args);
    Ok(printed)
}

fn remarks(args: &GenerateArgs) -> Vec<String> {
    let mut remarks = Vec::new();
    let is_late = args.kcm_version.is_some_and(|release| release >= WITHOUT_CLOUD_PROVIDER);
    if is_late && args.controllers.iter().any(|function| function.is_cloud()) {
        remarks.push(format!(
            "nothing to migrate: kube-controller-manager has no cloud provider since {WITHOUT_CLOUD_PROVIDER}; only node IPAM can move"
        ));
    }
    if args.controllers.contains(&Function::NodeInitialization) {
        remarks
            .push("node initialisation is in cloud-controller-manager alone and needs no entry".to_owned());
    }
    let releases = [args.kcm_version, args.ccm_version];
    let differ = releases.iter().flatten().any(|r| *r < RENAMED_IN)
        && releases.iter().flatten().any(|r| *r >= RENAMED_IN);
    if differ {
        remarks
            .push(format!("controllers have other names since {RENAMED_IN}: give each process its own file"));
    }
    remarks
}

/// The configuration that is built into a release, with what to know about it.
///
/// # Errors
/// A release without leader migration.
pub fn defaults(release: Release) -> anyhow::Result<Printed> {
    let Some(version) = ConfigVersion::for_readers(release) else {
        bail!(WrongUsage(format!("{release} has no leader migration: it began with 1.21")));
    };
    let mut printed = Printed::fine(writing::write(&Configuration::built_in(release), version));
    if release >= RENAMED_IN {
        printed.remarks.push(format!(
            "route-controller and service-controller match nothing in {release}: routes and load balancers stay under the main locks"
        ));
    }
    Ok(printed)
}

/// Role and RoleBinding as YAML.
pub fn rights(args: &RightsArgs) -> Printed {
    let subjects = subjects(args);
    Printed::fine(rights::role(&args.lease_namespace, &args.leader_name, &subjects))
}

/// Asks the server what the two processes may do.
///
/// # Errors
/// The server did not answer, or does not answer such questions to this user.
pub async fn check_rights(client: &Client, args: &RightsArgs) -> anyhow::Result<Printed> {
    let mut printed = Printed::fine(String::new());
    for question in rights::questions(&subjects(args), &args.lease_namespace, &args.leader_name) {
        let user = question.subject.user();
        let is_allowed = review(client, &question).await?;
        let answer = if is_allowed { "may" } else { "may not" };
        let what = if question.lease.is_empty() { "Leases" } else { question.lease.as_str() };
        let _ =
            writeln!(printed.document, "{user} {answer} {} {what} in {}", question.verb, question.namespace);
        printed.is_fine &= is_allowed;
    }
    if !printed.is_fine {
        printed
            .remarks
            .push("apply what `capstan leader-migration rights` prints without --check".to_owned());
    }
    Ok(printed)
}

fn subjects(args: &RightsArgs) -> [Grantee; 2] {
    [Grantee::kube_controller_manager(), args.ccm_service_account.clone()]
}
