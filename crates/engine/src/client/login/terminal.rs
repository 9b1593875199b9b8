//! Where credential plugins talk to a person: nowhere, at the terminal, or in what a dashboard shows. Owns that choice, which
//! changes while connections live; must not know the plugins.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// What is to be shown of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginNews {
    /// It was started, and is stopped after that time.
    Runs { program: String, limit: Duration },
    /// A line, made safe.
    Says(String),
    /// It has ended, well or not.
    Ended,
}

/// Clones are one.
#[derive(Clone, Debug, Default)]
pub struct PluginTerminal(Arc<Mutex<Sink>>);

/// Where a plugin talks.
#[derive(Clone, Default)]
pub enum Sink {
    /// What it says is kept for the error.
    #[default]
    Nowhere,
    /// It has standard error, and standard input if that is a terminal.
    Terminal,
    /// What it says is told line by line.
    Shown(Arc<dyn Fn(PluginNews) + Send + Sync>),
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nowhere => "Nowhere",
            Self::Terminal => "Terminal",
            Self::Shown(_) => "Shown",
        })
    }
}

impl PluginTerminal {
    /// Standard input and standard error.
    pub fn of_process() -> Self {
        Self(Arc::new(Mutex::new(Sink::Terminal)))
    }

    /// From now on the terminal is somebody else's, who shows what plugins say.
    pub fn show_with(&self, show: impl Fn(PluginNews) + Send + Sync + 'static) {
        *self.0.lock() = Sink::Shown(Arc::new(show));
    }

    pub(super) fn sink(&self) -> Sink {
        self.0.lock().clone()
    }

    /// Nobody waits in front of it for one answer.
    pub fn is_shown(&self) -> bool {
        matches!(*self.0.lock(), Sink::Shown(_))
    }
}

impl Sink {
    pub(super) fn send(&self, news: PluginNews) {
        if let Self::Shown(show) = self {
            show(news);
        }
    }

    /// Tells that it runs, and when this is dropped that it has ended.
    pub(super) fn shows(&self, program: &str, limit: Duration) -> Showing<'_> {
        self.send(PluginNews::Runs { program: program.to_owned(), limit });
        Showing(self)
    }
}

pub(super) struct Showing<'a>(&'a Sink);

impl Drop for Showing<'_> {
    fn drop(&mut self) {
        self.0.send(PluginNews::Ended);
    }
}
