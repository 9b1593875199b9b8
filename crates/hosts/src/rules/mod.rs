//! The rules: what kubeadm's preflight refuses or warns of (`cmd/kubeadm/app/preflight/checks.go` and `checks_linux.go`,
//! `k8s.io/system-validators` 1.12.1, Kubernetes 1.36.3), and what a kubelet or another cluster makes impossible later. Owns no
//! wording of kubeadm. A rule that kubeadm has as well names kubeadm's check.

use semver::Version;

use super::facts::{CONTAINERD, ContainerRuntime, HostFacts, Privilege};
use super::finding::{HostFinding, NodeRole, Purpose};

type Rule = fn(&HostFacts, &Purpose) -> Vec<HostFinding>;

/// In the order in which they are shown where they are equally grave.
pub(super) const RULES: [(&str, Rule); 23] = [
    ("root", |facts, _| vec![root(facts)]),
    ("system", |facts, _| vec![system(facts)]),
    ("kernel", |facts, _| vec![kernel(facts)]),
    ("cgroup", |facts, purpose| vec![cgroup(facts, purpose)]),
    ("cgroup-controllers", |facts, _| controllers(facts)),
    ("cpus", |facts, purpose| cpus(facts, purpose)),
    ("memory", |facts, purpose| memory(facts, purpose)),
    ("disk", |facts, _| vec![disk(facts)]),
    ("swap", |facts, _| vec![swap(facts)]),
    ("clock", |facts, _| vec![clock(facts)]),
    ("hostname", |facts, _| vec![hostname(facts)]),
    ("ports", |facts, purpose| ports(facts, purpose)),
    ("files", |facts, purpose| files(facts, purpose)),
    ("etcd-data", |facts, purpose| etcd_data(facts, purpose)),
    ("other-distribution", |facts, _| distributions(facts)),
    ("commands", |facts, purpose| commands(facts, purpose)),
    ("container-runtime", |facts, _| vec![runtime(facts)]),
    ("runtime-version", |facts, _| runtime_version(facts)),
    ("kubeadm", |facts, purpose| vec![kubeadm(facts, purpose)]),
    ("kubelet", |facts, purpose| vec![kubelet(facts, purpose)]),
    ("kubelet-unit", |facts, _| kubelet_unit(facts)),
    ("ip-forward", |facts, _| vec![ip_forward(facts)]),
    ("firewall", |facts, _| firewall(facts)),
];

const READ_AS_ROOT: &str = "name a user that is root or may `sudo -n`";

fn root(facts: &HostFacts) -> HostFinding {
    match facts.privilege {
        Privilege::Root => HostFinding::passed("root"),
        Privilege::Sudo => HostFinding::passed("`sudo -n`"),
        Privilege::None => HostFinding::unfit(
            "the user is not root, and `sudo -n` asks for a password or is not there",
            "name root, or let the user run sudo without a password (NOPASSWD in sudoers)",
        )
        .of_kubeadm("IsPrivilegedUser"),
    }
}

/// Only systemd starts what Cluster API's and kubeadm's files describe.
fn system(facts: &HostFacts) -> HostFinding {
    let system = facts.system.as_deref().unwrap_or("an unknown system");
    match facts.init.as_deref() {
        _ if system != "Linux" => HostFinding::unfit(system, "kubeadm's nodes run Linux"),
        None => HostFinding::unknown("process 1", READ_AS_ROOT),
        Some("systemd") => HostFinding::passed("Linux with systemd"),
        Some(init) => {
            HostFinding::unfit(format!("process 1 is {init}"), "install a distribution with systemd")
        }
    }
}

/// `KernelSpec.Versions` of the system validators.
fn kernel(facts: &HostFacts) -> HostFinding {
    let Some(kernel) = facts.kernel.as_deref() else {
        return HostFinding::unknown("the kernel's release", "");
    };
    let mut numbers = kernel.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().ok());
    let (major, minor) = (numbers.next().flatten(), numbers.next().flatten());
    let is_supported = match (major, minor) {
        (Some(5), Some(minor)) => matches!(minor, 4 | 10 | 15),
        (Some(major), Some(_)) => major >= 6,
        _ => false,
    };
    if is_supported {
        HostFinding::passed(kernel)
    } else {
        let remedy = "install a kernel with long-term support: 5.4, 5.10, 5.15, or 6 and later";
        HostFinding::unfit(kernel, remedy).of_kubeadm("SystemVerification")
    }
}

/// The kubelet refuses version 1 from 1.35 on (`failCgroupV1`).
fn cgroup(facts: &HostFacts, purpose: &Purpose) -> HostFinding {
    const REMEDY: &str = "start the machine with cgroup 2 (`systemd.unified_cgroup_hierarchy=1`), or set `failCgroupV1: false` for the kubelet";
    let version = facts.kubelet.as_ref().or(purpose.version_for(facts));
    match (facts.cgroup, version) {
        (None, _) => HostFinding::unknown("the version of cgroup", ""),
        (Some(2), _) => HostFinding::passed("version 2"),
        (Some(_), Some(version)) if version.minor >= 35 => {
            let evidence = format!("version 1, which a kubelet of v{version} refuses");
            HostFinding::unfit(evidence, REMEDY).of_kubeadm("SystemVerification")
        }
        (Some(_), _) => HostFinding::warned("version 1, which kubelets from v1.35 on refuse", REMEDY)
            .of_kubeadm("SystemVerification"),
    }
}

/// Devices and freezer are no controllers of version 2: the kernel has them always.
fn controllers(facts: &HostFacts) -> Vec<HostFinding> {
    let needed: &[&str] = match facts.cgroup {
        None => return Vec::new(),
        Some(2) => &["cpu", "cpuset", "memory", "pids"],
        Some(_) => &["cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"],
    };
    let missing: Vec<&str> =
        needed.iter().copied().filter(|name| !facts.controllers.contains(*name)).collect();
    if missing.is_empty() {
        return vec![HostFinding::passed(needed.join(", "))];
    }
    let evidence = format!("{} missing", missing.join(", "));
    vec![
        HostFinding::unfit(evidence, "switch them on in the kernel's command line")
            .of_kubeadm("SystemVerification"),
    ]
}

/// `ControlPlaneNumCPU`.
fn cpus(facts: &HostFacts, purpose: &Purpose) -> Vec<HostFinding> {
    let least = if purpose.role == NodeRole::ControlPlane { 2 } else { 1 };
    vec![match facts.cpus {
        None => HostFinding::unknown("the number of CPUs", ""),
        Some(cpus) if cpus < least => {
            let evidence = format!("{cpus}, and {least} are the least for a control plane");
            HostFinding::unfit(evidence, "give the machine more CPUs").of_kubeadm("NumCPU")
        }
        Some(cpus) => HostFinding::passed(cpus.to_string()),
    }]
}

/// `ControlPlaneMem`, in megabytes of 1024 KiB.
fn memory(facts: &HostFacts, purpose: &Purpose) -> Vec<HostFinding> {
    const LEAST_MIB: u64 = 1_700;
    vec![match facts.memory_kib.map(|kib| kib / 1024) {
        None => HostFinding::unknown("the memory", ""),
        Some(mib) if purpose.role == NodeRole::ControlPlane && mib < LEAST_MIB => {
            let evidence = format!("{mib} MiB, and {LEAST_MIB} are the least for a control plane");
            HostFinding::unfit(evidence, "give the machine more memory").of_kubeadm("Mem")
        }
        Some(mib) => HostFinding::passed(format!("{mib} MiB")),
    }]
}

/// The kubelet's own limits (`evictionHard`): `nodefs.available` 10 %, `imagefs.available` 15 %.
fn disk(facts: &HostFacts) -> HostFinding {
    const REMEDY: &str = "free some of it, or give /var/lib a larger disk";
    let (Some(all), Some(free)) = (facts.disk_kib.filter(|all| *all > 0), facts.disk_free_kib) else {
        return HostFinding::unknown("the free space of /var/lib", "");
    };
    let percent = free.saturating_mul(100) / all;
    let evidence = format!("{percent} % of /var/lib is free ({} GiB)", free / 1024 / 1024);
    match percent {
        ..10 => HostFinding::unfit(format!("{evidence}: a kubelet evicts pods below 10 %"), REMEDY),
        10..15 => HostFinding::warned(format!("{evidence}: a kubelet removes images below 15 %"), REMEDY),
        _ => HostFinding::passed(evidence),
    }
}

fn swap(facts: &HostFacts) -> HostFinding {
    if facts.swaps.is_empty() {
        return HostFinding::passed("none");
    }
    let remedy = "`swapoff -a` and take it out of /etc/fstab, or configure the kubelet for it (failSwapOn, memorySwap)";
    HostFinding::warned(format!("{} in use", facts.swaps.join(", ")), remedy).of_kubeadm("Swap")
}

/// kubeadm dates certificates five minutes back (`CertificateBackdate`): a clock that is further behind finds them not yet valid.
fn clock(facts: &HostFacts) -> HostFinding {
    const REMEDY: &str = "let chrony or systemd-timesyncd set it";
    let Some(ahead) = facts.clock_ahead_s else { return HostFinding::unknown("the clock", "") };
    let evidence = match ahead {
        0 => "the same time as here".to_owned(),
        1.. => format!("{ahead} s ahead of the clock here"),
        _ => format!("{} s behind the clock here", ahead.unsigned_abs()),
    };
    match ahead.unsigned_abs() {
        ..=5 => HostFinding::passed(evidence),
        6..300 => HostFinding::warned(evidence, REMEDY),
        _ => HostFinding::unfit(format!("{evidence}: certificates would not be valid"), REMEDY),
    }
}

/// A node's name is the host's, in lower case, and a subdomain of RFC 1123.
fn hostname(facts: &HostFacts) -> HostFinding {
    let Some(name) = facts.hostname.as_deref() else { return HostFinding::unknown("the host's name", "") };
    let is_label = |label: &str| {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty() && label.chars().all(is_plain) && !label.starts_with('-') && !label.ends_with('-')
    };
    if name.len() > 253 || !name.to_lowercase().split('.').all(is_label) {
        let remedy = "rename it with letters, digits, `-` and `.` alone: `hostnamectl set-hostname NAME`";
        return HostFinding::unfit(format!("`{name}` cannot be the name of a Node"), remedy)
            .of_kubeadm("Hostname");
    }
    match facts.name_addresses.as_deref() {
        Some([]) => {
            let remedy = "put it into DNS or /etc/hosts";
            HostFinding::warned(format!("{name} does not resolve on the machine itself"), remedy)
                .of_kubeadm("Hostname")
        }
        _ => HostFinding::passed(name),
    }
}

/// Ports of kubeadm's static pods and of the kubelet.
fn ports(facts: &HostFacts, purpose: &Purpose) -> Vec<HostFinding> {
    const KUBELET: u16 = 10250;
    let needed: &[u16] = match purpose.role {
        NodeRole::ControlPlane => &[6443, 10259, 10257, KUBELET, 2379, 2380],
        NodeRole::Worker => &[KUBELET],
    };
    let Some(listens) = &facts.listens else {
        return vec![HostFinding::unknown("which ports are in use", "")];
    };
    let taken = needed.iter().filter(|port| listens.contains(port));
    let found: Vec<HostFinding> = taken
        .map(|port| {
            let remedy = format!("find what listens there (`ss -ltnp sport = :{port}`) and stop it");
            HostFinding::unfit(format!("{port} is in use"), remedy).of_kubeadm(format!("Port-{port}"))
        })
        .collect();
    if found.is_empty() { vec![HostFinding::passed("those of Kubernetes are free")] } else { found }
}

/// Files that an earlier node left, which kubeadm does not overwrite.
fn files(facts: &HostFacts, purpose: &Purpose) -> Vec<HostFinding> {
    let is_in_the_way = |file: &str| match purpose.role {
        NodeRole::ControlPlane => {
            file.starts_with("/etc/kubernetes/manifests/") || file.ends_with("kubelet.conf")
        }
        NodeRole::Worker => file.ends_with("kubelet.conf") || file.ends_with("pki/ca.crt"),
    };
    let here: Vec<&String> = facts.files.iter().collect();
    if here.is_empty() {
        return vec![HostFinding::passed("none of an earlier node")];
    }
    let remedy = "if the machine is to leave its cluster: `kubeadm reset`";
    let of_file = |file: &&String| {
        let name = format!("FileAvailable-{}", file.replace('/', "-"));
        if is_in_the_way(file) {
            HostFinding::unfit(format!("{file} is there"), remedy).of_kubeadm(name)
        } else {
            HostFinding::warned(format!("{file} is there"), remedy)
        }
    };
    here.iter().map(of_file).collect()
}

fn etcd_data(facts: &HostFacts, purpose: &Purpose) -> Vec<HostFinding> {
    if purpose.role == NodeRole::Worker {
        return Vec::new();
    }
    vec![match facts.etcd_entries {
        None => HostFinding::unknown("/var/lib/etcd", READ_AS_ROOT),
        Some(0) => HostFinding::passed("none"),
        Some(_) => {
            let remedy = "if nobody needs it any more: `kubeadm reset`, then empty /var/lib/etcd";
            HostFinding::unfit("/var/lib/etcd is not empty", remedy).of_kubeadm("DirAvailable--var-lib-etcd")
        }
    }]
}

fn distributions(facts: &HostFacts) -> Vec<HostFinding> {
    let of_name = |name: &String| {
        let remedy = format!("uninstall {name}, or use another machine");
        HostFinding::unfit(format!("{name} is installed"), remedy)
    };
    facts.distributions.iter().map(of_name).collect()
}

/// What kubelet and kubeadm call. kube-proxy needs conntrack before 1.32.
fn commands(facts: &HostFacts, purpose: &Purpose) -> Vec<HostFinding> {
    let mut needed = vec![("losetup", "util-linux"), ("mount", "mount or util-linux"), ("cp", "coreutils")];
    if purpose.version_for(facts).is_some_and(|version| version.minor < 32) {
        needed.push(("conntrack", "conntrack or conntrack-tools"));
    }
    let missing = needed.iter().filter(|(name, _)| !facts.commands.contains(*name));
    let found: Vec<HostFinding> = missing
        .map(|(name, package)| {
            let evidence = format!("{name} is not in PATH");
            HostFinding::unfit(evidence, format!("install {package}"))
                .of_kubeadm(format!("FileExisting-{name}"))
        })
        .collect();
    if found.is_empty() { vec![HostFinding::passed("those that a kubelet calls are there")] } else { found }
}

/// Of several sockets kubeadm takes none by itself.
fn runtime(facts: &HostFacts) -> HostFinding {
    match facts.sockets.as_slice() {
        [] if facts.privilege == Privilege::None => {
            HostFinding::unknown("the socket of a runtime", READ_AS_ROOT)
        }
        [] => {
            let evidence = match &facts.runtime {
                Some(runtime) => format!("{runtime} is installed and has no socket: it does not run"),
                None => "no socket of containerd, CRI-O or cri-dockerd".to_owned(),
            };
            let remedy = "install and start containerd: `systemctl enable --now containerd`";
            HostFinding::unfit(evidence, remedy).of_kubeadm("CRI")
        }
        [socket] => HostFinding::passed(
            facts.runtime.as_ref().map_or_else(|| socket.clone(), |it| format!("{it} at {socket}")),
        ),
        sockets => HostFinding::warned(
            format!("several: {}", sockets.join(", ")),
            "name one of them in `nodeRegistration.criSocket`",
        ),
    }
}

/// A kubelet asks for the cgroup driver by the CRI's method RuntimeConfig, which containerd has since 2.0; without it the kubelet's own
/// setting counts, in its last versions.
fn runtime_version(facts: &HostFacts) -> Vec<HostFinding> {
    let containerd = facts.runtime.as_ref().filter(|runtime| runtime.name == CONTAINERD);
    let major = containerd.and_then(ContainerRuntime::major);
    if facts.sockets.is_empty() || major.is_none_or(|major| major >= 2) {
        return Vec::new();
    }
    let evidence = "containerd before 2.0 does not name its cgroup driver, which later kubelets ask it for";
    let remedy =
        "install containerd 2, or let `cgroupDriver` of the kubelet agree with containerd's SystemdCgroup";
    vec![HostFinding::warned(evidence, remedy).of_kubeadm("ContainerRuntimeVersion")]
}

/// kubeadm makes clusters of its own minor version and of the one before it (`MinimumControlPlaneVersion`).
fn kubeadm(facts: &HostFacts, purpose: &Purpose) -> HostFinding {
    let Some(kubeadm) = &facts.kubeadm else {
        return HostFinding::unfit("kubeadm is not in PATH", install(purpose));
    };
    let Some(wanted) = &purpose.version else { return HostFinding::passed(format!("v{kubeadm}")) };
    let evidence = format!("v{kubeadm} for v{wanted}");
    if wanted.minor > kubeadm.minor {
        HostFinding::warned(evidence, install(purpose)).of_kubeadm("KubernetesVersion")
    } else if wanted.minor + 1 < kubeadm.minor {
        HostFinding::unfit(format!("{evidence}: it is too new for it"), install(purpose))
    } else {
        HostFinding::passed(evidence)
    }
}

/// `KubeletVersionCheck`: not newer than the control plane, and three minor versions older than kubeadm at most
/// (`MinimumKubeletVersion`).
fn kubelet(facts: &HostFacts, purpose: &Purpose) -> HostFinding {
    let Some(kubelet) = &facts.kubelet else {
        return HostFinding::unfit("kubelet is not in PATH", install(purpose))
            .of_kubeadm("SystemVerification");
    };
    let (wanted, kubeadm) = (purpose.version_for(facts), facts.kubeadm.as_ref());
    if let Some(wanted) = wanted.filter(|wanted| kubelet.minor > wanted.minor) {
        let evidence = format!("v{kubelet} is newer than a control plane of v{wanted}");
        return HostFinding::unfit(evidence, install(purpose)).of_kubeadm("KubeletVersion");
    }
    if let Some(kubeadm) = kubeadm.filter(|kubeadm| kubelet.minor + 3 < kubeadm.minor) {
        let evidence = format!("v{kubelet} is too old for kubeadm v{kubeadm}");
        return HostFinding::unfit(evidence, install(purpose)).of_kubeadm("KubeletVersion");
    }
    HostFinding::passed(format!("v{kubelet}"))
}

/// A unit that is not enabled does not come back after a restart.
fn kubelet_unit(facts: &HostFacts) -> Vec<HostFinding> {
    if facts.kubelet.is_none() {
        return Vec::new();
    }
    vec![match facts.kubelet_unit.as_deref() {
        Some(unit @ ("enabled" | "enabled-runtime" | "static" | "linked" | "alias")) => {
            HostFinding::passed(unit)
        }
        unit => {
            let evidence = format!("the unit of the kubelet is {}", unit.unwrap_or("not there"));
            HostFinding::warned(evidence, "`systemctl enable kubelet`").of_kubeadm("Service-kubelet")
        }
    }]
}

fn install(purpose: &Purpose) -> String {
    let of = |version: &Version| format!(" of v{}.{}", version.major, version.minor);
    format!("install kubeadm and kubelet{}", purpose.version.as_ref().map(of).unwrap_or_default())
}

fn ip_forward(facts: &HostFacts) -> HostFinding {
    match facts.forwards_ipv4 {
        None => HostFinding::unknown("net.ipv4.ip_forward", ""),
        Some(true) => HostFinding::passed("on"),
        Some(false) => HostFinding::unfit(
            "net.ipv4.ip_forward is 0",
            "`sysctl -w net.ipv4.ip_forward=1`, and the same line in /etc/sysctl.d",
        )
        .of_kubeadm("FileContent--proc-sys-net-ipv4-ip_forward"),
    }
}

fn firewall(facts: &HostFacts) -> Vec<HostFinding> {
    if !facts.is_firewalld_active {
        return Vec::new();
    }
    let remedy =
        "open 6443, 2379-2380 and 10250 to the other nodes: `firewall-cmd --permanent --add-port=…/tcp`";
    vec![HostFinding::warned("firewalld is active", remedy).of_kubeadm("Firewalld")]
}

#[cfg(test)]
mod tests;
