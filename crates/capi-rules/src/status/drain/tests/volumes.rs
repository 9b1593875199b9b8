//! Tables for volumes: what is attached, what of it is waited for, and the message.

use super::super::volumes::{Held, Storage, attached};
use super::*;

fn volume(name: &str, handle: &str, claim: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"csi": {"driver": "drv", "volumeHandle": handle}, "claimRef": claim}})
}

fn claim(name: &str) -> Value {
    json!({"kind": "PersistentVolumeClaim", "namespace": "d", "name": name})
}

fn attachment(name: &str, node: &str, volume: Option<&str>, attached: bool) -> Value {
    json!({"metadata": {"name": name}, "status": {"attached": attached},
        "spec": {"attacher": "drv", "nodeName": node, "source": {"persistentVolumeName": volume}}})
}

fn node(volumes: &[&str]) -> Node {
    let list: Vec<Value> = volumes.iter().map(|name| json!({"name": name, "devicePath": ""})).collect();
    object(json!({"metadata": {"name": "n"}, "status": {"volumesAttached": list}}))
}

fn storage(attachments: Vec<Value>, volumes: Vec<Value>) -> Storage {
    Storage { attachments: Ok(object(json!(attachments))), volumes: Ok(object(json!(volumes))) }
}

/// What is waited for, in the words of the message without its first line.
fn told(case: &Case, storage: &Storage) -> String {
    let held = attached(&case.node, storage).and_then(|found| {
        if found.is_empty() { Ok(Held::default()) } else { found.held(case.grounds(), storage, now()) }
    });
    match held {
        Ok(held) => held.message("T").lines().skip(1).collect::<Vec<_>>().join("\n"),
        Err(error) => error,
    }
}

#[test]
fn volumes_are_matched_with_claims() {
    const ON_NODE: &str = "kubernetes.io/csi/drv^h";
    let with_node = |volumes: &[&str]| Case { node: node(volumes), ..Case::of(Vec::new()) };
    let other = json!({"kind": "Other", "namespace": "d", "name": "o"});
    for (on_node, attachments, volumes, expected) in [
        (&[][..], vec![], vec![volume("v", "h", claim("c"))], ""),
        (&[ON_NODE], vec![], vec![volume("v", "h", claim("c"))], "* PersistentVolumeClaims: d/c"),
        (
            &[],
            vec![attachment("a", "n", Some("v"), true)],
            vec![volume("v", "other", claim("c"))],
            "* PersistentVolumeClaims: d/c",
        ),
        (
            &[ON_NODE],
            vec![attachment("a", "n", Some("v"), true)],
            vec![volume("v", "h", claim("c"))],
            "* PersistentVolumeClaims: d/c",
        ),
        (&[], vec![attachment("a", "n", Some("v"), false)], vec![volume("v", "h", claim("c"))], ""),
        (&[], vec![attachment("a", "elsewhere", Some("v"), true)], vec![volume("v", "h", claim("c"))], ""),
        (
            &[ON_NODE],
            vec![],
            vec![volume("v", "h", other)],
            "* PersistentVolumes without a .spec.claimRef to a PersistentVolumeClaim: v",
        ),
        (
            &["in-tree", ON_NODE],
            vec![attachment("a", "n", Some("gone"), true)],
            vec![volume("v", "h", Value::Null)],
            "* PersistentVolumes without a .spec.claimRef to a PersistentVolumeClaim: v\n\
             * Node with .status.volumesAttached entries not matching a PersistentVolume: in-tree\n\
             * VolumeAttachment with .spec.source.persistentVolumeName not matching a PersistentVolume: gone",
        ),
    ] {
        assert_eq!(told(&with_node(on_node), &storage(attachments, volumes)), expected);
    }
}

#[test]
fn volumes_of_pods_that_stay_are_not_waited_for() {
    let uses = |key: &str, claim: &str, metadata: Value| {
        let mut pod = pod(key, metadata, "Running");
        pod.spec = Some(object(json!({"containers": [], "volumes": [{"name": "none"},
            {"name": "data", "persistentVolumeClaim": {"claimName": claim}}]})));
        pod
    };
    let skip = json!({"labels": {"cluster.x-k8s.io/drain": "skip"}});
    let wait = json!({"labels": {"cluster.x-k8s.io/drain": "wait-completed"}});
    let mut case =
        Case::of(vec![uses("d/a", "c1", skip.clone()), uses("d/b", "c2", wait), uses("e/c", "c3", skip)]);
    case.node = node(&[]);
    let attachments = ["v1", "v2", "v3"].map(|v| attachment(v, "n", Some(v), true)).to_vec();
    let volumes = [("v1", "c1"), ("v2", "c2"), ("v3", "c3")].map(|(v, c)| volume(v, v, claim(c))).to_vec();
    assert_eq!(
        told(&case, &storage(attachments.clone(), volumes.clone())),
        "* PersistentVolumeClaims: d/c2, d/c3",
        "e/c3 stays, not d/c3"
    );
    case.tenants.rules = Err("refused".to_owned());
    assert_eq!(told(&case, &storage(attachments, volumes)), "MachineDrainRules could not be read: refused");
}

#[test]
fn what_cannot_be_read_is_told() {
    let case = Case { node: node(&["v"]), ..Case::of(Vec::new()) };
    let refused = || Err("refused".to_owned());
    let unread = Storage { attachments: refused(), volumes: Ok(Vec::new()) };
    assert_eq!(told(&case, &unread), "VolumeAttachments could not be read: refused");
    let unread = Storage { attachments: Ok(Vec::new()), volumes: Err("refused".to_owned()) };
    assert_eq!(told(&case, &unread), "PersistentVolumes could not be read: refused");
    assert_eq!(
        told(&case, &storage(vec![attachment("a", "n", None, true)], Vec::new())),
        "spec.source.persistentVolumeName for VolumeAttachment a is not set"
    );
    let detached = Case { node: node(&[]), ..Case::of(Vec::new()) };
    assert_eq!(told(&detached, &unread), "", "nothing is attached, so nobody asks for volumes");
}

#[test]
fn five_names_of_a_kind_are_shown() {
    let names: Vec<String> = (1..=7).map(|n| format!("v{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let case = Case { node: node(&names), ..Case::of(Vec::new()) };
    assert_eq!(
        told(&case, &storage(Vec::new(), Vec::new())),
        "* Node with .status.volumesAttached entries not matching a PersistentVolume: v1, v2, v3, v4, v5, ... (2 more)"
    );
    assert_eq!(Held::default().message("T"), "Waiting for Node volumes to be detached (started at T)");
    let held = attached(&case.node, &storage(Vec::new(), Vec::new()))
        .and_then(|found| found.held(case.grounds(), &storage(Vec::new(), Vec::new()), now()));
    assert_eq!(held.map(|held| held.count()), Ok(7));
}
