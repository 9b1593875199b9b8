//! Objects of providers in a world: what a reference leads to, as the contract shows it. Must not know what they stand
//! for, nor when they change.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use capi_rules::status::contract::{Contract, External, Provided};
use capi_types::reference::ContractRef;
use k8s_machinery::merge;

/// The objects of one kind, by name.
#[derive(Clone, Debug)]
struct OfKind {
    group: String,
    kind: String,
    contract: Contract,
    objects: BTreeMap<String, Provided>,
}

/// Provider objects of one namespace. Kinds are few: they are searched.
#[derive(Clone, Debug, Default)]
pub(super) struct Externals {
    kinds: Vec<OfKind>,
    /// What a reference leads to that could not be read, and why.
    unreadable: Vec<(ContractRef, String)>,
}

impl Externals {
    /// What a reference leads to. One that is not here does not exist.
    pub(super) fn referred(&self, reference: Option<&ContractRef>) -> External {
        let Some(reference) = reference.filter(|r| !r.name.is_empty()) else { return External::NotSet };
        if let Some(found) = self.get(&reference.api_group, &reference.kind, &reference.name) {
            return External::Found(found.clone());
        }
        let kind = reference.kind.clone();
        match self.unreadable.iter().find(|(unread, _)| unread == reference) {
            Some((_, error)) => External::Unreadable { kind, error: error.clone() },
            None => External::NotFound { kind },
        }
    }

    pub(super) fn get(&self, group: &str, kind: &str, name: &str) -> Option<&Provided> {
        self.of(group, kind)?.objects.get(name)
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.kinds.iter().flat_map(|of| of.objects.values()).map(Provided::content)
    }

    fn of(&self, group: &str, kind: &str) -> Option<&OfKind> {
        self.kinds.iter().find(|of| of.kind == kind && of.group == group)
    }

    fn of_mut(&mut self, group: &str, kind: &str, contract: Contract) -> &mut BTreeMap<String, Provided> {
        let at = self.kinds.iter().position(|of| of.kind == kind && of.group == group);
        let at = at.unwrap_or_else(|| {
            let (group, kind) = (group.to_owned(), kind.to_owned());
            self.kinds.push(OfKind { group, kind, contract, objects: BTreeMap::new() });
            self.kinds.len() - 1
        });
        &mut self.kinds[at].objects
    }

    /// What was read of a reference before the world began.
    pub(super) fn learn(&mut self, reference: &ContractRef, found: External, contract: Contract) {
        match found {
            External::Found(object) => {
                let mine = self.of_mut(&reference.api_group, &reference.kind, contract);
                mine.insert(reference.name.clone(), object);
            }
            External::Unreadable { error, .. } => self.unreadable.push((reference.clone(), error)),
            // So that its kind is known not to be left out.
            External::NotFound { .. } => {
                self.of_mut(&reference.api_group, &reference.kind, contract);
            }
            External::NotSet => {}
        }
    }

    /// Stores the whole content.
    pub(super) fn put(&mut self, group: &str, content: Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&content["kind"]), text(&content["metadata"]["name"]));
        // As the first object of the kind was read: new ones carry no definition along.
        let contract = self.of(group, &kind).map(|of| of.contract).unwrap_or_default();
        self.of_mut(group, &kind, contract).insert(name, Provided::new(content).under(contract));
    }

    /// Merges `patch` into an object. Answers whether it is there.
    pub(super) fn patch(&mut self, group: &str, kind: &str, name: &str, patch: &Value) -> bool {
        let Some(found) = self.get(group, kind, name) else { return false };
        let mut content = found.content().clone();
        merge::apply(&mut content, patch);
        self.put(group, content);
        true
    }

    pub(super) fn remove(&mut self, group: &str, kind: &str, name: &str) {
        if let Some(of) = self.kinds.iter_mut().find(|of| of.kind == kind && of.group == group) {
            of.objects.remove(name);
        }
    }
}

/// The status of an infrastructure object that is complete, in the fields of either contract.
pub(super) fn provisioned(at: &str) -> Value {
    json!({"initialization": {"provisioned": true}, "ready": true, "conditions": [ready(at)]})
}

/// The status of a bootstrap object whose data is stored in the Secret `secret`.
pub(super) fn bootstrapped(secret: &str, at: &str) -> Value {
    json!({"initialization": {"dataSecretCreated": true}, "ready": true, "dataSecretName": secret,
           "conditions": [ready(at)]})
}

fn ready(at: &str) -> Value {
    json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": at})
}
