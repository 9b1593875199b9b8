//! The change of an action as a file, for the place from which an object is applied. Owns its form: the object by its names and the
//! fields that the change sets, as a kustomization and `kubectl patch --patch-file` take them. Must not write it.

use serde_json::{Value, json};

use super::edit::Edit;
use super::topology::TopologyPlace;
use super::{Preview, owners};
use capstan_base::text::sanitize_line;

/// A file that is not written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchFile {
    /// Without a folder.
    pub name: String,
    /// YAML.
    pub text: String,
}

impl Preview {
    /// Somebody else sets what the action changes, so that its change belongs to where that is.
    pub fn belongs_elsewhere(&self) -> bool {
        owners::belongs_elsewhere(&self.findings)
    }

    /// The change as a patch of the object, or of its Cluster where the topology there sets the field. `None` for what is not one: a deletion, or
    /// objects that are made first.
    pub fn patch_file(&self) -> Option<PatchFile> {
        let Edit::Patch(patch) = &self.edit else { return None };
        let target = &self.request.target;
        let action = self.request.action.info().name.replace(' ', "-");
        // A name of a server that is not one of Kubernetes' must not lead out of the folder.
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        let object: String = target.key.name.chars().filter(is_plain).collect();
        let mut head = format!("# {} of {} {}\n", self.request.action, target.gvk.kind, target.key);
        let document = match &self.topology {
            Some(TopologyPlace::There(change)) => {
                head += &format!("# {}\n", sanitize_line(&change.remark()));
                change.document()
            }
            _ => named(self, patch),
        };
        let text = serde_saphyr::to_string(&document).ok()?;
        Some(PatchFile { name: format!("{action}-{object}.patch.yaml"), text: head + &text })
    }
}

/// The patch with what it is about.
fn named(preview: &Preview, patch: &Value) -> Value {
    let target = &preview.request.target;
    let mut named = json!({
        "apiVersion": target.gvk.api_version(),
        "kind": target.gvk.kind,
        "metadata": {"name": target.key.name, "namespace": target.key.namespace},
    });
    // Not `merge::apply`: what the patch removes has to stand in it.
    overlay(&mut named, patch);
    named
}

/// Puts the fields of a merge patch on an object, `null` too.
fn overlay(object: &mut Value, patch: &Value) {
    let (Some(fields), Value::Object(changes)) = (object.as_object_mut(), patch) else { return };
    for (field, change) in changes {
        match fields.get_mut(field) {
            Some(there) if there.is_object() && change.is_object() => overlay(there, change),
            _ => {
                fields.insert(field.clone(), change.clone());
            }
        }
    }
}
