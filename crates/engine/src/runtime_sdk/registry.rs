//! Which handlers are registered, and from when on that is known. Must not know how a handler is called.
//! Source: cluster-api `internal/runtime/registry`, v1.14.2. Difference: upstream's manager ends when not all
//! ExtensionConfigs can be discovered within 60 s of its start; here the registry stays unready until they are.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use parking_lot::RwLock;

use super::discovery::{DEFAULT_TIMEOUT_S, IGNORE};
use capi_types::extension_config::{ClientConfig, ExtensionConfig, ExtensionHandler};
use capi_types::hook::Hook;

/// A handler with what a call of it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// `<handler>.<extension config>`.
    pub name: String,
    /// As the extension itself calls it.
    pub handler: String,
    pub hook: Hook,
    pub namespace_selector: Option<LabelSelector>,
    pub client_config: ClientConfig,
    pub timeout_s: u64,
    /// A call that fails counts as an empty success.
    pub ignores_failures: bool,
    pub settings: BTreeMap<String, String>,
}

/// The registered handlers.
#[derive(Debug, Default)]
pub struct Registry {
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By ExtensionConfig.
    handlers: BTreeMap<String, Vec<Registration>>,
    warm_up: WarmUp,
}

#[derive(Debug, Default)]
enum WarmUp {
    #[default]
    NotBegun,
    /// ExtensionConfigs that were there at the start and are not discovered yet. None: it is over.
    Waits(BTreeSet<String>),
}

impl Registry {
    /// Begins anew with the ExtensionConfigs that are there: until each is registered or gone, nothing is known.
    pub fn begin(&self, names: impl IntoIterator<Item = String>) {
        *self.state.write() =
            State { handlers: BTreeMap::new(), warm_up: WarmUp::Waits(names.into_iter().collect()) };
    }

    /// Is this ExtensionConfig one of those that are waited for?
    pub fn waits_for(&self, extension: &str) -> bool {
        matches!(&self.state.read().warm_up, WarmUp::Waits(names) if names.contains(extension))
    }

    /// Replaces what was registered for the ExtensionConfig.
    pub fn register(&self, config: &ExtensionConfig, handlers: &[ExtensionHandler]) {
        let name = config.metadata.name.clone().unwrap_or_default();
        let registrations =
            handlers.iter().filter_map(|handler| registration(&name, config, handler)).collect();
        let mut state = self.state.write();
        state.settle(&name);
        state.handlers.insert(name, registrations);
    }

    pub fn unregister(&self, extension: &str) {
        let mut state = self.state.write();
        state.settle(extension);
        state.handlers.remove(extension);
    }

    /// The handlers of a hook, by name.
    ///
    /// # Errors
    /// The ExtensionConfigs that are still waited for; none before the start.
    pub fn list(&self, hook: Hook) -> Result<Vec<Registration>, Vec<String>> {
        let state = self.state.read();
        match &state.warm_up {
            WarmUp::NotBegun => return Err(Vec::new()),
            // With some extensions unknown a Machine could
            // be replaced that one of them would update.
            WarmUp::Waits(names) if !names.is_empty() => return Err(names.iter().cloned().collect()),
            WarmUp::Waits(_) => {}
        }
        let mut found: Vec<Registration> =
            state.handlers.values().flatten().filter(|known| known.hook == hook).cloned().collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    pub fn get(&self, name: &str) -> Option<Registration> {
        self.state.read().handlers.values().flatten().find(|known| known.name == name).cloned()
    }
}

impl State {
    fn settle(&mut self, extension: &str) {
        if let WarmUp::Waits(names) = &mut self.warm_up {
            names.remove(extension);
        }
    }
}

fn registration(
    extension: &str,
    config: &ExtensionConfig,
    handler: &ExtensionHandler,
) -> Option<Registration> {
    let default_s = DEFAULT_TIMEOUT_S;
    let timeout_s = handler.timeout_seconds.filter(|after| *after > 0).unwrap_or(default_s);
    let own = handler.name.strip_suffix(extension).and_then(|name| name.strip_suffix('.'));
    Some(Registration {
        name: handler.name.clone(),
        handler: own.unwrap_or(&handler.name).to_owned(),
        hook: Hook::find(&handler.request_hook.api_version, &handler.request_hook.hook)?,
        namespace_selector: config.spec.namespace_selector.clone(),
        client_config: config.spec.client_config.clone(),
        timeout_s: u64::try_from(timeout_s).unwrap_or_default(),
        ignores_failures: handler.failure_policy.as_deref() == Some(IGNORE),
        settings: config.spec.settings.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::extension_config::{ExtensionConfigSpec, RequestHook};
    use capi_types::hook::API_VERSION;

    fn handler(name: &str, hook: Hook) -> ExtensionHandler {
        let request_hook = RequestHook { api_version: API_VERSION.to_owned(), hook: hook.to_string() };
        ExtensionHandler { name: name.to_owned(), request_hook, ..ExtensionHandler::default() }
    }

    fn config(name: &str) -> ExtensionConfig {
        ExtensionConfig::new(name, ExtensionConfigSpec::default())
    }

    fn names(registry: &Registry, hook: Hook) -> Result<Vec<String>, Vec<String>> {
        registry.list(hook).map(|found| found.into_iter().map(|known| known.name).collect())
    }

    #[test]
    fn nothing_is_known_before_every_extension_of_the_start_is() {
        let registry = Registry::default();
        assert_eq!(names(&registry, Hook::UpdateMachine), Err(Vec::new()));
        registry.begin(["a", "b"].map(str::to_owned));
        registry.register(&config("a"), &[handler("u.a", Hook::UpdateMachine)]);
        assert!(registry.waits_for("b") && !registry.waits_for("a"));
        assert_eq!(names(&registry, Hook::UpdateMachine), Err(vec!["b".to_owned()]));
        registry.unregister("b");
        assert_eq!(names(&registry, Hook::UpdateMachine), Ok(vec!["u.a".to_owned()]));
    }

    #[test]
    fn a_registration_replaces_the_one_before() {
        let registry = Registry::default();
        registry.begin([]);
        registry.register(&config("b"), &[handler("u.b", Hook::UpdateMachine)]);
        registry.register(
            &config("a"),
            &[handler("u.a", Hook::UpdateMachine), handler("c.a", Hook::CanUpdateMachine)],
        );
        assert_eq!(names(&registry, Hook::UpdateMachine), Ok(vec!["u.a".to_owned(), "u.b".to_owned()]));
        registry.register(&config("a"), &[handler("v.a", Hook::UpdateMachine)]);
        assert_eq!(names(&registry, Hook::UpdateMachine), Ok(vec!["u.b".to_owned(), "v.a".to_owned()]));
        assert_eq!(names(&registry, Hook::CanUpdateMachine), Ok(Vec::new()));
        let known = registry.get("v.a").expect("registered");
        assert_eq!((known.handler.as_str(), known.timeout_s, known.ignores_failures), ("v", 10, false));
        assert_eq!(registry.get("u.a"), None);
    }
}
