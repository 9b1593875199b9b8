//! One step of a run: a line of its script, its content, and how it is shown. Must not know which steps there are.

use capstan_base::command_line::CommandLine;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StepKind {
    Note,
    BootCommand,
    File,
    Mount,
    User,
    Time,
    Kubelet,
    Command,
    Kubeadm,
    Reset,
}

/// One step. Serialised it is what `host plan` shows: without its content.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedStep {
    /// From 1.
    pub number: u32,
    pub kind: StepKind,
    /// What it does, without secrets.
    pub title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    #[serde(skip)]
    pub(super) words: CommandLine,
    #[serde(skip)]
    pub(super) content: Option<Vec<u8>>,
    /// Only root may read it there either.
    #[serde(skip)]
    pub(super) is_private: bool,
}

impl PlannedStep {
    /// As its files are named.
    pub(super) fn label(number: u32) -> String {
        format!("{number:03}")
    }

    /// The line of the script.
    pub(super) fn line(&self) -> CommandLine {
        CommandLine::of("step {}", [&Self::label(self.number)]).with(&self.words)
    }

    /// One line, as a person reads it.
    pub fn described(&self) -> String {
        match (&self.sha256, self.bytes) {
            (Some(sum), Some(bytes)) => {
                format!("{:>3}  {} ({bytes} bytes, sha256 {})", self.number, self.title, &sum[..16])
            }
            _ => format!("{:>3}  {}", self.number, self.title),
        }
    }
}

pub(super) fn sha256_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
