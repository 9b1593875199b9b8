//! The one table of what is read for the screens: which subject of each kind is being read, which begins, which ends. Owns what
//! may be answered; must not know how anything is read, nor what a screen makes of it.

use std::collections::BTreeMap;

use super::plans::PlanReading;
use super::subject::{Subject, SubjectKind, Want};
use crate::actions::{Ahead, Grant, Right};
use crate::fleet::watch::ObjectNews;
use crate::operations::{ConfigurationReading, LogNews, ObjectTable};
use capi_rules::etcd::facts::Facts;
use leader_migration::look::LockLook;

/// What was read of a subject. Errors are sentences already: nothing here decides on their kind.
#[derive(Debug)]
pub enum Reading {
    /// Of an object, or of its events.
    Object(ObjectNews),
    /// A line for each difference.
    Outdated(Result<Vec<String>, String>),
    Plans(PlanReading),
    Rights(Vec<(Right, Grant)>),
    Etcd(Result<Facts, String>),
    Locks(Result<Box<LockLook>, String>),
    Logs(Result<Vec<LogNews>, String>),
    Objects(Result<Box<ObjectTable>, String>),
    Configuration(Result<Box<ConfigurationReading>, String>),
    Simulation(Result<Box<Ahead>, String>),
}

#[derive(Default)]
pub struct Reads {
    /// With the version that was wanted.
    begun: BTreeMap<SubjectKind, (Subject, u64)>,
}

/// What has to be done so that what is wanted is read.
#[derive(Debug, Default)]
pub struct Turn {
    pub stopped: Vec<SubjectKind>,
    pub begun: Vec<Want>,
}

impl Reads {
    /// `wants`: of each kind one subject at most. One that is being read is not begun again.
    pub fn turn_to(&mut self, wants: Vec<Want>) -> Turn {
        let is_wanted = |kind: &SubjectKind| wants.iter().any(|want| want.subject.kind() == *kind);
        let ended = self.begun.keys().filter(|kind| kind.ends_with_its_screen() && !is_wanted(kind));
        let stopped: Vec<SubjectKind> = ended.copied().collect();
        stopped.iter().for_each(|kind| drop(self.begun.remove(kind)));
        let begun: Vec<Want> = wants.into_iter().filter(|want| !self.is_begun(want)).collect();
        for want in &begun {
            self.begun.insert(want.subject.kind(), (want.subject.clone(), want.version));
        }
        Turn { stopped, begun }
    }

    fn is_begun(&self, want: &Want) -> bool {
        let begun = self.begun.get(&want.subject.kind());
        begun.is_some_and(|(subject, version)| *subject == want.subject && *version == want.version)
    }

    /// There is an answer: what is not followed has ended.
    pub fn answered(&mut self, subject: &Subject) {
        let kind = subject.kind();
        // A late answer about another subject must not end what was begun since.
        if !kind.is_followed() && self.begun.get(&kind).is_some_and(|(begun, _)| begun == subject) {
            self.begun.remove(&kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::SourceId;
    use crate::operations::LockPlace;
    use crate::tui::subject::LockSubject;

    fn rights(of: u16) -> Subject {
        Subject::Rights { source: SourceId(of), rights: Vec::new() }
    }

    fn locks(of: u16) -> Subject {
        Subject::Locks(LockSubject { source: SourceId(of), place: LockPlace::Server })
    }

    fn begun(turn: &Turn) -> Vec<Subject> {
        turn.begun.iter().map(|want| want.subject.clone()).collect()
    }

    #[test]
    fn one_subject_of_a_kind_is_read_at_a_time_and_none_twice() {
        let mut reads = Reads::default();
        for (wanted, expected) in [(1, vec![rights(1)]), (1, vec![]), (2, vec![rights(2)])] {
            assert_eq!(begun(&reads.turn_to(vec![Want::now(rights(wanted))])), expected, "{wanted}");
        }
        reads.answered(&rights(1));
        assert_eq!(begun(&reads.turn_to(vec![Want::now(rights(2))])), [], "another one was answered");
        reads.answered(&rights(2));
        assert_eq!(begun(&reads.turn_to(vec![Want::now(rights(2))])), [rights(2)]);
        let hurried = Want { version: 1, ..Want::now(rights(2)) };
        assert_eq!(begun(&reads.turn_to(vec![hurried])), [rights(2)], "what is under way is of no use");
    }

    #[test]
    fn what_is_followed_goes_on_until_nobody_wants_it_and_what_is_read_once_ends_by_itself() {
        let mut reads = Reads::default();
        reads.turn_to(vec![Want::now(rights(1)), Want::now(locks(1))]);
        reads.answered(&locks(1));
        let turn = reads.turn_to(vec![Want::now(locks(1))]);
        assert!(turn.stopped.is_empty() && turn.begun.is_empty(), "{turn:?}");
        assert_eq!(reads.turn_to(Vec::new()).stopped, [SubjectKind::Locks]);
        assert!(reads.turn_to(Vec::new()).stopped.is_empty(), "it was stopped");
        assert!(reads.turn_to(vec![Want::now(rights(1))]).begun.is_empty(), "its answer is on its way");
    }
}
