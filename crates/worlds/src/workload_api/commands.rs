//! Lines for simulated hosts over a socket file, as `capstan simulated-ssh` sends them: one JSON document each way per
//! connection. Must not know what a line means.

use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio_util::task::AbortOnDropHandle;

use super::WorkloadApis;
use crate::provider::kubeadm_hosts::READ_BY_HOSTS;
use capi_types::key::ObjectKey;
use capstan_apiserver::serve::ListenError;
use capstan_apiserver::serve::socket::SocketFile;
use capstan_engine::client::get;

/// Longest question that is read.
const BYTES_MAX: u64 = 4 * 1024 * 1024;
/// As ssh answers when it does not get in.
const NO_CONNECTION: i32 = 255;

/// What is to be run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostCommand {
    /// Name of the Node, or an address of it.
    pub host: String,
    pub line: String,
    /// What the command reads.
    pub input: String,
}

/// What became of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostAnswer {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl WorkloadApis {
    /// Runs a line on a host, and waits as long as that takes there.
    pub async fn run_on_host(&self, command: &HostCommand) -> HostAnswer {
        let HostCommand { host, line, input } = command;
        if let Some((cluster, _)) = self.world.host_named(host) {
            // Before the command and not within it: the world's lock is not held over a request.
            self.refresh(&cluster).await;
        }
        match self.world.run(host, line, input) {
            Some(output) => {
                // The host has changed already; only the caller waits, as for a real command.
                tokio::time::sleep(output.takes).await;
                HostAnswer { status: output.status, stdout: output.stdout, stderr: output.stderr }
            }
            None => {
                let stderr = format!(
                    "ssh: Could not resolve hostname {host}: no simulated host has this name or address\n"
                );
                HostAnswer { status: NO_CONNECTION, stdout: String::new(), stderr }
            }
        }
    }

    /// Commands read ConfigMaps through the API: what a client wrote just now counts.
    async fn refresh(&self, cluster: &ObjectKey) {
        let Some(client) = self.open.borrow().get(cluster).map(|entrance| entrance.administrator().client)
        else {
            return;
        };
        for name in READ_BY_HOSTS {
            let found = get::<ConfigMap>(&client, &ObjectKey::new("kube-system", name)).await;
            // Without an API the host reads what it knows: its own `serves` refuses it anyway.
            if let Ok(Some(map)) = found {
                self.world.change(cluster, |sim| sim.set_config_map(map));
            }
        }
    }

    /// Takes commands at a socket file of this user, until the handle is dropped.
    ///
    /// # Errors
    /// [`ListenError::Socket`].
    pub async fn take_commands(self: &Arc<Self>, path: &Path) -> Result<AbortOnDropHandle<()>, ListenError> {
        let file = SocketFile::bind(path).await?;
        let apis = Arc::clone(self);
        let accepting = async move {
            loop {
                match file.accept().await {
                    Ok(stream) => {
                        let apis = Arc::clone(&apis);
                        // A task of its own, since a command may
                        // take minutes and others come meanwhile.
                        tokio::spawn(async move {
                            if let Err(error) = apis.answer(stream).await {
                                tracing::debug!("a command for a simulated host was not answered: {error}");
                            }
                        });
                    }
                    Err(error) => {
                        tracing::warn!("commands for simulated hosts: {error}");
                        tokio::time::sleep(super::AUTHORITY_RETRY).await;
                    }
                }
            }
        };
        Ok(AbortOnDropHandle::new(tokio::spawn(accepting)))
    }

    async fn answer(&self, mut stream: UnixStream) -> std::io::Result<()> {
        let mut text = Vec::new();
        // A question that is longer is cut off there, and fails to be read.
        (&mut stream).take(BYTES_MAX).read_to_end(&mut text).await?;
        let command: HostCommand = serde_json::from_slice(&text)?;
        let answer = self.run_on_host(&command).await;
        stream.write_all(&serde_json::to_vec(&answer)?).await?;
        stream.shutdown().await
    }
}

/// Sends a command to a socket file, and waits for what becomes of it.
///
/// # Errors
/// Nobody listens there, or the answer cannot be read.
pub async fn send(path: &Path, command: &HostCommand) -> std::io::Result<HostAnswer> {
    let mut stream = UnixStream::connect(path).await?;
    stream.write_all(&serde_json::to_vec(command)?).await?;
    // The end of the question: the far side reads up to it.
    stream.shutdown().await?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text).await?;
    Ok(serde_json::from_slice(&text)?)
}
