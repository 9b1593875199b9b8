//! What a writer knows of its object: what was acknowledged, and what had no answer. Owns the judgement of what is
//! found after a kill; must not know how anything is sent or found.

use capstan_base::rng::Rng;
use serde_json::{Value, json};

/// Longest payload.
const PAYLOAD_BYTES_MAX: u64 = 4_000;

/// How an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Post,
    Put,
    PutAtVersion,
    MergePatch,
    JsonPatch,
    Apply,
    Delete,
}

impl Verb {
    /// One that fits an object that is there, or is not.
    pub fn draw(rng: &Rng, exists: bool) -> Self {
        let fitting: &[Self] = if exists {
            &[
                Self::Put,
                Self::PutAtVersion,
                Self::PutAtVersion,
                Self::MergePatch,
                Self::JsonPatch,
                Self::Apply,
                Self::Delete,
            ]
        } else {
            &[Self::Post, Self::Post, Self::Apply]
        };
        fitting[usize::try_from(rng.below(fitting.len() as u64)).expect("small")]
    }
}

/// One write: which turn of its object, and the version it got, where the answer said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub verb: Verb,
    pub number: u64,
    pub revision: Option<u64>,
}

impl Turn {
    /// What is there afterwards.
    fn leaves(self) -> Option<u64> {
        (self.verb != Verb::Delete).then_some(self.number)
    }
}

/// One event of a watch on the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: String,
    pub name: String,
    /// The turn that the object was at.
    pub number: u64,
    pub revision: u64,
}

/// An object with one writer.
#[derive(Clone, Debug)]
pub struct Subject {
    pub name: String,
    /// The turn whose content is there; `None`: the object is not.
    pub at: Option<u64>,
    /// Of the last write; only grows.
    pub revision: u64,
    pub last: u64,
    uid: Option<String>,
    /// What happened for sure and was not yet seen in the watch.
    unseen: Vec<Turn>,
    /// What had no answer.
    pending: Option<Turn>,
}

/// The payload of a turn: made again to be compared.
fn payload(name: &str, number: u64) -> String {
    let rng = Rng::seeded(number).stream(name);
    let length = usize::try_from(rng.below(PAYLOAD_BYTES_MAX)).expect("small");
    rng.suffix(length)
}

pub fn revision_of(object: &Value) -> Option<u64> {
    object.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
}

fn uid_of(object: &Value) -> Option<String> {
    Some(object.pointer("/metadata/uid")?.as_str()?.to_owned())
}

impl Subject {
    pub fn new(name: String) -> Self {
        Self { name, at: None, revision: 0, last: 0, uid: None, unseen: Vec::new(), pending: None }
    }

    /// Content of a turn.
    pub fn data(&self, number: u64) -> Value {
        json!({ "turn": number.to_string(), "payload": payload(&self.name, number) })
    }

    /// The turn whose content `object` has, whole.
    fn turn_in(&self, object: &Value) -> u64 {
        let data = &object["data"];
        let number = data["turn"].as_str().and_then(|text| text.parse().ok());
        let number = number.unwrap_or_else(|| panic!("torn: {} has no turn: {object}", self.name));
        assert_eq!(
            *data,
            self.data(number),
            "torn: {} has another payload than its turn {number}",
            self.name
        );
        number
    }

    /// An answer came: `object` is what it held.
    pub fn acknowledge(&mut self, verb: Verb, number: u64, object: &Value) {
        let revision = revision_of(object).filter(|_| object["kind"] == "ConfigMap");
        self.last = number;
        let turn = Turn { verb, number, revision };
        self.at = turn.leaves();
        if verb == Verb::Delete {
            self.uid = None;
        } else {
            let revision = revision.unwrap_or_else(|| panic!("an answer without a version: {object}"));
            assert!(revision > self.revision, "{}: version {revision} after {}", self.name, self.revision);
            self.is_same(object);
            self.revision = revision;
        }
        self.unseen.push(turn);
    }

    /// An object keeps its uid as long as it lives.
    fn is_same(&mut self, object: &Value) {
        let uid = uid_of(object);
        assert!(uid.is_some() && (self.uid.is_none() || self.uid == uid), "{} became another one", self.name);
        self.uid = uid;
    }

    /// No answer came.
    pub fn leave_open(&mut self, verb: Verb, number: u64) {
        self.last = number;
        self.pending = Some(Turn { verb, number, revision: None });
    }

    /// What is there after a kill; fails when it is neither what was acknowledged nor what had no answer. Whether
    /// there was a write without an answer, and whether it was made.
    pub fn settle(&mut self, found: Option<&Value>) -> Option<bool> {
        let number = found.map(|object| self.turn_in(object));
        let pending = self.pending.take();
        let applied = pending.filter(|turn| turn.leaves() == number && number != self.at);
        if applied.is_none() && number != self.at {
            let what = match (self.at, number) {
                (None, Some(_)) => "resurrected",
                (Some(_), None) => "lost",
                (Some(at), Some(number)) if number < at => "lost",
                _ => "torn",
            };
            panic!("{what}: {} is at {number:?}; known: {self:?}, open: {pending:?}", self.name);
        }
        if let Some(object) = found {
            let revision = revision_of(object).expect("a version");
            let is_right =
                if applied.is_some() { revision > self.revision } else { revision == self.revision };
            assert!(is_right, "{}: version {revision}, known {self:?}", self.name);
            if applied.is_some_and(|turn| matches!(turn.verb, Verb::Post)) {
                self.uid = None;
            }
            self.is_same(object);
            self.revision = revision;
        } else {
            self.uid = None;
        }
        if let Some(turn) = applied {
            self.at = number;
            self.unseen.push(Turn { revision: found.and_then(revision_of), ..turn });
        }
        pending.map(|_| applied.is_some())
    }

    /// How many events are still to come.
    pub fn unseen(&self) -> usize {
        self.unseen.len()
    }

    /// The watch was told 410: what was not seen cannot be seen any more.
    pub fn forget_unseen(&mut self) {
        self.unseen.clear();
    }

    /// Fails unless `events` are what happened: each write once, in order.
    pub fn compare(&mut self, events: &[&Event]) {
        let expected: Vec<Turn> = std::mem::take(&mut self.unseen);
        let seen = |turn: &Turn, event: &Event| {
            let is_deleted = turn.verb == Verb::Delete;
            (event.kind == "DELETED") == is_deleted
                && (is_deleted || event.number == turn.number)
                && turn.revision.is_none_or(|revision| is_deleted || revision == event.revision)
        };
        let is_right = expected.len() == events.len()
            && expected.iter().zip(events).all(|(turn, event)| seen(turn, event));
        assert!(is_right, "{}: the watch said\n{events:#?}\nbut there was\n{expected:#?}", self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the server answers.
    fn object(subject: &Subject, number: u64, revision: u64) -> Value {
        json!({
            "kind": "ConfigMap", "data": subject.data(number),
            "metadata": { "name": subject.name, "uid": "u", "resourceVersion": revision.to_string() },
        })
    }

    /// Created and changed once, both acknowledged.
    fn subject() -> Subject {
        let mut subject = Subject::new("w0-0".to_owned());
        for (verb, number) in [(Verb::Post, 1), (Verb::Put, 2)] {
            let answer = object(&subject, number, 10 + number);
            subject.acknowledge(verb, number, &answer);
        }
        subject
    }

    #[test]
    fn what_had_no_answer_may_be_there_or_not() {
        for (number, revision, made) in [(2, 12, false), (3, 20, true)] {
            let mut subject = subject();
            subject.leave_open(Verb::MergePatch, 3);
            let found = object(&subject, number, revision);
            assert_eq!(subject.settle(Some(&found)), Some(made));
            assert_eq!((subject.at, subject.unseen()), (Some(number), usize::from(made) + 2));
        }
        assert_eq!(subject().settle(Some(&object(&subject(), 2, 12))), None);
    }

    #[test]
    #[should_panic(expected = "lost")]
    fn an_older_turn_than_the_acknowledged_one_is_a_loss() {
        let mut subject = subject();
        let found = object(&subject, 1, 11);
        subject.settle(Some(&found));
    }

    #[test]
    #[should_panic(expected = "lost")]
    fn an_object_that_is_gone_is_a_loss() {
        subject().settle(None);
    }

    #[test]
    #[should_panic(expected = "resurrected")]
    fn an_object_that_comes_back_is_found() {
        let mut subject = subject();
        subject.acknowledge(Verb::Delete, 3, &json!({ "kind": "Status" }));
        let found = object(&subject, 2, 12);
        subject.settle(Some(&found));
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn half_a_write_is_found() {
        let mut subject = subject();
        let mut found = object(&subject, 2, 12);
        found["data"]["payload"] = subject.data(1)["payload"].clone();
        subject.settle(Some(&found));
    }

    #[test]
    #[should_panic(expected = "version 11")]
    fn a_version_that_goes_back_is_found() {
        let mut subject = subject();
        let found = object(&subject, 2, 11);
        subject.settle(Some(&found));
    }

    #[test]
    #[should_panic(expected = "the watch said")]
    fn a_change_that_the_watch_left_out_is_found() {
        let mut subject = subject();
        let event = Event { kind: "ADDED".to_owned(), name: subject.name.clone(), number: 1, revision: 11 };
        subject.compare(&[&event]);
    }
}
