//! Why did a machine not become a node? Owns the sentence for each kind of failure, and what to do about it; the words by which one is
//! recognised stand in `table`. A cause is preferred to what follows from it. Must not know which step failed.

mod table;

use serde::Serialize;

use capstan_base::text::{sanitize_line, truncate};
use table::{RULES, Spoken, Words};

const EVIDENCE_CELLS_MAX: usize = 300;
const WARNING: &str = "[WARNING ";
/// With this the runner begins each attempt.
const ATTEMPT: &str = "capstan: attempt ";

/// Why it failed, in one sentence with the line that says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    pub kind: ReasonKind,
    /// What happened, and what to do.
    pub sentence: &'static str,
    /// The line that decided; empty where an exit code did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub evidence: String,
}

/// `log` is what the steps printed, of which the last attempt counts, `component_lines` what the kubelet and containerd complained of
/// meanwhile.
pub fn explain(log: &str, component_lines: &[String]) -> Option<Reason> {
    let mut lines: Vec<&str> = log.lines().filter(|line| !is_warning(line)).collect();
    let begun = lines.iter().rposition(|line| line.starts_with(ATTEMPT)).unwrap_or(0);
    lines.drain(..begun);
    let components: Vec<&str> = component_lines.iter().map(String::as_str).collect();
    RULES.iter().find_map(|rule| {
        let of_components: &[&str] = if rule.spoken == Spoken::Anywhere { &components } else { &[] };
        // The last that was printed is of the last attempt.
        let line = lines.iter().rev().chain(of_components.iter().rev()).find(|line| is_met(rule, line))?;
        Some(Reason {
            evidence: truncate(sanitize_line(line).trim(), EVIDENCE_CELLS_MAX, "..."),
            ..of_kind(rule.kind)
        })
    })
}

/// What kubeadm warned of did not stop it: in its checks, and in its log (`W1130 15:07:25.040053 …`).
fn is_warning(line: &str) -> bool {
    let is_of_log = line.strip_prefix('W').is_some_and(|rest| {
        let (day, after) = rest.split_at_checked(4).unwrap_or_default();
        day.len() == 4 && day.chars().all(|c| c.is_ascii_digit()) && after.starts_with(' ')
    });
    is_of_log || line.contains(WARNING)
}

fn is_met(rule: &Words, line: &str) -> bool {
    rule.words.iter().all(|word| line.contains(word))
}

/// What an exit code alone says.
pub fn of_exit_code(code: i32) -> Option<Reason> {
    let kind = match code {
        124 => ReasonKind::TookTooLong,
        126 | 127 => ReasonKind::CommandMissing,
        137 => ReasonKind::Killed,
        _ => return None,
    };
    Some(of_kind(kind))
}

fn of_kind(kind: ReasonKind) -> Reason {
    Reason { kind, sentence: kind.sentence(), evidence: String::new() }
}

/// One enum, its sentences beside its names.
macro_rules! reasons {
    ($($kind:ident => $sentence:literal,)+) => {
        /// A kind of failure. Its name is the reason in a condition.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum ReasonKind { $($kind,)+ }

        impl ReasonKind {
            pub const ALL: &'static [Self] = &[$(Self::$kind,)+];

            /// As a condition has it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => stringify!($kind),)+ }
            }

            /// What happened, and what to do.
            pub fn sentence(self) -> &'static str {
                match self { $(Self::$kind => $sentence,)+ }
            }
        }
    };
}

reasons! {
    DiskFull => "a disk of the machine is full; free space below /var, /etc and /tmp, or give it a larger disk",
    DiskReadOnly => "a file system of the machine is mounted read-only; look for disk errors with dmesg, and mount it writable",
    OutOfMemory => "the machine has no memory left; stop what else runs there, or give it more",
    TooManyFiles => "the machine allows too few open files or inotify instances; raise fs.inotify.max_user_instances and the limits of the unit",
    ClockBehind => "the machine's clock is behind, so certificates count as not yet valid; set the clock, and let NTP keep it",
    CertificateExpired => "a certificate has expired, or the machine's clock is ahead; compare the clock, then renew the certificate",
    NotRoot => "kubeadm did not run as root; let the user be root or use sudo",
    PackageLockHeld => "another program installs packages just now; wait for it, or switch unattended upgrades off during the bootstrap",
    KubeadmMissing => "kubeadm is not installed on the machine; install kubeadm and kubelet of the cluster's version",
    PortTaken => "a port that Kubernetes needs is taken by another program; stop that program (ss -ltnp shows it)",
    EtcdDataThere => "/var/lib/etcd holds data of an earlier etcd; reset the machine, or save the data and empty the folder",
    NodeFilesThere => "files of an earlier node are there; reset the machine first",
    RuntimeWithoutConfig => "the container runtime is too old for this kubelet; update containerd to 2.0 or later",
    RuntimeDead => "the container runtime does not answer; look at systemctl status containerd and at its journal",
    SeveralRuntimes => "several container runtimes are installed; name the one to use as nodeRegistration.criSocket",
    ImageNotPulled => "an image could not be pulled; check the registry, its credentials, the proxy and the name of the image",
    TooFewCpus => "the machine has fewer CPUs than a control plane needs (2)",
    TooLittleMemory => "the machine has less memory than a control plane needs (1700 MiB)",
    SwapOn => "swap is on and the kubelet is not configured for it; switch it off with swapoff -a and in /etc/fstab, or set failSwapOn to false",
    CgroupVersion => "the machine uses cgroup version 1, which this kubelet refuses; boot it with version 2, or set failCgroupV1 to false",
    CgroupController => "the kernel lacks a cgroup controller that the kubelet needs; switch it on at boot",
    KernelUnsupported => "kubeadm's check of the system failed; update the kernel, or have its line looked at",
    IpForwardOff => "the machine does not forward packets; set net.ipv4.ip_forward to 1 below /etc/sysctl.d",
    ProgramMissing => "a program that kubeadm needs is not installed; install it",
    HostnameWrong => "the machine's name cannot be the name of a Node; give it a DNS name in lower case",
    KubeletTooNew => "the kubelet is newer than the control plane will be; install the kubelet of the cluster's version",
    KubeletTooOld => "the kubelet is too old for this kubeadm; install the kubelet of the cluster's version",
    ExternalEtcdWrong => "the external etcd does not answer, or its version is not supported; check its endpoints and certificates",
    VersionUnsupported => "kubeadm does not make clusters of this version; install kubeadm of the cluster's version",
    ConfigurationWrong => "kubeadm does not take its configuration; compare the KubeadmConfig with the version of kubeadm on the machine",
    TokenInvalid => "the bootstrap token is not known to the cluster, or has expired; it has to be made anew",
    TokenWrong => "the cluster is another than the one for which the token was made; check the control plane's address",
    AuthorityNotPinned => "the cluster's certificate authority is not the expected one; check the control plane's address, and who answers there",
    CertificateKeyExpired => "the uploaded certificates of the control plane are not there, or have expired after two hours; upload them again",
    CertificateKeyWrong => "the key for the uploaded certificates is wrong; upload them again and use the new key",
    NoStableEndpoint => "the cluster has no controlPlaneEndpoint, so no second control plane can join; make it anew with one",
    NodeNameTaken => "a Node of this name is Ready in the cluster already; delete that Node, or give the machine another name",
    CertificateWrong => "a certificate or key below /etc/kubernetes/pki does not belong to its authority; look at the cluster's Secrets",
    AuthorityUnknown => "a certificate is signed by another authority than expected; check the control plane's address, and a proxy on the way",
    AddressNotInCertificate => "the server's certificate is not for the address that is used; add it to apiServer.certSANs",
    EtcdPeerThere => "etcd has a member with this machine's address already, left by an earlier attempt; remove that member",
    EtcdLearnerBehind => "the new etcd member does not catch up with its leader; check the network and the disks, then try again",
    EtcdUnhealthy => "the cluster's etcd is not healthy, so no member can be added; repair it first",
    ProxyInTheWay => "a proxy stands between the machine and the cluster; put the cluster's addresses into NO_PROXY",
    NameNotResolved => "a name cannot be resolved on the machine; check /etc/resolv.conf and the DNS server",
    KubeletFlagUnknown => "the kubelet does not know one of its flags; take it out of kubeletExtraArgs or KUBELET_EXTRA_ARGS",
    KubeletConfigurationWrong => "the kubelet does not take its configuration; compare it with the kubelet's version",
    SandboxImageMissing => "the pause image is not there and cannot be pulled; check sandbox_image of containerd and the registry",
    ContainerNotCreated => "the container runtime cannot start containers; look at its journal: runc, cgroups and privileges",
    EndpointUnreachable => "the control plane's address cannot be reached from the machine; check routes, firewalls and the load balancer",
    AccessRefused => "the API server refuses the bootstrap token's rights; check the roles that kubeadm's phase bootstrap-token makes",
    TlsBootstrapFailed => "the kubelet got no certificate from the cluster; look at its CertificateSigningRequests and at the kubelet's journal",
    KubeletUnhealthy => "the kubelet does not become healthy; look at its journal",
    ControlPlaneUnhealthy => "a component of the control plane does not become healthy; look at its container's log",
    OwnerUnknown => "a file is to belong to a user who is not there; make the user first, or write the file with defer",
    SudoRulesWrong => "a sudo rule of a user is not valid; correct it in the KubeadmConfig",
    AccountWrong => "a user could not be made; check its groups, shell and home",
    MountFailed => "a file system could not be mounted; check the device and the type",
    NoTimeService => "no program sets the clock on the machine; install chrony or systemd-timesyncd",
    OwnerChanged => "the machine has another owner meanwhile; nothing was done",
    JobHeld => "another job runs on the machine; wait for its end",
    CommandMissing => "a command is not installed on the machine, or cannot be executed; install it",
    TookTooLong => "a command took longer than it may, and was ended; look at its last lines",
    Killed => "a command was killed, by a person or because memory ran out; dmesg says which",
}

#[cfg(test)]
mod tests;
