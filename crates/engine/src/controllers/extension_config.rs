//! The ExtensionConfig controller: injects the CA bundle, asks the server what it offers, registers that. Must not decide
//! which answers are acceptable; that is `runtime_sdk`.
//!
//! It runs in every process that leads, under that process' primary lock, and no file of migration locks can name it: what
//! it makes is the list of extensions that this process may call. Two of them write the same status, from the same answers.
//! Source: cluster-api `core/reconcilers/extensionconfig`, v1.14.2.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;

use crate::client::{Cache, Mode, Precondition, Writer, get};
use crate::engine::{Controller, Engine, Outcome, ReconcileError, Trigger};
use crate::runtime_sdk::Runtime;
use capi_rules::status::extension_config::{Discovery, status};
use capi_types::extension_config::ExtensionConfig;
use capi_types::key::{ObjectKey, annotation as annotation_of};
use capi_types::names::annotation;
use capstan_base::time::Clock;

/// Servers change what they offer without a word. Source: the default of `--sync-period`.
const ASKED_AGAIN: Duration = Duration::from_secs(600);
const CA_KEY: &str = "ca.crt";
pub const NAME: &str = "extension-config";

/// Adds the controller, which registers extensions with `runtime`.
pub fn register(engine: &mut Engine, runtime: Arc<Runtime>) {
    let controller = ExtensionConfigs {
        configs: engine.cluster_cache(),
        writer: engine.writer().clone(),
        clock: engine.clock().clone(),
        runtime,
    };
    engine.add(controller);
}

struct ExtensionConfigs {
    configs: Cache<ExtensionConfig>,
    writer: Writer,
    clock: Clock,
    runtime: Arc<Runtime>,
}

#[async_trait]
impl Controller for ExtensionConfigs {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self) {
        self.runtime.begin(self.configs.list().iter().map(|config| ObjectKey::of(config.as_ref()).name));
    }

    fn triggers(&self) -> Vec<Trigger> {
        vec![Trigger::own(&self.configs)]
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let found = self.configs.get(key).filter(|config| config.metadata.deletion_timestamp.is_none());
        let Some(config) = found else {
            self.runtime.unregister(&key.name);
            return Ok(Outcome::Done);
        };
        let is_paused = annotation_of(config.as_ref(), annotation::PAUSED).is_some();
        // Like upstream's warm-up, the first look is not held up by a pause: everything waits for it.
        if is_paused && !self.runtime.waits_for(&key.name) {
            self.report(&config, &Discovery::Paused).await?;
            return Ok(Outcome::Done);
        }
        let (config, observed) = self.look(&config).await?;
        let config = self.report(&config, &observed).await?;
        match observed {
            Discovery::Discovered(handlers) => self.runtime.register(&config, &handlers),
            Discovery::Failed(why) => {
                // An error, so that the backoff asks again long before the next regular look.
                return Err(ReconcileError::failed(format!("ExtensionConfig {key}: {why}")));
            }
            Discovery::Paused => {}
        }
        Ok(Outcome::RequeueAfter(ASKED_AGAIN))
    }
}

impl ExtensionConfigs {
    /// The object, with its CA bundle, and what its server offers.
    async fn look(&self, config: &ExtensionConfig) -> Result<(ExtensionConfig, Discovery), ReconcileError> {
        let injected = match self.with_ca(config).await {
            Ok(injected) => injected,
            Err(why) => return Ok((config.clone(), Discovery::Failed(why))),
        };
        let config = if injected == *config {
            injected
        } else {
            self.writer.patch(config, &injected, &Precondition::unchanged(config), Mode::Real).await?
        };
        let observed = match self.runtime.discover(&config).await {
            Ok(handlers) => Discovery::Discovered(handlers),
            Err(why) => Discovery::Failed(why),
        };
        Ok((config, observed))
    }

    /// With the certificates of the Secret that an annotation names. Source: `reconcileCABundle`.
    async fn with_ca(&self, config: &ExtensionConfig) -> Result<ExtensionConfig, String> {
        let mut config = config.clone();
        let Some(named) = annotation_of(&config, annotation::INJECT_CA_FROM_SECRET) else {
            return Ok(config);
        };
        let key = named.split_once('/').filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
        let Some((namespace, name)) = key else {
            return Err(format!(
                "failed to reconcile caBundle: secret name \"{named}\" must be in the form <namespace>/<name>"
            ));
        };
        let unread =
            |why: String| format!("failed to reconcile caBundle: failed to get secret \"{named}\": {why}");
        let secret = get::<Secret>(self.writer.client(), &ObjectKey::new(namespace, name)).await;
        let secret = secret.map_err(|error| unread(error.to_string()))?;
        let secret = secret.ok_or_else(|| unread("it does not exist".to_owned()))?;
        let Some(ca) = secret.data.as_ref().and_then(|data| data.get(CA_KEY)) else {
            return Err(format!(
                "failed to reconcile caBundle: secret {named} does not contain a \"{CA_KEY}\" entry"
            ));
        };
        config.spec.client_config.ca_bundle = Some(STANDARD.encode(&ca.0));
        Ok(config)
    }

    /// Writes the status; the object as it is then.
    async fn report(
        &self,
        config: &ExtensionConfig,
        observed: &Discovery,
    ) -> Result<ExtensionConfig, ReconcileError> {
        let after =
            ExtensionConfig { status: Some(status(config, observed, self.clock.now())), ..config.clone() };
        Ok(self.writer.patch(config, &after, &Precondition::unchanged(config), Mode::Real).await?)
    }
}
