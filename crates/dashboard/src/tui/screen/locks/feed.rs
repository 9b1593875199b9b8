//! What is known of the locks of one place, for whichever screen shows it.

use crate::operations::LockPlace;
use crate::tui::reads::Reading;
use crate::tui::subject::{LockSubject, Subject, Want};
use capstan_base::text::sanitize_line;
use leader_migration::look::{LockLook, MigrationScope};

/// The last look, and why there is none or no newer one.
#[derive(Clone, Debug)]
pub struct LockFeed {
    pub subject: LockSubject,
    pub scope: MigrationScope,
    pub look: Option<Box<LockLook>>,
    pub trouble: Option<String>,
}

impl LockFeed {
    pub fn of(subject: LockSubject) -> Self {
        Self { subject, scope: MigrationScope::default(), look: None, trouble: None }
    }

    pub fn want(&self) -> Want {
        Want::now(Subject::Locks(self.subject.clone()))
    }

    /// Whose locks they are, for headings.
    pub fn name(&self) -> String {
        match &self.subject.place {
            LockPlace::Server => "this server".to_owned(),
            LockPlace::Workload(cluster) => cluster.name.clone(),
        }
    }

    /// A look. One at another place is late.
    pub fn take(&mut self, of: &Subject, reading: &Reading) {
        let (Subject::Locks(of), Reading::Locks(look)) = (of, reading) else { return };
        if self.subject != *of {
            return;
        }
        match look {
            Ok(look) => {
                self.trouble.clone_from(&look.trouble);
                self.look = Some(look.clone());
            }
            Err(why) => self.trouble = Some(sanitize_line(why)),
        }
    }
}
