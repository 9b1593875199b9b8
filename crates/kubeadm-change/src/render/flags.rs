//! A component's command line: kubeadm's own flags under those of the user. Must not know any component.
//!
//! Source: kubeadm `util/arguments.go`.

use serde_json::Value;

use super::Release;

/// Names with values, in order; a name may stand several times.
pub(super) type Flags = Vec<(String, String)>;

/// The user's list.
pub(super) fn read(list: Option<&Value>) -> Flags {
    let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.map(|item| (text(item, "name"), text(item, "value"))).collect()
}

/// The last value of a flag, which is the one that kubeadm looks at.
pub(super) fn last<'f>(flags: &'f Flags, name: &str) -> Option<&'f str> {
    flags.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Every own flag whose name the user gives is dropped; the rest and the user's follow the program's name.
pub(super) fn command(release: Release, program: &str, mut own: Flags, user: Flags) -> Vec<String> {
    own.retain(|(name, _)| !user.iter().any(|(given, _)| given == name));
    let mut all;
    if release.keeps_order() {
        own.sort();
        all = own;
        all.extend(user);
    } else {
        all = own;
        all.extend(user);
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
        let user = flags(&[("z", "2"), ("b", "3"), ("b", "2"), ("a", "")]);
        let newer = Release { minor: 36, patch: 0 };
        assert_eq!(
            command(newer, "p", own.clone(), user.clone()),
            ["p", "--c=1", "--z=2", "--b=3", "--b=2", "--a="]
        );
        let older = Release { minor: 33, patch: 0 };
        assert_eq!(command(older, "p", own, user.clone()), ["p", "--a=", "--b=2", "--b=3", "--c=1", "--z=2"]);
        assert_eq!(last(&user, "b"), Some("2"));
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
