//! Actions as one-shot commands: the same desk as the dashboard, with the preview as text and the
//! confirmation on the terminal. Owns the conversation; must not decide what is dangerous.

use std::io::{BufRead, IsTerminal as _, Write};

use anyhow::bail;

use super::args::ConfirmArgs;
use crate::actions::desk::is_confirmed;
use crate::actions::{Desk, Outlook, Preview, Request, Risk, Severity};
use crate::text;

/// Previews, asks, performs. `out` gets the preview and the report, `answers` is where a yes comes from.
///
/// # Errors
/// Refused, not allowed, not confirmed, or the server said no.
pub async fn act(
    desk: &Desk,
    request: Request,
    confirm: &ConfirmArgs,
    out: &mut impl Write,
    answers: &mut impl BufRead,
) -> anyhow::Result<()> {
    let preview = desk.preview(&request).await?;
    show(&preview, out)?;
    if !preview.is_allowed() {
        bail!(
            "{} of {} is blocked by what is said above; nothing was written",
            request.action.name(),
            request.target
        );
    }
    if confirm.dry_run {
        writeln!(out, "Dry run: nothing was written.")?;
        return Ok(());
    }
    if !confirm.yes {
        ask(&preview, out, answers)?;
    }
    let report = desk.perform(&preview).await?;
    writeln!(out, "{}", text::sanitize_line(&report.text))?;
    Ok(())
}

fn show(preview: &Preview, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{}", text::sanitize_line(&preview.summary))?;
    for finding in &preview.findings {
        let word = match finding.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Blocker => "blocked",
        };
        writeln!(out, "{word}: {} [{}]", text::sanitize_line(&finding.text), finding.rule)?;
    }
    show_outlook(&preview.outlook, out)?;
    for line in &preview.diff {
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
    for assumption in &change.assumptions {
        writeln!(out, "assumed: {}", text::sanitize_line(assumption))?;
    }
    Ok(())
}

fn ask(preview: &Preview, out: &mut impl Write, answers: &mut impl BufRead) -> anyhow::Result<()> {
    let name = &preview.request.target.key.name;
    match preview.risk {
        Risk::Low | Risk::Medium => write!(out, "Do it? [y/N] ")?,
        Risk::High => {
            write!(out, "This can break a control plane or empty a deployment. Type {name} to do it: ")?;
        }
    }
    out.flush()?;
    let mut answer = String::new();
    let read = answers.read_line(&mut answer)?;
    if read == 0 && !std::io::stdin().is_terminal() {
        bail!(
            "not confirmed: there is nobody to ask here; add --yes to do it without asking, or --dry-run to look"
        );
    }
    if !is_confirmed(preview.risk, &answer, name) {
        bail!("not confirmed; nothing was written");
    }
    Ok(())
}
