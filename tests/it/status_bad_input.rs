//! Odd input to `status compute`, one kind of oddity at a time, each with what becomes of it: the status
//! that upstream's rules give, or a remark.

use std::path::PathBuf;

use capi_rules::observe::dump::Dump;
use capi_rules::recompute::all;
use capstan_base::time::parse_rfc3339;
use capstan_commands::output::Style;
use capstan_commands::status_compute::StatusComputeArgs;
use capstan_commands::status_compute::StatusOutputArg;
use capstan_commands::status_compute::run;
use serde_json::{Value, json};

use crate::at_rest::{healthy, settled};

/// The healthy cluster of appendix A at rest.
fn world() -> Vec<Value> {
    settled(healthy())
}

fn find<'a>(objects: &'a mut [Value], kind: &str, name: &str) -> &'a mut Value {
    objects.iter_mut().find(|o| o["kind"] == kind && o["metadata"]["name"] == name).unwrap()
}

/// The computed status of one object.
fn status(objects: &[Value], kind: &str, name: &str) -> Value {
    let dump = Dump::new(objects.iter().map(|value| value.clone().into()).collect());
    let computed = all(&dump, parse_rfc3339("2026-11-20T10:00:00Z").unwrap());
    let one = computed.into_iter().find(|c| c.kind.name() == kind && c.key.name == name).unwrap();
    assert_eq!(one.left, None);
    one.after["status"].clone()
}

fn told(status: &Value, type_: &str) -> [String; 3] {
    let list = status["conditions"].as_array().unwrap();
    let condition = list.iter().find(|c| c["type"] == type_).unwrap_or(&Value::Null);
    ["status", "reason", "message"].map(|field| condition[field].as_str().unwrap_or_default().to_owned())
}

#[test]
fn negative_replicas_are_a_number_like_others() {
    let mut objects = world();
    find(&mut objects, "MachineDeployment", "md")["spec"]["replicas"] = json!(-3);
    let md = status(&objects, "MachineDeployment", "md");
    assert_eq!(told(&md, "ScalingDown"), ["True", "ScalingDown", "Scaling down from 1 to -3 replicas"]);
    assert_eq!(told(&md, "Available")[0], "True", "1 is more than -3");
    assert_eq!(md["phase"], "ScalingDown");
    find(&mut objects, "KubeadmControlPlane", "cp")["spec"]["replicas"] = json!(i32::MIN);
    assert_eq!(told(&status(&objects, "KubeadmControlPlane", "cp"), "ScalingDown")[0], "True");
    find(&mut objects, "MachineSet", "ms")["status"]["replicas"] = json!(i32::MIN);
    let md = status(&objects, "MachineDeployment", "md");
    assert_eq!(md["replicas"], json!(i32::MIN));
    assert_eq!(told(&md, "ScalingUp")[0], "True");
}

#[test]
fn versions_that_are_none_are_compared_as_text() {
    let mut objects = world();
    let machine = find(&mut objects, "Machine", "w-0");
    machine["spec"]["version"] = "latest".into();
    machine["status"]["nodeInfo"]["kubeletVersion"] = "".into();
    let set = status(&objects, "MachineSet", "ms");
    assert_eq!(set["versions"], json!([{"version": "latest", "replicas": 1}]));
    find(&mut objects, "KubeadmControlPlane", "cp")["status"]["versions"] =
        json!([{"version": "latest", "replicas": 1}]);
    let stored = find(&mut objects, "Cluster", "c")["status"]["controlPlane"]["versions"].clone();
    let cluster = status(&objects, "Cluster", "c");
    assert_eq!(cluster["controlPlane"]["versions"], stored, "a list that makes no sense does not count");
    find(&mut objects, "KubeadmControlPlane", "cp")["spec"]["version"] = "v1.x".into();
    let upgraded = told(&status(&objects, "Machine", "cp-0"), "UpToDate");
    assert!(upgraded[2].contains("* Version v1.34.1, v1.x required"), "{upgraded:?}");
}

#[test]
fn owners_in_a_circle_own_nothing_more() {
    let mut objects = world();
    let before = status(&objects, "Machine", "w-0");
    let owner = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "w-0", "uid": "Machine-w-0", "controller": true}]);
    find(&mut objects, "MachineSet", "ms")["metadata"]["ownerReferences"] = owner.clone();
    assert_eq!(status(&objects, "Machine", "w-0"), before);
    assert_eq!(status(&objects, "MachineSet", "ms")["replicas"], 1);
    let md = status(&objects, "MachineDeployment", "md");
    assert!(md["replicas"].is_null(), "the set is somebody else's");
    find(&mut objects, "Machine", "w-0")["metadata"]["ownerReferences"] = owner;
    assert_eq!(status(&objects, "MachineSet", "ms")["replicas"], 0, "a Machine that controls itself");
}

#[test]
fn moments_in_the_future_have_not_come() {
    let mut objects = world();
    let later = "2999-01-01T00:00:00Z";
    let machine = find(&mut objects, "Machine", "w-0");
    machine["metadata"]["creationTimestamp"] = later.into();
    machine["spec"]["minReadySeconds"] = 1.into();
    for condition in machine["status"]["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = later.into();
    }
    assert_eq!(told(&status(&objects, "Machine", "w-0"), "Available")[1], "WaitingForMinReadySeconds");
    find(&mut objects, "Machine", "w-0")["metadata"]["deletionTimestamp"] = later.into();
    let leaving = status(&objects, "Machine", "w-0");
    assert_eq!(leaving["phase"], "Deleting");
    assert!(!told(&leaving, "Ready")[2].contains("since more than"), "{:?}", told(&leaving, "Ready"));
}

#[test]
fn a_condition_with_an_unknown_status_is_not_believed() {
    let mut objects = world();
    let odd = json!([{"type": "Ready", "status": "Perhaps", "reason": "R", "message": "", "lastTransitionTime": "2026-11-20T09:00:00Z"}]);
    find(&mut objects, "KubeadmConfig", "w-0")["status"]["conditions"] = odd.clone();
    let text = "failed to convert status.conditions from KubeadmConfig to []metav1.Condition: status for the Ready condition \
                must be one of True, False, Unknown";
    let machine = status(&objects, "Machine", "w-0");
    assert_eq!(told(&machine, "BootstrapConfigReady"), ["Unknown", "InvalidConditionReported", text]);
    find(&mut objects, "Machine", "w-0")["status"]["conditions"] = odd;
    let set = status(&objects, "MachineSet", "ms");
    assert_eq!(told(&set, "MachinesReady"), ["Unknown", "ReadyUnknown", "* Machine w-0: "]);
    assert_eq!(set["readyReplicas"], 0);
}

#[test]
fn of_two_with_one_name_the_later_counts() {
    let mut objects = world();
    let mut twin = find(&mut objects, "Machine", "w-0").clone();
    twin["spec"]["version"] = "v9.9.9".into();
    objects.push(twin);
    let dump = Dump::new(objects.iter().map(|value| value.clone().into()).collect());
    assert_eq!(dump.remarks, [":0: Machine ns/w-0 is also at :0: this one counts"]);
    assert_eq!(status(&objects, "MachineSet", "ms")["replicas"], 1);
}

/// A folder of its own, gone when it is dropped.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn failure(files: Vec<PathBuf>) -> String {
    let args = StatusComputeArgs {
        files,
        workloads: Vec::new(),
        now: None,
        output: StatusOutputArg::Yaml,
        diff: false,
    };
    let error = run(&args, parse_rfc3339("2026-11-20T10:00:00Z").unwrap(), Style::default()).unwrap_err();
    format!("{error:#}")
}

#[test]
fn files_that_are_no_dump_are_named_with_the_place() {
    let folder = Folder::new();
    let at = |path: &PathBuf| path.display().to_string();
    let broken = folder.file("broken.yaml", "kind: A\n---\nkind: [\n");
    let words = failure(vec![broken.clone()]);
    assert!(
        words.starts_with(&format!("{}:", at(&broken))) && words.contains("YAML was expected here"),
        "{words}"
    );
    let broken = folder.file("broken.json", "{\"kind\": \"A\"}\n{\"kind\"\n");
    assert!(
        failure(vec![broken.clone()]).starts_with(&format!("{}:3:0: JSON was expected here: ", at(&broken)))
    );
    let empty = folder.file("empty.yaml", "# nothing\n---\n");
    assert_eq!(
        failure(vec![empty.clone()]),
        format!(
            "{} holds no objects\nthere is nothing to compute among 0 objects: no Cluster API kind with rules here",
            at(&empty)
        )
    );
    let other = folder
        .file("other.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n---\nkind: 3\n");
    let words = failure(vec![other.clone()]);
    assert!(
        words.starts_with(&format!("{}:4: this object has no kind: left out\nthere is nothing", at(&other))),
        "{words}"
    );
    let bytes = folder.0.path().join("bytes.yaml");
    std::fs::write(&bytes, [0xff, 0xfe, 0x00]).unwrap();
    assert!(failure(vec![bytes.clone()]).starts_with(&format!("cannot read {}: ", at(&bytes))));
    assert!(failure(vec!["no/such/file.yaml".into()]).starts_with("cannot read no/such/file.yaml: "));
}
