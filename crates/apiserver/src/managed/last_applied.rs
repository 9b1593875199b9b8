//! From client-side to server-side apply: `kubectl` wrote what it had applied into an annotation, and
//! what still is as it had written counts as its own.
//!
//! Source: apimachinery `pkg/util/managedfields/internal/{lastappliedmanager,lastappliedupdater}.go`, v0.35.

use serde_json::{Map, Value};

use super::path_set::PathSet;
use super::topology::Shape;
use super::{Author, Disputes, typed};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The only manager this is done for.
const KUBECTL: &str = "kubectl";
/// All annotations of an object together: the limit of the API.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// The disputes that are left when `kubectl` may take what it had applied client-side.
pub(super) fn unsolved(author: Author<'_>, shape: Shape<'_>, live: &Value, disputes: &Disputes) -> Disputes {
    let Some(ours) = (author.manager == KUBECTL).then(|| still_applied(author, shape, live)).flatten() else {
        return disputes.clone();
    };
    let left = disputes.iter().map(|(manager, set)| (manager.clone(), set.difference(&ours)));
    left.filter(|(_, set)| !set.is_empty()).collect()
}

/// What of the last client-side configuration is in the object unchanged.
fn still_applied(author: Author<'_>, shape: Shape<'_>, live: &Value) -> Option<PathSet> {
    let applied: Value = serde_json::from_str(annotation(live)?).ok()?;
    // As upstream: a configuration of another version is not converted, so it settles nothing.
    if applied["apiVersion"] != author.api_version || !typed::check(shape, &applied).is_empty() {
        return None;
    }
    let compared = typed::compare(shape, &applied, live).ok()?;
    Some(typed::to_set(shape, &applied).difference(&compared.changed()).difference(&compared.removed))
}

fn annotation(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][ANNOTATION].as_str().filter(|text| !text.is_empty())
}

/// Brings the annotation up to date after `kubectl` applied `config`; objects without it stay so.
pub fn refresh(manager: &str, object: &mut Value, config: &Value) {
    if manager != KUBECTL || annotation(object).is_none() {
        return;
    }
    let mut applied = config.clone();
    // The annotation does not hold itself: it would double with every apply.
    if let Some(annotations) = annotations_mut(&mut applied) {
        annotations.remove(ANNOTATION);
    }
    let Some(annotations) = annotations_mut(object) else { return };
    annotations.insert(ANNOTATION.to_owned(), format!("{applied}\n").into());
    let bytes: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len()).sum();
    // Beyond the bound the object could not be written at all; upstream drops the annotation, too.
    if bytes > ANNOTATIONS_BYTES_MAX {
        annotations.remove(ANNOTATION);
    }
}

fn annotations_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.pointer_mut("/metadata/annotations")?.as_object_mut()
}
