//! Kubeconfigs as kubectl reads them: which files count, how several are one, and what of a context can be used. Must not
//! know how a connection is made.
//!
//! Source: client-go `tools/clientcmd/loader.go` (`ClientConfigLoadingRules.Load`), `tools/clientcmd/client_config.go`
//! (`ConfirmUsable`, `getAuthInfo`, `getCluster`), v0.32.

mod file;
mod setup;
mod usable;

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kube::config::{Context, Kubeconfig, NamedAuthInfo, NamedCluster};

use super::connect::ConnectError;

/// What all files say together, and where that is from, for messages.
#[derive(Clone, Debug)]
pub struct Merged {
    config: Kubeconfig,
    origin: String,
    /// Also those that are not there.
    files: Vec<PathBuf>,
}

/// A context with its parts.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The name of the context.
    pub context: String,
    /// Only the context, its cluster and its user.
    pub config: Kubeconfig,
}

impl Merged {
    /// The file that was named, which has to be there; else those of `$KUBECONFIG` that are there; else `~/.kube/config`.
    ///
    /// # Errors
    /// No file, or one that cannot be read or decoded.
    pub fn read(named: Option<&Path>) -> Result<Self, ConnectError> {
        if let Some(path) = named {
            let config = load(path)?.ok_or_else(|| ConnectError::Unreadable {
                path: path.to_owned(),
                reason: "No such file or directory".to_owned(),
            })?;
            return Ok(Self { config, origin: path.display().to_string(), files: vec![path.to_owned()] });
        }
        let default = etcetera::home_dir().unwrap_or_default().join(".kube").join("config");
        // An empty variable counts as none, as kubectl has it.
        let list = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty());
        let (paths, origin) = match &list {
            Some(list) => (files(list), "$KUBECONFIG".to_owned()),
            None => (vec![default.clone()], default.display().to_string()),
        };
        Self::of_files(&paths, origin)?.ok_or(ConnectError::Missing { default })
    }

    /// Of the files, those that are there; `None` when none is.
    fn of_files(paths: &[PathBuf], origin: String) -> Result<Option<Self>, ConnectError> {
        let mut merged: Option<Kubeconfig> = None;
        for path in paths {
            // kubectl passes over files of the list that are
            // not there, but not over those it cannot read.
            let Some(next) = load(path)? else { continue };
            merged = Some(match merged {
                Some(before) => merge(before, next),
                None => next,
            });
        }
        Ok(merged.map(|config| Self { config, origin, files: paths.to_vec() }))
    }

    /// # Errors
    /// [`ConnectError::Invalid`].
    pub fn of_text(text: &str, origin: &str) -> Result<Self, ConnectError> {
        let config = file::decode(text).map_err(|reason| invalid(origin, reason))?;
        Ok(Self { config, origin: origin.to_owned(), files: Vec::new() })
    }

    /// Every context, cluster and user.
    pub fn whole(&self) -> &Kubeconfig {
        &self.config
    }

    pub fn names(&self) -> Vec<String> {
        self.config.contexts.iter().map(|named| named.name.clone()).collect()
    }

    /// The wanted context, else the current one. A user that is not there is nobody; a cluster has to be there.
    ///
    /// # Errors
    /// There is no such context, or it has no cluster.
    pub fn choose(&self, wanted: Option<&str>) -> Result<Chosen, ConnectError> {
        let (known, origin) = (self.names(), self.origin.clone());
        let wanted = wanted.or(self.config.current_context.as_deref()).filter(|name| !name.is_empty());
        let Some(name) = wanted else { return Err(ConnectError::NoContext { origin, known }) };
        let Some(context) = self.config.contexts.iter().find(|named| named.name == name) else {
            return Err(ConnectError::UnknownContext { wanted: name.to_owned(), origin, known });
        };
        let parts = context.context.clone().unwrap_or_default();
        let cluster = self.cluster(&parts, name)?;
        let user = self.user(&parts);
        let config = Kubeconfig {
            clusters: vec![cluster],
            auth_infos: vec![user],
            contexts: vec![context.clone()],
            current_context: Some(name.to_owned()),
            ..Kubeconfig::default()
        };
        Ok(Chosen { context: name.to_owned(), config })
    }

    fn cluster(&self, context: &Context, name: &str) -> Result<NamedCluster, ConnectError> {
        let found = self.config.clusters.iter().find(|named| named.name == context.cluster);
        found.cloned().ok_or_else(|| {
            let reason = match context.cluster.as_str() {
                "" => format!("context {name:?} names no cluster"),
                cluster => format!("context {name:?} names cluster {cluster:?}, which is not there"),
            };
            invalid(&self.origin, reason)
        })
    }

    fn user(&self, context: &Context) -> NamedAuthInfo {
        let name = context.user.clone().unwrap_or_default();
        let found = self.config.auth_infos.iter().find(|named| named.name == name);
        found.cloned().unwrap_or(NamedAuthInfo { name, ..NamedAuthInfo::default() })
    }

    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// For messages.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl Chosen {
    /// Refuses what kubectl refuses before it connects, and puts the parts into the form that it gives them.
    ///
    /// # Errors
    /// What of the context cannot be used.
    pub fn usable(mut self) -> Result<Self, String> {
        let mut encrypted = true;
        for named in &mut self.config.clusters {
            let cluster = named.cluster.get_or_insert_default();
            usable::cluster(&named.name, cluster)?;
            encrypted = usable::is_encrypted(cluster);
        }
        for named in &mut self.config.auth_infos {
            let user = named.auth_info.get_or_insert_default();
            usable::user(&named.name, user)?;
            // A person in between would read a token or a password that goes over plain http.
            if !encrypted {
                *user = usable::without_credentials(user);
            }
        }
        Ok(self)
    }
}

fn invalid(origin: &str, reason: String) -> ConnectError {
    ConnectError::Invalid { origin: origin.to_owned(), reason }
}

/// The files of a list, each once.
fn files(list: &OsStr) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()) {
        // As client-go: a file that is listed twice is merged once.
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// `None`: the file is not there.
fn load(path: &Path) -> Result<Option<Kubeconfig>, ConnectError> {
    let unreadable = |reason: String| ConnectError::Unreadable { path: path.to_owned(), reason };
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let text = text(&bytes).ok_or_else(|| unreadable("it is not a text".to_owned()))?;
    let mut config = file::decode(&text).map_err(|reason| invalid(&path.display().to_string(), reason))?;
    file::resolve(&mut config, &folder(path));
    Ok(Some(config))
}

fn folder(path: &Path) -> PathBuf {
    let folder = path.parent().unwrap_or(Path::new(""));
    std::path::absolute(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
        .unwrap_or_else(|_| folder.to_owned())
}

/// Editors on Windows begin a file with a byte order mark, or write UTF-16.
fn text(bytes: &[u8]) -> Option<String> {
    let wide = |rest: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = rest.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        String::from_utf16(&units).ok()
    };
    match bytes {
        [0xFF, 0xFE, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        _ => String::from_utf8(bytes.to_vec()).ok(),
    }
}

/// The first file that says something wins, by name of an entry and for the current context.
fn merge(mut first: Kubeconfig, next: Kubeconfig) -> Kubeconfig {
    first.current_context = first.current_context.filter(|name| !name.is_empty()).or(next.current_context);
    for named in next.clusters {
        if first.clusters.iter().all(|known| known.name != named.name) {
            first.clusters.push(named);
        }
    }
    for named in next.auth_infos {
        if first.auth_infos.iter().all(|known| known.name != named.name) {
            first.auth_infos.push(named);
        }
    }
    for named in next.contexts {
        if first.contexts.iter().all(|known| known.name != named.name) {
            first.contexts.push(named);
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whom_a_user_speaks_for_goes_over_plain_http() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        for (server, is_kept) in [
            ("http://127.0.0.1:8001", false),
            ("127.0.0.1:8001", false),
            ("https://127.0.0.1:8001", true),
            ("HTTPS://127.0.0.1:8001", true),
        ] {
            let text = format!(
                "current-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
                 clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
                 users: [{{name: u, user: {{token: secret, as: viewer, as-groups: [readers]}}}}]"
            );
            std::fs::write(&path, text).expect("written");
            let merged = Merged::of_files(std::slice::from_ref(&path), String::new()).expect("read");
            let chosen = merged.expect("a file").choose(None).expect("a context").usable().expect("usable");
            let user = chosen.config.auth_infos[0].auth_info.as_ref().expect("a user");
            assert_eq!(user.token.is_some(), is_kept, "{server}");
            assert_eq!(user.impersonate.as_deref(), Some("viewer"), "{server}");
            assert_eq!(user.impersonate_groups.as_deref(), Some(&["readers".to_owned()][..]), "{server}");
        }
    }

    /// Two files, and the server of the context that is current in both together.
    #[test]
    fn the_first_file_wins_and_what_is_not_there_is_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let cluster = |server: &str| format!("clusters: [{{name: c, cluster: {{server: {server}}}}}]");
        let context = "contexts: [{name: x, context: {cluster: c}}]";
        for (files, expected) in [
            (vec![format!("{}\n{context}", cluster("a")), "current-context: x".to_owned()], Some("a")),
            (
                vec![
                    format!("current-context: ''\n{context}"),
                    cluster("a"),
                    "current-context: x".to_owned(),
                ],
                Some("a"),
            ),
            (vec![cluster("a"), cluster("b"), format!("current-context: x\n{context}")], Some("a")),
            (
                vec![
                    "current-context: other".to_owned(),
                    format!("current-context: x\n{context}\n{}", cluster("a")),
                ],
                None,
            ),
        ] {
            let mut paths = vec![folder.path().join("not-there")];
            for (at, text) in files.iter().enumerate() {
                let path = folder.path().join(format!("file-{at}"));
                std::fs::write(&path, text).expect("written");
                paths.push(path);
            }
            let merged = Merged::of_files(&paths, "here".to_owned()).expect("read").expect("files");
            let chosen = merged.choose(None).ok();
            let server = chosen.and_then(|chosen| chosen.config.clusters[0].cluster.as_ref()?.server.clone());
            assert_eq!(server.as_deref(), expected, "{files:?}");
        }
        assert!(Merged::of_files(&[folder.path().join("not-there")], String::new()).expect("read").is_none());
    }
}
