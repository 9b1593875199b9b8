//! The way from screens to logs: of the controllers of a management cluster, as far as a line names an object, of Pods of workload
//! clusters, and of runs on Hosts. Owns which lines are about an object; must not know a screen, nor how Hosts are reached.

use std::sync::Arc;

use futures::stream::{self, BoxStream, Stream, StreamExt as _};

use capi_types::key::ObjectKey;
use capstan_base::text::sanitize_line;
use capstan_engine::client::Connection;
use capstan_engine::client::logs::{Keep, LogPods, follow};
pub use capstan_engine::client::logs::{LogLine, LogNews};
use capstan_engine::workload::connect_to;

/// Controllers of Cluster API and of its providers have it, as clusterctl and the operator install them.
const CONTROLLERS: &str = "cluster.x-k8s.io/provider";
/// Of the controllers most lines are about other objects.
const TAIL_LINES: i64 = 5_000;
const POD_TAIL_LINES: i64 = 1_000;
/// News that are handed over together.
const TOGETHER: usize = 512;

/// Whose logs are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPlace {
    /// Of the controllers, what names this object.
    Controllers(ObjectKey),
    Workload {
        cluster: ObjectKey,
        pod: ObjectKey,
    },
    /// Of the bootstrap run of the HostMachine that has this Host.
    HostRun(ObjectKey),
}

/// Follows logs of a server and of its workload clusters.
pub trait LogReader: Send + Sync + 'static {
    /// What comes, until dropped. An error ends it: why nothing can be read, in a sentence.
    fn follow(&self, place: LogPlace) -> BoxStream<'static, Result<Vec<LogNews>, String>>;
}

/// Follows logs of runs on the Hosts of a server, on the machines themselves.
pub trait HostLogReader: Send + Sync + 'static {
    /// As [`LogReader::follow`].
    fn follow(&self, host: ObjectKey) -> BoxStream<'static, Result<Vec<LogNews>, String>>;
}

/// Follows logs of one server and of its workload clusters.
pub struct ServerLogs {
    pub connection: Connection,
    /// `None`: Hosts are not reached from here.
    pub hosts: Option<Arc<dyn HostLogReader>>,
}

type Followed = BoxStream<'static, Result<Vec<LogNews>, String>>;

impl LogReader for ServerLogs {
    fn follow(&self, place: LogPlace) -> Followed {
        let connection = self.connection.clone();
        let news = match place {
            LogPlace::Controllers(about) => of_controllers(connection, about),
            // The connection is made when the stream is polled, because this call must not wait.
            LogPlace::Workload { cluster, pod } => {
                stream::once(of_pod(connection, cluster, pod)).flatten().boxed()
            }
            LogPlace::HostRun(host) => match &self.hosts {
                Some(hosts) => hosts.follow(host),
                None => refused("Hosts are not reached from here".to_owned()),
            },
        };
        news.map(|news| Ok(news?.into_iter().map(plain).collect())).boxed()
    }
}

fn refused(why: String) -> Followed {
    stream::once(async { Err(why) }).boxed()
}

fn together(news: impl Stream<Item = LogNews> + Send + 'static) -> Followed {
    news.ready_chunks(TOGETHER).map(Ok).boxed()
}

fn of_controllers(connection: Connection, about: ObjectKey) -> Followed {
    let pods = LogPods::Selected(CONTROLLERS.to_owned());
    let keep: Keep = Arc::new(move |line| names(line, &about));
    together(follow(connection.client, connection.server, pods, TAIL_LINES, keep))
}

async fn of_pod(connection: Connection, cluster: ObjectKey, pod: ObjectKey) -> Followed {
    match connect_to(&connection.client, &cluster, connection.read_only).await {
        Ok(client) => {
            let server = format!("Cluster {cluster}");
            together(follow(client, server, LogPods::One(pod), POD_TAIL_LINES, Arc::new(|_| true)))
        }
        Err(why) => refused(why),
    }
}

/// Without what could steer a terminal.
fn plain(news: LogNews) -> LogNews {
    match news {
        LogNews::Line(line) => LogNews::Line(LogLine {
            at: sanitize_line(&line.at),
            source: sanitize_line(&line.source).into(),
            text: sanitize_line(&line.text),
        }),
        LogNews::Followed(pods) => LogNews::Followed(pods.iter().map(|pod| sanitize_line(pod)).collect()),
        LogNews::Trouble(why) => LogNews::Trouble(sanitize_line(&why)),
    }
}

/// Controllers write `NAMESPACE/NAME`, or both apart.
fn names(line: &str, object: &ObjectKey) -> bool {
    has_word(line, &object.name) && (object.namespace.is_empty() || has_word(line, &object.namespace))
}

/// As a whole, and not as a part of a longer name.
fn has_word(line: &str, word: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (line[..at].chars().next_back(), line[at + word.len()..].chars().next());
        !before.is_some_and(is_of_name) && !after.is_some_and(is_of_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_about_an_object_when_it_has_its_names_as_wholes() {
        let object = ObjectKey::new("prod", "edge-7");
        for (line, expected) in [
            (r#"I1129 18:00:00 machine.go:1] "Drained" Machine="prod/edge-7""#, true),
            (r#"{"msg":"x","Cluster":{"name":"edge-7","namespace":"prod"}}"#, true),
            ("namespace=\"prod\" name=\"edge-7\"", true),
            ("prod/edge-7.", true),
            ("prod/edge-7-abcde", false),
            ("prod/old-edge-7", false),
            ("test/edge-7", false),
            ("prod-eu/edge-7", false),
            ("nothing", false),
        ] {
            assert_eq!(names(line, &object), expected, "{line}");
        }
    }

    #[test]
    fn control_bytes_of_a_log_reach_no_terminal() {
        let line = LogLine {
            at: "\u{7}".to_owned(),
            source: "p\u{202e}".into(),
            text: "\u{1b}[31mred\u{1b}]0;x\u{7}\tend\r".to_owned(),
        };
        let LogNews::Line(line) = plain(LogNews::Line(line)) else { panic!("a line") };
        let all = format!("{}{}{}", line.at, line.source, line.text);
        assert!(!all.chars().any(capstan_base::text::is_hostile), "{all:?}");
        assert!(line.text.contains("red") && line.text.contains("end"));
    }
}
