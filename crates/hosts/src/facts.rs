//! What is known of a machine. Owns the shape; a fact that could not be read is absent, never guessed. Must not judge.

use std::collections::BTreeSet;
use std::fmt;

use semver::Version;
use serde::Serialize;

use super::answer::Answered;

/// How commands become those of root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Privilege {
    Root,
    /// `sudo -n` without a password.
    Sudo,
    #[default]
    None,
}

pub const CONTAINERD: &str = "containerd";

/// A container runtime that is installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContainerRuntime {
    /// `containerd` or `crio`.
    pub name: &'static str,
    /// As it says it, such as `1.6.20~ds1`.
    pub version: String,
}

impl ContainerRuntime {
    pub fn major(&self) -> Option<u32> {
        self.version.split('.').next()?.parse().ok()
    }
}

impl fmt::Display for ContainerRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// Facts of one machine. Sizes are in KiB, as the machine gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostFacts {
    pub privilege: Privilege,
    /// How far the machine's clock is ahead of the one here, in seconds.
    pub clock_ahead_s: Option<i64>,
    pub os: Option<String>,
    pub system: Option<String>,
    pub kernel: Option<String>,
    pub arch: Option<String>,
    pub cpus: Option<u32>,
    pub memory_kib: Option<u64>,
    /// Of the file system of `/var/lib`, where images, pods and etcd are.
    pub disk_kib: Option<u64>,
    pub disk_free_kib: Option<u64>,
    /// The name of process 1.
    pub init: Option<String>,
    pub cgroup: Option<u8>,
    pub controllers: BTreeSet<String>,
    pub swaps: Vec<String>,
    /// Ports of TCP that something listens at; absent where they cannot be read.
    pub listens: Option<BTreeSet<u16>>,
    /// Files of a cluster that are there.
    pub files: BTreeSet<String>,
    /// How much is in `/var/lib/etcd`; absent where it cannot be read.
    pub etcd_entries: Option<u64>,
    /// Other distributions of Kubernetes.
    pub distributions: Vec<String>,
    pub commands: BTreeSet<String>,
    /// Sockets of container runtimes.
    pub sockets: Vec<String>,
    pub kubeadm: Option<Version>,
    pub kubelet: Option<Version>,
    pub runtime: Option<ContainerRuntime>,
    /// What systemd says of the unit: `enabled`.
    pub kubelet_unit: Option<String>,
    pub is_firewalld_active: bool,
    pub forwards_ipv4: Option<bool>,
    pub hostname: Option<String>,
    /// What its own name resolves to; absent where that cannot be asked.
    pub name_addresses: Option<Vec<String>>,
    pub machine_id: Option<String>,
    pub product_uuid: Option<String>,
    pub boot_id: Option<String>,
    /// Fingerprints (SHA256) of its public host keys.
    pub host_keys: Vec<String>,
    /// With the length of their prefix.
    pub addresses: Vec<String>,
    pub selinux: Option<String>,
}

impl HostFacts {
    pub(super) fn of(answered: &Answered, here_s: i64) -> Self {
        let one = |name: &str| answered.one(name).map(str::to_owned);
        let set = |name: &str| answered.all(name).iter().cloned().collect::<BTreeSet<_>>();
        Self {
            privilege: privilege_of(answered.one("root")),
            clock_ahead_s: answered.number::<i64>("now").map(|now| now.saturating_sub(here_s)),
            os: one("os"),
            system: one("system"),
            kernel: one("kernel"),
            arch: one("arch"),
            cpus: answered.number("cpus"),
            memory_kib: answered.number("memory_kib"),
            disk_kib: answered.number("disk_kib"),
            disk_free_kib: answered.number("disk_free_kib"),
            init: one("init"),
            cgroup: answered.number("cgroup"),
            controllers: set("controller"),
            swaps: answered.all("swap").to_vec(),
            listens: answered.one("ports_read").map(|_| ports_of(answered)),
            files: set("file"),
            etcd_entries: answered.number("etcd_entries"),
            distributions: answered.all("distribution").to_vec(),
            commands: set("command"),
            sockets: answered.all("socket").to_vec(),
            kubeadm: answered.one("kubeadm").and_then(version_of),
            kubelet: answered.one("kubelet").and_then(version_of),
            runtime: runtime_of(answered),
            kubelet_unit: one("kubelet_unit"),
            is_firewalld_active: answered.one("firewalld") == Some("active"),
            forwards_ipv4: answered.one("ip_forward").map(|value| value.starts_with('1')),
            hostname: one("hostname"),
            name_addresses: answered.one("names_read").map(|_| answered.all("name_address").to_vec()),
            machine_id: one("machine_id"),
            product_uuid: one("product_uuid"),
            boot_id: one("boot_id"),
            host_keys: answered.all("host_key").to_vec(),
            addresses: answered.all("address").to_vec(),
            selinux: one("selinux"),
        }
    }
}

fn privilege_of(root: Option<&str>) -> Privilege {
    match root {
        Some("yes") => Privilege::Root,
        Some("sudo") => Privilege::Sudo,
        _ => Privilege::None,
    }
}

/// `/proc/net/tcp` has ports as hexadecimal numbers.
fn ports_of(answered: &Answered) -> BTreeSet<u16> {
    answered.all("listens").iter().filter_map(|port| u16::from_str_radix(port, 16).ok()).collect()
}

/// The first word that is a version: `v1.36.3`, `Kubernetes v1.36.3`.
fn version_of(text: &str) -> Option<Version> {
    text.split_whitespace().find_map(|word| Version::parse(word.trim_start_matches('v')).ok())
}

/// `containerd github.com/containerd/containerd 1.6.20~ds1 …`: the program, and its first word that begins as a version.
fn runtime_of(answered: &Answered) -> Option<ContainerRuntime> {
    [CONTAINERD, "crio"].into_iter().find_map(|name| {
        let said = answered.one(name)?;
        let is_version = |word: &str| word.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
        let version = said.split_whitespace().find(|word| is_version(word))?;
        Some(ContainerRuntime { name, version: version.trim_start_matches('v').to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::super::probe::read;
    use super::super::request::AnswerError;
    use super::*;

    #[test]
    fn an_answer_becomes_facts() {
        let text = "motd of the host\nroot=sudo\nnow=1000\nos=Debian GNU/Linux 12\nkernel=6.1.0\ncpus=2\nmemory_kib=4000000\ncgroup=2\n\
                    controller=cpu\ncontroller=memory\nports_read=yes\nlistens=0016\nlistens=192B\netcd_entries=0\nkubeadm=v1.36.3\n\
                    kubelet=Kubernetes v1.36.2-rc.0\ncontainerd=containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1\n\
                    ip_forward=1\nnames_read=yes\nselinux=\x1b[31mEnforcing\nend=yes\n";
        let facts = read(text, 990).expect("facts");
        assert_eq!(facts.privilege, Privilege::Sudo);
        assert_eq!(facts.clock_ahead_s, Some(10));
        assert_eq!((facts.cpus, facts.memory_kib, facts.cgroup), (Some(2), Some(4_000_000), Some(2)));
        assert_eq!(facts.listens, Some(BTreeSet::from([22, 6443])));
        assert_eq!(facts.kubeadm, Some(Version::new(1, 36, 3)));
        assert_eq!(facts.kubelet.map(|version| version.to_string()).as_deref(), Some("1.36.2-rc.0"));
        assert_eq!(
            facts.runtime.map(|runtime| runtime.to_string()).as_deref(),
            Some("containerd 1.6.20~ds1")
        );
        assert_eq!((facts.forwards_ipv4, facts.name_addresses), (Some(true), Some(Vec::new())));
        assert_eq!(facts.selinux.as_deref(), Some("\u{fffd}[31mEnforcing"));
        assert_eq!((facts.disk_kib, facts.machine_id), (None, None));
    }

    #[test]
    fn an_answer_without_its_end_is_none() {
        for text in ["", "root=yes\n", "end=no\n"] {
            assert_eq!(read(text, 0), Err(AnswerError::CutOff), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_answer_is_too_strange(text in "(\\PC{0,40}\n|(now|cpus|listens|kubelet|controller)=\\PC{0,40}\n){0,20}") {
            let facts = read(&format!("{text}end=yes\n"), i64::MIN).expect("an end");
            let is_harmless = |value: &Option<String>| value.as_deref().unwrap_or_default().chars().all(|c| !c.is_control());
            proptest::prop_assert!(is_harmless(&facts.os) && is_harmless(&facts.kernel));
        }
    }
}
