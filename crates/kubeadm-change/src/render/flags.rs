//! A component's command line: kubeadm's own flags under those of the user. Must not know any component.
//!
//! Source: kubeadm `util/arguments.go` (`ArgumentsToCommand`), up to 1.37.

use serde_json::Value;

use super::Release;

/// Names with values, in order; a name may stand several times.
pub(super) type Flags = Vec<(String, String)>;

/// One item of `extraArgs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UserFlag {
    pub(super) name: String,
    pub(super) value: String,
    method: MergeMethod,
}

/// How a flag of the user meets kubeadm's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MergeMethod {
    Replace,
    Append,
    Prepend,
}

impl UserFlag {
    pub(super) fn new(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: value.to_owned(), method: MergeMethod::Replace }
    }

    /// Does it leave kubeadm's own value there?
    pub(super) fn is_merged(&self) -> bool {
        self.method != MergeMethod::Replace
    }

    /// The value that comes of kubeadm's own. Source: kubeadm 1.37 `apis/kubeadm/argument.go` (`MergeArgWithBase`).
    pub(super) fn over(&self, own: &str) -> String {
        match self.method {
            MergeMethod::Replace => self.value.clone(),
            MergeMethod::Append => format!("{own}{}", self.value),
            MergeMethod::Prepend => format!("{}{own}", self.value),
        }
    }
}

/// The user's list.
pub(super) fn read(list: Option<&Value>) -> Vec<UserFlag> {
    let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
    let method = |item: &Value| match item["mergeMethod"].as_str() {
        Some("append") => MergeMethod::Append,
        Some("prepend") => MergeMethod::Prepend,
        _ => MergeMethod::Replace,
    };
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items
        .map(|item| UserFlag { name: text(item, "name"), value: text(item, "value"), method: method(item) })
        .collect()
}

/// The last one of a name, which is the one that kubeadm looks at.
pub(super) fn last<'f>(flags: &'f [UserFlag], name: &str) -> Option<&'f UserFlag> {
    flags.iter().rev().find(|flag| flag.name == name)
}

/// Every own flag whose name the user gives is dropped, or merged with it; the rest and the user's follow the program's name. One
/// that is merged with nothing is left out.
pub(super) fn command(release: Release, program: &str, own: Flags, user: &[UserFlag]) -> Vec<String> {
    // kubeadm drops its own flag as soon as the user gives that name; only a `mergeMethod` keeps its value.
    let merged = |(name, value): (String, String)| match last(user, &name) {
        None => Some((name, value)),
        Some(flag) => flag.is_merged().then(|| (name, flag.over(&value))),
    };
    let mut all: Flags = own.into_iter().filter_map(merged).collect();
    if release.keeps_order() {
        all.sort();
    }
    let given = user.iter().filter(|flag| !flag.is_merged());
    all.extend(given.map(|flag| (flag.name.clone(), flag.value.clone())));
    if !release.keeps_order() {
        all.sort();
    }
    let flags = all.into_iter().map(|(name, value)| format!("--{name}={value}"));
    std::iter::once(program.to_owned()).chain(flags).collect()
}

/// Go's `filepath.Join`: no slash twice, no `.` and `..`.
pub(super) fn join_path(folder: &str, name: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(name.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if folder.starts_with('/') { format!("/{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(pairs: &[(&str, &str)]) -> Flags {
        pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn a_users_flag_replaces_every_own_one_of_its_name() {
        let own = flags(&[("b", "1"), ("a", "1"), ("c", "1")]);
        let user =
            [("z", "2"), ("b", "3"), ("b", "2"), ("a", "")].map(|(name, value)| UserFlag::new(name, value));
        let newer = Release { minor: 36, patch: 0 };
        assert_eq!(
            command(newer, "p", own.clone(), &user),
            ["p", "--c=1", "--z=2", "--b=3", "--b=2", "--a="]
        );
        let older = Release { minor: 33, patch: 0 };
        assert_eq!(command(older, "p", own, &user), ["p", "--a=", "--b=2", "--b=3", "--c=1", "--z=2"]);
        assert_eq!(last(&user, "b").map(|flag| flag.value.as_str()), Some("2"));
    }

    #[test]
    fn a_users_flag_is_merged_with_kubeadms_own() {
        let user = serde_json::json!([
            {"name": "modes", "value": ",Webhook", "mergeMethod": "append"},
            {"name": "issuer", "value": "https://a,", "mergeMethod": "prepend"},
            {"name": "nothing", "value": "x", "mergeMethod": "append"},
            {"name": "v", "value": "2"},
        ]);
        let own = flags(&[("modes", "Node,RBAC"), ("issuer", "https://b"), ("v", "0")]);
        let all = command(Release { minor: 37, patch: 2 }, "p", own, &read(Some(&user)));
        assert_eq!(all, ["p", "--issuer=https://a,https://b", "--modes=Node,RBAC,Webhook", "--v=2"]);
    }

    #[test]
    fn paths_are_joined_as_go_does() {
        for (folder, name, joined) in [
            ("/a", "b", "/a/b"),
            ("/a/", "b", "/a/b"),
            ("/a/../c", "b", "/c/b"),
            ("/", "b", "/b"),
            ("/a//b/.", "c/d", "/a/b/c/d"),
        ] {
            assert_eq!(join_path(folder, name), joined);
        }
    }
}
