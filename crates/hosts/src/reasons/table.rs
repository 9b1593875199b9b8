//! The failures that are recognised. Owns the words by which they are; each is kubeadm's, the kubelet's, containerd's, etcd's, Go's
//! or the shell's, and was either read in the source that is named or printed by a machine of tests/lab. Must not know where text
//! comes from.
//! Source: Kubernetes 1.36.3 (`cmd/kubeadm/app`: `preflight/checks.go`, `discovery/token`, `phases/copycerts`, `phases/certs`,
//! `util/etcd`, `util/runtime`, `util/apiclient/wait.go`, `util/config`, `cmd/phases/join`; `pkg/kubelet/cm`,
//! `pkg/kubelet/apis/config/validation`, `cmd/kubelet/app`), `k8s.io/system-validators` 1.12.1, `k8s.io/cri-client` 0.36.3, etcd
//! 3.6.8 (`rpctypes/error.go`), Go 1.24 (`crypto/x509`, `net`, `net/http`, `syscall`), glibc and dash.

use super::ReasonKind::{self, *};

/// Where the words are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    /// In what the steps printed.
    Log,
    /// There, or by the kubelet and containerd.
    Anywhere,
}

pub(super) struct Words {
    pub kind: ReasonKind,
    pub spoken: Spoken,
    /// All of them on one line.
    pub words: &'static [&'static str],
}

const fn log(kind: ReasonKind, words: &'static [&'static str]) -> Words {
    Words { kind, spoken: Spoken::Log, words }
}

const fn any(kind: ReasonKind, words: &'static [&'static str]) -> Words {
    Words { kind, spoken: Spoken::Anywhere, words }
}

/// The causes before what follows from them: a full disk makes everything fail, a dead kubelet is the end of many things.
pub(super) const RULES: &[Words] = &[
    // The machine itself.
    any(DiskFull, &["no space left on device"]),
    any(DiskFull, &["No space left on device"]),
    any(DiskReadOnly, &["read-only file system"]),
    any(DiskReadOnly, &["Read-only file system"]),
    any(OutOfMemory, &["cannot allocate memory"]),
    any(OutOfMemory, &["Cannot allocate memory"]),
    any(TooManyFiles, &["too many open files"]),
    any(ClockBehind, &["x509: certificate has expired or is not yet valid", " is before "]),
    any(CertificateExpired, &["x509: certificate has expired or is not yet valid"]),
    log(NotRoot, &["user is not running as root"]),
    log(PackageLockHeld, &["Could not get lock", "/var/lib/dpkg/lock"]),
    log(PackageLockHeld, &["/var/run/dnf.pid"]),
    log(KubeadmMissing, &["kubeadm: not found"]),
    log(KubeadmMissing, &["kubeadm: command not found"]),
    // kubeadm's preflight.
    log(PortTaken, &["[ERROR Port-"]),
    log(EtcdDataThere, &["[ERROR DirAvailable--var-lib-etcd]"]),
    log(NodeFilesThere, &["[ERROR FileAvailable-"]),
    log(NodeFilesThere, &["[ERROR DirAvailable-"]),
    log(RuntimeWithoutConfig, &["does not implement the CRI method RuntimeConfig"]),
    log(RuntimeDead, &["[ERROR CRI]"]),
    log(RuntimeDead, &["container runtime is not running"]),
    log(SeveralRuntimes, &["found multiple CRI endpoints on the host"]),
    log(ImageNotPulled, &["[ERROR ImagePull]"]),
    log(ImageNotPulled, &["failed to pull image"]),
    log(TooFewCpus, &["[ERROR NumCPU]"]),
    log(TooLittleMemory, &["[ERROR Mem]"]),
    log(SwapOn, &["[ERROR Swap]"]),
    log(CgroupVersion, &["[ERROR SystemVerification]", "cgroups v1"]),
    log(CgroupController, &["[ERROR SystemVerification]", "missing required cgroups"]),
    log(KernelUnsupported, &["[ERROR SystemVerification]"]),
    log(IpForwardOff, &["ip_forward contents are not set to 1"]),
    log(ProgramMissing, &["[ERROR FileExisting-"]),
    log(HostnameWrong, &["[ERROR Hostname]"]),
    log(KubeletTooNew, &["the kubelet version is higher than the control plane version"]),
    log(KubeletTooOld, &["is lower than kubeadm can support"]),
    log(ExternalEtcdWrong, &["[ERROR ExternalEtcdVersion]"]),
    log(
        VersionUnsupported,
        &["this version of kubeadm only supports deploying clusters with the control plane version"],
    ),
    // Its configuration.
    log(ConfigurationWrong, &["strict decoding error"]),
    log(ConfigurationWrong, &["error: json: cannot unmarshal"]),
    log(ConfigurationWrong, &["invalid configuration"]),
    log(ConfigurationWrong, &["unable to load config from file"]),
    log(ConfigurationWrong, &["no kind ", " is registered"]),
    log(ConfigurationWrong, &["unknown flag: --"]),
    // Who is joined.
    log(TokenInvalid, &["is invalid for this cluster or it has expired"]),
    log(TokenInvalid, &["could not find a JWS signature in the cluster-info ConfigMap"]),
    log(TokenWrong, &["failed to verify JWS signature of received cluster info object"]),
    log(AuthorityNotPinned, &["none of the public keys", "are pinned"]),
    log(CertificateKeyExpired, &["kubeadm-certs", "was not found in the", "might have expired"]),
    log(CertificateKeyExpired, &["error downloading the secret", "kubeadm-certs", "is forbidden"]),
    log(CertificateKeyWrong, &["error decoding secret data with provided key"]),
    log(CertificateKeyWrong, &["error decoding certificate key"]),
    log(NoStableEndpoint, &["doesn't have a stable controlPlaneEndpoint address"]),
    log(NodeNameTaken, &["a Node with name", "already exists in the cluster"]),
    log(CertificateWrong, &["is not signed by corresponding CA"]),
    log(CertificateWrong, &["could not be loaded properly"]),
    log(CertificateWrong, &["couldn't load", "certificate"]),
    any(AuthorityUnknown, &["x509: certificate signed by unknown authority"]),
    any(AddressNotInCertificate, &["x509: certificate is valid for", "not "]),
    // etcd.
    log(EtcdPeerThere, &["Peer URLs already exists"]),
    log(EtcdLearnerBehind, &["can only promote a learner member which is in sync with leader"]),
    log(EtcdLearnerBehind, &["the etcd member", "is not started"]),
    log(EtcdUnhealthy, &["etcdserver: unhealthy cluster"]),
    log(EtcdUnhealthy, &["etcd cluster is not healthy"]),
    log(EtcdUnhealthy, &["timeout waiting for etcd cluster to be available"]),
    // The way to the cluster.
    log(ProxyInTheWay, &["proxyconnect tcp"]),
    log(ProxyInTheWay, &["Proxy Authentication Required"]),
    log(NameNotResolved, &["dial tcp: lookup "]),
    log(NameNotResolved, &["no such host"]),
    log(NameNotResolved, &["server misbehaving"]),
    log(NameNotResolved, &["Temporary failure in name resolution"]),
    // The kubelet and the runtime, which kubeadm only waits for.
    any(SwapOn, &["running with swap on is not supported"]),
    any(CgroupVersion, &["kubelet is configured to not run on a host using cgroup v1"]),
    any(KubeletFlagUnknown, &["kubelet", "unknown flag"]),
    any(KubeletConfigurationWrong, &["failed to load kubelet config file", "strict decoding error"]),
    any(RuntimeDead, &["validate service connection"]),
    any(RuntimeDead, &["containerd.sock", "connect: connection refused"]),
    any(RuntimeDead, &["containerd.sock", "connect: no such file or directory"]),
    any(SandboxImageMissing, &["failed to get sandbox image"]),
    any(ContainerNotCreated, &["can't get final child's PID from pipe"]),
    any(ContainerNotCreated, &["failed to create containerd task"]),
    any(ImageNotPulled, &["ErrImagePull"]),
    any(ImageNotPulled, &["Failed to pull image"]),
    // The way to the API server, after what would explain that it does not answer.
    log(EndpointUnreachable, &["connect: no route to host"]),
    log(EndpointUnreachable, &["connect: network is unreachable"]),
    log(EndpointUnreachable, &["dial tcp", "i/o timeout"]),
    log(EndpointUnreachable, &["failed to request the cluster-info ConfigMap"]),
    log(AccessRefused, &["User \"system:bootstrap:", "cannot "]),
    log(AccessRefused, &["error: You must be logged in to the server"]),
    log(TlsBootstrapFailed, &["failed while waiting for TLS bootstrap"]),
    log(KubeletUnhealthy, &["failed while waiting for the kubelet to start"]),
    log(KubeletUnhealthy, &["[kubelet-check] The kubelet is not healthy"]),
    log(ControlPlaneUnhealthy, &["failed while waiting for the control plane to start"]),
    log(ControlPlaneUnhealthy, &["[control-plane-check]", "is not healthy after"]),
    // Steps around kubeadm.
    log(OwnerUnknown, &["chown: invalid user"]),
    log(OwnerUnknown, &["chown: unknown user"]),
    log(SudoRulesWrong, &["parse error in", "/files/"]),
    log(AccountWrong, &["useradd: "]),
    log(MountFailed, &["mount: ", "special device"]),
    log(MountFailed, &["mount: ", "can't find"]),
    log(MountFailed, &["mount: ", "unknown filesystem type"]),
    log(NoTimeService, &["neither chronyd nor systemd-timesyncd is installed"]),
    log(OwnerChanged, &["capstan: the machine has another owner"]),
    log(JobHeld, &["capstan: another job holds the lock"]),
    log(CommandMissing, &[": not found"]),
    log(CommandMissing, &[": command not found"]),
];
