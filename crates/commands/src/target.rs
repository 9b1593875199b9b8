//! `KIND/NAME` as kubectl users type it → a reference. Owns the lookup in the table of kinds; must
//! not know whether the object exists.

use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::{self as api, Served};

/// A target that cannot be understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TargetError {
    #[error("`{typed}` names no object; expected KIND/NAME or KIND NAME, such as machinedeployment/md-0")]
    Shape { typed: String },
    #[error("there is no kind `{typed}`; known are {known}")]
    Kind { typed: String, known: String },
}

/// `["md/a"]` or `["md", "a"]` in `namespace`.
///
/// # Errors
/// [`TargetError`].
pub fn parse(words: &[String], namespace: &str) -> Result<ObjectRef, TargetError> {
    let shape = || TargetError::Shape { typed: words.join(" ") };
    let (kind, name) = match words {
        [one] => one.split_once('/').ok_or_else(shape)?,
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => return Err(shape()),
    };
    if name.is_empty() || name.contains('/') {
        return Err(shape());
    }
    let served = kind_named(kind)?;
    let namespace = if served.gvk.namespaced { namespace } else { "" };
    Ok(ObjectRef { gvk: served.gvk, key: ObjectKey::new(namespace, name), uid: String::new() })
}

/// By kind, plural, short name, or any of them with the group behind a dot; case does not matter.
///
/// # Errors
/// [`TargetError::Kind`], with the names that exist.
pub fn kind_named(typed: &str) -> Result<Served, TargetError> {
    let wanted = typed.to_ascii_lowercase();
    let (word, group) =
        wanted.split_once('.').map_or((wanted.as_str(), None), |(word, group)| (word, Some(group)));
    let served = api::served();
    let found = served.iter().find(|s| {
        let names = [s.gvk.kind.to_ascii_lowercase(), s.gvk.plural.clone()];
        let named = names.iter().any(|n| n == word) || s.short_names.contains(&word);
        named && group.is_none_or(|g| g == s.gvk.group || s.gvk.group.starts_with(&format!("{g}.")))
    });
    found.cloned().ok_or_else(|| TargetError::Kind {
        typed: typed.to_owned(),
        known: served.iter().map(|s| s.gvk.plural.as_str()).collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<String, TargetError> {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        parse(&words, "ns").map(|r| r.to_string())
    }

    #[test]
    fn every_way_of_naming_an_object() {
        for words in [
            &["machinedeployment/a"][..],
            &["machinedeployments/a"],
            &["md/a"],
            &["MachineDeployment", "a"],
            &["machinedeployments.cluster.x-k8s.io/a"],
        ] {
            assert_eq!(parsed(words).as_deref(), Ok("MachineDeployment ns/a"), "{words:?}");
        }
        assert_eq!(parsed(&["ext/e"]).as_deref(), Ok("ExtensionConfig e"));
        assert_eq!(parsed(&["kcp/cp"]).as_deref(), Ok("KubeadmControlPlane ns/cp"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(matches!(parsed(&["md"]), Err(TargetError::Shape { .. })));
        assert!(matches!(parsed(&["md/"]), Err(TargetError::Shape { .. })));
        let error = parsed(&["pod/a"]).expect_err("no such kind").to_string();
        assert!(error.contains("machinedeployments"), "{error}");
    }
}
