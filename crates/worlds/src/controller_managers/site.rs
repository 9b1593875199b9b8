//! What simulated processes have around them: an API that knows who asks, files of their hosts, and a kubelet that shows
//! whether they run. Owns the questions; who answers them stands outside.

use std::collections::BTreeMap;

use capstan_engine::client::Client;
use leader_migration::rights::Grantee;

/// Text of files, by path. What a container does not mount it does not see.
pub type HostFiles = BTreeMap<String, String>;

/// Where the processes of one cluster run.
pub trait Site: Send + Sync + 'static {
    /// The API as an administrator sees it: pods and ConfigMaps are read there.
    fn administrator(&self) -> Client;

    /// The API as a process sees it.
    fn client(&self, who: &Grantee) -> Client;

    /// Text of the file at a path of a host, or of the files below it, by path.
    fn host_files(&self, node: &str, path: &str) -> HostFiles;

    /// Whether the process of a pod runs, or why it ends at its start: what its kubelet shows.
    fn show(&self, namespace: &str, pod: &str, failure: Option<&str>);
}
