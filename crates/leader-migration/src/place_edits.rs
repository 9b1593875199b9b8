//! What a stage changes in one object, as a patch that loses nothing: a merge patch replaces a list as a whole, so that the
//! list in it is the one that is there with the change made. Owns how the objects keep flags, mounts and files; must not
//! know stages.
//!
//! Source: kubeadm `apis/kubeadm/{v1beta3,v1beta4}/types.go`; cluster-api `api/bootstrap/kubeadm/{v1beta1,v1beta2}`.

use serde_json::{Map, Value, json};

use super::command_line::CommandLine;
use super::flag_lists::{FlagChange, FlagForm, change, change_container, value_in};
use super::flags::CONFIG;
use super::manager_kind::ManagerKind;
use super::manifest::{first_flag, manager_in};
use k8s_machinery::merge::merge_diff;

/// Of the volume with the migration file.
const VOLUME: &str = "leader-migration";

/// What becomes of the migration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange<'a> {
    /// It stays, or there is none.
    Keep,
    /// It is at this path of host and container, with this text.
    Mount {
        /// In the container.
        path: &'a str,
        /// The whole file.
        text: &'a str,
    },
    /// It is not needed at this path any more.
    Unmount {
        /// In the container.
        path: &'a str,
    },
}

/// What becomes of a controller manager, and of the kubelets beside it.
#[derive(Clone, Copy, Debug)]
pub struct ManagerChange<'a> {
    /// Whose flags these are.
    pub manager: ManagerKind,
    /// Of the program.
    pub flags: &'a [FlagChange<'a>],
    /// Of every kubelet, in kubeadm's configurations of Nodes.
    pub kubelet: &'a [FlagChange<'a>],
    /// Of the migration file.
    pub file: FileChange<'a>,
}

/// A patch and the patch that takes it back.
#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    /// A merge patch with the lists whole; for kubeadm's file, the whole content.
    pub patch: Value,
    /// The same that brings back what was there.
    pub inverse: Value,
}

impl Replacement {
    /// `None`: both are equal.
    fn between(before: &Value, after: &Value) -> Option<Self> {
        Some(Self { patch: merge_diff(before, after)?, inverse: merge_diff(after, before)? })
    }
}

const ARGUMENTS: &str = "extraArgs";
const MANAGER: [&str; 1] = ["controllerManager"];
const MANAGER_OF_PLANE: [&str; 4] =
    ["spec", "kubeadmConfigSpec", "clusterConfiguration", "controllerManager"];

impl ManagerChange<'_> {
    /// A file that a process has under another path stays its file, and it is that one which it does not need any more.
    fn beside<'s>(&'s self, config: Option<&'s str>) -> (Vec<FlagChange<'s>>, FileChange<'s>) {
        let there = config.filter(|there| !there.is_empty());
        match (self.file, there) {
            // A mount that is there works: a second file would be another truth.
            (FileChange::Mount { path, .. }, Some(there)) if there != path => {
                let is_path =
                    |change: &&FlagChange<'_>| matches!(change, FlagChange::Set(flag, _) if *flag == CONFIG);
                (self.flags.iter().filter(|change| !is_path(change)).copied().collect(), FileChange::Keep)
            }
            (FileChange::Unmount { .. }, Some(path)) => (self.flags.to_vec(), FileChange::Unmount { path }),
            (file, _) => (self.flags.to_vec(), file),
        }
    }

    /// Of kubeadm's `ClusterConfiguration`. `None`: it is as it is to be.
    ///
    /// # Errors
    /// What is there is not what its version has.
    pub fn of_cluster_configuration(&self, before: &Value) -> Result<Option<Replacement>, String> {
        let mut after = before.clone();
        let form = kubeadm_form(before)?;
        self.component(&mut after, &MANAGER, form)?;
        // `change plan` finds the document that a patch is for by its type.
        let typed = |mut patch: Value| {
            for key in ["apiVersion", "kind"] {
                patch[key] = before[key].clone();
            }
            patch
        };
        let replacement = Replacement::between(before, &after);
        // The type would be in no difference, since it is the same on both sides.
        Ok(replacement.map(|r| Replacement { patch: typed(r.patch), inverse: typed(r.inverse) }))
    }

    /// Of a KubeadmControlPlane, with the file and the kubelets of its Machines. `None`: it is as it is to be.
    ///
    /// # Errors
    /// As [`Self::of_cluster_configuration`].
    pub fn of_control_plane(&self, before: &Value) -> Result<Option<Replacement>, String> {
        let mut after = before.clone();
        let form = control_plane_form(before)?;
        // The path that stood there before: afterwards the flag may be gone.
        let config = self.component(&mut after, &MANAGER_OF_PLANE, form)?;
        match self.beside(config.as_deref()).1 {
            FileChange::Keep => {}
            FileChange::Mount { path, text } => {
                let entry =
                    // Readable for all: a controller manager may run as another user than root.
                    json!({"path": path, "owner": "root:root", "permissions": "0644", "content": text});
                let files = list_at(&mut after, &["spec", "kubeadmConfigSpec", "files"])?;
                if !files.iter().any(|file| file["path"] == path) {
                    files.push(entry);
                }
            }
            FileChange::Unmount { path } => {
                drop_entries(&mut after, &["spec", "kubeadmConfigSpec"], "files", |file| {
                    file["path"] == path
                });
            }
        }
        if !self.kubelet.is_empty() {
            // New Machines join, the first one of a cluster is initialised: kubelets of both need it.
            for of in ["initConfiguration", "joinConfiguration"] {
                let path = ["spec", "kubeadmConfigSpec", of, "nodeRegistration", "kubeletExtraArgs"];
                change(at(&mut after, &path)?, form, self.kubelet)
                    .map_err(|why| format!("{}: {why}", path.join(".")))?;
            }
        }
        Ok(Replacement::between(before, &after))
    }

    /// Flags and mount of `controllerManager`. Comes back with the path of the file that it had.
    fn component(&self, root: &mut Value, path: &[&str], form: FlagForm) -> Result<Option<String>, String> {
        let arguments: Vec<&str> = path.iter().copied().chain([ARGUMENTS]).collect();
        let flags = at(root, &arguments)?;
        let config = value_in(flags, CONFIG).map(str::to_owned);
        let (changes, file) = self.beside(config.as_deref());
        change(flags, form, &changes).map_err(|why| format!("{}: {why}", arguments.join(".")))?;
        match file {
            FileChange::Keep => {}
            FileChange::Mount { path: file, .. } => {
                let volumes: Vec<&str> = path.iter().copied().chain(["extraVolumes"]).collect();
                let volumes = list_at(root, &volumes)?;
                // No pod may have two mounts at one path.
                if !volumes.iter().any(|volume| volume["mountPath"] == file) {
                    volumes.push(json!({"name": free_name(volumes), "hostPath": file, "mountPath": file,
                        "readOnly": true, "pathType": "File"}));
                }
            }
            FileChange::Unmount { path: file } => {
                drop_entries(root, path, "extraVolumes", |volume| volume["mountPath"] == file);
            }
        }
        Ok(config)
    }

    /// Of a pod's manifest: the fields that become others, each whole. `None`: it is as it is to be.
    ///
    /// # Errors
    /// Flags that are not words of their own.
    pub fn of_static_pod(&self, pod: &Value) -> Result<Option<Replacement>, String> {
        let mut after = pod["spec"].clone();
        for index in self.containers(&after) {
            let config = self.given(&after["containers"][index], CONFIG);
            let (changes, file) = self.beside(config.as_deref());
            change_container(self.manager, &mut after["containers"][index], &changes)?;
            match file {
                FileChange::Keep => {}
                FileChange::Mount { path, .. } => mount(&mut after, index, path)?,
                FileChange::Unmount { path } => unmount(&mut after, index, path),
            }
        }
        Ok(fields(&pod["spec"], &after).map(|r| nested(&["spec"], r)))
    }

    /// Of a DaemonSet, Deployment or StatefulSet, for a strategic merge, which knows containers by their names.
    /// `None`: it is as it is to be.
    ///
    /// # Errors
    /// As [`Self::of_static_pod`].
    pub fn of_workload(&self, object: &Value) -> Result<Option<Replacement>, String> {
        let before = &object["spec"]["template"]["spec"];
        let after = self.of_pods(before)?;
        Ok(fields(before, &after).map(|r| nested(&["spec", "template", "spec"], r)))
    }

    /// The same as a merge patch, which has all containers.
    ///
    /// # Errors
    /// As [`Self::of_static_pod`].
    pub fn of_whole_workload(&self, object: &Value) -> Result<Option<Replacement>, String> {
        let mut after = object.clone();
        after["spec"]["template"]["spec"] = self.of_pods(&object["spec"]["template"]["spec"])?;
        Ok(Replacement::between(object, &after))
    }

    /// The spec of pods with other flags.
    fn of_pods(&self, spec: &Value) -> Result<Value, String> {
        let mut after = spec.clone();
        for index in self.containers(&after) {
            change_container(self.manager, &mut after["containers"][index], self.flags)?;
        }
        Ok(after)
    }

    /// The containers that run this program.
    fn containers(&self, spec: &Value) -> Vec<usize> {
        let containers = spec["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ours = (0..).zip(containers).filter(|(_, container)| manager_in(container) == Some(self.manager));
        ours.map(|(index, _)| index).collect()
    }

    /// The last one given counts, in `command` and `args` alike.
    fn given(&self, container: &Value, flag: &str) -> Option<String> {
        let texts = |key: &str| container[key].as_array().cloned().unwrap_or_default();
        let words = [texts("command"), texts("args")].concat();
        let words: Vec<String> = words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect();
        // Words of a wrapper before the program are not flags of the program.
        let from = first_flag(self.manager, &words)?;
        let given = CommandLine::read(self.manager, &words[from..]).given;
        given.into_iter().rev().find(|given| given.name == flag)?.value
    }
}

/// How a document of kubeadm keeps flags: by its version, else by what stands there.
fn kubeadm_form(root: &Value) -> Result<FlagForm, String> {
    match root["apiVersion"].as_str().unwrap_or_default() {
        "kubeadm.k8s.io/v1beta1" | "kubeadm.k8s.io/v1beta2" | "kubeadm.k8s.io/v1beta3" => Ok(FlagForm::Map),
        "kubeadm.k8s.io/v1beta4" => Ok(FlagForm::Pairs),
        other => {
            Err(format!("apiVersion {other:?}: expected kubeadm.k8s.io/v1beta3 or kubeadm.k8s.io/v1beta4"))
        }
    }
}

fn control_plane_form(object: &Value) -> Result<FlagForm, String> {
    match object["apiVersion"].as_str().unwrap_or_default() {
        "controlplane.cluster.x-k8s.io/v1beta1" => Ok(FlagForm::Map),
        "controlplane.cluster.x-k8s.io/v1beta2" => Ok(FlagForm::Pairs),
        other => Err(format!(
            "apiVersion {other:?}: expected controlplane.cluster.x-k8s.io/v1beta1 or controlplane.cluster.x-k8s.io/v1beta2"
        )),
    }
}

/// The value at a path, with the maps that lead to it.
fn at<'v>(root: &'v mut Value, path: &[&str]) -> Result<&'v mut Value, String> {
    let mut value = root;
    for key in path {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        let Value::Object(map) = value else {
            return Err(format!("{}: expected maps up to it", path.join(".")));
        };
        value = map.entry(*key).or_insert(Value::Null);
    }
    Ok(value)
}

fn list_at<'v>(root: &'v mut Value, path: &[&str]) -> Result<&'v mut Vec<Value>, String> {
    let value = at(root, path)?;
    if value.is_null() {
        *value = json!([]);
    }
    value.as_array_mut().ok_or_else(|| format!("{}: expected a list", path.join(".")))
}

/// Takes entries out of a list, and the list with the last of them: it may not be empty in some versions.
fn drop_entries(root: &mut Value, parent: &[&str], key: &str, is_it: impl Fn(&Value) -> bool) {
    let parent = parent.iter().try_fold(root, |value, key| value.get_mut(*key));
    let Some(Value::Object(parent)) = parent else { return };
    let Some(Value::Array(entries)) = parent.get_mut(key) else { return };
    // A list that was empty before stays: only the change is in the patch.
    let before = entries.len();
    entries.retain(|entry| !is_it(entry));
    if entries.is_empty() && before > 0 {
        parent.remove(key);
    }
}

/// A name that no entry has.
fn free_name(entries: &[Value]) -> String {
    let is_taken = |name: &String| entries.iter().any(|entry| entry["name"] == name.as_str());
    // Endless, and some number is free: entries are finite.
    let numbered = (1..).map(|number| format!("{VOLUME}-{number}"));
    std::iter::once(VOLUME.to_owned()).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}

fn mount(spec: &mut Value, container: usize, path: &str) -> Result<(), String> {
    let is_there = |mount: &Value| mount["mountPath"] == path;
    let mounts =
        spec["containers"][container]["volumeMounts"].as_array().map(Vec::as_slice).unwrap_or_default();
    if mounts.iter().any(is_there) {
        return Ok(());
    }
    let volumes = list_at(spec, &["volumes"])?;
    let name = free_name(volumes);
    // With this type a missing file keeps the pod from starting; without it the runtime makes a
    // folder of that name.
    volumes.push(json!({"name": name, "hostPath": {"path": path, "type": "File"}}));
    let mounts = list_at(&mut spec["containers"][container], &["volumeMounts"])?;
    mounts.push(json!({"name": name, "mountPath": path, "readOnly": true}));
    Ok(())
}

/// Takes the mount away, and its volume unless another mount has it.
fn unmount(spec: &mut Value, container: usize, path: &str) {
    let lists = |spec: &Value| {
        let containers = spec["containers"].as_array().cloned().unwrap_or_default();
        let mounts =
            containers.iter().flat_map(|c| c["volumeMounts"].as_array().cloned().unwrap_or_default());
        mounts.collect::<Vec<Value>>()
    };
    let names: Vec<Value> = lists(spec)
        .into_iter()
        .filter(|mount| mount["mountPath"] == path)
        .map(|mount| mount["name"].clone())
        .collect();
    if let Some(own) = spec["containers"].get_mut(container) {
        drop_entries(own, &[], "volumeMounts", |mount| mount["mountPath"] == path);
    }
    // Read after the own mount is gone: another container may have a mount of the same volume.
    let still = lists(spec);
    drop_entries(spec, &[], "volumes", |volume| {
        names.contains(&volume["name"]) && !still.iter().any(|mount| mount["name"] == volume["name"])
    });
}

/// The fields of a pod's spec that differ, with the names of their containers.
fn fields(before: &Value, after: &Value) -> Option<Replacement> {
    let differing = |from: &Value, to: &Value| {
        let list = |spec: &Value| spec["containers"].as_array().cloned().unwrap_or_default();
        let containers: Vec<Value> = list(from)
            .iter()
            // No container comes or goes, so that both lists are of one length.
            .zip(list(to))
            .filter_map(|(from, to)| {
                let mut fields = merge_diff(from, &to)?;
                if to["name"].is_string() {
                    // A strategic merge finds containers by their names.
                    fields["name"] = to["name"].clone();
                }
                Some(fields)
            })
            .collect();
        let mut spec = json!({"containers": containers});
        if from["volumes"] != to["volumes"] {
            spec["volumes"] = to["volumes"].clone();
        }
        spec
    };
    (before != after)
        .then(|| Replacement { patch: differing(before, after), inverse: differing(after, before) })
}

fn nested(path: &[&str], replacement: Replacement) -> Replacement {
    let within = |value: Value| path.iter().rev().fold(value, |value, key| json!({*key: value}));
    Replacement { patch: within(replacement.patch), inverse: within(replacement.inverse) }
}
