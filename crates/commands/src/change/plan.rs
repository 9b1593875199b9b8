//! `capstan change plan` and `change rules`: which form is printed, the files that the plan's commands name,
//! and the rule base for one attribute. Owns exit codes; the words of a plan are `change::report`'s.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde_json::json;

use super::args::{PlanChangeArgs, PlanFormatArg, RULED, RulesArgs};
use super::{ChangeAnswer, Session, forecast::forecast, target, text};
use crate::exit_code::{ExitCode, WrongUsage};
use crate::output::{self, Style};
use capstan_base::private_file;
use capstan_dashboard::operations::change::planned;
use capstan_dashboard::operations::change::source::SourceReading;
use kubeadm_change::document::{DocumentKind, Inputs};
use kubeadm_change::facts::{ClusterFacts, ManagedBy};
use kubeadm_change::manifest_texts;
use kubeadm_change::path::{FieldPath, PathStep};
use kubeadm_change::plan::{Acknowledged, AsStored, ChangePlan, PlanOptions, PlanState, name_open_change};
use kubeadm_change::report::{self, verdict_word};
use kubeadm_change::request::WantedDocuments;
use kubeadm_change::rules;
use kubeadm_change::schema::Schema;
use kubeadm_change::{convert, yaml};

/// Refuses names of conditions that the plan does not have: they were read in another one.
///
/// # Errors
/// [`WrongUsage`].
pub(super) fn check_names(acknowledged: &Acknowledged, plan: &ChangePlan) -> Result<(), WrongUsage> {
    let unknown = acknowledged.unknown(plan);
    // A plan that is blocked has no steps, and so not all of its conditions.
    if unknown.is_empty() || !matches!(plan.state, PlanState::Ready | PlanState::NeedsAcknowledgement) {
        return Ok(());
    }
    let open = plan.conditions();
    let open = if open.is_empty() { "nothing".to_owned() } else { open.join(", ") };
    Err(WrongUsage(format!("--acknowledge {}: this plan asks for {open}", unknown.join(", "))))
}

pub(super) async fn run(
    args: &PlanChangeArgs,
    found: &SourceReading,
    session: &Session,
) -> anyhow::Result<ChangeAnswer> {
    let inputs = &found.reading.inputs;
    let mut target = target(inputs, &args.request)?;
    let files = args.files.as_ref().map_or_else(|| "FILES".to_owned(), |folder| folder.display().to_string());
    let acknowledged = Acknowledged::of(&args.acknowledge);
    let options = PlanOptions {
        force: args.force,
        acknowledged: acknowledged.clone(),
        files,
        patches: args.patch_folder.clone(),
        as_stored: args.request.as_stored.then(AsStored::default),
        ..PlanOptions::default()
    };
    let mut plan = planned(found, &mut target, options).await?;
    check_names(&acknowledged, &plan)?;
    // What an open change has not reached yet looks like drift: its name stands there as the reason.
    if let Some(open) = found.reading.record.as_ref().filter(|record| record.is_open()) {
        name_open_change(&mut plan.drift, open, &ClusterFacts::read(inputs))?;
        plan.notes.push(format!(
            "change {} of {} is not over: `capstan change status` shows it, `apply` without a request goes on with it, `rollback` takes it back",
            open.id, open.by
        ));
    }
    if let Some(folder) = &args.files {
        write_files(folder, inputs, &target, &plan)?;
    }
    let forecast = forecast(found, &plan, session).await;
    let document = match args.output {
        PlanFormatArg::Text => session.style.block(shown(&plan, inputs) + &forecast),
        PlanFormatArg::Md => session.style.block(report::as_markdown(&plan, &ClusterFacts::read(inputs))),
        PlanFormatArg::Diff => session.style.block(text::manifests(&manifest_texts::of(inputs, &target)?)),
        PlanFormatArg::Json => output::json(&report::as_json(&plan))?,
    };
    Ok(ChangeAnswer::of(document, exit_code(plan.state)))
}

/// The plan as text.
pub(super) fn shown(plan: &ChangePlan, inputs: &Inputs) -> String {
    report::as_text(plan, &ClusterFacts::read(inputs))
}

pub(super) fn exit_code(state: PlanState) -> ExitCode {
    match state {
        PlanState::Nothing => ExitCode::Success,
        PlanState::Ready => ExitCode::Pending,
        PlanState::Blocked => ExitCode::Blocked,
        PlanState::NeedsAcknowledgement => ExitCode::NeedsAcknowledgement,
        PlanState::Invalid => ExitCode::FailedCheck,
    }
}

/// What the commands of the steps name: patches of the ConfigMaps or of the KubeadmControlPlane, and a file for kubeadm
/// per node. Mode 0600: variables may be secrets.
fn write_files(
    folder: &Path,
    inputs: &Inputs,
    target: &WantedDocuments,
    plan: &ChangePlan,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("--files: cannot make {}", folder.display()))?;
    // A file of another plan has another name.
    let write = |name: &str, text: &str| private_file::write(&folder.join(name), text).context("--files");
    if let Some(patch) = &plan.control_plane_patch {
        write(&format!("{}-kubeadmcontrolplane.json", plan.id), &output::json(patch)?)?;
    }
    let is_managed = plan.managed_by == ManagedBy::ControlPlane;
    for wanted in target.documents.iter().filter(|wanted| wanted.old != wanted.new) {
        // Its KubeadmControlPlane writes that one.
        let is_ours = !(is_managed && wanted.kind == DocumentKind::Cluster);
        let Some((map, key)) = wanted.kind.stored_in().filter(|_| is_ours) else { continue };
        let text = yaml::write(&convert::to_stored(wanted.kind, &wanted.version, &wanted.new)?);
        let version = inputs.versions.get(map).filter(|version| !version.is_empty());
        let mut patch = json!({"data": {key: text}});
        if let Some(version) = version {
            // The server refuses the patch when the ConfigMap has changed since it was read.
            patch["metadata"] = json!({"resourceVersion": version});
        }
        write(&format!("{}-{map}.json", plan.id), &output::json(&patch)?)?;
    }
    // Where a KubeadmControlPlane makes the nodes, nobody runs kubeadm on them by hand.
    let Some(cluster) = target.document(DocumentKind::Cluster).filter(|_| !is_managed) else { return Ok(()) };
    let nodes = ClusterFacts::read(inputs).control_plane;
    for (step, file) in plan.steps.iter().flat_map(|step| step.files.iter().map(move |file| (step, file))) {
        let Some(node) = nodes.iter().find(|node| step.nodes.contains(&node.host.name)) else { continue };
        write(&file.name, &file.text(plan.id.as_str(), &node.host, cluster)?)?;
    }
    Ok(())
}

/// `capstan change rules [--path P]`.
pub(super) fn rules(args: &RulesArgs, style: Style) -> ChangeAnswer {
    let mut text = String::new();
    match &args.path {
        Some(path) => {
            // A path such as featureGates is a field of several documents.
            let is_known = |kind: &DocumentKind| Schema::embedded().type_at(kind.name(), path).is_ok();
            for kind in RULED.into_iter().filter(is_known) {
                let Some(rule) = rules::rule_for(kind, path) else { continue };
                let below = attributes_below(kind, path);
                if rule.is_of_the_rest() && !below.is_empty() {
                    list(&mut text, kind, path, &below);
                } else {
                    describe(&mut text, kind.name(), &path.to_string(), rule);
                }
            }
        }
        None => {
            for kind in RULED {
                let _ = writeln!(text, "{}", kind.name());
                for path in Schema::embedded().leaves(kind.name()) {
                    judged(&mut text, kind, &path);
                }
            }
        }
    }
    ChangeAnswer::of(style.block(text), ExitCode::Success)
}

/// What a part of a document has below it: its fields, and of a list of structures an item, which rules are about.
fn attributes_below(kind: DocumentKind, part: &FieldPath) -> Vec<FieldPath> {
    let start = part.0.len();
    let leaves = Schema::embedded().leaves(kind.name()).into_iter();
    let below = leaves.filter(|leaf| leaf.0.len() > start && leaf.0.starts_with(&part.0));
    let mut found: Vec<FieldPath> = below
        .map(|mut leaf| {
            let item = leaf.0.iter().skip(start).position(|step| matches!(step, PathStep::Item(_)));
            leaf.0.truncate(item.map_or(leaf.0.len(), |at| start + at + 1));
            leaf
        })
        .collect();
    found.dedup();
    found
}

fn list(text: &mut String, kind: DocumentKind, part: &FieldPath, below: &[FieldPath]) {
    let _ = writeln!(text, "{} {part}\n  has no rule of its own; below it are:", kind.name());
    below.iter().for_each(|path| judged(text, kind, path));
}

/// A line of a list of attributes.
fn judged(text: &mut String, kind: DocumentKind, path: &FieldPath) {
    let verdict = rules::rule_for(kind, path).map_or("", |rule| verdict_word(rule.verdict));
    let _ = writeln!(text, "  {verdict:<6} {}", shown_path(path));
}

/// `[*]` and `*` as people read them.
fn shown_path(path: &FieldPath) -> String {
    let names = path.0.iter().map(|step| match step {
        PathStep::Field(name) if name == "*" => PathStep::Field("NAME".to_owned()),
        PathStep::Item(_) => PathStep::Item("NAME".to_owned()),
        step => step.clone(),
    });
    FieldPath(names.collect()).to_string()
}

fn describe(text: &mut String, kind: &str, path: &str, rule: &rules::Rule) {
    let touches: Vec<&str> = rule.touches.iter().map(|component| component.name()).collect();
    let _ = writeln!(text, "{kind} {path}");
    let _ = writeln!(
        text,
        "  touches: {}",
        if touches.is_empty() { "nothing that runs".to_owned() } else { touches.join(", ") }
    );
    let effect = json!(rule.kcp);
    let _ = writeln!(text, "  KubeadmControlPlane: {}", effect.as_str().unwrap_or_default());
    let mut line = |when: String, verdict, message: &str, alternative: &Option<String>| {
        let _ = writeln!(text, "  {:<6} {when}{message}", verdict_word(verdict));
        if let Some(alternative) = alternative {
            let _ = writeln!(text, "         instead: {alternative}");
        }
    };
    for case in &rule.cases {
        line(format!("when {}: ", case.when), case.verdict, &case.message, &case.alternative);
    }
    let when = if rule.cases.is_empty() { String::new() } else { "otherwise: ".to_owned() };
    line(when, rule.verdict, &rule.message, &rule.alternative);
    if !rule.steps.is_empty() {
        let _ = writeln!(text, "  steps beside the usual ones: {}", rule.steps.join(", "));
    }
}
