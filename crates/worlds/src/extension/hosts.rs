//! How hosts are changed: through the notes on DevMachines, which the simulated infrastructure follows. Keeps nothing in
//! memory, so that a question can be repeated after a restart; must not know hooks.

use async_trait::async_trait;
use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use capi_types::dev::{DevMachine, HOST_ANNOTATION, Host, MEMORY_ANNOTATION};
use capi_types::hook::MachineObjects;
use capi_types::key::{ObjectKey, annotation, group_of};
use capi_types::names::INFRASTRUCTURE_GROUP;
use capstan_base::time::{Clock, Timestamp, parse_rfc3339, rfc3339};
use capstan_engine::client::{Client, Mode, Precondition, Writer, get};

/// On a DevMachine: the update of its host that runs, as JSON of [`Update`].
const UPDATE_ANNOTATION: &str = "extension.capstan.dev/update";
/// Field manager of the notes.
const MANAGER: &str = "capstan-extension";

/// How far an update is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostUpdate {
    Done,
    Running { left_s: i64 },
}

/// Where the hosts are.
#[async_trait]
pub trait Hosts: Send + Sync {
    /// Brings the host of a Machine a step nearer to what the objects say; `takes_s` is how long all of it takes. The same
    /// question again is not another update.
    ///
    /// # Errors
    /// Why the host cannot be updated.
    async fn update(&self, desired: &MachineObjects, takes_s: u32) -> Result<HostUpdate, String>;
}

/// Simulated hosts of one management cluster.
pub struct DevHosts {
    client: Client,
    writer: Writer,
    clock: Clock,
    /// Divides how long an update takes.
    time_scale: f64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Update {
    since: String,
    to: Host,
}

impl DevHosts {
    pub fn new(client: Client, clock: Clock, time_scale: f64) -> Self {
        Self { writer: Writer::new(client.clone(), MANAGER), client, clock, time_scale }
    }

    async fn note(&self, dev: &DevMachine, notes: [(&str, Option<String>); 2]) -> Result<(), String> {
        let mut after = dev.clone();
        let annotations = after.metadata.annotations.get_or_insert_default();
        for (name, value) in notes {
            match value {
                Some(value) => annotations.insert(name.to_owned(), value),
                None => annotations.remove(name),
            };
        }
        // At this version only: two calls at once must not begin two updates.
        let written = self.writer.patch(dev, &after, &Precondition::unchanged(dev), Mode::Real).await;
        written.map(|_| ()).map_err(|error| error.to_string())
    }
}

/// What the host shall become.
fn wanted(desired: &MachineObjects) -> Host {
    let memory = &desired.infrastructure_machine["metadata"]["annotations"][MEMORY_ANNOTATION];
    Host {
        kubelet_version: desired.machine["spec"]["version"].as_str().unwrap_or_default().to_owned(),
        memory: memory.as_str().map(str::to_owned),
    }
}

fn noted<T: for<'de> Deserialize<'de>>(dev: &DevMachine, name: &str) -> Option<T> {
    serde_json::from_str(annotation(dev, name)?).ok()
}

fn dev_machine_of(infrastructure: &Value) -> Result<ObjectKey, String> {
    let text = |pointer: &str| infrastructure.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, version) = (text("/kind"), text("/apiVersion"));
    // A refusal in words: the extension may be registered beside real providers.
    if kind != "DevMachine" || group_of(version) != INFRASTRUCTURE_GROUP {
        return Err(format!("only DevMachines can be updated here, and this is a {kind} of {version}"));
    }
    Ok(ObjectKey::new(text("/metadata/namespace"), text("/metadata/name")))
}

#[async_trait]
impl Hosts for DevHosts {
    async fn update(&self, desired: &MachineObjects, takes_s: u32) -> Result<HostUpdate, String> {
        let key = dev_machine_of(&desired.infrastructure_machine)?;
        let found: Option<DevMachine> = get(&self.client, &key).await.map_err(|error| error.to_string())?;
        let dev = found.ok_or_else(|| format!("DevMachine {key} does not exist"))?;
        let (to, now) = (wanted(desired), self.clock.now());
        // Done already: the caller may ask again, as after a lost answer.
        if noted::<Host>(&dev, HOST_ANNOTATION).as_ref() == Some(&to) {
            return Ok(HostUpdate::Done);
        }
        // An update to something else is overtaken; this one begins anew.
        let running = noted::<Update>(&dev, UPDATE_ANNOTATION).filter(|update| update.to == to);
        let since = running.as_ref().and_then(|update| parse_rfc3339(&update.since));
        let takes = scaled(takes_s, self.time_scale);
        // Counted from the note, so that a restart of the extension loses no time.
        let left = since.map_or(takes, |since: Timestamp| takes - (now - since));
        if left <= TimeDelta::zero() {
            self.note(&dev, [(HOST_ANNOTATION, Some(json_of(&to)?)), (UPDATE_ANNOTATION, None)]).await?;
            return Ok(HostUpdate::Done);
        }
        if since.is_none() {
            let update = Update { since: rfc3339(now), to };
            // The note of the host stays as it is: only the end of the update changes it.
            let host = annotation(&dev, HOST_ANNOTATION).map(str::to_owned);
            self.note(&dev, [(UPDATE_ANNOTATION, Some(json_of(&update)?)), (HOST_ANNOTATION, host)]).await?;
        }
        Ok(HostUpdate::Running { left_s: left.num_seconds() })
    }
}

fn json_of(value: &impl Serialize) -> Result<String, String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}

fn scaled(seconds: u32, time_scale: f64) -> TimeDelta {
    // The cast of a positive number saturates.
    let milliseconds = (f64::from(seconds) * 1000.0 / time_scale) as i64;
    TimeDelta::milliseconds(milliseconds)
}
