//! Actions as one-shot commands, with the preview as text and the confirmation on the terminal. Owns this
//! conversation; must not decide what is dangerous.

use std::fs::OpenOptions;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;

use crate::confirmation::LinePrompt;
use capi_forecast::forecast::in_place::Updates;
use capstan_base::text;
use capstan_base::time::{Clock, Timestamp, rfc3339};
use capstan_dashboard::actions::{Executor, Outlook, Preview, Request};
use capstan_dashboard::operations::diff::DiffLine;
use capstan_dashboard::operations::{Finding, Severity};

/// How an action is confirmed.
#[derive(Clone, Debug, Args)]
pub struct ConfirmArgs {
    /// Do it without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Show findings and difference, write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Write the change as a patch into this new file, for where the object is applied from, and nothing to the server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["yes", "dry_run"])]
    pub patch_file: Option<PathBuf>,
    /// Ask the registered extensions which Machines they can update in place; they are told what would change
    #[arg(long)]
    pub ask_extensions: bool,
}

/// Previews, asks for the confirmation, performs. `out` gets the preview and the report, `answers` is where the
/// confirmation comes from.
///
/// # Errors
/// Refused, not allowed, not confirmed, or the server does not do it.
pub async fn act(
    executor: &Executor,
    request: Request,
    confirm: &ConfirmArgs,
    later: Option<&Later>,
    out: &mut impl Write,
    answers: &mut impl BufRead,
) -> anyhow::Result<()> {
    let mut preview = previewed(executor, &request, out).await?;
    if confirm.dry_run {
        writeln!(out, "Dry run: nothing was written.")?;
        return Ok(());
    }
    if let Some(path) = &confirm.patch_file {
        save_patch(&preview, path)?;
        writeln!(out, "The patch was written to {}; nothing was written to the server.", path.display())?;
        return Ok(());
    }
    // Somebody else sets what is changed here, and would set it back.
    if preview.belongs_elsewhere() {
        writeln!(
            out,
            "Instead, --patch-file FILE writes this change as a patch, for where the object comes from."
        )?;
    }
    if !confirm.yes {
        ask(&preview, executor.confirm_after_s(), out, answers)?;
    }
    // Confirmed before the wait: the person may be away when the moment comes.
    if let Some(later) = later {
        preview = later.previewed(executor, &preview, out).await?;
    }
    let report = executor.perform(&preview).await?;
    writeln!(out, "{}", text::sanitize_line(&report.text))?;
    Ok(())
}

/// As a new file: one that is there may be the one that is applied.
fn save_patch(preview: &Preview, path: &Path) -> anyhow::Result<()> {
    let (action, target) = (preview.request.action.info().name, &preview.request.target);
    let Some(patch) = preview.patch_file() else {
        bail!("{action} of {target} is not a change of its fields, so there is no patch of it");
    };
    let file = OpenOptions::new().create_new(true).write(true).open(path);
    let written = file.and_then(|mut file| file.write_all(patch.text.as_bytes()));
    written.with_context(|| format!("cannot write the patch into {}: it must be a new file", path.display()))
}

async fn previewed(executor: &Executor, request: &Request, out: &mut impl Write) -> anyhow::Result<Preview> {
    let preview = executor.preview(request).await?;
    show(&preview, out)?;
    if !preview.is_allowed() {
        let (action, target) = (request.action.info().name, &request.target);
        bail!("{action} of {target} is blocked, see above; nothing was written");
    }
    Ok(preview)
}

/// A moment that is waited for after the confirmation.
pub struct Later {
    pub at: Timestamp,
    pub clock: Clock,
}

impl Later {
    /// Waits, and looks once more: what was confirmed must still be what would be done.
    async fn previewed(
        &self,
        executor: &Executor,
        confirmed: &Preview,
        out: &mut impl Write,
    ) -> anyhow::Result<Preview> {
        writeln!(
            out,
            "Waiting until {}; nothing is written before, and nothing at all if this ends.",
            rfc3339(self.at)
        )?;
        out.flush()?;
        // A moment that has passed gives a negative span, and is not waited for.
        let wait = (self.at - self.clock.now()).to_std().unwrap_or_default();
        tokio::time::sleep(wait).await;
        let preview = previewed(executor, &confirmed.request, out).await?;
        if preview.diff != confirmed.diff {
            bail!("what would change is not what was confirmed; nothing was written");
        }
        Ok(preview)
    }
}

fn show(preview: &Preview, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{}", text::sanitize_line(&preview.summary))?;
    show_findings(&preview.findings, out)?;
    show_outlook(&preview.outlook, out)?;
    show_diff(&preview.diff, out)
}

/// What speaks against it, one line each.
pub(crate) fn show_findings(findings: &[Finding], out: &mut impl Write) -> std::io::Result<()> {
    for finding in findings {
        let word = match finding.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Blocker => "blocked",
        };
        writeln!(out, "{word}: {} [{}]", text::sanitize_line(&finding.text), finding.rule)?;
    }
    Ok(())
}

/// The difference that it makes.
pub(crate) fn show_diff(diff: &[DiffLine], out: &mut impl Write) -> std::io::Result<()> {
    for line in diff {
        writeln!(out, "{} {}", line.sign.glyph(), line.text)?;
    }
    out.flush()
}

/// What happens next without the action and after it.
fn show_outlook(outlook: &Outlook, out: &mut impl Write) -> std::io::Result<()> {
    let change = match outlook {
        Outlook::NotPlanned => return Ok(()),
        Outlook::Unknown(why) => {
            return writeln!(out, "plan: not known: {}", text::sanitize_line(why));
        }
        Outlook::Known(change) => change,
    };
    writeln!(out, "now:   {}", text::sanitize_line(&change.before))?;
    for (at, line) in change.after.iter().enumerate() {
        let label = if at == 0 { "then: " } else { "      " };
        writeln!(out, "{label} {}", text::sanitize_line(line))?;
    }
    for (word, line) in change.updates.iter().flat_map(Updates::lines) {
        writeln!(out, "{word}: {}", text::sanitize_line(&line))?;
    }
    for (at, line) in change.course.iter().enumerate() {
        let label = if at == 0 { "takes:" } else { "      " };
        writeln!(out, "{label} {}", text::sanitize_line(line))?;
    }
    for assumption in &change.assumptions {
        writeln!(out, "assumed: {}", text::sanitize_line(assumption))?;
    }
    Ok(())
}

fn ask(
    preview: &Preview,
    confirm_after_s: u32,
    out: &mut impl Write,
    answers: &mut impl BufRead,
) -> anyhow::Result<()> {
    let name = &preview.request.target.key.name;
    let confirmation = preview.risk.confirmation();
    let question = "Do it?".to_owned();
    LinePrompt { question, confirmation, name, confirm_after_s, otherwise: "--dry-run to look" }
        .ask(out, answers)
}
