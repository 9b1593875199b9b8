//! The hooks that an object waits for, as the annotation `runtime.cluster.x-k8s.io/pending-hooks` keeps them: a sorted
//! list with commas. Must not know which hooks there are.
//! Source: `internal/hooks/tracking.go`, v1.14.2.

use std::collections::BTreeSet;

/// The annotation once `hook` is pending, too: names in order, once each.
pub fn mark_pending(annotation: Option<&str>, hook: &str) -> String {
    let mut hooks = hooks(annotation);
    hooks.insert(hook.to_owned());
    joined(&hooks)
}

/// The annotation without `hook`; `None` when nothing else is pending.
pub fn pending_without(annotation: Option<&str>, hook: &str) -> Option<String> {
    let mut hooks = hooks(annotation);
    hooks.remove(hook);
    (!hooks.is_empty()).then(|| joined(&hooks))
}

fn hooks(annotation: Option<&str>) -> BTreeSet<String> {
    let names = annotation.unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn joined(hooks: &BTreeSet<String>) -> String {
    hooks.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}
