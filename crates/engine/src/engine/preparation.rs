//! Prepares controllers at every win of the right that they run under, before the first run of any of them. Must not know
//! what they prepare.
//!
//! What a controller keeps in memory is about objects that others changed while they led. A process that won its right
//! again, or waited for it since its start, begins from the objects like one that has just started.

use std::sync::Arc;

use parking_lot::Mutex;

use super::controller::Controller;
use super::lease::{FencingToken, Leadership, Term};

/// Every controller of a process, with what it was prepared for last.
#[derive(Default)]
pub struct Preparation(Mutex<Vec<Prepared>>);

struct Prepared {
    controller: Arc<dyn Controller>,
    leadership: Leadership,
    /// `None`: never.
    last: Option<Vec<FencingToken>>,
}

impl Preparation {
    pub fn add(&self, controller: Arc<dyn Controller>, leadership: Leadership) {
        self.0.lock().push(Prepared { controller, leadership, last: None });
    }

    /// Prepares all controllers that run under this holding, unless they are prepared for it. Those that call meanwhile wait:
    /// a controller may ask what another one prepares.
    pub fn begin(&self, term: &Term) {
        let mut all = self.0.lock();
        for prepared in all.iter_mut() {
            let is_due = prepared.last.as_deref() != Some(term.tokens());
            // Controllers under another lock are prepared when that one is won.
            if is_due && prepared.leadership.tokens() == term.tokens() {
                prepared.controller.prepare();
                prepared.last = Some(term.tokens().to_vec());
            }
        }
    }
}
