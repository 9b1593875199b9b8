//! One kind of a provider's objects: how it is read, and its live copy. Must not know who refers to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::ProviderObject;
use super::reader::{Listener, Listeners, Reader};
use crate::client::{Cache, Definition};
use crate::engine::watches::{Watch, Watches};
use capi_rules::status::contract::definition;
use capi_rules::status::contract::{Contract, External};
use capi_types::key::{Gvk, ObjectKey};

pub(super) struct Tracked {
    group: String,
    kind: String,
    listeners: Listeners,
    /// Somebody looked before the first list was complete.
    missed: Arc<AtomicBool>,
    /// Why it cannot be read, when its definition is missing or promises no contract.
    reading: Result<Reading, String>,
}

struct Reading {
    contract: Contract,
    version: String,
    watch: Watch<ProviderObject>,
}

impl Tracked {
    /// Not defined yet.
    pub(super) fn new(group: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            listeners: Listeners::new(group, kind),
            missed: Arc::default(),
            reading: Err(undefined(group, kind)),
        }
    }

    pub(super) fn is_defined_by(&self, name: &str) -> bool {
        definition::name_of(&self.group, &self.kind) == name
    }

    pub(super) fn wakes(&self, reader: Reader, listener: &Listener) {
        self.listeners.add(reader, listener);
    }

    pub(super) fn cache(&self) -> Option<&Cache<ProviderObject>> {
        self.reading.as_ref().ok().map(|reading| &reading.watch.cache)
    }

    /// Reads the kind as `definition` describes it. Returns the readers to wake when something about that is new.
    pub(super) fn redefine(
        &mut self,
        definition: Option<&Definition>,
        watches: &Watches,
    ) -> Option<Listeners> {
        let wanted = definition.ok_or_else(|| undefined(&self.group, &self.kind)).and_then(promised);
        match (wanted, &mut self.reading) {
            (Ok((contract, version)), Ok(reading)) if reading.version == version => {
                // In the same version the copy stays; only its fields are read by another contract.
                if reading.contract == contract {
                    return None;
                }
                reading.contract = contract;
            }
            (Err(why), Err(before)) if why == *before => return None,
            (Err(why), reading) => *reading = Err(why),
            // Objects look otherwise in another version, so that nothing of the old copy can be
            // kept.
            (Ok((contract, version)), _) => {
                let watch = self.start(&version, watches);
                self.reading = Ok(Reading { contract, version, watch });
            }
        }
        Some(self.listeners.clone())
    }

    fn start(&self, version: &str, watches: &Watches) -> Watch<ProviderObject> {
        let gvk: Gvk = definition::gvk(&self.group, version, &self.kind);
        let (late, missed) = (self.listeners.clone(), Arc::clone(&self.missed));
        let watch = watches.start(&gvk, gvk.api_resource(), move || {
            // Only those are woken who found the list incomplete.
            if missed.swap(false, Ordering::Relaxed) {
                late.kind_turned();
            }
        });
        let listeners = self.listeners.clone();
        watch.cache.on_change(move |change| listeners.object_turned(change));
        watch
    }

    /// The object of this name, as the contract shows it.
    pub(super) fn get(&self, key: &ObjectKey) -> External {
        let kind = self.kind.clone();
        let reading = match &self.reading {
            Ok(reading) => reading,
            Err(error) => return External::Unreadable { kind, error: error.clone() },
        };
        let cache = &reading.watch.cache;
        if let Some(object) = cache.get(key) {
            return External::Found(object.provided().clone().under(reading.contract));
        }
        self.missed.store(true, Ordering::Relaxed);
        // Only now, so that a list that is completed in between wakes its readers.
        let progress = cache.progress();
        if progress.ready {
            return External::NotFound { kind };
        }
        let why = progress.trouble.unwrap_or_else(|| "their list is not complete yet".to_owned());
        let error = format!(
            "{kind} {key}: objects of this kind cannot be read in version {}: {why}",
            reading.version
        );
        External::Unreadable { kind, error }
    }
}

fn undefined(group: &str, kind: &str) -> String {
    format!(
        "{kind} cannot be read: there is no CustomResourceDefinition {}; is its provider installed?",
        definition::name_of(group, kind)
    )
}

fn promised(definition: &Definition) -> Result<(Contract, String), String> {
    let labels = definition.metadata.labels.as_ref();
    let name = definition.metadata.name.as_deref().unwrap_or_default();
    definition::contract_of(name, |label| labels?.get(label).map(String::as_str))
}
