//! Each way of asking, and what is refused.

use super::*;
use crate::difference::differences;
use crate::document::read_inputs;

const STORED: &str = "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nkubernetesVersion: v1.29.3\nclusterName: prod\nnetworking: {podSubnet: 10.244.0.0/16}\napiServer: {extraArgs: {v: \"2\", profiling: \"false\"}, certSANs: [a.example]}\n---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\nmaxPods: 110\nstaticPodPath: /etc/kubernetes/manifests\n";

fn asked(parts: &[RequestPart], kind: PatchKind) -> Result<(Vec<String>, Vec<String>), Vec<String>> {
    let inputs = read_inputs(&[("stored".to_owned(), STORED.to_owned())]).expect("documents");
    let target = apply(&inputs, parts, kind)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let changes =
        target.documents.iter().flat_map(|wanted| differences(wanted.kind, &wanted.old, &wanted.new));
    Ok((changes.map(|c| format!("{}: {} → {}", c.path, c.old_text(), c.new_text())).collect(), target.notes))
}

fn changes(parts: &[RequestPart]) -> Vec<String> {
    asked(parts, PatchKind::Strategic).expect("a request").0
}

fn patch(text: &str) -> RequestPart {
    RequestPart::Patch("p.yaml".to_owned(), text.to_owned())
}

#[test]
fn a_patch_may_have_either_version_and_no_type() {
    let bare = "apiServer: {extraArgs: {audit-log-path: \"-\", profiling: null}}\n";
    let expected =
        ["apiServer.extraArgs[audit-log-path]: (none) → -", "apiServer.extraArgs[profiling]: false → (none)"];
    assert_eq!(changes(&[patch(bare)]), expected);
    let newer = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\napiServer: {extraArgs: [{name: audit-log-path, value: \"-\"}, {name: profiling, $patch: delete}]}\n";
    assert_eq!(changes(&[patch(newer)]), expected);
    let kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 50\n";
    assert_eq!(changes(&[patch(&format!("{bare}---\n{kubelet}"))]).len(), 3);
}

#[test]
fn other_kinds_of_patches() {
    let part = patch("apiServer: {certSANs: [b.example]}\n");
    assert_eq!(
        asked(std::slice::from_ref(&part), PatchKind::Strategic).expect("fine").0,
        ["apiServer.certSANs: a.example → b.example, a.example"]
    );
    assert_eq!(
        asked(&[part], PatchKind::Merge).expect("fine").0,
        ["apiServer.certSANs: a.example → b.example"]
    );
    // Flags of v1beta3 are a map, of which a merge patch changes what it names.
    let named = patch(
        "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\napiServer: {extraArgs: {audit-log-path: \"-\"}}\n",
    );
    assert_eq!(
        asked(&[named], PatchKind::Merge).expect("fine").0,
        ["apiServer.extraArgs[audit-log-path]: (none) → -"]
    );
    let json = patch("[{\"op\": \"add\", \"path\": \"/apiServer/certSANs/-\", \"value\": \"c.example\"}]");
    assert_eq!(
        asked(&[json], PatchKind::Json).expect("fine").0,
        ["apiServer.certSANs: a.example → a.example, c.example"]
    );
}

#[test]
fn a_whole_document_keeps_what_an_omission_cannot_mean() {
    let whole = RequestPart::Replace(
        "new.yaml".to_owned(),
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\napiServer: {certSANs: [a.example]}\n---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n".to_owned(),
    );
    let (changes, notes) = asked(&[whole], PatchKind::Strategic).expect("fine");
    assert_eq!(
        changes,
        [
            "apiServer.extraArgs[profiling]: false → (none)",
            "apiServer.extraArgs[v]: 2 → (none)",
            "maxPods: 110 → (none)"
        ]
    );
    assert_eq!(
        notes,
        [
            "ClusterConfiguration: left out and therefore kept: kubernetesVersion, networking, clusterName",
            "KubeletConfiguration: left out and therefore kept: clusterDNS, staticPodPath",
        ]
    );
}

#[test]
fn single_values() {
    let set = |text: &str| changes(&[RequestPart::Set(text.to_owned())]);
    assert_eq!(set("maxPods=50"), ["maxPods: 110 → 50"]);
    assert_eq!(set("apiServer.extraArgs[v]=4"), ["apiServer.extraArgs[v]: 2 → 4"]);
    assert_eq!(set("apiServer.extraArgs[name=x-y]=a=b"), ["apiServer.extraArgs[x-y]: (none) → a=b"]);
    assert_eq!(
        set("apiServer.extraArgs[audit-log-path]=-"),
        ["apiServer.extraArgs[audit-log-path]: (none) → -"]
    );
    assert_eq!(set("apiServer.extraArgs[profiling]=off"), ["apiServer.extraArgs[profiling]: false → off"]);
    assert_eq!(set("apiServer.extraArgs[v]=null"), ["apiServer.extraArgs[v]: 2 → (none)"]);
    assert_eq!(
        set("apiServer.certSANs=[b.example, c.example]"),
        ["apiServer.certSANs: a.example → b.example, c.example, a.example"]
    );
    for path in [
        "evictionHard[\"memory.available\"]",
        "evictionHard[memory.available]",
        "evictionHard.memory.available",
    ] {
        let changes = set(&format!("{path}=5%"));
        assert_eq!(changes, ["evictionHard[\"memory.available\"]: (none) → 5%"], "{path}");
    }
    assert_eq!(set("KubeletConfiguration.featureGates.X=true"), ["featureGates.X: (none) → true"]);
    assert_eq!(
        set("apiServer.extraVolumes[a].hostPath=/a"),
        ["apiServer.extraVolumes[a]: (none) → {hostPath: /a, name: a}"]
    );
    assert_eq!(set("reservedMemory[0].limits.memory=1Gi").len(), 1);
}

#[test]
fn what_cannot_be_asked_is_refused_with_a_reason() {
    let table = [
        (RequestPart::Set("maxPods".to_owned()), "--set maxPods: expected PATH=VALUE, such as maxPods=50"),
        (
            RequestPart::Set("maxpods=5".to_owned()),
            "--set maxpods=5: maxpods is not a field of ClusterConfiguration, KubeletConfiguration or KubeProxyConfiguration",
        ),
        (
            RequestPart::Set("featureGates.X=true".to_owned()),
            "--set featureGates.X=true: featureGates is a field of ClusterConfiguration and of KubeletConfiguration and of KubeProxyConfiguration; expected one of them before the path, such as ClusterConfiguration.featureGates.X",
        ),
        (
            RequestPart::Set("evictionHard.memory.available[0]=5%".to_owned()),
            "--set evictionHard.memory.available[0]=5%: evictionHard[\"memory.available\"][0] is not a field of KubeletConfiguration",
        ),
        (
            RequestPart::Set("apiServer.hostVolumes=x".to_owned()),
            "--set apiServer.hostVolumes=x: apiServer.hostVolumes is not a field of ClusterConfiguration: volumes are named one by one: apiServer.extraVolumes[NAME].hostPath",
        ),
        (
            RequestPart::Set("imagesRepository=x".to_owned()),
            "--set imagesRepository=x: imagesRepository is not a field of ClusterConfiguration, KubeletConfiguration or KubeProxyConfiguration: the field is imageRepository",
        ),
        (
            RequestPart::Set("networking.podSubnets=x".to_owned()),
            "--set networking.podSubnets=x: networking.podSubnets is not a field of ClusterConfiguration",
        ),
        (
            RequestPart::Set("mode=ipvs".to_owned()),
            "--set mode=ipvs: the cluster has no stored KubeProxyConfiguration, so it cannot be changed",
        ),
        (
            RequestPart::Set("apiServer.certSANs[0]=x".to_owned()),
            "--set apiServer.certSANs[0]=x: apiServer.certSANs is not a list whose items have keys; expected a path without `[0]`",
        ),
        (
            RequestPart::Set("InitConfiguration.nodeRegistration.name=x".to_owned()),
            "--set InitConfiguration.nodeRegistration.name=x: InitConfiguration is not stored in a cluster",
        ),
        (
            patch("kind: UpgradeConfiguration\napiVersion: kubeadm.k8s.io/v1beta4\n"),
            "p.yaml:1:1: UpgradeConfiguration describes an action of kubeadm",
        ),
        (patch("kind: Deployment\n"), "p.yaml:1:1: `Deployment` is not a kind that can be patched"),
        (patch("a: ["), "p.yaml:1:4: YAML or JSON was expected here"),
        (patch("# nothing\n"), "p.yaml: expected a document, found nothing"),
        (
            patch("apiServer: {extraVolumes: [{hostPath: /a}]}\n"),
            "p.yaml:1:1: patch: apiServer.extraVolumes: an item has no `name`",
        ),
        (
            RequestPart::Replace("n".to_owned(), "kind: X\napiVersion: kubeadm.k8s.io/v1beta4\n".to_owned()),
            "n:1:1: `X` of `kubeadm.k8s.io/v1beta4` is not a kind",
        ),
    ];
    for (part, expected) in table {
        let errors = asked(&[part], PatchKind::Strategic).expect_err(expected);
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{errors:?}\n{expected}");
    }
    let errors = asked(&[patch("{}")], PatchKind::Json).expect_err("operations");
    assert!(errors[0].contains("expected a list of JSON patch operations"), "{errors:?}");
}

#[test]
fn a_whole_document_of_a_newer_version_is_the_way_up() {
    let asked = |version: &str, release: &str| {
        let stored = format!(
            "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nkubernetesVersion: {release}\n"
        );
        let inputs = read_inputs(&[("f".to_owned(), stored)]).expect("a document");
        let new = format!(
            "apiVersion: kubeadm.k8s.io/{version}\nkind: ClusterConfiguration\nproxy: {{disabled: true}}\n"
        );
        let target = apply(&inputs, &[RequestPart::Replace("n".to_owned(), new)], PatchKind::Strategic);
        target.expect("a request").documents.remove(0).version
    };
    assert_eq!(asked("v1beta4", "v1.31.2"), "v1beta4");
    assert_eq!(asked("v1beta4", "v1.30.2"), "v1beta3", "kubeadm 1.30 could not read it");
    assert_eq!(asked("v1beta3", "v1.31.2"), "v1beta3");
}
