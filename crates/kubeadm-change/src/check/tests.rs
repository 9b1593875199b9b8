//! One line per finding.

use super::*;
use crate::document::read_inputs;

fn findings(text: &str) -> Vec<String> {
    let inputs = read_inputs(&[("f".to_owned(), text.to_owned())]).expect("a document");
    let minor = stated_minor(&inputs.documents);
    let found = inputs.documents.iter().flat_map(|document| check(document, minor));
    found.map(|f| format!("{:?} {}: {}", f.severity, f.place, f.message)).collect()
}

fn cluster(version: &str, body: &str) -> Vec<String> {
    findings(&format!("apiVersion: kubeadm.k8s.io/{version}\nkind: ClusterConfiguration\n{body}"))
}

#[test]
fn a_sound_document_has_no_findings() {
    let body = "kubernetesVersion: v1.34.1\nclusterName: prod\ncontrolPlaneEndpoint: cp.example:6443\nnetworking: {serviceSubnet: 10.96.0.0/12, podSubnet: \"10.244.0.0/16,fd00::/48\", dnsDomain: cluster.local}\napiServer:\n  certSANs: [a.example, 10.0.0.1]\n  extraArgs:\n  - {name: v, value: \"2\"}\n  - {name: service-account-issuer, value: https://a}\n  - {name: service-account-issuer, value: https://b}\n  extraVolumes:\n  - {name: audit, hostPath: /etc/audit, mountPath: /etc/audit, pathType: Directory, readOnly: true}\netcd: {local: {dataDir: /var/lib/etcd}}\n";
    assert_eq!(cluster("v1beta4", body), Vec::<String>::new());
    let older =
        "kubernetesVersion: v1.29.1\napiServer: {extraArgs: {v: \"2\"}, timeoutForControlPlane: 4m0s}\n";
    assert_eq!(cluster("v1beta3", older), Vec::<String>::new());
}

#[test]
fn each_finding_has_place_and_expectation() {
    let table = [
        (
            "v1beta4",
            "clustername: a\n",
            "Warning f:3:1: clustername is not a field: kubeadm ignores it without an error",
        ),
        ("v1beta4", "apiServer:\n  certSans: [a]\n", "Warning f:4:3: apiServer.certSans is not a field"),
        (
            "v1beta4",
            "clusterName: a\nclusterName: b\n",
            "Warning f:4:1: clusterName stands twice: kubeadm takes the last one",
        ),
        (
            "v1beta4",
            "clusterName: on\n",
            "Error f:3:14: clusterName is `on`, which is true in YAML 1.1, and stands without quotes: kubeadm reads a boolean, not a string, and refuses it; write \"on\"",
        ),
        (
            "v1beta4",
            "apiServer: {extraArgs: [{name: v, value: 2}]}\n",
            "Error f:3:42: apiServer.extraArgs[v].value is `2` and stands without quotes: kubeadm reads a number",
        ),
        (
            "v1beta4",
            "featureGates: {y: true}\n",
            "Error f:3:16: the key `y` stands without quotes: kubeadm reads it as `true`; write \"y\"",
        ),
        (
            "v1beta4",
            "apiServer: {extraArgs: {v: \"2\"}}\n",
            "Error f:3:24: apiServer.extraArgs is a map; expected a list",
        ),
        (
            "v1beta3",
            "apiServer: {extraArgs: [{name: v, value: \"2\"}]}\n",
            "Error f:3:24: apiServer.extraArgs is a list; expected a map",
        ),
        (
            "v1beta3",
            "proxy: {disabled: true}\n",
            "Warning f:3:1: proxy is not a field of v1beta3, only of v1beta4: kubeadm ignores it",
        ),
        (
            "v1beta4",
            "apiServer: {timeoutForControlPlane: 4m}\n",
            "Warning f:3:13: apiServer.timeoutForControlPlane is not a field of v1beta4, only of v1beta3",
        ),
        (
            "v1beta4",
            "kubernetesVersion: v1.33.0\netcd: {external: {endpoints: [https://a], httpEndpoints: [https://a]}}\n",
            "Warning f:4:43: etcd.external.httpEndpoints is read by kubeadm 1.35 and later, not by 1.33",
        ),
        (
            "v1beta4",
            "certificateValidityPeriod: 365\n",
            "Error f:3:28: certificateValidityPeriod is `365` and stands without quotes",
        ),
        (
            "v1beta4",
            "certificateValidityPeriod: 1y\n",
            "Error f:3:28: certificateValidityPeriod is `1y`; expected a duration such as 4m0s",
        ),
        (
            "v1beta4",
            "networking: {podSubnet: 10.0.0.0}\n",
            "Error f:3:25: networking.podSubnet is `10.0.0.0`; expected one range such as",
        ),
        (
            "v1beta4",
            "networking: {serviceSubnet: 10.0.0.0/8}\n",
            "Error f:3:29: networking.serviceSubnet is `10.0.0.0/8`; expected a range of at most 2^20 addresses",
        ),
        (
            "v1beta4",
            "networking: {serviceSubnet: 10.0.0.0/29}\n",
            "Error f:3:29: networking.serviceSubnet is `10.0.0.0/29`; expected a larger range",
        ),
        (
            "v1beta4",
            "networking: {dnsDomain: A_b}\n",
            "Error f:3:25: networking.dnsDomain is `A_b`; expected a DNS name",
        ),
        (
            "v1beta4",
            "controlPlaneEndpoint: \"a:b:c\"\n",
            "Error f:3:23: controlPlaneEndpoint is `a:b:c`; expected HOST or HOST:PORT",
        ),
        (
            "v1beta4",
            "apiServer:\n  certSANs:\n  - a_b\n",
            "Error f:5:5: apiServer.certSANs[0] is `a_b`; expected an address, or a DNS name",
        ),
        (
            "v1beta4",
            "certificatesDir: pki\n",
            "Error f:3:18: certificatesDir is `pki`; expected an absolute path",
        ),
        (
            "v1beta4",
            "etcd: {local: {}, external: {endpoints: [https://a]}}\n",
            "Error f:3:7: etcd.local and etcd.external exclude each other",
        ),
        (
            "v1beta4",
            "etcd: {external: {endpoints: []}}\n",
            "Error f:3:18: expected at least one of etcd.external.endpoints",
        ),
        (
            "v1beta4",
            "etcd: {external: {endpoints: [https://a], certFile: /c, caFile: /a}}\n",
            "Error f:3:18: expected both etcd.external.certFile and keyFile, or neither",
        ),
        (
            "v1beta4",
            "etcd: {external: {endpoints: [https://a], certFile: /c, keyFile: /k}}\n",
            "Error f:3:18: etcd.external.certFile and keyFile need caFile",
        ),
        (
            "v1beta4",
            "etcd: {external: {endpoints: [\"http://a\"], caFile: /a}}\n",
            "Error f:3:31: etcd.external.endpoints[0] is `http://a`; expected a URL that begins with https://",
        ),
        (
            "v1beta4",
            "encryptionAlgorithm: RSA\n",
            "Error f:3:22: encryptionAlgorithm is `RSA`; expected one of RSA-2048",
        ),
        (
            "v1beta4",
            "kubernetesVersion: vx\n",
            "Error f:3:20: kubernetesVersion is `vx`; expected a version such as v1.31.0",
        ),
        (
            "v1beta4",
            "scheduler: {extraArgs: [{value: a}]}\n",
            "Error f:3:25: scheduler.extraArgs[0] has no name",
        ),
        (
            "v1beta4",
            "scheduler: {extraArgs: [{name: --v, value: a}]}\n",
            "Error f:3:25: scheduler.extraArgs[0] is `--v`; expected the name without dashes: `v`",
        ),
        (
            "v1beta4",
            "scheduler: {extraArgs: [{name: v, value: a}, {name: v, value: b}]}\n",
            "Warning f:3:46: scheduler.extraArgs[1]: `v` stands twice; scheduler takes the last one",
        ),
        (
            "v1beta4",
            "scheduler: {extraVolumes: [{name: kubeconfig, hostPath: /a, mountPath: /a}]}\n",
            "Warning f:3:28: scheduler.extraVolumes[0] is named `kubeconfig`, which kubeadm uses itself",
        ),
        (
            "v1beta4",
            "scheduler: {extraVolumes: [{name: a, hostPath: a, mountPath: /a}]}\n",
            "Error f:3:28: scheduler.extraVolumes[0].hostPath is `a`; expected an absolute path",
        ),
        (
            "v1beta4",
            "scheduler: {extraVolumes: [{name: a, hostPath: /a, mountPath: /a, pathType: Dir}]}\n",
            "Error f:3:28: scheduler.extraVolumes[0].pathType is `Dir`; expected one of DirectoryOrCreate",
        ),
    ];
    for (version, body, expected) in table {
        let found = cluster(version, body);
        assert!(
            found.len() == 1 && found[0].starts_with(expected),
            "{body}\n  found    {found:#?}\n  expected {expected}"
        );
    }
}

#[test]
fn kubelet_and_kube_proxy_documents_are_checked_too() {
    let kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    let table = [
        ("maxPod: 20\n", "Warning f:3:1: maxPod is not a field: kubeadm ignores it without an error"),
        ("maxPods: many\n", "Error f:3:10: maxPods is `many`; expected a whole number"),
        ("maxPods: 010\n", "Warning f:3:10: maxPods is `010`, which kubeadm reads as 8 (base 8)"),
        ("failSwapOn: \"yes\"\n", "Error f:3:13: failSwapOn is \"yes\"; expected true or false"),
        (
            "evictionHard: {memory.available: 100}\n",
            "Error f:3:34: evictionHard[\"memory.available\"] is `100` and stands without quotes",
        ),
        (
            "reservedMemory: [{numaNode: 0, limits: {memory: x}}]\n",
            "Error f:3:49: reservedMemory[0].limits.memory is `x`; expected a quantity",
        ),
        (
            "systemReserved: {memory: 100Mi, gpu: \"1\"}\n",
            "Error f:3:17: systemReserved has gpu; expected one of cpu, memory, ephemeral-storage, pid",
        ),
        (
            "kubeReserved: {pid: \"-5\"}\n",
            "Error f:3:15: kubeReserved has pid `-5`; expected a quantity that is not negative",
        ),
    ];
    for (body, expected) in table {
        let found = findings(&format!("{kubelet}{body}"));
        assert!(found.len() == 1 && found[0].starts_with(expected), "{body}\n{found:#?}");
    }
    assert_eq!(
        findings(&format!(
            "{kubelet}failSwapOn: yes\nmaxPods: 20\nkubeReserved: {{pid: \"1000\", cpu: 100m}}\nlogging: {{flushFrequency: 5s}}\n"
        )),
        Vec::<String>::new()
    );
    let proxy = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\nconntrack: {maxPerCore: 3, mini: 2}\n";
    let found = findings(proxy);
    assert!(found.len() == 1 && found[0].contains("conntrack.mini is not a field"), "{found:#?}");
}

#[test]
fn a_field_of_kubeadm_that_is_false_on_purpose_is_named() {
    let upgrade =
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: UpgradeConfiguration\nplan: {etcdUpgrade: false}\n";
    let inputs = read_inputs(&[("f".to_owned(), upgrade.to_owned())]).expect("a document");
    let found = check(&inputs.documents[0], Some(32));
    assert!(found.iter().any(|f| f.message.contains("is read by kubeadm 1.33 and later")), "{found:?}");
}

/// A kubelet of 1.28 ran on with such a file, and a change waited for what it never shows.
/// A real kubelet of 1.28 runs with `imageMaximumGCAge`, which it does not read and whose gate it does not have.
#[test]
fn a_release_does_not_refuse_what_it_does_not_read() {
    for (field, first, gate) in [
        ("imageMaximumGCAge: 48h", 29, "ImageMaximumGCAge"),
        ("crashLoopBackOff: {maxContainerRestartPeriod: 60s}", 32, "KubeletCrashLoopBackOffMax"),
        ("imagePullCredentialsVerificationPolicy: AlwaysVerify", 33, "KubeletEnsureSecretPulledImages"),
        ("memoryReservationPolicy: TieredReservation", 36, "MemoryQoS"),
        ("defaultPodSysctls: {net.ipv4.ip_forward: \"1\"}", 37, "DefaultPodSysctls"),
    ] {
        let text =
            format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{field}\n");
        let inputs = read_inputs(&[("f".to_owned(), text)]).expect("a document");
        for minor in [first - 1, first] {
            let found = check(&inputs.documents[0], Some(minor));
            let [one] = found.as_slice() else { panic!("1.{minor} {field}: {found:?}") };
            let (severity, words) = if minor < first {
                (FindingSeverity::Warning, format!("is read by kubelet 1.{first} and later"))
            } else {
                (FindingSeverity::Error, format!("needs the gate {gate}, which is off"))
            };
            assert!(one.severity == severity && one.message.contains(&words), "1.{minor} {field}: {found:?}");
        }
    }
}

#[test]
fn a_field_of_a_later_release_is_named_unless_it_is_empty() {
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    for (minor, body, expected) in [
        (
            28,
            "containerLogMaxWorkers: 2\n",
            "containerLogMaxWorkers is read by kubelet 1.30 and later, not by 1.28",
        ),
        (30, "containerLogMaxWorkers: 2\n", ""),
        (28, "imageMaximumGCAge: 0s\ncrashLoopBackOff: {}\nfailCgroupV1: false\n", ""),
        (29, "podLogsDir: /var/log/a\n", "podLogsDir is read by kubelet 1.30"),
    ] {
        let inputs = read_inputs(&[("f".to_owned(), format!("{head}{body}"))]).expect("a document");
        let found = check(&inputs.documents[0], Some(minor));
        let messages: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
        assert!(messages.len() == usize::from(!expected.is_empty()), "{minor} {body}: {messages:?}");
        assert!(messages.iter().all(|message| message.starts_with(expected)), "{minor} {body}: {messages:?}");
    }
}

#[test]
fn an_algorithm_has_a_first_release() {
    for (version, findings) in [("v1.33.13", 1), ("v1.34.0", 0), ("v1.36.3", 0)] {
        let body = format!("kubernetesVersion: {version}\nencryptionAlgorithm: ECDSA-P384\n");
        let found = cluster("v1beta4", &body);
        assert_eq!(found.len(), findings, "{version}: {found:?}");
        assert!(
            found.iter().all(|text| text.ends_with("one of RSA-2048, RSA-3072, RSA-4096, ECDSA-P256")),
            "{found:?}"
        );
    }
}
