//! What the screen is made of, read anew while it runs. Must not read a file itself.

use std::path::PathBuf;

use super::effect::Reread;
use super::model::{Model, Tone};

impl Model {
    /// Takes what was read anew in place of what was before; what cannot be used is said, and what was before stays.
    pub fn take_files(&mut self, read: Reread) {
        let Reread { changed, is_asked, look } = read;
        match look {
            Ok(look) => {
                self.look = *look;
                // A chord that has begun may not be one of the new keymap.
                self.typing.pending.clear();
                let (explanations, consoles) = (self.look.explanations.clone(), self.look.consoles.clone());
                let changes = self.fleet.explain_by(explanations, consoles);
                self.note(&changes);
                let folder = self.look.config_dir.as_deref();
                let below = |path: &PathBuf| {
                    let below = folder.and_then(|folder| path.strip_prefix(folder).ok());
                    below.unwrap_or(path).display().to_string()
                };
                let names: Vec<String> = changed.iter().map(below).collect();
                let what = match names.as_slice() {
                    [] => "the configuration was".to_owned(),
                    [one] => format!("{one} changed and was"),
                    [one, ..] => format!("{one} and {} more changed and were", names.len() - 1),
                };
                self.say(Tone::Info, format!("{what} read again"));
            }
            Err(error) if is_asked => {
                self.notice("The file was not taken", format!("{error}\n\nWhat was loaded before stays."));
            }
            // The person may be in the middle of a word, which must not go to a dialog.
            Err(error) => self.say(Tone::Warning, format!("{error}; what was loaded before stays")),
        }
    }
}
