//! The log of the run on a Host, as a whole and followed. Owns how far it was read and how often more is asked for; must not know who
//! shows it.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt as _};

use super::objects::HostsOfServer;
use capi_types::key::ObjectKey;
use capstan_dashboard::operations::{HostLogReader, LogLine, LogNews};
use capstan_engine::client::Connection;
use capstan_host_provider::WATCH_EVERY;
use capstan_host_provider::access::{Machines, Silence};
use capstan_host_provider::reach::SshReach;
use capstan_hosts::run::{Redactor, RunId};

/// The log of one run. What it may show is known only with the bootstrap data, whose secrets are left out.
pub(super) struct RunLog {
    machines: Arc<dyn Machines>,
    reach: SshReach,
    run: RunId,
    redactor: Redactor,
    /// Bytes that were read.
    read: u64,
    /// Everything that there was is read.
    pub(super) is_at_end: bool,
}

impl RunLog {
    /// # Errors
    /// The Host has no run, or its run cannot be read.
    pub(super) async fn open(
        machines: Arc<dyn Machines>,
        hosts: &HostsOfServer<'_>,
        name: &str,
    ) -> anyhow::Result<Self> {
        let host = hosts.host(name).await?;
        let (run, reach) = (hosts.run(&host).await?, hosts.reach(&host).await?);
        let redactor = run.redactor();
        Ok(Self { machines, reach, run: run.id, redactor, read: 0, is_at_end: false })
    }

    /// The next part, in whole lines; empty: nothing came.
    ///
    /// # Errors
    /// Ssh to the machine fails.
    pub(super) async fn more(&mut self) -> Result<String, Silence> {
        let watched = self.machines.watch(&self.reach, &self.run, self.read, &self.redactor).await?;
        // A log that is shorter than what was read is another one.
        self.is_at_end = watched.log_next == self.read || watched.log_next >= watched.log_bytes;
        self.read = watched.log_next;
        Ok(watched.log)
    }
}

/// Follows the logs of bootstrap runs on the machines themselves, for the dashboard.
pub struct HostRunLogs {
    pub connection: Connection,
    pub machines: Arc<dyn Machines>,
}

impl HostLogReader for HostRunLogs {
    fn follow(&self, host: ObjectKey) -> BoxStream<'static, Result<Vec<LogNews>, String>> {
        let (connection, machines) = (self.connection.clone(), self.machines.clone());
        let opened = async move {
            let hosts = HostsOfServer { connection: &connection, namespace: &host.namespace };
            match RunLog::open(machines, &hosts, &host.name).await {
                Ok(log) => {
                    let following =
                        Following { log, name: format!("the run on {}", host.name), is_heard: false };
                    stream::unfold(following, |mut following| async {
                        Some((Ok(following.next().await), following))
                    })
                    .boxed()
                }
                Err(why) => stream::once(async move { Err(format!("{why:#}")) }).boxed(),
            }
        };
        stream::once(opened).flatten().boxed()
    }
}

struct Following {
    log: RunLog,
    name: String,
    /// The machine answered last.
    is_heard: bool,
}

impl Following {
    /// What the machine says next, or that it is silent.
    async fn next(&mut self) -> Vec<LogNews> {
        loop {
            if self.log.is_at_end {
                tokio::time::sleep(WATCH_EVERY).await;
            }
            let mut news = Vec::new();
            match self.log.more().await {
                Ok(text) => {
                    if !std::mem::replace(&mut self.is_heard, true) {
                        // Also after a silence, whose reason is not shown any longer.
                        news.push(LogNews::Followed(vec![self.name.clone()]));
                    }
                    news.extend(text.lines().map(line));
                }
                Err(silence) => {
                    (self.is_heard, self.log.is_at_end) = (false, true);
                    news.push(LogNews::Trouble(silence.to_string()));
                }
            }
            if !news.is_empty() {
                return news;
            }
        }
    }
}

fn line(text: &str) -> LogNews {
    LogNews::Line(LogLine { at: String::new(), source: "".into(), text: text.to_owned() })
}
