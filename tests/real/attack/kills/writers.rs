//! Writers that use every verb, each on objects of its own, until the server does not answer any more. Owns how a
//! turn becomes a request; the model says what it means.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use capstan_base::rng::Rng;
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::model::{Subject, Verb};
use crate::attack::in_time;

const WRITERS: usize = 6;
/// Objects of one writer.
const OBJECTS: usize = 8;
const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";

/// All writers and what they know. Between two lives their subjects are here.
pub struct Writers {
    pub subjects: Vec<Subject>,
    rng: Rng,
    answers: Arc<AtomicU64>,
    answered: Arc<Notify>,
    failed: Arc<Notify>,
}

impl Writers {
    pub fn new(rng: &Rng) -> Self {
        let names = (0..WRITERS).flat_map(|w| (0..OBJECTS).map(move |o| format!("w{w}-{o}")));
        let subjects = names.map(Subject::new).collect();
        let rng = rng.stream("writers");
        Self { subjects, rng, answers: Arc::default(), answered: Arc::default(), failed: Arc::default() }
    }

    /// Begins to write; each writer ends with its first request that has no answer.
    pub fn start(&mut self, client: &Client) -> Vec<JoinHandle<Vec<Subject>>> {
        self.answers.store(0, Ordering::SeqCst);
        let mut subjects = std::mem::take(&mut self.subjects).into_iter();
        let writer = |number: usize| {
            let own: Vec<Subject> = subjects.by_ref().take(OBJECTS).collect();
            let writer = Writer {
                client: client.clone(),
                rng: Rng::seeded(self.rng.below(u64::MAX)).stream(&number.to_string()),
                answers: self.answers.clone(),
                answered: self.answered.clone(),
            };
            let failed = self.failed.clone();
            tokio::spawn(async move {
                let known = writer.write(own).await;
                failed.notify_one();
                known
            })
        };
        (0..WRITERS).map(writer).collect()
    }

    pub async fn first_answer(&self) {
        while self.answers.load(Ordering::SeqCst) == 0 {
            self.answered.notified().await;
        }
    }

    /// Waits until a writer has no answer any more.
    pub async fn failed(&self) {
        self.failed.notified().await;
    }

    /// Waits for all writers' ends; how many writes were acknowledged.
    pub async fn join(&mut self, writing: Vec<JoinHandle<Vec<Subject>>>) -> u64 {
        for writer in writing {
            self.subjects.extend(writer.await.expect("a writer that breaks off, and no refusal"));
        }
        // The permit that the last writer left behind.
        let _ = tokio::time::timeout(std::time::Duration::ZERO, self.failed.notified()).await;
        self.answers.load(Ordering::SeqCst)
    }
}

struct Writer {
    client: Client,
    rng: Rng,
    answers: Arc<AtomicU64>,
    answered: Arc<Notify>,
}

impl Writer {
    async fn write(&self, mut subjects: Vec<Subject>) -> Vec<Subject> {
        loop {
            let chosen = usize::try_from(self.rng.below(subjects.len() as u64)).expect("small");
            let subject = &mut subjects[chosen];
            let verb = Verb::draw(&self.rng, subject.at.is_some());
            let number = subject.last + 1;
            match in_time("an answer", self.client.request::<Value>(request(subject, verb, number))).await {
                Ok(answer) => subject.acknowledge(verb, number, &answer),
                Err(kube::Error::Api(status)) => panic!("{verb:?} of {} was refused: {status}", subject.name),
                Err(_) => {
                    subject.leave_open(verb, number);
                    return subjects;
                }
            }
            self.answers.fetch_add(1, Ordering::SeqCst);
            self.answered.notify_one();
        }
    }
}

fn request(subject: &Subject, verb: Verb, number: u64) -> Request<Vec<u8>> {
    let data = subject.data(number);
    let mut whole = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": subject.name }, "data": data,
    });
    if verb == Verb::PutAtVersion {
        whole["metadata"]["resourceVersion"] = subject.revision.to_string().into();
    }
    let path = format!("{COLLECTION}/{}", subject.name);
    let operations = || {
        let replace =
            |field: &str| json!({ "op": "replace", "path": format!("/data/{field}"), "value": data[field] });
        json!([replace("turn"), replace("payload")])
    };
    let (method, uri, content_type, body) = match verb {
        Verb::Post => ("POST", COLLECTION.to_owned(), "application/json", whole),
        Verb::Put | Verb::PutAtVersion => ("PUT", path, "application/json", whole),
        Verb::MergePatch => ("PATCH", path, "application/merge-patch+json", json!({ "data": data })),
        Verb::JsonPatch => ("PATCH", path, "application/json-patch+json", operations()),
        Verb::Apply => {
            let uri = format!("{path}?fieldManager=attack&force=true");
            ("PATCH", uri, "application/apply-patch+yaml", whole)
        }
        Verb::Delete => ("DELETE", path, "application/json", json!({})),
    };
    let builder = Request::builder().method(method).uri(uri).header("content-type", content_type);
    builder.body(body.to_string().into_bytes()).expect("a request")
}
