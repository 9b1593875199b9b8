//! Why a change stops. Owns the words; must not know what is being done.

use kubeadm_change::convert::ConvertError;
use kubeadm_change::document::InputError;
use kubeadm_change::render::RenderError;

use super::addons::AddonError;
use super::drain::DrainError;
use super::executor::ExecutorError;
use super::read::ReadError;
use super::way::WayError;
use super::write::ChangeWriteError;

/// Why it stopped. Everything that was done stays; the same command goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] ChangeWriteError),
    #[error(transparent)]
    Addon(#[from] AddonError),
    #[error(transparent)]
    Drain(#[from] DrainError),
    #[error(transparent)]
    Command(#[from] ExecutorError),
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error(transparent)]
    Convert(#[from] ConvertError),
    #[error("the record of the change cannot be read: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Record(Vec<InputError>),
    #[error("there is no change to carry out: ConfigMap kube-system/capstan-change is not there or complete")]
    NothingOpen,
    #[error("a check failed, no further step was begun: {0}")]
    Check(String),
    #[error("it did not show within {waited_s} s, no further step was begun: {why}")]
    Late { why: String, waited_s: u64 },
    #[error(transparent)]
    Way(#[from] WayError),
    #[error("{path} is not the same on all nodes: {first} has {one}, {node} has {other}")]
    FilesDiffer { path: String, first: String, one: String, node: String, other: String },
}

impl ApplyError {
    /// The only API server may not come back by itself.
    pub fn may_be_for_long(&self) -> bool {
        matches!(self, Self::Late { .. } | Self::Read(_) | Self::Command(_))
    }

    /// It may be different in a moment: an API server that has just restarted does not answer yet, or does not know yet who may
    /// do what.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Read(ReadError::Server(_) | ReadError::MissingRight { .. }) => true,
            Self::Write(ChangeWriteError::Refused(error))
            | Self::Addon(AddonError::Refused(error))
            | Self::Drain(DrainError::Refused(error)) => error.is_unanswered(),
            Self::Addon(AddonError::Unreadable(..)) | Self::Drain(DrainError::Unreadable { .. }) => true,
            _ => false,
        }
    }
}
