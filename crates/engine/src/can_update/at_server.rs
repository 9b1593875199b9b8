//! The extensions that are registered at a server, asked from outside of its controllers. Owns how they are found: in the
//! status of the ExtensionConfigs, as the server's controllers discovered them. Must not discover any itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;

use super::{chosen, completed, machine, machine_set};
use crate::client::read::list_values;
use crate::client::write::gvk_of;
use crate::client::{Client, Connection, Writer, explain};
use crate::runtime_sdk::{Https, Runtime};
use capi_forecast::forecast::in_place::{InPlaceAnswer, InPlaceAnswers, InPlaceQuestion, Sides, Whom};
use capi_forecast::forecast::questions;
use capi_rules::observe::dump::Dump;
use capi_rules::plan::in_place::Handlers;
use capi_rules::status::in_place::{Replace, Verdict};
use capi_types::extension_config::ExtensionConfig;
use capi_types::hook::Hook;
use capstan_base::time::{Clock, Timestamp};
use k8s_machinery::lease;

/// What the engines of the server wrote on their Leases. `None`: they say different things, or nothing, or the Leases may
/// not be read.
#[derive(Clone, Copy, Debug, Default)]
struct Published {
    handlers: Option<Handlers>,
    /// Are extensions asked at all?
    gate_is_open: Option<bool>,
}

async fn published(client: &Client) -> Published {
    let listed = list_values(client, &gvk_of::<Lease>(), "", lease::COMPONENT).await;
    let listed =
        listed.inspect_err(|error| tracing::debug!("what the engine was started with is not known: {error}"));
    let leases = listed.unwrap_or_default().into_iter();
    let leases = leases.filter_map(|value| serde_json::from_value::<Lease>(value).ok());
    // A Lease without a holder says what an earlier engine was started with.
    let is_held = |lease: &Lease| {
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        holder.is_some_and(|holder| !holder.is_empty())
    };
    let said: Vec<_> = leases.filter(is_held).filter_map(|lease| lease.metadata.annotations).collect();
    let noted = |key: &'static str| said.iter().filter_map(move |notes| notes.get(key));
    Published {
        handlers: agreed(noted(lease::IN_PLACE_HANDLERS).filter_map(|word| Handlers::named(word))),
        gate_is_open: agreed(noted(lease::FEATURE_GATES).map(|gates| asks_extensions(gates))),
    }
}

fn agreed<T: PartialEq>(said: impl Iterator<Item = T>) -> Option<T> {
    let said: Vec<T> = said.collect();
    let is_one = said.windows(2).all(|pair| pair[0] == pair[1]);
    said.into_iter().next().filter(|_| is_one)
}

/// Of `GATE=BOOL`, with commas between them.
fn asks_extensions(gates: &str) -> bool {
    ["RuntimeSDK=true", "InPlaceUpdates=true"].iter().all(|open| gates.split(',').any(|gate| gate == *open))
}

/// The field manager of the dry runs, where no other is named.
const MANAGER: &str = "capstan";

/// The registered extensions of one server.
pub struct AtServer {
    runtime: Runtime,
    writer: Writer,
    handlers: Handlers,
    /// `None`: that is not known.
    gate_is_open: Option<bool>,
    /// Nothing that could change something may be sent, not even a dry run.
    is_read_only: bool,
}

impl AtServer {
    /// Reads the ExtensionConfigs.
    ///
    /// # Errors
    /// They cannot be listed, in a sentence.
    pub async fn read(connection: &Connection, clock: Clock) -> Result<Self, String> {
        let gvk = gvk_of::<ExtensionConfig>();
        let listed = list_values(&connection.client, &gvk, "", "").await;
        let listed = listed.map_err(|error| {
            format!("ExtensionConfigs cannot be read: {}", explain(&error, &connection.server))
        })?;
        let runtime = Runtime::new(connection.client.clone(), clock, Arc::new(Https::default()));
        // Nothing is waited for: what is registered comes from the statuses that were just read.
        runtime.begin([]);
        for config in listed.into_iter().filter_map(|value| serde_json::from_value(value).ok()) {
            let config: ExtensionConfig = config;
            let handlers = config.status.as_ref().map(|status| status.handlers.clone());
            runtime.register(&config, &handlers.unwrap_or_default());
        }
        let writer = Writer::new(connection.client.clone(), MANAGER);
        let Published { handlers, gate_is_open } = published(&connection.client).await;
        let handlers = handlers.unwrap_or_default();
        Ok(Self { runtime, writer, handlers, gate_is_open, is_read_only: connection.read_only })
    }

    /// How many extensions may answer a hook, where that is not to be what the engine wrote on its Lease.
    pub fn with(self, handlers: Option<Handlers>) -> Self {
        Self { handlers: handlers.unwrap_or(self.handlers), ..self }
    }

    /// Asks whatever the plans of `dump` depend on; `is_meant` says whose, by kind and name.
    pub async fn ask(
        &self,
        dump: &Dump,
        is_meant: &(dyn Fn(&InPlaceQuestion) -> bool + Sync),
        now: Timestamp,
    ) -> InPlaceAnswers {
        let mut answers: BTreeMap<Whom, InPlaceAnswer> = BTreeMap::new();
        let mut silent: BTreeMap<&str, String> = BTreeMap::new();
        for question in questions(dump, now).into_iter().filter(|question| is_meant(question)) {
            let whom = question.whom.clone();
            // Whoever did not answer is not waited for once more.
            let answer = match silent.get(whom.kind) {
                Some(why) => Err(why.clone()),
                None => self.answer(question).await,
            };
            if let Err(why) = &answer {
                silent.insert(whom.kind, why.clone());
            }
            answers.insert(whom, answer);
        }
        InPlaceAnswers { answers, without_dry_runs: self.is_read_only, gate_is_open: self.gate_is_open }
    }

    async fn answer(&self, question: InPlaceQuestion) -> InPlaceAnswer {
        if self.gate_is_open == Some(false) {
            return Ok(Verdict::Replace(Replace::GateClosed));
        }
        let namespace = question.whom.key.namespace.clone();
        match question.about {
            Err(replace) => Ok(Verdict::Replace(replace)),
            Ok(Sides::Machine(about)) => {
                let Some(handlers) = self.chosen(Hook::CanUpdateMachine, &namespace).await? else {
                    return Ok(Verdict::Replace(Replace::NoExtension));
                };
                let sides = if self.is_read_only {
                    Ok(about.sides_without_server())
                } else {
                    completed(&self.writer, &about).await?
                };
                match sides {
                    Ok(sides) => machine(&self.runtime, &handlers, sides).await,
                    Err(replace) => Ok(Verdict::Replace(replace)),
                }
            }
            Ok(Sides::MachineSets(sides)) => {
                match self.chosen(Hook::CanUpdateMachineSet, &namespace).await? {
                    Some(handlers) => machine_set(&self.runtime, &handlers, *sides).await,
                    None => Ok(Verdict::Replace(Replace::NoExtension)),
                }
            }
        }
    }

    async fn chosen(&self, hook: Hook, namespace: &str) -> Result<Option<Vec<String>>, String> {
        chosen(&self.runtime, self.handlers, hook, namespace).await
    }
}
