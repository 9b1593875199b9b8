//! The Runtime SDK: which extensions are registered, and calls of their hooks. Owns addresses, discovery, the registry,
//! failure policies and the transport; must not know what a hook's answer means, nor who asks.
//! Source: cluster-api `internal/runtime/{client,registry}`, v1.14.2.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use k8s_openapi::api::core::v1::Namespace;
use parking_lot::Mutex;

mod address;
mod discovery;
mod registry;
mod transport;

pub use registry::Registration;
pub use transport::{ANSWER_BYTES_MAX, Https, Question, Transport};

use crate::client::{Client, get};
use capi_types::extension_config::{ClientConfig, ExtensionConfig, ExtensionHandler};
use capi_types::hook::{
    CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSetRequest,
    CanUpdateMachineSetResponse, DiscoveryRequest, Extensions, Hook, HookError, HookRequest, HookResponse,
    SUCCESS, UpdateMachineRequest, UpdateMachineResponse,
};
use capi_types::key::ObjectKey;
use capstan_base::time::{Clock, Timestamp};
use k8s_machinery::selector::selects;
use registry::Registry;

/// How long labels of a namespace are taken as known: selectors are asked about for every Machine.
const NAMESPACE_TTL: TimeDelta = TimeDelta::seconds(30);

/// The registered extensions of one management cluster.
pub struct Runtime {
    registry: Registry,
    transport: Arc<dyn Transport>,
    client: Client,
    clock: Clock,
    namespaces: Mutex<HashMap<String, (Timestamp, BTreeMap<String, String>)>>,
}

impl Runtime {
    /// `client` reads namespaces. Nothing is registered, and that is not known, before [`Runtime::begin`].
    pub fn new(client: Client, clock: Clock, transport: Arc<dyn Transport>) -> Self {
        Self { registry: Registry::default(), transport, client, clock, namespaces: Mutex::default() }
    }

    /// Waits for these ExtensionConfigs: until each is registered or gone, every question is refused.
    pub fn begin(&self, extensions: impl IntoIterator<Item = String>) {
        self.registry.begin(extensions);
    }

    pub fn waits_for(&self, extension: &str) -> bool {
        self.registry.waits_for(extension)
    }

    /// Replaces what was registered for the ExtensionConfig by these handlers.
    pub fn register(&self, config: &ExtensionConfig, handlers: &[ExtensionHandler]) {
        self.registry.register(config, handlers);
    }

    pub fn unregister(&self, extension: &str) {
        self.registry.unregister(extension);
    }

    /// Asks an extension which handlers it has.
    ///
    /// # Errors
    /// Why its answer cannot be used, or that there is none, in upstream's words.
    pub async fn discover(&self, config: &ExtensionConfig) -> Result<Vec<ExtensionHandler>, String> {
        let name = config.metadata.name.clone().unwrap_or_default();
        let timeout_s = u64::try_from(discovery::DEFAULT_TIMEOUT_S).unwrap_or_default();
        let answer = self
            .post(&DiscoveryRequest::default(), &config.spec.client_config, None, timeout_s)
            .await
            .map_err(|why| format!("failed to discover extension \"{name}\": {why}"))?;
        discovery::handlers(&name, &answer)
    }

    async fn call<R: HookRequest>(&self, handler: &str, request: &R) -> Result<R::Response, HookError> {
        let handler = handler.to_owned();
        let Some(known) = self.registry.get(&handler) else {
            return Err(HookError::NotRegistered { handler });
        };
        if known.hook != R::HOOK {
            let (registered, hook) = (known.hook.to_string(), R::HOOK.as_str());
            return Err(HookError::OtherHook { handler, registered, hook });
        }
        let request = with_settings(request, &known.settings);
        let answer = self.post(&request, &known.client_config, Some(&known.handler), known.timeout_s).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) if known.ignores_failures => {
                tracing::warn!(
                    "the failure of extension handler {handler} is ignored, as its policy says: {why}"
                );
                return Ok(R::Response::ignored());
            }
            Err(why) => return Err(HookError::Unanswered { handler, why }),
        };
        match answer.status() {
            SUCCESS => Ok(answer),
            status => {
                let (status, message) = (status.to_owned(), answer.message().to_owned());
                Err(HookError::Refused { handler, status, message })
            }
        }
    }

    async fn post<R: HookRequest>(
        &self,
        request: &R,
        config: &ClientConfig,
        handler: Option<&str>,
        timeout_s: u64,
    ) -> Result<R::Response, String> {
        let address = address::of(config, R::HOOK, handler, timeout_s).map_err(failed)?;
        let body = serde_json::to_vec(request)
            .map_err(|error| failed(format!("failed to marshall request object: {error}")))?;
        let ca_bundle = config.ca_bundle.clone().unwrap_or_default();
        let timeout = Duration::from_secs(timeout_s);
        let answer = self.transport.post(Question { address, ca_bundle, body, timeout }).await?;
        // As Go's decoder, which leaves what follows the first document.
        match serde_json::Deserializer::from_slice(&answer).into_iter().next() {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => Err(failed(format!("failed to decode response: {error}"))),
            None => Err(failed("failed to decode response: EOF".to_owned())),
        }
    }

    /// Labels of a namespace, read at most every 30 seconds.
    async fn labels(&self, namespace: &str) -> Result<BTreeMap<String, String>, HookError> {
        let now = self.clock.now();
        if let Some((read, labels)) = self.namespaces.lock().get(namespace)
            && now - *read < NAMESPACE_TTL
        {
            return Ok(labels.clone());
        }
        let failed = |why: String| HookError::Namespace { namespace: namespace.to_owned(), why };
        let found: Option<Namespace> = get(&self.client, &ObjectKey::new("", namespace))
            .await
            .map_err(|error| failed(error.to_string()))?;
        let found = found.ok_or_else(|| failed("it does not exist".to_owned()))?;
        let labels = found.metadata.labels.unwrap_or_default();
        // Two readers at once may both ask; the lock is not held over the request.
        self.namespaces.lock().insert(namespace.to_owned(), (now, labels.clone()));
        Ok(labels)
    }
}

fn failed(why: String) -> String {
    format!("http call failed: {why}")
}

/// Settings of the registration under those of the request.
fn with_settings<R: HookRequest>(request: &R, registered: &BTreeMap<String, String>) -> R {
    let mut request = request.clone();
    if let Some(settings) = request.settings_mut() {
        for (key, value) in registered {
            settings.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    request
}

/// A selector that takes every namespace needs none of their labels.
fn takes_all(known: &Registration) -> bool {
    // `NotIn` and `DoesNotExist` take a namespace without labels, and yet not every namespace.
    selects(known.namespace_selector.as_ref(), None)
        && known
            .namespace_selector
            .as_ref()
            .is_none_or(|selector| selector.match_expressions.iter().flatten().next().is_none())
}

#[async_trait]
impl Extensions for Runtime {
    async fn handlers(&self, hook: Hook, namespace: &str) -> Result<Vec<String>, HookError> {
        let known = self.registry.list(hook).map_err(|waiting| HookError::NotReady { waiting })?;
        let mut names = Vec::new();
        for known in known {
            let taken = takes_all(&known)
                || selects(known.namespace_selector.as_ref(), Some(&self.labels(namespace).await?));
            names.extend(taken.then_some(known.name));
        }
        Ok(names)
    }

    async fn can_update_machine(
        &self,
        handler: &str,
        request: &CanUpdateMachineRequest,
    ) -> Result<CanUpdateMachineResponse, HookError> {
        self.call(handler, request).await
    }

    async fn can_update_machine_set(
        &self,
        handler: &str,
        request: &CanUpdateMachineSetRequest,
    ) -> Result<CanUpdateMachineSetResponse, HookError> {
        self.call(handler, request).await
    }

    async fn update_machine(
        &self,
        handler: &str,
        request: &UpdateMachineRequest,
    ) -> Result<UpdateMachineResponse, HookError> {
        self.call(handler, request).await
    }
}
