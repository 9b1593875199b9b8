//! A program that is about to be run on an object. Owns what is known of it so far.

use super::notice::Notice;
use crate::fleet::SourceId;
use crate::tui::outside::OutsideCommand;
use capi_types::key::ObjectKey;

pub struct LaunchBox {
    pub ticket: u64,
    pub source: SourceId,
    /// Whose kubeconfig it needs.
    pub cluster: Option<ObjectKey>,
    pub command: OutsideCommand,
    pub notice: Notice,
    /// It was confirmed, or needs no confirmation.
    pub is_reading: bool,
}
