//! `capstan change`: changing the kubeadm configuration of a running cluster. Owns where documents are read, and
//! exit codes; what a change means is `change`'s.

pub mod args;
mod plan;
mod render;
mod text;

use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::output::{self, Style};
use crate::change::check::{self, DocumentFinding, FindingSeverity};
use crate::change::difference::{FieldChange, differences, without_secrets};
use crate::change::document::{InputError, Inputs, read_inputs};
use crate::change::report;
use crate::change::request::{self, PatchKind, RequestPart, WantedDocuments};
use crate::change::{convert, yaml};
use args::{ChangeCommand, ChangeOutputArg, DiffArgs, PatchTypeArg, RequestArgs, SourceArgs, ValidateArgs};

/// What the command prints, and how it exits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeAnswer {
    pub document: String,
    pub remarks: Vec<String>,
    /// 0 nothing to do or done, 2 changes pending, 5 a failed check.
    pub exit_code: u8,
}

/// There are changes.
const PENDING: u8 = 2;
/// A check failed.
const FAILED_CHECK: u8 = 5;

/// Runs one command.
///
/// # Errors
/// What cannot be read or understood: file, line, column, and what was expected there.
pub fn run(command: &ChangeCommand, style: Style) -> anyhow::Result<ChangeAnswer> {
    match command {
        ChangeCommand::Validate(args) => validate(args, style),
        ChangeCommand::Diff(args) => diff(args, style),
        ChangeCommand::Plan(args) => plan::run(args, &read(&args.source)?, style),
        ChangeCommand::Rules(args) => plan::rules(args, style),
        ChangeCommand::Render(args) => render::run(args, style),
    }
}

fn validate(args: &ValidateArgs, style: Style) -> anyhow::Result<ChangeAnswer> {
    let inputs = read(&args.source)?;
    let findings = findings(&inputs);
    let failed = findings.iter().any(|finding| finding.severity == FindingSeverity::Error);
    let document = match args.output {
        ChangeOutputArg::Text => style.block(text::findings(&inputs, &findings)),
        ChangeOutputArg::Json => output::json(&json!({ "findings": findings }))?,
    };
    Ok(ChangeAnswer { document, remarks: Vec::new(), exit_code: if failed { FAILED_CHECK } else { 0 } })
}

fn findings(inputs: &Inputs) -> Vec<DocumentFinding> {
    let minor = check::stated_minor(&inputs.documents);
    inputs.documents.iter().flat_map(|document| check::check(document, minor)).collect()
}

fn diff(args: &DiffArgs, style: Style) -> anyhow::Result<ChangeAnswer> {
    let inputs = read(&args.source)?;
    let target = target(&inputs, &args.request)?;
    let changes = changes(&target);
    let stored = stored_texts(&target)?;
    let document = match args.output {
        ChangeOutputArg::Text => style.block(text::diff(&changes, &stored)),
        ChangeOutputArg::Json => {
            let documents: Vec<Value> =
                stored.iter().map(|s| json!({"kind": s.kind, "after": s.after})).collect();
            output::json(
                &json!({ "changes": report::change_values(&changes), "notes": target.notes, "documents": documents }),
            )?
        }
    };
    let exit_code = if changes.is_empty() { 0 } else { PENDING };
    Ok(ChangeAnswer { document, remarks: target.notes, exit_code })
}

fn changes(target: &WantedDocuments) -> Vec<FieldChange> {
    target.documents.iter().flat_map(|wanted| differences(wanted.kind, &wanted.old, &wanted.new)).collect()
}

/// A document as it is stored, and as it would be; secrets are hidden.
struct StoredTexts {
    kind: &'static str,
    before: String,
    after: String,
}

fn stored_texts(target: &WantedDocuments) -> anyhow::Result<Vec<StoredTexts>> {
    let mut found = Vec::new();
    for wanted in &target.documents {
        let written = |value: &Value| {
            convert::to_stored(wanted.kind, &wanted.version, &without_secrets(value)).map(|v| yaml::write(&v))
        };
        let before = written(&wanted.old).with_context(|| format!("stored {}", wanted.kind.name()))?;
        let after =
            written(&wanted.new).with_context(|| format!("{} cannot be written", wanted.kind.name()))?;
        found.push(StoredTexts { kind: wanted.kind.name(), before, after });
    }
    Ok(found)
}

fn target(inputs: &Inputs, args: &RequestArgs) -> anyhow::Result<WantedDocuments> {
    let mut parts = Vec::new();
    for path in &args.to {
        parts.push(RequestPart::Replace(path.display().to_string(), file(path)?));
    }
    for path in &args.patches {
        parts.push(RequestPart::Patch(path.display().to_string(), file(path)?));
    }
    parts.extend(args.set.iter().cloned().map(RequestPart::Set));
    let kind = match args.patch_type {
        PatchTypeArg::Strategic => PatchKind::Strategic,
        PatchTypeArg::Merge => PatchKind::Merge,
        PatchTypeArg::Json => PatchKind::Json,
    };
    request::apply(inputs, &parts, kind).map_err(|errors| all(&errors))
}

fn file(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Every error on its own line.
fn all(errors: &[InputError]) -> anyhow::Error {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    anyhow::anyhow!(lines.join("\n"))
}

fn read(source: &SourceArgs) -> anyhow::Result<Inputs> {
    let Some(folder) = &source.from_dir else { bail!("--from-dir is missing") };
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| {
        matches!(path.extension().and_then(|e| e.to_str()), Some("yaml" | "yml" | "json" | "conf"))
    });
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        files.push((path.display().to_string(), file(&path)?));
    }
    let inputs = read_inputs(&files).map_err(|errors| all(&errors))?;
    if inputs.documents.is_empty() {
        bail!(
            "{} holds no configuration document; expected ClusterConfiguration, KubeletConfiguration or \
             KubeProxyConfiguration in files that end with .yaml, .yml, .json or .conf",
            folder.display()
        );
    }
    Ok(inputs)
}
