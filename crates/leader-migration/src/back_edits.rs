//! What to change for a step of the way back, as text for people and as what a program does. Must not know whether it is done.

use serde_json::{Value, json};

use super::back::BackStep;
use super::edits::{CLOUD_PATH, EditAct, PATH, PROVIDER, Settings, StageEdits};
use super::flag_lists::FlagChange;
use super::flags::{CONFIG, ENABLE};
use super::manager_kind::ManagerKind;
use super::manifest::manager_in;
use super::object_words::{STRANGE_NAME, addressed, has_plain_name, key, text, yaml};
use super::place_edits::{FileChange, ManagerChange};

/// The changes of `step`. Nothing is printed for a place whose content was not read. Which provider an old process had cannot be
/// read once it is gone: without one in the settings its flags are not printed.
pub fn back_edits(step: BackStep, settings: &Settings) -> StageEdits {
    let mut made = StageEdits::default();
    match step {
        BackStep::Grant => made.grant(settings),
        BackStep::Flag => made.flag_clouds(settings),
        BackStep::Restore => made.restore(settings),
        BackStep::Leave => made.remove_clouds(settings),
        BackStep::Unflag => made.unflag(settings),
        BackStep::Clean => made.clean(settings),
    }
    made
}

impl StageEdits {
    fn flag_clouds(&mut self, settings: &Settings) {
        let flags = [FlagChange::Set(ENABLE, "true"), FlagChange::Set(CONFIG, CLOUD_PATH)];
        let change = ManagerChange {
            manager: ManagerKind::CloudControllerManager,
            flags: &flags,
            kubelet: &[],
            file: FileChange::Keep,
        };
        self.workloads(settings, &change);
        self.static_pods(settings, &change, 0);
    }

    fn restore(&mut self, settings: &Settings) {
        // The old process is gone, and with it the flag that named its provider.
        if settings.provider.is_empty() {
            return self.omitted.push(
                "kube-controller-manager: which cloud provider it had is not known any more: --cloud-provider NAME".to_owned(),
            );
        }
        // In the version that the old release reads: that process comes back.
        let file = settings.file(settings.releases.0);
        self.on_hosts(
            &format!("{PATH} on every control plane host, before the flags"),
            file.clone(),
            &format!("remove {PATH} after the flags are gone\n"),
        );
        let provider = settings.provider.as_str();
        let flags = [
            FlagChange::Set(PROVIDER, provider),
            FlagChange::Set(ENABLE, "true"),
            FlagChange::Set(CONFIG, PATH),
        ];
        let change = ManagerChange {
            manager: ManagerKind::KubeControllerManager,
            flags: &flags,
            kubelet: &[FlagChange::Set(PROVIDER, provider)],
            file: FileChange::Mount { path: PATH, text: &file },
        };
        self.kube(settings, &change, false);
    }

    fn remove_clouds(&mut self, settings: &Settings) {
        let runs = |object: &&Value| {
            let containers =
                object["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten();
            containers.into_iter().any(|c| manager_in(c) == Some(ManagerKind::CloudControllerManager))
        };
        for object in settings.places.workloads.iter().filter(runs) {
            let kind = text(&object["kind"]).unwrap_or_default();
            if !has_plain_name(object) {
                self.omitted.push(format!("{kind} {}: {STRANGE_NAME}", key(object)));
                continue;
            }
            let (kind, line) = (kind.to_lowercase(), addressed(object));
            let title = format!("{kind} {}: its pods go, the holder's among them", key(object));
            // The inverse is the whole object: once deleted, it cannot be read any more.
            let act = EditAct::Delete(vec![object.clone()]);
            self.edit(&title, format!("kubectl delete {kind} {line}\n"), &yaml(&bare(object)), act);
        }
        if let Some(why) = &settings.places.unread_workloads {
            self.omitted.push(why.clone());
        }
    }

    fn unflag(&mut self, settings: &Settings) {
        let flags = [FlagChange::Remove(ENABLE), FlagChange::Remove(CONFIG)];
        let change = ManagerChange {
            manager: ManagerKind::KubeControllerManager,
            flags: &flags,
            kubelet: &[],
            file: FileChange::Unmount { path: PATH },
        };
        self.kube(settings, &change, false);
    }
}

/// As it is applied again: without what the server adds.
fn bare(object: &Value) -> Value {
    let metadata = &object["metadata"];
    // With a resourceVersion in it the server refuses to make an object.
    let kept = ["name", "namespace", "labels", "annotations"];
    let kept = kept.into_iter().filter(|field| !metadata[field].is_null());
    let metadata: serde_json::Map<String, Value> =
        kept.map(|field| (field.to_owned(), metadata[field].clone())).collect();
    json!({"apiVersion": "apps/v1", "kind": object["kind"], "metadata": metadata, "spec": object["spec"]})
}
