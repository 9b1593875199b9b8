//! What is printed for a stage, pasted: read as YAML, applied as an API server or a person applies it, and compared with what
//! was there.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::controller_names::Function;
use super::edits::{EditAct, PATH, Settings, StageEdit, StageEdits, edits};
use super::flag_places::FlagPlaces;
use super::release::Release;
use super::rights::Grantee;
use super::stages::MigrationStage;
use capstan_apiserver::internals::strategic;
use k8s_machinery::merge;

/// The flags that a stage may change.
const INTENDED: [&str; 3] = ["cloud-provider", "enable-leader-migration", "leader-migration-config"];

fn settings(objects: &[Value]) -> Settings {
    Settings {
        namespace: "kube-system".to_owned(),
        leader_name: "move".to_owned(),
        functions: vec![Function::Routes],
        subjects: vec![Grantee::kube_controller_manager()],
        releases: (Release(27), Release(28)),
        places: FlagPlaces::of(objects),
        holder: "cp-2".to_owned(),
        provider: "gce".to_owned(),
    }
}

/// The edit whose title has this word, with its patch and inverse as a reader of YAML has them.
fn pasted(made: &StageEdits, word: &str) -> (Value, Value) {
    let StageEdit { text, inverse, .. } = made
        .edits
        .iter()
        .find(|edit| edit.title.contains(word))
        .unwrap_or_else(|| panic!("{word}: {made:#?}"));
    let read =
        |text: &str| serde_saphyr::from_str::<Value>(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    (read(text), read(inverse))
}

fn merged(object: &Value, patch: &Value) -> Value {
    let mut object = object.clone();
    merge::apply(&mut object, patch);
    object
}

/// A name and a value as somebody has them.
fn flag() -> impl Strategy<Value = (String, String)> {
    let names = [
        "v",
        "profiling",
        "concurrent-gc-syncs",
        "feature-gates",
        "cluster-name",
        "bind-address",
        "controllers",
    ];
    let values =
        ["", "true", "4", "no", "0x1F", "*,-nodeipam", "A=true,B=false", "a: b # c", "it's", "0.0.0.0"];
    (proptest::sample::select(names.to_vec()), proptest::sample::select(values.to_vec()))
        .prop_map(|(name, value)| (name.to_owned(), value.to_owned()))
}

/// Flags in any order, some of them twice, with the provider among them at any place.
fn flags() -> impl Strategy<Value = Vec<(String, String)>> {
    (proptest::collection::vec(flag(), 0..7), any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(mut flags, at, is_on)| {
            let provider = ("cloud-provider".to_owned(), "gce".to_owned());
            flags.insert(at.index(flags.len() + 1), provider);
            if is_on {
                flags.push(("enable-leader-migration".to_owned(), "true".to_owned()));
                flags.insert(0, ("leader-migration-config".to_owned(), PATH.to_owned()));
            }
            flags
        },
    )
}

fn in_form(flags: &[(String, String)], is_map: bool) -> Value {
    if is_map {
        return flags
            .iter()
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect::<Map<_, _>>()
            .into();
    }
    flags.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

fn entries(names: &[String], of: impl Fn(&str) -> Value) -> Value {
    names.iter().map(|name| of(name)).collect()
}

fn volume(name: &str) -> Value {
    json!({"name": name, "hostPath": format!("/srv/{name}"), "mountPath": format!("/etc/{name}"), "readOnly": true})
}

/// A ClusterConfiguration, or that of a KubeadmControlPlane.
fn configuration(flags: &[(String, String)], others: &[String], is_map: bool) -> Value {
    let mut manager = json!({"extraArgs": in_form(flags, is_map)});
    if !others.is_empty() {
        manager["extraVolumes"] = entries(others, volume);
    }
    json!({"apiServer": {"certSANs": ["a"]}, "controllerManager": manager, "clusterName": "c"})
}

fn kubeadm_config(flags: &[(String, String)], others: &[String], is_map: bool) -> (Value, Value) {
    let mut root = configuration(flags, others, is_map);
    root["apiVersion"] = json!(if is_map { "kubeadm.k8s.io/v1beta3" } else { "kubeadm.k8s.io/v1beta4" });
    root["kind"] = json!("ClusterConfiguration");
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "kubeadm-config"},
        "data": {"ClusterConfiguration": root.to_string()}});
    (map, root)
}

fn control_plane(flags: &[(String, String)], others: &[String], is_map: bool) -> Value {
    let file = |name: &str| json!({"path": format!("/srv/{name}"), "content": "x"});
    let kubelet = json!({"nodeRegistration": {"kubeletExtraArgs": in_form(flags, is_map), "taints": []}});
    let version = if is_map { "v1beta1" } else { "v1beta2" };
    json!({"apiVersion": format!("controlplane.cluster.x-k8s.io/{version}"), "kind": "KubeadmControlPlane",
        "metadata": {"name": "cp", "namespace": "ns"},
        "spec": {"replicas": 3, "version": "v1.27.1", "kubeadmConfigSpec": {
            "clusterConfiguration": configuration(flags, others, is_map), "files": entries(others, file),
            "initConfiguration": kubelet, "joinConfiguration": kubelet, "preKubeadmCommands": ["true"]}}})
}

fn words(flags: &[(String, String)], is_split: bool) -> Vec<String> {
    let word = |(name, value): &(String, String)| match is_split && !value.is_empty() {
        true => vec![format!("--{name}"), value.clone()],
        false => vec![format!("--{name}={value}")],
    };
    flags.iter().flat_map(word).collect()
}

fn pod(node: &str, flags: &[(String, String)], others: &[String], is_split: bool) -> Value {
    let command = [vec!["kube-controller-manager".to_owned()], words(flags, is_split)].concat();
    let mount = |name: &str| json!({"name": name, "mountPath": format!("/etc/{name}")});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("kcm-{node}"), "namespace": "kube-system"},
        "spec": {"nodeName": node, "hostNetwork": true,
            "containers": [{"name": "other", "image": "x"},
                {"name": "kcm", "image": "r/kube-controller-manager:v1.27.1",
                    "command": command, "volumeMounts": entries(others, mount)}],
            "volumes": entries(others, |name| json!({"name": name, "hostPath": {"path": format!("/srv/{name}")}}))}})
}

/// A person puts each field that is printed in place of the one that is there.
fn by_hand(object: &Value, fields: &Value) -> Value {
    let mut object = object.clone();
    let spec = &mut object["spec"];
    for printed in fields["spec"]["containers"].as_array().expect("containers") {
        let containers = spec["containers"].as_array_mut().expect("containers");
        let own = containers.iter_mut().find(|own| own["name"] == printed["name"]).expect("a container");
        merge::apply(own, printed);
    }
    if let Some(volumes) = fields["spec"].get("volumes") {
        merge::apply(spec, &json!({"volumes": volumes}));
    }
    object
}

/// What is left of an object without the entries that a stage may change.
fn rest(object: &Value) -> Value {
    let is_intended = |value: &Value| {
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        let word = value.as_str().unwrap_or_default();
        INTENDED.contains(&text("name"))
            || ["path", "mountPath"].iter().any(|key| text(key) == PATH)
            || value["hostPath"]["path"] == PATH
            || INTENDED.iter().any(|flag| word.starts_with(&format!("--{flag}=")))
    };
    match object {
        Value::Array(items) => items.iter().filter(|item| !is_intended(item)).map(rest).collect(),
        Value::Object(map) => {
            let others = map.iter().filter(|(key, _)| !INTENDED.contains(&key.as_str()));
            let others = others.map(|(key, value)| (key.clone(), rest(value)));
            // A list that is gone is a list without entries.
            others.filter(|(_, value)| *value != json!([])).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// The value of each flag that a stage may change, by form.
fn intended(flags: &Value) -> [Option<String>; 3] {
    INTENDED.map(|flag| super::flag_lists::value_in(flags, flag).map(str::to_owned))
}

fn after_stage(stage: MigrationStage) -> [Option<String>; 3] {
    let some = |text: &str| Some(text.to_owned());
    match stage {
        MigrationStage::Enable => [some("gce"), some("true"), some(PATH)],
        _ => [some("external"), None, None],
    }
}

const STAGES: [MigrationStage; 3] =
    [MigrationStage::Enable, MigrationStage::Introduce, MigrationStage::Handover];

fn is_there(list: &Value, key: &str) -> bool {
    list.as_array().into_iter().flatten().any(|entry| entry[key] == PATH)
}

fn others() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(proptest::sample::select(vec!["leader-migration", "a", "b"]), 0..3).prop_map(
        |names| {
            let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            names.dedup();
            names
        },
    )
}

proptest! {
    #[test]
    fn nothing_but_the_intended_entries_of_kubeadm_differ(flags in flags(), others in others(), is_map: bool) {
        let (map, before) = kubeadm_config(&flags, &others, is_map);
        for stage in STAGES {
            let made = edits(stage, &settings(std::slice::from_ref(&map)));
            let Some(_) = made.edits.iter().find(|edit| edit.title.contains("ClusterConfiguration")) else {
                prop_assert!(made.omitted.iter().any(|what| what.ends_with("it has this already")), "{made:#?}");
                continue;
            };
            let (patch, inverse) = pasted(&made, "ClusterConfiguration");
            let after = merged(&before, &patch);
            prop_assert_eq!(rest(&after), rest(&before));
            prop_assert_eq!(intended(&after["controllerManager"]["extraArgs"]), after_stage(stage));
            let is_mounted = is_there(&after["controllerManager"]["extraVolumes"], "mountPath");
            prop_assert_eq!(is_mounted, stage == MigrationStage::Enable);
            prop_assert_eq!(merged(&after, &inverse), before.clone());
        }
    }

    #[test]
    fn nothing_but_the_intended_entries_of_a_control_plane_differ(flags in flags(), others in others(), is_map: bool) {
        let before = control_plane(&flags, &others, is_map);
        for stage in STAGES {
            let (patch, inverse) = pasted(&edits(stage, &settings(std::slice::from_ref(&before))), "--type=merge");
            let after = merged(&before, &patch);
            prop_assert_eq!(rest(&after), rest(&before));
            let of = |object: &Value| object["spec"]["kubeadmConfigSpec"].clone();
            prop_assert_eq!(
                intended(&of(&after)["clusterConfiguration"]["controllerManager"]["extraArgs"]),
                after_stage(stage)
            );
            prop_assert_eq!(is_there(&of(&after)["files"], "path"), stage == MigrationStage::Enable);
            let [kubelet, ..] = intended(&of(&after)["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"]);
            prop_assert_eq!(kubelet, after_stage(stage)[0].clone());
            prop_assert_eq!(merged(&after, &inverse), before.clone());
        }
    }

    #[test]
    fn nothing_but_the_intended_words_of_a_manifest_differ(flags in flags(), others in others(), is_split: bool) {
        let before = pod("cp-1", &flags, &others, is_split);
        for stage in STAGES {
            let made = edits(stage, &settings(std::slice::from_ref(&before)));
            if !made.edits.iter().any(|edit| edit.title.contains("static pod")) {
                let is_on = flags.iter().any(|(name, _)| name == "enable-leader-migration");
                prop_assert!(is_on && stage == MigrationStage::Enable, "{made:#?}");
                continue;
            }
            let (fields, inverse) = pasted(&made, "static pod");
            let after = by_hand(&before, &fields);
            // With a blank the two words of a flag are one entry.
            let joined = |object: &Value| {
                let mut object = object.clone();
                let given = super::manifest::managers_in(&object).remove(0);
                let line = super::command_line::CommandLine::read(given.manager, &given.args).given;
                let word = |flag: &super::command_line::GivenFlag| {
                    format!("--{}={}", flag.name, flag.value.as_deref().unwrap_or_default())
                };
                object["spec"]["containers"][1]["command"] = line.iter().map(word).collect();
                object
            };
            prop_assert_eq!(rest(&joined(&after)), rest(&joined(&before)));
            let found = super::manifest::managers_in(&after).remove(0);
            let read = super::flags::Flags::parse(found.manager, &found.args);
            if let Ok(read) = read {
                prop_assert_eq!(Some(read.cloud_provider), after_stage(stage)[0].clone());
                prop_assert_eq!(read.enable_migration, stage == MigrationStage::Enable);
                prop_assert_eq!(found.mounts.contains(&PATH.to_owned()), stage == MigrationStage::Enable);
            }
            prop_assert_eq!(by_hand(&after, &inverse), before.clone());
        }
    }

    #[test]
    fn nothing_but_the_migration_flags_of_a_daemon_set_go(flags in flags(), has_arguments: bool) {
        let words = words(&flags, false);
        let program = vec!["ccm".to_owned()];
        let whole = [program.clone(), words.clone()].concat();
        let container = if has_arguments {
            json!({"name": "ccm", "image": "r/ccm:v1.28.1", "command": program, "args": words})
        } else {
            json!({"name": "ccm", "image": "r/ccm:v1.28.1", "command": whole})
        };
        let before = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "ccm", "namespace": "n"},
            "spec": {"minReadySeconds": 20, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "containers": [{"name": "side", "image": "x"}, container], "hostNetwork": true}}}});
        let made = edits(MigrationStage::Disable, &settings(std::slice::from_ref(&before)));
        if !flags.iter().any(|(name, _)| name == "enable-leader-migration") {
            prop_assert!(made.edits.is_empty(), "{made:#?}");
            return Ok(());
        }
        let (patch, inverse) = pasted(&made, "kubectl patch daemonset ccm -n n");
        let after = strategic::merge("DaemonSet", before.clone(), patch).expect("a patch");
        let EditAct::Patch { patch: whole, inverse: back, .. } = &made.edits[0].act else {
            panic!("{made:#?}")
        };
        prop_assert_eq!(&merged(&before, whole), &after);
        prop_assert_eq!(&merged(&after, back), &before);
        let left = super::manifest::managers_in(&after).remove(0);
        let kept: Vec<String> = super::manifest::managers_in(&before).remove(0).args.into_iter()
            .filter(|word| !word.contains("leader-migration")).collect();
        prop_assert_eq!(left.args, kept);
        prop_assert_eq!(strategic::merge("DaemonSet", after, inverse).expect("a patch"), before);
    }
}

fn provider() -> Vec<(String, String)> {
    vec![("cloud-provider".to_owned(), "gce".to_owned())]
}

/// Every text that is printed, as one.
fn printed(made: &StageEdits) -> String {
    made.edits.iter().map(|edit| format!("{}\n{}{}", edit.title, edit.text, edit.inverse)).collect()
}

#[test]
fn what_was_not_read_gets_no_piece_that_could_lose_something() {
    let external = vec![("cloud-provider".to_owned(), "external".to_owned())];
    let mut owned = control_plane(&provider(), &[], false);
    owned["metadata"]["labels"] = json!({"topology.cluster.x-k8s.io/owned": ""});
    let mut strange = control_plane(&provider(), &[], false);
    strange["metadata"]["name"] = json!("x; reboot");
    let mut newer = control_plane(&provider(), &[], false);
    newer["apiVersion"] = json!("controlplane.cluster.x-k8s.io/v1");
    let mut odd = control_plane(&provider(), &[], false);
    odd["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["controllerManager"]["extraVolumes"] = json!({});
    let broken = json!({"kind": "ConfigMap", "metadata": {"name": "kubeadm-config"}, "data": {"ClusterConfiguration": "a: ["}});
    let mut shell = pod("cp-1", &provider(), &[], false);
    shell["spec"]["containers"][1]["command"] =
        json!(["/bin/sh", "-c", "exec kube-controller-manager --cloud-provider=gce"]);
    for (object, why) in [
        (json!({}), "KubeadmControlPlane: not read"),
        (owned, "KubeadmControlPlane ns/cp: its Cluster's class writes it"),
        (strange, "KubeadmControlPlane ns/x; reboot: its name is not one that the API takes"),
        (newer, "KubeadmControlPlane ns/cp: nothing is printed that could lose something: apiVersion"),
        (
            odd,
            "KubeadmControlPlane ns/cp: nothing is printed that could lose something: spec.kubeadmConfigSpec.clusterConfiguration.controllerManager.extraVolumes: expected a list",
        ),
        (
            control_plane(&external, &[], false),
            "KubeadmControlPlane ns/cp: it gives kube-controller-manager no cloud provider",
        ),
        (
            kubeadm_config(&external, &[], true).0,
            "ConfigMap kubeadm-config: it gives kube-controller-manager no cloud provider",
        ),
        (broken, "ConfigMap kubeadm-config: not YAML"),
        (
            shell,
            "static pod of kube-controller-manager on cp-1: nothing is printed that could lose something: its flags stand in a line",
        ),
    ] {
        let made = edits(MigrationStage::Enable, &settings(&[object]));
        assert!(made.omitted.iter().any(|what| what.starts_with(why)), "{why}\n{made:#?}");
        assert_eq!(made.edits.len(), 1, "the file alone: {made:#?}");
        assert!(!printed(&made).contains("extraArgs"), "{made:#?}");
    }
}

/// The new processes of the other nodes are left as they are, and the holder's node comes last.
#[test]
fn manifests_of_one_text_are_printed_once_with_the_holder_last() {
    let external = [("cloud-provider".to_owned(), "external".to_owned())];
    let pods = [
        pod("cp-2", &provider(), &[], false),
        pod("cp-1", &provider(), &[], false),
        pod("cp-3", &external, &[], false),
    ];
    let made = edits(MigrationStage::Enable, &settings(&pods));
    let titles: Vec<&str> = made.edits.iter().map(|edit| edit.title.as_str()).collect();
    assert_eq!(
        titles[1..],
        [
            "static pod of kube-controller-manager on cp-1, then cp-2: in its manifest each of these fields, whole, in place of what it is"
        ]
    );
}

/// What a pod says goes into a line for a shell only where it means nothing to one.
#[test]
fn a_hostile_provider_is_not_printed_into_a_command() {
    let of = |provider: &str| Settings { provider: provider.to_owned(), ..settings(&[]) };
    assert!(
        printed(&edits(MigrationStage::Introduce, &of("gce")))
            .contains("--cloud-provider=external/' /var/lib")
    );
    for provider in ["gce/' /etc/passwd; reboot '", "a b", "", "$(id)"] {
        assert!(!printed(&edits(MigrationStage::Introduce, &of(provider))).contains("sed"), "{provider}");
    }
}

/// A file that a process has under another path is its file, and the entry of a path is its owner's.
#[test]
fn a_file_of_the_operators_own_stays() {
    let mut flags = provider();
    flags.push(("leader-migration-config".to_owned(), "/srv/own.yaml".to_owned()));
    let before = control_plane(&flags, &["own.yaml".to_owned()], false);
    let (patch, _) =
        pasted(&edits(MigrationStage::Enable, &settings(std::slice::from_ref(&before))), "--type=merge");
    let mut expected = before.clone();
    let arguments =
        &mut expected["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["controllerManager"]["extraArgs"];
    arguments
        .as_array_mut()
        .expect("a list")
        .push(json!({"name": "enable-leader-migration", "value": "true"}));
    assert_eq!(merged(&before, &patch), expected);
}

#[test]
fn every_change_comes_with_its_inverse() {
    let set = json!({"kind": "DaemonSet", "metadata": {"name": "ccm"}, "spec": {"template": {"spec": {
        "containers": [{"image": "r/ccm:v1", "args": ["--enable-leader-migration"]}]}}}});
    let objects = [
        control_plane(&provider(), &[], false),
        kubeadm_config(&provider(), &[], true).0,
        pod("cp-1", &provider(), &[], false),
        set,
    ];
    let settings = settings(&objects);
    let of = |stage: MigrationStage| edits(stage, &settings).edits;
    let all: Vec<_> = MigrationStage::ALL.into_iter().flat_map(of).collect();
    assert!(all.iter().all(|edit| !edit.text.is_empty() && !edit.inverse.is_empty()), "{all:#?}");
    assert_eq!(MigrationStage::ALL.map(|stage| of(stage).len()), [0, 1, 4, 4, 3, 0, 1, 1]);
    let text = |stage: MigrationStage| of(stage).into_iter().map(|edit| edit.text).collect::<String>();
    assert!(text(MigrationStage::Enable).contains("- name: route\n"), "{}", text(MigrationStage::Enable));
    assert!(text(MigrationStage::Introduce).contains("- name: node-route-controller\n"));
}

/// Of the places of one change that of the owner is enough, and once it has it nothing is left for the others.
#[test]
fn the_owner_of_the_places_decides_which_change_is_enough() {
    let on = [
        provider(),
        vec![
            ("enable-leader-migration".to_owned(), "true".to_owned()),
            ("leader-migration-config".to_owned(), PATH.to_owned()),
        ],
    ]
    .concat();
    let own = ["leader-migration".to_owned()];
    let mut done = control_plane(&on, &[], false);
    let manager = &mut done["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["controllerManager"];
    manager["extraVolumes"] = json!([{"name": "m", "hostPath": PATH, "mountPath": PATH}]);
    done["spec"]["kubeadmConfigSpec"]["files"] = json!([{"path": PATH, "content": "x"}]);
    let (pod, map) = (pod("cp-1", &provider(), &own, false), kubeadm_config(&provider(), &[], true).0);
    let plane = control_plane(&provider(), &[], false);
    for (objects, expected) in [
        (vec![pod.clone()], &["the file", "static pod"][..]),
        (vec![pod.clone(), map.clone()], &["the file", "ClusterConfiguration"]),
        (vec![pod.clone(), map.clone(), plane], &["KubeadmControlPlane"]),
        (vec![pod, map, done], &[]),
    ] {
        let made = edits(MigrationStage::Enable, &settings(&objects));
        let word = |edit: &&StageEdit| match &edit.act {
            EditAct::Configuration(_) => "ClusterConfiguration",
            EditAct::Patch { .. } => "KubeadmControlPlane",
            EditAct::ByHand if edit.title.contains("static pod") => "static pod",
            EditAct::ByHand => "the file",
            other => panic!("{other:?}"),
        };
        let way = made.way();
        assert_eq!(way.iter().map(word).collect::<Vec<_>>(), expected, "{made:#?}");
    }
}

/// The way back gives back what the way there took, beside what stands there, and takes the flags again.
#[test]
fn the_edits_of_the_way_back_lose_nothing() {
    use super::back::BackStep;
    use super::back_edits::back_edits;
    let external =
        vec![("v".to_owned(), "4".to_owned()), ("cloud-provider".to_owned(), "external".to_owned())];
    let before = control_plane(&external, &["a".to_owned()], false);
    let set = json!({"kind": "DaemonSet", "metadata": {"name": "ccm", "namespace": "n", "uid": "u"}, "spec": {"template": {"spec": {
        "containers": [{"name": "ccm", "image": "r/ccm:v1", "args": ["--v=2"]}]}}}});
    let settings = settings(&[before.clone(), set.clone()]);
    let (patch, inverse) = pasted(&back_edits(BackStep::Restore, &settings), "--type=merge");
    let restored = merged(&before, &patch);
    let arguments = |object: &Value| {
        intended(
            &object["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["controllerManager"]["extraArgs"],
        )
    };
    assert_eq!(arguments(&restored), after_stage(MigrationStage::Enable));
    assert_eq!((rest(&restored), merged(&restored, &inverse)), (rest(&before), before.clone()));
    let on = Settings { places: FlagPlaces::of(std::slice::from_ref(&restored)), ..settings.clone() };
    let (patch, _) = pasted(&back_edits(BackStep::Unflag, &on), "--type=merge");
    assert_eq!(arguments(&merged(&restored, &patch)), [Some("gce".to_owned()), None, None]);

    let made = back_edits(BackStep::Flag, &settings);
    let (patch, _) = pasted(&made, "kubectl patch daemonset ccm -n n");
    let flagged = strategic::merge("DaemonSet", set, patch).expect("a patch");
    let words = &flagged["spec"]["template"]["spec"]["containers"][0]["args"];
    let file = "--leader-migration-config=/etc/leader-migration/leader-migration.yaml";
    assert_eq!(words, &json!(["--v=2", "--enable-leader-migration=true", file]));

    let leave = back_edits(BackStep::Leave, &settings);
    assert_eq!(leave.edits[0].text, "kubectl delete daemonset ccm -n n\n");
    assert!(leave.edits[0].inverse.contains("args:") && !leave.edits[0].inverse.contains("uid"));
    let unknown = Settings { provider: String::new(), ..settings };
    let made = back_edits(BackStep::Restore, &unknown);
    assert!(made.edits.is_empty() && made.omitted[0].contains("--cloud-provider NAME"), "{made:#?}");
}
