//! `capstan change migrate`: documents in a newer version of kubeadm's API. Owns what is refused and the printed form.

use anyhow::bail;

use super::ChangeAnswer;
use super::args::{KubeadmVersionArg, MigrateArgs};
use crate::exit_code::ExitCode;
use crate::output::Style;
use kubeadm_change::check::{DocumentFinding, FindingSeverity, check};
use kubeadm_change::document::Inputs;
use kubeadm_change::kind::{V1, V1BETA4};
use kubeadm_change::migrate::migrate;
use kubeadm_change::yaml;

pub(super) fn run(args: &MigrateArgs, inputs: &Inputs, style: Style) -> anyhow::Result<ChangeAnswer> {
    // Of no release: a version that the cluster's kubeadm does not read any more is why somebody migrates.
    let (errors, warnings): (Vec<_>, Vec<_>) = inputs
        .documents
        .iter()
        .flat_map(|document| check(document, None))
        .partition(|finding| finding.severity == FindingSeverity::Error);
    let lines = |findings: &[DocumentFinding]| -> Vec<String> {
        findings.iter().map(|finding| format!("{}: {}", finding.place, finding.message)).collect()
    };
    if !errors.is_empty() {
        bail!("kubeadm refuses what should be migrated; put it right first:\n{}", lines(&errors).join("\n"));
    }
    let version = match args.api_version {
        KubeadmVersionArg::V1beta4 => V1BETA4,
        KubeadmVersionArg::V1 => V1,
    };
    let documents: Vec<String> = migrate(inputs, version)?.iter().map(yaml::write).collect();
    let document = style.block(documents.join("---\n"));
    Ok(ChangeAnswer { document, remarks: lines(&warnings), exit_code: ExitCode::Success })
}
