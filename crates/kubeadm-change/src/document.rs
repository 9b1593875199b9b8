//! The configuration documents of a cluster, out of files and ConfigMaps. Owns recognising a document, its
//! version, and that there is one of a kind; must not know what its fields mean.

use std::collections::BTreeMap;

use serde_json::Value;

use super::convert;
pub use super::kind::DocumentKind;
use super::kind::KUBEADM_GROUP;
use super::yaml::{self, Located};
use capstan_base::text::did_you_mean;

/// Where a document was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// File name, or what else it was read from.
    pub file: String,
    /// The ConfigMap and key that hold the text; lines then count within it.
    pub within: Option<String>,
}

impl Origin {
    /// `FILE:LINE:COLUMN`, with the ConfigMap between.
    pub fn place(&self, line: usize, column: usize) -> String {
        match &self.within {
            Some(within) => format!("{} ({within}):{line}:{column}", self.file),
            None => format!("{}:{line}:{column}", self.file),
        }
    }
}

/// Something in the input that cannot be used: place and expectation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct InputError {
    /// `FILE:LINE:COLUMN`, or the argument.
    pub place: String,
    /// What is wrong, and what was expected.
    pub message: String,
}

/// One configuration document.
#[derive(Clone, Debug)]
pub struct Document {
    /// The kind; of each, a cluster has one document.
    pub kind: DocumentKind,
    /// `v1beta3` and the like, as it was read.
    pub version: String,
    /// For messages about a place in it.
    pub origin: Origin,
    /// As it was read, with places.
    pub located: Located,
    /// Without `apiVersion` and `kind`, its flags as lists of names and values.
    pub value: Value,
}

/// What a set of files holds.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// At most one of each kind.
    pub documents: Vec<Document>,
    /// Kubernetes objects beside them: Nodes, Pods and the like.
    pub objects: Vec<Value>,
    /// The resourceVersion of each ConfigMap that was read, by name.
    pub versions: BTreeMap<String, String>,
}

impl Inputs {
    /// The first that was read.
    pub fn document(&self, kind: DocumentKind) -> Option<&Document> {
        self.documents.iter().find(|document| document.kind == kind)
    }
}

/// Reads every document of `files`, which are names and texts.
///
/// # Errors
/// All that cannot be used: a text that is not YAML, two documents of one kind, an unknown kind or version of
/// kubeadm, two versions of kubeadm side by side.
pub fn read_inputs(files: &[(String, String)]) -> Result<Inputs, Vec<InputError>> {
    let mut inputs = Inputs::default();
    let mut errors = Vec::new();
    for (file, text) in files {
        let origin = Origin { file: file.clone(), within: None };
        match yaml::read(text) {
            Ok(found) => found.into_iter().for_each(|l| take(l, &origin, &mut inputs, &mut errors)),
            Err(wrong) => errors.push(InputError {
                place: origin.place(wrong.line, wrong.column),
                // The error begins with its place, which stands in `place` already.
                message: wrong.to_string().split_once(": ").map_or(String::new(), |(_, why)| why.to_owned()),
            }),
        }
    }
    one_version(&inputs, &mut errors);
    if errors.is_empty() { Ok(inputs) } else { Err(errors) }
}

fn take(located: Located, origin: &Origin, inputs: &mut Inputs, errors: &mut Vec<InputError>) {
    let text = |name: &str| located.get(name).and_then(Located::text).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    // kubectl prints several objects as one List.
    if kind.ends_with("List") && located.get("items").is_some() {
        if let Some(yaml::YamlShape::List(items)) = located.get("items").map(|items| items.shape.clone()) {
            items.into_iter().for_each(|item| take(item, origin, inputs, errors));
        }
        return;
    }
    if kind == "ConfigMap" && api_version == "v1" {
        return take_config_map(&located, origin, inputs, errors);
    }
    // An unknown kind of such a group is an error: as an object beside the documents it would be
    // dropped in silence.
    if DocumentKind::ALL.iter().all(|known| known.group() != group) && !group.ends_with(".config.k8s.io") {
        if kind.is_empty() || api_version.is_empty() {
            let place = origin.place(located.line, located.column);
            errors.push(InputError {
                place,
                message: "expected a document with apiVersion and kind".to_owned(),
            });
        } else {
            inputs.objects.push(located.value());
        }
        return;
    }
    match recognise(located, origin) {
        Ok(document) => add(document, inputs, errors),
        Err(error) => errors.push(error),
    }
}

fn add(document: Document, inputs: &mut Inputs, errors: &mut Vec<InputError>) {
    if let Some(first) = inputs.document(document.kind) {
        let place = document.origin.place(document.located.line, document.located.column);
        let other = first.origin.place(first.located.line, first.located.column);
        let message =
            format!("there is a second {}; the first is at {other}; expected one", document.kind.name());
        errors.push(InputError { place, message });
        return;
    }
    inputs.documents.push(document);
}

/// One document with its kind and version.
///
/// # Errors
/// An unknown kind or version, with the known ones.
pub fn recognise(located: Located, origin: &Origin) -> Result<Document, InputError> {
    let wrong = |message: String| InputError { place: origin.place(located.line, located.column), message };
    let text = |name: &str| located.get(name).and_then(Located::text).unwrap_or_default();
    let (api_version, kind_name) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let Some(kind) = DocumentKind::named(kind_name).filter(|kind| kind.group() == group) else {
        let names = DocumentKind::ALL.map(DocumentKind::name);
        return Err(wrong(format!(
            "`{kind_name}` of `{api_version}` is not a kind that is known here{}; known are {}",
            did_you_mean(kind_name, names.into_iter()),
            names.join(", ")
        )));
    };
    if !kind.versions().contains(&version) {
        let older = if group == KUBEADM_GROUP {
            "; of an older one `kubeadm config migrate` makes a newer one, with a kubeadm that reads both (1.22 for v1beta2)"
        } else {
            ""
        };
        return Err(wrong(format!(
            "{kind_name} has version `{version}`, which cannot be read here; readable are {}{older}",
            kind.versions().join(", ")
        )));
    }
    let version = version.to_owned();
    let value = convert::to_internal(kind, &version, located.value());
    Ok(Document { kind, version, origin: origin.clone(), value, located })
}

fn take_config_map(located: &Located, origin: &Origin, inputs: &mut Inputs, errors: &mut Vec<InputError>) {
    let metadata = |name: &str| located.get("metadata").and_then(|m| m.get(name)).and_then(Located::text);
    let name = metadata("name").unwrap_or_default();
    let stored = DocumentKind::ALL.into_iter().find_map(|k| k.stored_in().filter(|(map, _)| *map == name));
    // kubeadm reads its ConfigMaps in kube-system only: one of that name elsewhere is any object.
    let Some((_, key)) = stored.filter(|_| metadata("namespace") == Some("kube-system")) else {
        inputs.objects.push(located.value());
        return;
    };
    // The versions become part of the plan's id, and the precondition of what is written.
    inputs.versions.insert(name.to_owned(), metadata("resourceVersion").unwrap_or_default().to_owned());
    let Some(text) = located.get("data").and_then(|data| data.get(key)).and_then(Located::text) else {
        let message = format!("ConfigMap kube-system/{name} has no key {key}: it was not written by kubeadm");
        errors.push(InputError { place: origin.place(located.line, located.column), message });
        return;
    };
    let within = Origin { within: Some(format!("ConfigMap {name}, key {key}")), ..origin.clone() };
    match yaml::read(text) {
        Ok(found) => found.into_iter().for_each(|inner| take(inner, &within, inputs, errors)),
        Err(wrong) => errors.push(InputError {
            place: within.place(wrong.line, wrong.column),
            message: wrong.to_string().split_once(": ").map_or(String::new(), |(_, why)| why.to_owned()),
        }),
    }
}

/// kubeadm refuses documents of two of its versions in one file.
fn one_version(inputs: &Inputs, errors: &mut Vec<InputError>) {
    let ours: Vec<&Document> = inputs.documents.iter().filter(|d| d.kind.group() == KUBEADM_GROUP).collect();
    let Some(first) = ours.first() else { return };
    for other in ours.iter().filter(|other| other.version != first.version) {
        errors.push(InputError {
            place: other.origin.place(other.located.line, other.located.column),
            message: format!(
                "{} has version {}, but {} at {} has {}; expected one version of {KUBEADM_GROUP}",
                other.kind.name(),
                other.version,
                first.kind.name(),
                first.origin.place(first.located.line, first.located.column),
                first.version
            ),
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(texts: &[&str]) -> Result<Inputs, Vec<String>> {
        let files: Vec<(String, String)> =
            texts.iter().enumerate().map(|(i, t)| (format!("f{i}.yaml"), (*t).to_owned())).collect();
        read_inputs(&files).map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    const CLUSTER: &str = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: a\n";

    #[test]
    fn documents_are_found_in_files_and_in_config_maps() {
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kubelet-config, namespace: kube-system, resourceVersion: \"7\"}\ndata:\n  kubelet: |\n    apiVersion: kubelet.config.k8s.io/v1beta1\n    kind: KubeletConfiguration\n    maxPods: 20\n";
        let node =
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node, metadata: {name: n1}}\n";
        let inputs = read(&[CLUSTER, map, node]).expect("fine");
        assert_eq!(inputs.document(DocumentKind::Cluster).expect("there").value, json!({"clusterName": "a"}));
        assert_eq!(inputs.document(DocumentKind::Kubelet).expect("there").value, json!({"maxPods": 20}));
        assert_eq!(inputs.versions, BTreeMap::from([("kubelet-config".to_owned(), "7".to_owned())]));
        assert_eq!(inputs.objects.len(), 1);
    }

    #[test]
    fn what_cannot_be_used_is_named_with_its_place() {
        let table: &[(&[&str], &str)] = &[
            (
                &[CLUSTER, CLUSTER],
                "f1.yaml:1:1: there is a second ClusterConfiguration; the first is at f0.yaml:1:1; expected one",
            ),
            (
                &["apiVersion: kubeadm.k8s.io/v1beta2\nkind: ClusterConfiguration\n"],
                "f0.yaml:1:1: ClusterConfiguration has version `v1beta2`, which cannot be read here; readable are v1beta3, v1beta4, v1; of an older one `kubeadm config migrate`",
            ),
            (
                &[CLUSTER, "apiVersion: kubeadm.k8s.io/v1beta3\nkind: InitConfiguration\n"],
                "f1.yaml:1:1: InitConfiguration has version v1beta3, but ClusterConfiguration at f0.yaml:1:1 has v1beta4; expected one version of kubeadm.k8s.io",
            ),
            (&["maxPods: 3\n"], "f0.yaml:1:1: expected a document with apiVersion and kind"),
            (&["a: ["], "f0.yaml:1:4: YAML or JSON was expected here: "),
            (
                &[
                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kubeadm-config, namespace: kube-system}\n",
                ],
                "f0.yaml:1:1: ConfigMap kube-system/kubeadm-config has no key ClusterConfiguration: it was not written by kubeadm",
            ),
            (
                &[
                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-proxy, namespace: kube-system}\ndata: {config.conf: \"a: [\"}\n",
                ],
                "f0.yaml (ConfigMap kube-proxy, key config.conf):1:4: YAML or JSON was expected here: ",
            ),
        ];
        for (texts, expected) in table {
            let errors = read(texts).expect_err(expected);
            assert!(errors.len() == 1 && errors[0].starts_with(expected), "{errors:?}\n{expected}");
        }
        let errors =
            read(&["apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfig\n"]).expect_err("unknown");
        assert!(errors[0].contains("is not a kind that is known here"), "{errors:?}");
    }
}
