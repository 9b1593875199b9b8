//! Each kind by lines that were printed so, and causes before what follows from them.

use std::collections::BTreeSet;

use super::*;

/// Lines of real programs; some are of machines of tests/lab, the others are made with the format in the source that `table` names.
const SPOKEN: &[(&str, ReasonKind)] = &[
    (
        "error execution phase certs/ca: failed while saving: write /etc/kubernetes/pki/ca.crt: no space left on device",
        ReasonKind::DiskFull,
    ),
    ("cp: error writing '/etc/a.capstan': No space left on device", ReasonKind::DiskFull),
    ("mkdir: cannot create directory '/etc/kubernetes': Read-only file system", ReasonKind::DiskReadOnly),
    ("open /etc/kubernetes/kubelet.conf: read-only file system", ReasonKind::DiskReadOnly),
    ("fork/exec /usr/bin/kubelet: cannot allocate memory", ReasonKind::OutOfMemory),
    (
        "kubelet: E1130 13:00:00.000000 1 run.go:72] \"command failed\" err=\"failed to create fsnotify watcher: too many open files\"",
        ReasonKind::TooManyFiles,
    ),
    (
        "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2026-01-01T00:00:00Z is before 2026-11-30T00:00:00Z",
        ReasonKind::ClockBehind,
    ),
    (
        "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2027-12-01T00:00:00Z is after 2027-11-30T00:00:00Z",
        ReasonKind::CertificateExpired,
    ),
    ("\t[ERROR IsPrivilegedUser]: user is not running as root", ReasonKind::NotRoot),
    (
        "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (apt-get)",
        ReasonKind::PackageLockHeld,
    ),
    ("/var/lib/capstan/runs/u/files/017: 1: kubeadm: not found", ReasonKind::KubeadmMissing),
    ("\t[ERROR Port-10250]: Port 10250 is in use", ReasonKind::PortTaken),
    ("\t[ERROR DirAvailable--var-lib-etcd]: /var/lib/etcd is not empty", ReasonKind::EtcdDataThere),
    (
        "\t[ERROR FileAvailable--etc-kubernetes-kubelet.conf]: /etc/kubernetes/kubelet.conf already exists",
        ReasonKind::NodeFilesThere,
    ),
    (
        "\t[ERROR CRI]: could not connect to the container runtime: failed to create new CRI runtime service: validate service connection: validate CRI v1 runtime API for endpoint \"unix:///var/run/containerd/containerd.sock\"",
        ReasonKind::RuntimeDead,
    ),
    (
        "error: found multiple CRI endpoints on the host. Please define which one do you wish to use by setting the 'criSocket' field",
        ReasonKind::SeveralRuntimes,
    ),
    (
        "\t[ERROR ImagePull]: failed to pull image registry.k8s.io/kube-apiserver:v1.36.3: rpc error: code = NotFound",
        ReasonKind::ImageNotPulled,
    ),
    ("\t[ERROR NumCPU]: the number of available CPUs 1 is less than the required 2", ReasonKind::TooFewCpus),
    ("\t[ERROR Mem]: the system RAM (989 MB) is less than the minimum 1700 MB", ReasonKind::TooLittleMemory),
    (
        "\t[ERROR SystemVerification]: cgroups v1 support is deprecated and will be removed in a future release. Please migrate to cgroups v2.",
        ReasonKind::CgroupVersion,
    ),
    ("\t[ERROR SystemVerification]: missing required cgroups: memory", ReasonKind::CgroupController),
    (
        "\t[ERROR SystemVerification]: kernel release 3.10.0 is unsupported. Supported LTS versions from the 5.x series are 5.4, 5.10 and 5.15.",
        ReasonKind::KernelUnsupported,
    ),
    (
        "\t[ERROR FileContent--proc-sys-net-ipv4-ip_forward]: /proc/sys/net/ipv4/ip_forward contents are not set to 1",
        ReasonKind::IpForwardOff,
    ),
    ("\t[ERROR FileExisting-conntrack]: conntrack not found in system path", ReasonKind::ProgramMissing),
    (
        "\t[ERROR KubeletVersion]: the kubelet version is higher than the control plane version. This is not a supported version skew and may lead to a malfunctional cluster. Kubelet version: \"1.36.3\" Control plane version: \"1.35.0\"",
        ReasonKind::KubeletTooNew,
    ),
    (
        "\t[ERROR KubeletVersion]: Kubelet version \"1.31.0\" is lower than kubeadm can support. Please upgrade kubelet",
        ReasonKind::KubeletTooOld,
    ),
    (
        "this version of kubeadm only supports deploying clusters with the control plane version >= 1.35.0. Current version: v1.33.0",
        ReasonKind::VersionUnsupported,
    ),
    (
        "error: error unmarshaling configuration schema.GroupVersionKind{...}: strict decoding error: unknown field \"foo\"",
        ReasonKind::ConfigurationWrong,
    ),
    (
        "error: json: cannot unmarshal number into Go struct field JoinControlPlane.controlPlane.certificateKey of type string",
        ReasonKind::ConfigurationWrong,
    ),
    (
        "error: unable to load config from file \"/run/kubeadm/kubeadm.yaml\": open: no such file or directory",
        ReasonKind::ConfigurationWrong,
    ),
    (
        "couldn't validate the identity of the API Server: token id \"abcdef\" is invalid for this cluster or it has expired. Use \"kubeadm token create\" on the control-plane node to create a new valid token",
        ReasonKind::TokenInvalid,
    ),
    (
        "couldn't validate the identity of the API Server: could not find a JWS signature in the cluster-info ConfigMap for token ID \"abcdef\"",
        ReasonKind::TokenInvalid,
    ),
    (
        "failed to verify JWS signature of received cluster info object, can't trust this API Server",
        ReasonKind::TokenWrong,
    ),
    (
        "cluster CA found in cluster-info ConfigMap is invalid: none of the public keys \"sha256:7c2e\" are pinned",
        ReasonKind::AuthorityNotPinned,
    ),
    (
        "error downloading the secret: Secret \"kubeadm-certs\" was not found in the \"kube-system\" Namespace. This Secret might have expired. Please, run `kubeadm init phase upload-certs --upload-certs` on a control plane to generate a new one",
        ReasonKind::CertificateKeyExpired,
    ),
    (
        "error: error execution phase control-plane-prepare/download-certs: error downloading certs: error downloading the secret: secrets \"kubeadm-certs\" is forbidden: User \"system:bootstrap:m5tknu\" cannot get resource \"secrets\" in API group \"\" in the namespace \"kube-system\"",
        ReasonKind::CertificateKeyExpired,
    ),
    (
        "error downloading certs: error decoding secret data with provided key: cipher: message authentication failed",
        ReasonKind::CertificateKeyWrong,
    ),
    (
        "unable to add a new control plane instance to a cluster that doesn't have a stable controlPlaneEndpoint address",
        ReasonKind::NoStableEndpoint,
    ),
    (
        "error execution phase kubelet-start: a Node with name \"h2\" and status \"Ready\" already exists in the cluster. You must delete the existing Node or change the name of this new joining Node",
        ReasonKind::NodeNameTaken,
    ),
    (
        "error execution phase certs/apiserver: certificate apiserver is not signed by corresponding CA",
        ReasonKind::CertificateWrong,
    ),
    (
        "Get \"https://10.0.0.1:6443/api\": tls: failed to verify certificate: x509: certificate signed by unknown authority",
        ReasonKind::AuthorityUnknown,
    ),
    (
        "tls: failed to verify certificate: x509: certificate is valid for 10.96.0.1, 10.77.0.11, not 10.77.0.99",
        ReasonKind::AddressNotInCertificate,
    ),
    (
        "error creating local etcd static pod manifest file: etcdserver: Peer URLs already exists",
        ReasonKind::EtcdPeerThere,
    ),
    (
        "etcdserver: can only promote a learner member which is in sync with leader",
        ReasonKind::EtcdLearnerBehind,
    ),
    (
        "error execution phase check-etcd: etcd cluster is not healthy: failed to dial endpoint https://10.77.0.11:2379",
        ReasonKind::EtcdUnhealthy,
    ),
    (
        "error creating local etcd static pod manifest file: etcdserver: unhealthy cluster",
        ReasonKind::EtcdUnhealthy,
    ),
    (
        "Get \"https://10.0.0.1:6443/api/v1\": proxyconnect tcp: dial tcp 10.9.9.9:3128: connect: connection refused",
        ReasonKind::ProxyInTheWay,
    ),
    (
        "Get \"https://api.prod:6443/api\": dial tcp: lookup api.prod on 10.0.0.2:53: no such host",
        ReasonKind::NameNotResolved,
    ),
    (
        "failed to request the cluster-info ConfigMap: Get \"https://api.nowhere.example:6443/api/v1/namespaces/kube-public/configmaps/cluster-info?timeout=10s\": dial tcp: lookup api.nowhere.example on 10.255.255.53:53: read udp 10.77.0.12:59067->10.255.255.53:53: i/o timeout",
        ReasonKind::NameNotResolved,
    ),
    (
        "kubelet: E1130 13:00:00.0 1 run.go:72] \"command failed\" err=\"failed to run Kubelet: running with swap on is not supported, please disable swap or set --fail-swap-on flag to false\"",
        ReasonKind::SwapOn,
    ),
    (
        "kubelet: E1130 13:00:00.0 1 run.go:72] \"command failed\" err=\"failed to validate kubelet configuration, error: kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported and will be removed in a future release\"",
        ReasonKind::CgroupVersion,
    ),
    (
        "kubelet: E1130 13:00:00.0 1 run.go:72] \"command failed\" err=\"failed to parse kubelet flag: unknown flag: --container-runtime\"",
        ReasonKind::KubeletFlagUnknown,
    ),
    (
        "kubelet: E1130 13:00:00.0 1 run.go:72] \"command failed\" err=\"failed to load kubelet config file, path: /var/lib/kubelet/config.yaml, error: strict decoding error: unknown field \\\"x\\\"\"",
        ReasonKind::KubeletConfigurationWrong,
    ),
    (
        "containerd: level=error msg=\"RunPodSandbox failed\" error=\"failed to get sandbox image \\\"registry.k8s.io/pause:3.8\\\"\"",
        ReasonKind::SandboxImageMissing,
    ),
    (
        "containerd: level=error msg=\"failed to create containerd task: OCI runtime create failed: runc create failed: can't get final child's PID from pipe: EOF\"",
        ReasonKind::ContainerNotCreated,
    ),
    (
        "Get \"https://10.0.0.1:6443/api\": dial tcp 10.0.0.1:6443: connect: no route to host",
        ReasonKind::EndpointUnreachable,
    ),
    (
        "Get \"https://10.0.0.1:6443/api\": dial tcp 10.0.0.1:6443: i/o timeout",
        ReasonKind::EndpointUnreachable,
    ),
    (
        "error execution phase kubelet-wait-bootstrap: failed while waiting for TLS bootstrap: context deadline exceeded",
        ReasonKind::TlsBootstrapFailed,
    ),
    (
        "error execution phase wait-control-plane: failed while waiting for the kubelet to start: The HTTP call equal to 'curl -sSL http://127.0.0.1:10248/healthz' returned error: connection refused",
        ReasonKind::KubeletUnhealthy,
    ),
    ("[control-plane-check] kube-apiserver is not healthy after 4m0.000s", ReasonKind::ControlPlaneUnhealthy),
    ("chown: invalid user: 'etcd:etcd'", ReasonKind::OwnerUnknown),
    ("useradd: group 'ops' does not exist", ReasonKind::AccountWrong),
    ("mount: /data: special device /dev/sdb does not exist.", ReasonKind::MountFailed),
    (
        "capstan: neither chronyd nor systemd-timesyncd is installed: no clock can be set by ntp",
        ReasonKind::NoTimeService,
    ),
    ("capstan: the machine has another owner", ReasonKind::OwnerChanged),
    ("capstan: another job holds the lock", ReasonKind::JobHeld),
    ("/var/lib/capstan/runs/u/files/017: 1: ./prepare: not found", ReasonKind::CommandMissing),
];

#[test]
fn an_earlier_attempt_explains_nothing() {
    let failed = "capstan: attempt 1 begins with step 1\n[ERROR Port-10250]: Port 10250 is in use\n";
    assert_eq!(explain(failed, &[]).map(|reason| reason.kind), Some(ReasonKind::PortTaken));
    assert_eq!(explain(&format!("{failed}capstan: attempt 2 begins with step 1\nfine\n"), &[]), None);
}

#[test]
fn each_failure_is_known_by_its_words() {
    for (line, kind) in SPOKEN {
        let is_component = line.starts_with("kubelet: ") || line.starts_with("containerd: ");
        let reason = match is_component {
            true => explain("", &[(*line).to_owned()]),
            false => explain(&format!("[init] Using Kubernetes version: v1.36.3\n{line}\n"), &[]),
        };
        assert_eq!(reason.as_ref().map(|reason| reason.kind), Some(*kind), "{line}");
        let reason = reason.expect("a reason");
        assert!(line.contains(reason.evidence.trim_end_matches("...")), "{reason:?}");
    }
    let kinds: BTreeSet<ReasonKind> = SPOKEN.iter().map(|(_, kind)| *kind).collect();
    assert!(kinds.len() >= 50, "{}", kinds.len());
}

#[test]
fn a_cause_comes_before_what_follows_from_it() {
    let unhealthy = "[kubelet-check] The kubelet is not healthy after 4m0s\nerror execution phase wait-control-plane: failed while waiting for the kubelet to start: context deadline exceeded\n";
    let swap = "kubelet: E1130 err=\"running with swap on is not supported, please disable swap\"".to_owned();
    let kind = |log: &str, lines: &[String]| explain(log, lines).map(|reason| reason.kind);
    assert_eq!(kind(unhealthy, &[]), Some(ReasonKind::KubeletUnhealthy));
    assert_eq!(kind(unhealthy, &[swap]), Some(ReasonKind::SwapOn));
    let full = format!("{unhealthy}write /var/lib/kubelet/x: no space left on device\n");
    assert_eq!(kind(&full, &[]), Some(ReasonKind::DiskFull));
}

#[test]
fn what_was_only_warned_of_is_no_reason() {
    let log = "\t[WARNING SystemVerification]: cgroups v1 support is deprecated\n\t[WARNING Swap]: swap is supported for cgroup v2 only\n[init] fine\n\
               W1130 15:07:25.040053 32830 configset.go:77] Warning: No kubeproxy.config.k8s.io/v1alpha1 config is loaded. Continuing without it: configmaps \"kube-proxy\" is forbidden: User \"system:bootstrap:m5tknu\" cannot get resource\n";
    assert_eq!(explain(log, &[]), None);
}

#[test]
fn exit_codes_say_what_no_line_says() {
    let kinds = [124, 127, 137, 1].map(|code| of_exit_code(code).map(|reason| reason.kind));
    let expected =
        [Some(ReasonKind::TookTooLong), Some(ReasonKind::CommandMissing), Some(ReasonKind::Killed), None];
    assert_eq!(kinds, expected);
}

#[test]
fn each_kind_has_a_name_and_a_sentence_of_its_own() {
    let sentences: BTreeSet<&str> = ReasonKind::ALL.iter().map(|kind| kind.sentence()).collect();
    assert_eq!(sentences.len(), ReasonKind::ALL.len());
    for kind in ReasonKind::ALL {
        assert_eq!(kind.name(), format!("{kind:?}"));
        let is_reached = RULES.iter().any(|rule| rule.kind == *kind)
            || matches!(kind, ReasonKind::TookTooLong | ReasonKind::Killed);
        assert!(is_reached, "{kind:?} has no words");
    }
}

proptest::proptest! {
    #[test]
    fn no_log_is_too_strange(log in "(\\PC{0,60}\n){0,10}", line in "\\PC{0,400}") {
        if let Some(reason) = explain(&log, &[line]) {
            proptest::prop_assert!(reason.evidence.chars().all(|c| !c.is_control()) && reason.evidence.chars().count() <= 300);
        }
    }
}
