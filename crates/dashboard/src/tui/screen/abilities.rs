//! What some screens can do and others cannot: list objects, be searched, turn pages, fold lines, be copied. Each ability names
//! every screen, so that a new one does not compile before it says what it can do.

use super::list::ObjectList;
use super::search::Search;
use super::tree::Fold;
use super::{Context, Screen, fleet, logs, tree};
use capstan_base::time::Timestamp;

/// What is looked for on a screen.
#[derive(Clone, Copy)]
pub struct Searched<'a> {
    pub words: &'a str,
    /// What may be typed besides words.
    pub hint: &'static str,
    /// A text is searched; without it a list is narrowed.
    pub in_text: Option<&'a Search>,
}

impl Screen {
    pub fn as_list(&self) -> Option<&dyn ObjectList> {
        match self {
            Self::Fleet(s) => Some(s),
            Self::Tree(s) => Some(s.as_ref()),
            Self::Details(_)
            | Self::Rollout(_)
            | Self::Rollouts(_)
            | Self::Since(_)
            | Self::Objects(_)
            | Self::Etcd(_)
            | Self::Locks(_)
            | Self::Migration(_)
            | Self::Logs(_)
            | Self::Change(_)
            | Self::Simulation(_) => None,
        }
    }

    pub fn as_list_mut(&mut self) -> Option<&mut dyn ObjectList> {
        match self {
            Self::Fleet(s) => Some(s),
            Self::Tree(s) => Some(s.as_mut()),
            Self::Details(_)
            | Self::Rollout(_)
            | Self::Rollouts(_)
            | Self::Since(_)
            | Self::Objects(_)
            | Self::Etcd(_)
            | Self::Locks(_)
            | Self::Migration(_)
            | Self::Logs(_)
            | Self::Change(_)
            | Self::Simulation(_) => None,
        }
    }

    /// It is about all clusters, not about one.
    pub fn is_of_all_clusters(&self) -> bool {
        match self {
            Self::Fleet(_) | Self::Rollouts(_) | Self::Since(_) | Self::Objects(_) => true,
            Self::Tree(_)
            | Self::Details(_)
            | Self::Rollout(_)
            | Self::Etcd(_)
            | Self::Locks(_)
            | Self::Migration(_)
            | Self::Logs(_)
            | Self::Change(_)
            | Self::Simulation(_) => false,
        }
    }

    /// What is looked for; `None` where there is nothing to search.
    pub fn searched(&self) -> Option<Searched<'_>> {
        let list = |words, hint| Some(Searched { words, hint, in_text: None });
        match self {
            Self::Fleet(s) => list(s.filter(), fleet::FILTER_HINT),
            Self::Tree(s) => list(s.filter(), tree::FILTER_HINT),
            Self::Rollouts(s) => list(s.filter(), ""),
            Self::Since(s) => list(s.filter(), ""),
            Self::Logs(s) => list(s.filter(), logs::FILTER_HINT),
            Self::Objects(s) => list(s.filter(), ""),
            Self::Details(s) => {
                Some(Searched { words: s.search().words(), hint: "", in_text: Some(s.search()) })
            }
            Self::Rollout(_)
            | Self::Etcd(_)
            | Self::Locks(_)
            | Self::Migration(_)
            | Self::Change(_)
            | Self::Simulation(_) => None,
        }
    }

    /// The words of [`Self::searched`]; empty where nothing is looked for.
    pub fn filter(&self) -> &str {
        self.searched().map_or("", |searched| searched.words)
    }

    pub fn set_filter(&mut self, text: &str) {
        match self {
            Self::Fleet(s) => s.set_filter(text),
            Self::Tree(s) => s.set_filter(text),
            Self::Rollouts(s) => s.set_filter(text),
            Self::Since(s) => s.set_filter(text),
            Self::Logs(s) => s.set_filter(text),
            Self::Objects(s) => s.set_filter(text),
            Self::Details(s) => s.set_search(text),
            Self::Rollout(_)
            | Self::Etcd(_)
            | Self::Locks(_)
            | Self::Migration(_)
            | Self::Change(_)
            | Self::Simulation(_) => {}
        }
    }

    /// A text, which is searched where a list is narrowed.
    pub fn is_text(&self) -> bool {
        self.searched().is_some_and(|searched| searched.in_text.is_some())
    }

    /// Opens the next page, or the one before.
    pub fn turn(&mut self, step: isize) {
        match self {
            Self::Details(s) => s.turn(step),
            Self::Change(s) => s.turn(step),
            Self::Fleet(_)
            | Self::Tree(_)
            | Self::Rollout(_)
            | Self::Rollouts(_)
            | Self::Since(_)
            | Self::Objects(_)
            | Self::Etcd(_)
            | Self::Locks(_)
            | Self::Migration(_)
            | Self::Logs(_)
            | Self::Simulation(_) => {}
        }
    }

    /// Opens or closes the line under the cursor.
    pub fn fold(&mut self, context: &Context<'_>, fold: Fold) {
        match self {
            Self::Tree(s) => s.fold(context, fold),
            Self::Change(s) => s.fold(fold),
            Self::Details(s) => s.fold(context, fold),
            Self::Fleet(_)
            | Self::Rollout(_)
            | Self::Rollouts(_)
            | Self::Since(_)
            | Self::Objects(_)
            | Self::Etcd(_)
            | Self::Locks(_)
            | Self::Migration(_)
            | Self::Logs(_)
            | Self::Simulation(_) => {}
        }
    }

    /// Opens or closes every line.
    pub fn fold_all(&mut self, context: &Context<'_>, open: bool) {
        match self {
            Self::Tree(s) => s.fold_all(context.fleet, open),
            Self::Change(s) => s.fold_all(open),
            Self::Details(s) => s.fold_all(context, open),
            Self::Fleet(_)
            | Self::Rollout(_)
            | Self::Rollouts(_)
            | Self::Since(_)
            | Self::Objects(_)
            | Self::Etcd(_)
            | Self::Locks(_)
            | Self::Migration(_)
            | Self::Logs(_)
            | Self::Simulation(_) => {}
        }
    }

    /// What is copied in place of the name of what is selected: the words before "sent", and the text.
    ///
    /// # Errors
    /// Nothing can be copied now, in a sentence.
    pub fn copied(&self, now: Timestamp) -> Result<Option<(String, String)>, String> {
        match self {
            Self::Migration(s) => {
                let edits = s.edits(now).ok_or("this stage has no edits to copy")?;
                Ok(Some(("the edits were".to_owned(), edits)))
            }
            Self::Details(s) => Ok(s.open_yaml().map(|yaml| ("the YAML was".to_owned(), yaml))),
            Self::Change(s) => Ok(s.copied().map(|text| (format!("{text} was"), text))),
            Self::Objects(s) => Ok(s.target().map(|target| (format!("{} was", target.name), target.name))),
            Self::Fleet(_)
            | Self::Tree(_)
            | Self::Rollout(_)
            | Self::Rollouts(_)
            | Self::Since(_)
            | Self::Etcd(_)
            | Self::Locks(_)
            | Self::Logs(_)
            | Self::Simulation(_) => Ok(None),
        }
    }
}
