//! `capstan change`: changing the kubeadm configuration of a running cluster. Owns exit codes and what is printed; what a change
//! means is `change`'s, how it is carried out is `reconfigure`'s.

mod apply;
pub mod args;
mod forecast;
mod hosts;
mod mend;
mod migrate;
mod offline;
mod plan;
mod render;
mod runbook;
pub mod source;
mod status;
mod text;

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::exit_code::ExitCode;
use super::output::{self, Style};
use args::{
    ApplyArgs, CarryOutArgs, ChangeCommand, ChangeOutputArg, ChangeStatusArgs, DiffArgs, MigrateArgs,
    PatchTypeArg, PlanChangeArgs, RenderArgs, RequestArgs, ValidateArgs,
};
use capstan_dashboard::operations::change::source::{LiveCluster, SourceReading, reading_of};
use capstan_dashboard::operations::guard::Guard;
use capstan_engine::reconfigure::executor::NodeExecutor;
use kubeadm_change::check::{self, DocumentFinding, FindingSeverity};
use kubeadm_change::difference::{FieldChange, differences, without_secrets};
use kubeadm_change::document::{InputError, Inputs};
use kubeadm_change::report;
use kubeadm_change::request::{self, PatchKind, RequestPart, WantedDocuments};
use kubeadm_change::{convert, yaml};
use source::Reach;

/// What the command prints, and how it exits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeAnswer {
    pub document: String,
    pub remarks: Vec<String>,
    pub exit_code: ExitCode,
}

impl ChangeAnswer {
    fn of(document: String, exit_code: ExitCode) -> Self {
        Self { document, remarks: Vec::new(), exit_code }
    }

    /// What could not be read makes what is said worse.
    fn with_gaps(mut self, found: &SourceReading) -> Self {
        self.remarks.extend(found.reading.running.gaps.iter().cloned());
        self
    }
}

/// What commands have in common.
pub struct Session {
    pub reach: Reach,
    pub style: Style,
    /// What every write goes through: the user, the clock, the journal.
    pub guard: Guard,
    /// Who runs commands with `--executor ssh`, when that is not the program of the arguments.
    pub executor: Option<Arc<dyn NodeExecutor>>,
}

/// Runs one command. `out` gets what happens while it happens, `answers` is where a confirmation comes from.
///
/// # Errors
/// What cannot be read or understood: file, line, column, and what was expected there.
pub async fn run(
    command: &ChangeCommand,
    session: &Session,
    out: &mut (impl Write + Send),
    answers: &mut (impl BufRead + Send),
) -> anyhow::Result<ChangeAnswer> {
    let style = session.style;
    let found = match command {
        // Rules need no cluster, and the way back without an API server has none.
        ChangeCommand::Rules(args) => return Ok(plan::rules(args, style)),
        ChangeCommand::Rollback(args) if args.offline => {
            return offline::put_back(args, session, out, answers).await;
        }
        ChangeCommand::Rollback(args) => mend::find(args, session, out, answers).await?,
        ChangeCommand::Validate(ValidateArgs { source, .. })
        | ChangeCommand::Diff(DiffArgs { source, .. })
        | ChangeCommand::Plan(PlanChangeArgs { source, .. })
        | ChangeCommand::Migrate(MigrateArgs { source, .. })
        | ChangeCommand::Render(RenderArgs { source, .. })
        | ChangeCommand::Apply(ApplyArgs { source, .. })
        | ChangeCommand::Status(ChangeStatusArgs { source, .. }) => {
            source::find(source, &session.reach).await?
        }
    };
    let inputs = &found.reading.inputs;
    match command {
        ChangeCommand::Validate(args) => Ok(validate(args, inputs, style)?.with_gaps(&found)),
        ChangeCommand::Diff(args) => diff(args, inputs, style),
        ChangeCommand::Plan(args) => Ok(plan::run(args, &found, session).await?.with_gaps(&found)),
        ChangeCommand::Rules(args) => Ok(plan::rules(args, style)),
        ChangeCommand::Migrate(args) => migrate::run(args, inputs, style),
        ChangeCommand::Render(args) => render::run(args, inputs, style),
        ChangeCommand::Apply(args) => {
            let mut doing = apply::Doing { session, args: &args.carry_out, out, answers };
            doing.apply(found, &args.request).await
        }
        ChangeCommand::Status(args) => status::status(args, found, session).await,
        ChangeCommand::Rollback(args) => {
            let mut doing = apply::Doing { session, args: &args.carry_out, out, answers };
            doing.rollback(found, args).await
        }
    }
}

/// Carries a merge patch out that another command made, in its name.
///
/// # Errors
/// As [`run`].
pub async fn carry_out_patch(
    (action, patch): (&str, &str),
    live: LiveCluster,
    (session, args): (&Session, &CarryOutArgs),
    out: &mut (impl Write + Send),
    answers: &mut (impl BufRead + Send),
) -> anyhow::Result<ChangeAnswer> {
    let found = reading_of(live).await?;
    let part = RequestPart::Patch(action.to_owned(), patch.to_owned());
    let wanted = request::apply(&found.reading.inputs, &[part], PatchKind::Merge);
    let wanted = wanted.map_err(|errors| all(&errors))?;
    apply::Doing { session, args, out, answers }.begin_or_go_on(found, (wanted, false), action).await
}

fn validate(args: &ValidateArgs, inputs: &Inputs, style: Style) -> anyhow::Result<ChangeAnswer> {
    let findings = findings(inputs);
    let failed = findings.iter().any(|finding| finding.severity == FindingSeverity::Error);
    let document = match args.output {
        ChangeOutputArg::Text => style.block(text::findings(inputs, &findings)),
        ChangeOutputArg::Json => output::json(&json!({ "findings": findings }))?,
    };
    Ok(ChangeAnswer::of(document, if failed { ExitCode::FailedCheck } else { ExitCode::Success }))
}

fn findings(inputs: &Inputs) -> Vec<DocumentFinding> {
    // What kubeadm, kubelets and kube-proxy refuse depends on their release.
    let minor = check::stated_minor(&inputs.documents);
    let documents = inputs.documents.iter();
    let all = documents.map(|document| [check::check(document, minor), check::check_flags(document, minor)]);
    all.flatten().flatten().collect()
}

fn diff(args: &DiffArgs, inputs: &Inputs, style: Style) -> anyhow::Result<ChangeAnswer> {
    let target = target(inputs, &args.request)?;
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
    let exit_code = if changes.is_empty() { ExitCode::Success } else { ExitCode::Differs };
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
    // Whole documents first, then patches, then single values: each is laid over those before.
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
