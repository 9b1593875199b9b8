//! Logs of containers as they are written: several pods at once, from their last lines on, until the reader is dropped. Owns the
//! requests, how long a line may be, and what happens when a log ends; must not know what a line says.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::io::{AsyncBufRead, AsyncBufReadExt as _};
use futures::stream::{self, BoxStream, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::core::Request;
use kube::core::params::{GetParams, ListParams};
use kube::core::subresource::LogParams;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Client, explain, path_of};
use capi_types::key::ObjectKey;

/// Bytes of a line that are kept.
const LINE_BYTES: usize = 4_096;
/// Containers that are followed at once.
const CONTAINERS_MAX: usize = 32;
/// Lines that wait for the reader; a log waits then, too.
const QUEUE: usize = 256;
/// The rest before an ended log is followed again: it grows while logs end at once.
const REST: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(30);
/// Asks for rights that log lines do not need.
const SIDECAR: &str = "kube-rbac-proxy";

/// Whose logs are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPods {
    /// Of all namespaces, by their labels.
    Selected(String),
    One(ObjectKey),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// RFC 3339 with nanoseconds, so that these texts are in the order of time; empty where the server gave none.
    pub at: String,
    /// The name of the pod.
    pub source: Arc<str>,
    /// As it was written, but for what is beyond the limit.
    pub text: String,
}

/// What a reader is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogNews {
    /// The pods that are followed from now on.
    Followed(Vec<String>),
    Line(LogLine),
    /// Why nothing comes for the moment, in a sentence.
    Trouble(String),
}

/// Chooses lines.
pub type Keep = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Follows the logs until the stream is dropped. `tail_lines`: of each container, before `keep` chooses.
pub fn follow(
    client: Client,
    server: String,
    pods: LogPods,
    tail_lines: i64,
    keep: Keep,
) -> BoxStream<'static, LogNews> {
    let (send, news) = mpsc::channel(QUEUE);
    let follower = Follower { client, server, pods, tail_lines, keep, send, seen: BTreeMap::new() };
    let mut tasks = JoinSet::new();
    tasks.spawn(follower.run());
    // The tasks end with the stream.
    stream::unfold(
        (news, tasks),
        |(mut news, tasks)| async move { Some((news.recv().await?, (news, tasks))) },
    )
    .boxed()
}

struct Follower {
    client: Client,
    server: String,
    pods: LogPods,
    tail_lines: i64,
    keep: Keep,
    send: mpsc::Sender<LogNews>,
    /// The time of the last line of each container.
    seen: BTreeMap<Container, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Container {
    pod: ObjectKey,
    name: String,
}

impl Follower {
    async fn run(mut self) {
        let mut rest = REST;
        loop {
            let begun = Instant::now();
            let news = match self.containers().await {
                Ok(containers) if containers.is_empty() => LogNews::Trouble(self.nothing_found()),
                Ok(containers) => LogNews::Trouble(self.until_one_ends(containers).await),
                Err(why) => LogNews::Trouble(why),
            };
            if self.send.send(news).await.is_err() {
                return;
            }
            rest = if begun.elapsed() > REST_MAX { REST } else { (rest * 2).min(REST_MAX) };
            tokio::time::sleep(rest).await;
        }
    }

    fn nothing_found(&self) -> String {
        match &self.pods {
            LogPods::Selected(selector) => {
                format!("no Pod with the label {selector} runs on {}", self.server)
            }
            LogPods::One(pod) => format!("Pod {pod} does not run"),
        }
    }

    /// # Errors
    /// The server does not list them, in a sentence.
    async fn containers(&self) -> Result<Vec<Container>, String> {
        let request = match &self.pods {
            LogPods::Selected(selector) => {
                let params = ListParams::default().labels(selector);
                Request::new(path_of::<Pod>("")).list(&params)
            }
            LogPods::One(pod) => {
                Request::new(path_of::<Pod>(&pod.namespace)).get(&pod.name, &GetParams::default())
            }
        };
        let request = request.map_err(|error| error.to_string())?;
        let explained = |error: kube::Error| explain(&error, &self.server);
        let pods: Vec<Pod> = match &self.pods {
            LogPods::Selected(_) => {
                self.client.request::<kube::core::ObjectList<Pod>>(request).await.map_err(explained)?.items
            }
            LogPods::One(_) => vec![self.client.request(request).await.map_err(explained)?],
        };
        Ok(pods.iter().flat_map(running).take(CONTAINERS_MAX).collect())
    }

    /// Answers why it ended.
    async fn until_one_ends(&mut self, containers: Vec<Container>) -> String {
        let mut names: Vec<String> = containers.iter().map(|container| container.pod.name.clone()).collect();
        names.dedup();
        if self.send.send(LogNews::Followed(names)).await.is_err() {
            return String::new();
        }
        let (tell, mut lines) = mpsc::channel(QUEUE);
        let mut tasks = JoinSet::new();
        for container in containers {
            let seen = self.seen.get(&container).cloned();
            let log = Log {
                client: self.client.clone(),
                container,
                tail_lines: self.tail_lines,
                keep: self.keep.clone(),
            };
            tasks.spawn(log.read(seen, tell.clone()));
        }
        drop(tell);
        loop {
            tokio::select! {
                Some((container, line)) = lines.recv() => {
                    self.seen.insert(container, line.at.clone());
                    if self.send.send(LogNews::Line(line)).await.is_err() {
                        return String::new();
                    }
                }
                Some(ended) = tasks.join_next() => {
                    let why = ended.unwrap_or_else(|error| Err(LogEnd { pod: String::new(), error: LogError::Task(error.to_string()) }));
                    return match why {
                        Ok(pod) => format!("the log of Pod {pod} ended"),
                        Err(end) => end.sentence(&self.server),
                    };
                }
                else => return String::new(),
            }
        }
    }
}

/// Those that have something to say.
fn running(pod: &Pod) -> Vec<Container> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let key = ObjectKey::of(pod);
    let all = pod.spec.iter().flat_map(|spec| &spec.containers).filter(|one| one.name != SIDECAR);
    let is_there = matches!(phase, Some("Running"));
    all.filter(|_| is_there).map(|one| Container { pod: key.clone(), name: one.name.clone() }).collect()
}

/// One log that is read.
struct Log {
    client: Client,
    container: Container,
    tail_lines: i64,
    keep: Keep,
}

struct LogEnd {
    pod: String,
    error: LogError,
}

enum LogError {
    Request(kube::Error),
    Read(std::io::Error),
    Task(String),
}

impl LogEnd {
    fn sentence(&self, server: &str) -> String {
        let why = match &self.error {
            LogError::Request(error) => explain(error, server),
            LogError::Read(error) => error.to_string(),
            LogError::Task(why) => why.clone(),
        };
        format!("the log of Pod {} cannot be read: {why}", self.pod)
    }
}

impl Log {
    /// Answers the pod whose log ended. `seen`: what was told already, up to this moment.
    async fn read(
        self,
        seen: Option<String>,
        tell: mpsc::Sender<(Container, LogLine)>,
    ) -> Result<String, LogEnd> {
        let pod = self.container.pod.name.clone();
        let end = |error| LogEnd { pod: self.container.pod.name.clone(), error };
        let source: Arc<str> = pod.as_str().into();
        let params = LogParams {
            container: Some(self.container.name.clone()),
            follow: true,
            timestamps: true,
            tail_lines: Some(self.tail_lines),
            ..LogParams::default()
        };
        let request = Request::new(path_of::<Pod>(&self.container.pod.namespace)).logs(&pod, &params);
        let request = request.map_err(|error| end(LogError::Task(error.to_string())))?;
        let reader =
            self.client.request_stream(request).await.map_err(|error| end(LogError::Request(error)))?;
        let mut lines = Lines { reader: Box::pin(reader) };
        while let Some(line) = lines.next().await.map_err(|error| end(LogError::Read(error)))? {
            let (at, text) = split(&line);
            if seen.as_deref().is_some_and(|seen| at <= seen) || !(self.keep)(text) {
                continue;
            }
            let line = LogLine { at: at.to_owned(), source: source.clone(), text: text.to_owned() };
            if tell.send((self.container.clone(), line)).await.is_err() {
                break;
            }
        }
        Ok(pod)
    }
}

/// The moment before a line, where there is one.
fn split(line: &str) -> (&str, &str) {
    match line.split_once(' ') {
        Some((at, text)) if at.len() >= 20 && at.ends_with('Z') && at.as_bytes()[10] == b'T' => (at, text),
        _ => ("", line),
    }
}

struct Lines<R> {
    reader: Pin<Box<R>>,
}

impl<R: AsyncBufRead> Lines<R> {
    /// The next line; what is beyond the limit is dropped as it comes, so that a line without an end costs nothing.
    async fn next(&mut self) -> std::io::Result<Option<String>> {
        let mut line: Vec<u8> = Vec::new();
        let mut has_begun = false;
        loop {
            let ahead = self.reader.fill_buf().await?;
            if ahead.is_empty() {
                return Ok(has_begun.then(|| String::from_utf8_lossy(&line).into_owned()));
            }
            has_begun = true;
            let end = ahead.iter().position(|byte| *byte == b'\n');
            let part = &ahead[..end.unwrap_or(ahead.len())];
            line.extend_from_slice(&part[..part.len().min(LINE_BYTES - line.len())]);
            let taken = end.map_or(ahead.len(), |end| end + 1);
            self.reader.as_mut().consume(taken);
            if end.is_some() {
                return Ok(Some(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::client::in_process;

    fn pod(name: &str, phase: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "capi"},
            "spec": {"containers": [{"name": "manager"}, {"name": SIDECAR}]}, "status": {"phase": phase},
        })
    }

    fn line(second: u32, text: &str) -> String {
        format!("2026-11-29T18:00:{second:02}.000000000Z {text}\n")
    }

    /// A server with two controllers, whose logs end at once, and by the second time have one line more.
    fn client(asked: Arc<AtomicUsize>) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let (path, query) =
                (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
            let round = asked.load(Ordering::SeqCst);
            let body = match path.as_str() {
                "/api/v1/pods" => {
                    assert!(query.contains("labelSelector=provider"), "{query}");
                    asked.fetch_add(1, Ordering::SeqCst);
                    let items =
                        [pod("core-1", "Running"), pod("kubeadm-1", "Running"), pod("old", "Succeeded")];
                    json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items}).to_string()
                }
                "/api/v1/namespaces/capi/pods/core-1/log" => {
                    assert!(query.contains("container=manager") && query.contains("follow=true"), "{query}");
                    let more = if round > 1 { line(5, "about x again") } else { String::new() };
                    line(1, "about x") + &line(2, "about others") + &more
                }
                "/api/v1/namespaces/capi/pods/kubeadm-1/log" => {
                    line(3, &format!("x {}", "y".repeat(2 * LINE_BYTES))) + "x without a time\r\n"
                }
                other => panic!("{other}"),
            };
            async move { Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes()))) }
        });
        in_process(service, "test", "default", false).client
    }

    #[tokio::test(start_paused = true)]
    async fn lines_of_all_pods_come_once_and_logs_that_end_are_followed_again() {
        let keep: Keep = Arc::new(|line| line.contains('x'));
        let pods = LogPods::Selected("provider".to_owned());
        let news = follow(client(Arc::default()), "test".to_owned(), pods, 10, keep);
        let mut followed = 0;
        let mut lines: Vec<LogLine> = Vec::new();
        let mut news = std::pin::pin!(news);
        while let Some(one) = news.next().await {
            match one {
                LogNews::Followed(names) => {
                    assert_eq!(names, ["core-1", "kubeadm-1"]);
                    followed += 1;
                }
                LogNews::Line(line) => lines.push(line),
                LogNews::Trouble(why) => assert!(why.ends_with("ended"), "{why}"),
            }
            if lines.iter().any(|line| line.text == "about x again") {
                break;
            }
        }
        assert!(followed >= 2, "{followed}");
        assert_eq!(lines.iter().filter(|line| line.text == "about x").count(), 1, "{lines:?}");
        assert!(!lines.iter().any(|line| line.text == "about others"), "{lines:?}");
        assert!(lines.iter().all(|line| line.text.len() <= LINE_BYTES), "cut");
    }

    #[test]
    fn a_moment_is_told_from_a_text() {
        for (line, expected) in [
            ("2026-11-29T18:00:01.5Z a b", ("2026-11-29T18:00:01.5Z", "a b")),
            ("I1129 18:00:01 a", ("", "I1129 18:00:01 a")),
            ("", ("", "")),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaZ b", ("", "aaaaaaaaaaaaaaaaaaaaaaaaaaZ b")),
        ] {
            assert_eq!(split(line), expected);
        }
    }
}
