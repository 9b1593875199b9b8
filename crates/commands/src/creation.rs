//! Objects that a command makes: shown, confirmed, written and noted in the journal as one. Owns this conversation; which objects, and
//! what speaks against them, is the command's.

use std::io::BufRead;

use anyhow::bail;
use serde_json::Value;

use crate::act::show_findings;
use crate::confirmation::LinePrompt;
use crate::host::args::HostConfirmArgs;
use capi_types::key::ObjectRef;
use capstan_base::text::sanitize_line;
use capstan_dashboard::operations::guard::Guard;
use capstan_dashboard::operations::object_writes::{ObjectWrites, Write};
use capstan_dashboard::operations::{Confirmation, Finding, blocked};
use capstan_engine::client::Connection;

/// What a command wants to have written, in this order.
pub struct Creation {
    /// Of the journal.
    pub action: &'static str,
    pub objects: Vec<(ObjectRef, Write)>,
    /// What the command itself found.
    pub findings: Vec<Finding>,
}

/// Where it is written, and with whom is talked about it.
pub struct CreationTalk<'t, O, A> {
    pub connection: &'t Connection,
    pub guard: &'t Guard,
    pub confirm: &'t HostConfirmArgs,
    pub out: &'t mut O,
    pub answers: &'t mut A,
}

impl<O: std::io::Write, A: BufRead> CreationTalk<'_, O, A> {
    /// Was it written? It was not in a dry run.
    ///
    /// # Errors
    /// Something speaks against it, it was not confirmed, or the server refuses.
    pub async fn create(&mut self, creation: Creation) -> anyhow::Result<bool> {
        let Creation { action, objects, findings } = creation;
        let (client, server) = (&self.connection.client, self.connection.server.as_str());
        for (target, write) in &objects {
            let verb = if matches!(write, Write::Create(_)) { "create" } else { "change" };
            writeln!(self.out, "{verb} {}", sanitize_line(&target.to_string()))?;
        }
        let Some(mut writes) = ObjectWrites::read((client, server), action, objects).await? else {
            bail!("there is nothing to write");
        };
        let guard = self.guard.over(self.connection.read_only);
        let mut looked = guard.look(&mut writes).await?;
        looked.findings.extend(findings);
        show_findings(&looked.findings, self.out)?;
        if let Some(why) = blocked(&looked.findings) {
            bail!("{}; nothing was written", sanitize_line(&why));
        }
        if self.confirm.dry_run {
            writeln!(self.out, "Dry run: nothing was written.")?;
            return Ok(false);
        }
        if !self.confirm.yes {
            self.ask(server)?;
        }
        guard.write(&mut writes, &looked.findings).await?;
        Ok(true)
    }

    fn ask(&mut self, server: &str) -> anyhow::Result<()> {
        let setting = &self.connection.setting;
        let prompt = LinePrompt {
            question: format!("Write these at {}?", sanitize_line(server)),
            confirmation: Confirmation::Yes.in_context(setting),
            name: server,
            confirm_after_s: setting.confirm_after_s,
            otherwise: "--dry-run to look",
        };
        prompt.ask(self.out, self.answers)
    }
}

/// Objects as documents of YAML, as `kubectl apply -f -` takes them.
///
/// # Errors
/// One cannot be written so.
pub fn yaml(objects: &[Value]) -> anyhow::Result<String> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object)?);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Hosts are printed as a server has them, and that server is somebody's.
    #[test]
    fn no_control_character_of_an_object_reaches_the_terminal() {
        let text =
            yaml(&[json!({"kind": "Host", "spec": {"address": "h1\u{1b}[2J\u{7}\u{9b}31m"}})]).expect("YAML");
        assert!(text.starts_with("---\n") && text.contains("h1"), "{text:?}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    }
}
