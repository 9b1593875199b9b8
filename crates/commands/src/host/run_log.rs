//! The log of the run on a Host, as a whole and followed. Owns how far it was read and how often more is asked for; must not know who
//! shows it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use tempfile::TempDir;

use super::objects::HostsOfServer;
use capi_types::key::ObjectKey;
use capstan_base::time::Clock;
use capstan_dashboard::operations::{HostLogReader, LogLine, LogNews};
use capstan_engine::client::Connection;
use capstan_host_provider::access::{Machines, Silence};
use capstan_host_provider::reach::SshReach;
use capstan_host_provider::ssh::SshMachines;
use capstan_hosts::run::{Redactor, RunId};

/// Between two questions to the machine, as the engine asks.
const ASK_EVERY: Duration = Duration::from_secs(3);

/// The log of one run. What it may show is known only with the bootstrap data, whose secrets are left out.
pub(super) struct RunLog {
    machines: Arc<dyn Machines>,
    /// Control sockets and pinned keys.
    _folder: Option<TempDir>,
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
        hosts: &HostsOfServer<'_>,
        name: &str,
        ssh_program: &str,
        clock: &Clock,
    ) -> anyhow::Result<Self> {
        let folder = super::ssh_folder()?;
        let machines = SshMachines::new(ssh_program, folder.path().to_owned(), clock.clone(), true)?;
        Ok(Self { _folder: Some(folder), ..Self::over(Arc::new(machines), hosts, name).await? })
    }

    async fn over(
        machines: Arc<dyn Machines>,
        hosts: &HostsOfServer<'_>,
        name: &str,
    ) -> anyhow::Result<Self> {
        let host = hosts.host(name).await?;
        let (run, reach) = (hosts.run(&host).await?, hosts.reach(&host).await?);
        let redactor = run.redactor();
        Ok(Self { machines, _folder: None, reach, run: run.id, redactor, read: 0, is_at_end: false })
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

/// Follows logs of runs over ssh, for the dashboard.
pub struct HostRunLogs {
    pub connection: Connection,
    /// The program that is called as ssh is.
    pub ssh_program: String,
    pub clock: Clock,
}

impl HostLogReader for HostRunLogs {
    fn follow(&self, host: ObjectKey) -> BoxStream<'static, Result<Vec<LogNews>, String>> {
        let (connection, ssh_program, clock) =
            (self.connection.clone(), self.ssh_program.clone(), self.clock.clone());
        let opened = async move {
            let hosts = HostsOfServer { connection: &connection, namespace: &host.namespace };
            match RunLog::open(&hosts, &host.name, &ssh_program, &clock).await {
                Ok(log) => {
                    let begun =
                        VecDeque::from([LogNews::Followed(vec![format!("the run on {}", host.name)])]);
                    stream::unfold((log, begun), |(log, said)| async { Some(news(log, said).await) }).boxed()
                }
                Err(why) => stream::once(async move { Err(format!("{why:#}")) }).boxed(),
            }
        };
        stream::once(opened).flatten().boxed()
    }
}

type Following = (RunLog, VecDeque<LogNews>);

/// What waits to be said, else what the machine says next.
async fn news(mut log: RunLog, mut said: VecDeque<LogNews>) -> (Result<Vec<LogNews>, String>, Following) {
    loop {
        if !said.is_empty() {
            return (Ok(said.drain(..).collect()), (log, said));
        }
        if log.is_at_end {
            tokio::time::sleep(ASK_EVERY).await;
        }
        match log.more().await {
            Ok(text) => said.extend(text.lines().map(line)),
            Err(silence) => {
                log.is_at_end = true;
                said.push_back(LogNews::Trouble(silence.to_string()));
            }
        }
    }
}

fn line(text: &str) -> LogNews {
    LogNews::Line(LogLine { at: String::new(), source: "".into(), text: text.to_owned() })
}
