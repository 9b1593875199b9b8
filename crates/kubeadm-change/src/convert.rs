//! Between the versions of the kubeadm API. Owns what differs between v1beta3 and v1beta4; must not know what a
//! field means. Inside, flags are lists of names and values as in v1beta4, whatever version a document has.
//!
//! Source: kubeadm `apis/kubeadm/v1beta3/conversion.go`, `convertToArgs`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::kind::{DocumentKind, V1, V1BETA3};

/// Where flags stand in documents of the kubeadm API.
const FLAGS: &[&[&str]] = &[
    &["apiServer", "extraArgs"],
    &["controllerManager", "extraArgs"],
    &["scheduler", "extraArgs"],
    &["etcd", "local", "extraArgs"],
    &["nodeRegistration", "kubeletExtraArgs"],
];

/// Why a document cannot be written in v1beta3.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// A flag that is given more than once.
    #[error(
        "{path}: `{name}` stands twice, and v1beta3 has one value per flag; use v1beta4 (kubeadm 1.31 and later)"
    )]
    Duplicate {
        /// The list that holds the flag.
        path: String,
        /// Of the flag.
        name: String,
    },
    /// A field that only v1beta4 has, with a value.
    #[error("{path} does not exist in v1beta3; use v1beta4 (kubeadm 1.31 and later)")]
    Missing {
        /// The field, as v1beta4 has it.
        path: String,
    },
    /// A flag that is merged with kubeadm's own.
    #[error(
        "{path}: `{name}` has a mergeMethod, which only v1 has, and no cluster stores v1; write the whole value instead"
    )]
    Merged {
        /// The list that holds the flag.
        path: String,
        /// Of the flag.
        name: String,
    },
}

/// Fields that v1beta3 does not have.
const ONLY_V1BETA4: &[&[&str]] = &[
    &["apiServer", "extraEnvs"],
    &["controllerManager", "extraEnvs"],
    &["scheduler", "extraEnvs"],
    &["etcd", "local", "extraEnvs"],
    &["etcd", "external", "httpEndpoints"],
    &["dns", "disabled"],
    &["proxy"],
    &["encryptionAlgorithm"],
    &["certificateValidityPeriod"],
    &["caCertificateValidityPeriod"],
];

/// Where the flags of a ClusterConfiguration stand.
pub fn flag_lists() -> impl Iterator<Item = &'static [&'static str]> {
    FLAGS.iter().copied().filter(|path| path[0] != "nodeRegistration")
}

/// A document without its type, its flags as lists; a map of flags is sorted by name, a null in it means that the
/// flag goes away (`$patch: delete`).
pub fn to_internal(kind: DocumentKind, version: &str, mut value: Value) -> Value {
    if let Value::Object(map) = &mut value {
        map.remove("apiVersion");
        map.remove("kind");
    }
    if version == V1BETA3 && is_kubeadm(kind) {
        for path in FLAGS {
            if let Some(flags) = find(&mut value, path)
                && let Value::Object(map) = flags
            {
                // Maps are sorted by name, as kubeadm's own conversion does it.
                *flags = Value::Array(map.iter().map(|(name, value)| flag(name, value)).collect());
            }
        }
    }
    value
}

fn flag(name: &str, value: &Value) -> Value {
    if value.is_null() {
        json!({"name": name, "$patch": "delete"})
    } else {
        json!({"name": name, "value": value})
    }
}

fn is_kubeadm(kind: DocumentKind) -> bool {
    !matches!(kind, DocumentKind::Kubelet | DocumentKind::Proxy)
}

fn find<'v>(value: &'v mut Value, path: &[&str]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, name| value.get_mut(*name))
}

/// The document as it is stored, with type, in `version`.
///
/// # Errors
/// [`ConvertError`] when v1beta3 cannot hold it.
pub fn to_stored(kind: DocumentKind, version: &str, value: &Value) -> Result<Value, ConvertError> {
    let mut value = value.clone();
    if version != V1 && is_kubeadm(kind) {
        not_merged(&value)?;
    }
    if version == V1BETA3 && is_kubeadm(kind) {
        for path in FLAGS {
            if let Some(flags) = find(&mut value, path)
                && let Value::Array(items) = flags
            {
                *flags = Value::Object(as_map(items, &path.join("."))?);
            }
        }
        for path in ONLY_V1BETA4 {
            if find(&mut value, path).is_some() {
                return Err(ConvertError::Missing { path: path.join(".") });
            }
        }
    }
    if let Value::Object(map) = &mut value {
        let group = match kind {
            DocumentKind::Kubelet => "kubelet.config.k8s.io",
            DocumentKind::Proxy => "kubeproxy.config.k8s.io",
            _ => "kubeadm.k8s.io",
        };
        map.insert("apiVersion".to_owned(), format!("{group}/{version}").into());
        map.insert("kind".to_owned(), kind.name().into());
    }
    Ok(value)
}

/// kubeadm would drop the method in silence, and the value would replace its own.
fn not_merged(value: &Value) -> Result<(), ConvertError> {
    for path in FLAGS {
        let list = path.iter().fold(value, |value, name| &value[*name]).as_array();
        let mut flags = list.into_iter().flatten();
        if let Some(flag) =
            flags.find(|flag| flag["mergeMethod"].as_str().is_some_and(|method| !method.is_empty()))
        {
            let name = flag["name"].as_str().unwrap_or_default().to_owned();
            return Err(ConvertError::Merged { path: path.join("."), name });
        }
    }
    Ok(())
}

/// Flags as a map by name.
///
/// # Errors
/// [`ConvertError::Duplicate`]: a flag stands twice in the list at `path`.
pub fn as_map(items: &[Value], path: &str) -> Result<Map<String, Value>, ConvertError> {
    let mut map = Map::new();
    let mut seen = BTreeSet::new();
    for item in items {
        let name = item["name"].as_str().unwrap_or_default();
        // A map keeps one value of a name: the other one would be lost without a word.
        if !seen.insert(name) {
            return Err(ConvertError::Duplicate { path: path.to_owned(), name: name.to_owned() });
        }
        map.insert(name.to_owned(), item["value"].clone());
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::super::kind::V1BETA4;
    use super::*;

    #[test]
    fn flags_of_v1beta3_become_sorted_lists_and_go_back() {
        let stored = json!({
            "apiVersion": "kubeadm.k8s.io/v1beta3", "kind": "ClusterConfiguration",
            "apiServer": {"extraArgs": {"v": "2", "audit-log-path": "-"}, "timeoutForControlPlane": "4m0s"},
            "unknown": {"kept": true},
        });
        let internal = to_internal(DocumentKind::Cluster, V1BETA3, stored.clone());
        assert_eq!(
            internal["apiServer"]["extraArgs"],
            json!([{"name": "audit-log-path", "value": "-"}, {"name": "v", "value": "2"}])
        );
        assert_eq!(to_stored(DocumentKind::Cluster, V1BETA3, &internal), Ok(stored));
        let stored = to_stored(DocumentKind::Cluster, V1BETA4, &internal).expect("fine");
        assert_eq!(stored["apiServer"]["extraArgs"][0]["name"], "audit-log-path");
        assert_eq!(stored["unknown"], json!({"kept": true}));
    }

    #[test]
    fn what_v1beta3_cannot_hold_is_refused() {
        let twice =
            json!({"scheduler": {"extraArgs": [{"name": "v", "value": "1"}, {"name": "v", "value": "2"}]}});
        assert!(matches!(
            to_stored(DocumentKind::Cluster, V1BETA3, &twice),
            Err(ConvertError::Duplicate { .. })
        ));
        let newer = json!({"proxy": {"disabled": true}});
        let error = to_stored(DocumentKind::Cluster, V1BETA3, &newer).expect_err("refused");
        assert_eq!(
            error.to_string(),
            "proxy does not exist in v1beta3; use v1beta4 (kubeadm 1.31 and later)"
        );
    }

    #[test]
    fn a_flag_that_is_merged_is_in_v1_alone() {
        let merged =
            json!({"apiServer": {"extraArgs": [{"name": "v", "value": "1", "mergeMethod": "append"}]}});
        assert!(to_stored(DocumentKind::Cluster, V1, &merged).is_ok());
        let error = to_stored(DocumentKind::Cluster, V1BETA4, &merged).expect_err("refused");
        assert!(error.to_string().starts_with("apiServer.extraArgs: `v` has a mergeMethod"), "{error}");
    }

    #[test]
    fn absent_and_empty_taints_stay_what_they_are() {
        for stored in [
            json!({"apiVersion": "kubeadm.k8s.io/v1beta3", "kind": "InitConfiguration", "nodeRegistration": {"taints": []}}),
            json!({"apiVersion": "kubeadm.k8s.io/v1beta3", "kind": "InitConfiguration", "nodeRegistration": {"name": "n"}}),
            json!({"apiVersion": "kubeadm.k8s.io/v1beta3", "kind": "InitConfiguration", "nodeRegistration": {"taints": null}}),
        ] {
            let internal = to_internal(DocumentKind::Init, V1BETA3, stored.clone());
            assert_eq!(to_stored(DocumentKind::Init, V1BETA3, &internal), Ok(stored));
        }
    }

    #[test]
    fn a_null_among_flags_of_a_patch_takes_the_flag_away() {
        let patch = json!({"apiServer": {"extraArgs": {"v": null}}});
        let internal = to_internal(DocumentKind::Cluster, V1BETA3, patch);
        assert_eq!(internal["apiServer"]["extraArgs"], json!([{"name": "v", "$patch": "delete"}]));
    }
}
