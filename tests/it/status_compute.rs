//! `status compute` over whole dumps: what it makes of the samples, and what holds for any dump.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use capi_rules::observe::dump::Dump;
use capi_rules::observe::dump::document::Document;
use capi_rules::recompute::diff::{Difference, differences};
use capi_rules::recompute::{Computed, all};
use capi_types::crds;
use capstan_apiserver::internals::{Schema, crd};
use capstan_base::time::{Timestamp, parse_rfc3339};
use capstan_commands::output::Style;
use capstan_commands::status_compute::StatusComputeArgs;
use capstan_commands::status_compute::StatusOutputArg;
use capstan_commands::status_compute::run;
use capstan_worlds::samples::Sample;
use k8s_machinery::validation::cause::Cause;
use proptest::prelude::*;
use serde_json::{Value, json};

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").unwrap()
}

fn sample(file: &str) -> Option<PathBuf> {
    let root = std::env::var_os("CAPSTAN_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = root.join("samples").join(file);
    if !path.exists() {
        println!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

fn computed(objects: &[Value]) -> Vec<Computed> {
    let documents = objects.iter().map(|value| Document::from(value.clone()));
    all(&Dump::new(documents.collect()), now())
}

/// Why a status made from a sample's objects is not the stored one: each time the sample lacks an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacks {
    /// The date is read from the API server's certificate into an annotation, which the sample leaves out.
    ExpiryAnnotation,
    /// A control plane's configs carry its cluster configuration, with the defaulted feature gate before
    /// 1.36, and no bind port that it does not ask for; the sample's do not.
    ClusterConfiguration,
    /// Follows from the line above: what is counted and summed up over these Machines.
    UpToDateMachines,
    /// The stored text leaves out half of the labels that the spec selects by.
    SelectorLabels,
    /// Upstream writes the flag even when it is false; the sample leaves it out.
    ConflictFlag,
}

/// One difference of a sample: kind, name, what differs, why.
type Explained = (&'static str, String, &'static str, Lacks);

/// A control plane and its Machines whose configs are incomplete.
fn incomplete(plane: &str, machines: &[&str]) -> Vec<Explained> {
    let own = ["RollingOut", "MachinesUpToDate", "upToDateReplicas"];
    let mut all: Vec<Explained> = own
        .iter()
        .map(|what| ("KubeadmControlPlane", format!("default/{plane}"), *what, Lacks::UpToDateMachines))
        .collect();
    for machine in machines {
        let key = format!("default/{plane}-{machine}");
        all.push(("Machine", key.clone(), "UpToDate", Lacks::ClusterConfiguration));
        all.push(("Machine", key, "certificatesExpiryDate", Lacks::ExpiryAnnotation));
    }
    all
}

fn explained(file: &str) -> Vec<Explained> {
    let mut all = match file {
        "01-healthy-ha.yaml" => incomplete("prod-eu-control-plane", &["9k2wd", "fhxm8", "qz7tb"]),
        "02-md-rollout.yaml" => incomplete("prod-eu-control-plane", &["6dnv4", "hw8cj", "rt3kp"]),
        "03-broken.yaml" => {
            let mut all = incomplete("edge-a-control-plane", &["2cxwk", "9bd7r", "p4g6z"]);
            all.extend(incomplete("edge-b-control-plane", &["5hv2x", "8wqlj", "tn6cd"]));
            all
        }
        _ => {
            let mut all = incomplete("classy-6d2jm", &["2wq7c", "6nxlt", "jf9vz"]);
            for name in ["classy-md-0-tjz4h", "classy-md-1-p6s2q"] {
                all.push(("MachineDeployment", format!("default/{name}"), "selector", Lacks::SelectorLabels));
            }
            let flag = "variables[zone].definitionsConflict";
            all.push(("ClusterClass", "default/standard".to_owned(), flag, Lacks::ConflictFlag));
            all
        }
    };
    all.sort_by(|a, b| (a.0, &a.1, a.2).cmp(&(b.0, &b.1, b.2)));
    all
}

/// The objects with what one explanation says is missing.
fn complete(objects: &mut [Value], lacks: Lacks) {
    let planes: Vec<Value> = objects.iter().filter(|o| o["kind"] == "KubeadmControlPlane").cloned().collect();
    let cluster = |o: &Value| o["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"].clone();
    for object in objects {
        let expiry = object["status"]["certificatesExpiryDate"].clone();
        match (lacks, object["kind"].as_str().unwrap_or_default()) {
            (Lacks::ExpiryAnnotation, "Machine") if expiry.is_string() => {
                object["metadata"]["annotations"]["machine.cluster.x-k8s.io/certificates-expiry"] = expiry;
            }
            (Lacks::ClusterConfiguration, "KubeadmConfig")
                if !object["spec"]["joinConfiguration"]["controlPlane"].is_null() =>
            {
                let plane = planes.iter().find(|p| cluster(p) == cluster(object)).unwrap();
                object["spec"]["joinConfiguration"]["controlPlane"] = json!({});
                let mut configuration = plane["spec"]["kubeadmConfigSpec"]["clusterConfiguration"].clone();
                if plane["spec"]["version"].as_str().unwrap() < "v1.36" {
                    configuration["featureGates"] = json!({"ControlPlaneKubeletLocalMode": true});
                }
                object["spec"]["clusterConfiguration"] = configuration;
            }
            (Lacks::SelectorLabels, "MachineDeployment") => {
                let labels = object["spec"]["selector"]["matchLabels"].as_object().unwrap();
                let text: Vec<String> =
                    labels.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap())).collect();
                object["status"]["selector"] = text.join(",").into();
            }
            (Lacks::ConflictFlag, "ClusterClass") => {
                for variable in object["status"]["variables"].as_array_mut().unwrap() {
                    variable["definitionsConflict"] = false.into();
                }
            }
            _ => {}
        }
    }
}

/// Kind, name and what, of every difference.
fn found(objects: &[Value]) -> Vec<(&'static str, String, String)> {
    let of = |one: &Computed| {
        let all = differences(&one.before["status"], &one.after["status"]);
        let (kind, key) = (one.kind.name(), one.key.to_string());
        all.into_iter().map(move |difference| (kind, key.clone(), what(difference))).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = computed(objects).iter().flat_map(of).collect();
    all.sort();
    all
}

fn what(difference: Difference) -> String {
    match difference {
        Difference::Condition { type_, .. } => type_,
        Difference::Field { path, .. } => path,
        Difference::Order => "order".to_owned(),
    }
}

/// Exactly the differences that are explained are found; each explanation is the reason: with what it
/// says is missing its differences are gone, and the others are still there.
fn agrees(file: &str, not_judged: &[&str]) {
    let Some(path) = sample(file) else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let mut objects = serde_saphyr::from_multiple::<Value>(&text).unwrap();
    assert!(computed(&objects).len() > 20, "{file}");
    let mut left = explained(file);
    let expected = |left: &[Explained]| -> Vec<(&str, String, String)> {
        left.iter().map(|(kind, key, what, _)| (*kind, key.clone(), (*what).to_owned())).collect()
    };
    assert_eq!(found(&objects), expected(&left), "{file}");
    for lacks in
        [Lacks::ExpiryAnnotation, Lacks::SelectorLabels, Lacks::ConflictFlag, Lacks::ClusterConfiguration]
    {
        complete(&mut objects, lacks);
        left.retain(|(_, _, _, why)| *why != lacks);
        if lacks == Lacks::ClusterConfiguration {
            // The Machines are right now; what is summed up over them was so from the start.
            left.retain(|(_, _, _, why)| *why != Lacks::UpToDateMachines);
        }
        assert_eq!(found(&objects), expected(&left), "{file} with {lacks:?}");
    }
    let all = computed(&objects);
    assert!(all.iter().all(|one| one.after["status"] == one.before["status"]), "{file}");
    assert_eq!(all.iter().filter_map(Computed::remark).collect::<Vec<_>>(), not_judged, "{file}");
}

#[test]
fn sample_healthy() {
    let check = "MachineHealthCheck default/prod-eu-workers is not judged: Nodes of Cluster default/prod-eu are not in the dump";
    agrees("01-healthy-ha.yaml", &[check]);
}

#[test]
fn sample_rollout() {
    agrees("02-md-rollout.yaml", &[]);
}

#[test]
fn sample_broken() {
    agrees("03-broken.yaml", &[]);
}

#[test]
fn sample_in_place() {
    agrees("04-classy-in-place.yaml", &[]);
}

fn args(files: Vec<PathBuf>, output: StatusOutputArg, diff: bool) -> StatusComputeArgs {
    StatusComputeArgs { files, workloads: Vec::new(), now: None, output, diff }
}

/// The command as people call it.
#[test]
fn the_command_shows_what_differs() {
    let Some(path) = sample("04-classy-in-place.yaml") else { return };
    let run = |output, diff| run(&args(vec![path.clone()], output, diff), now(), Style::default()).unwrap();
    let answer = run(StatusOutputArg::Yaml, true);
    assert!(answer.differs);
    let expected = "  certificatesExpiryDate  2027-07-20T13:01:00Z → absent\n";
    assert_eq!(answer.document.matches(expected).count(), 3, "{}", answer.document);
    let summary = "\n7 of 33 objects differ (1 ClusterClass, 1 KubeadmControlPlane, 2 MachineDeployments, 3 Machines); no rules for 1 ExtensionConfig\n";
    assert!(answer.document.ends_with(summary), "{}", answer.document);
    let extension = "as stored: Updating of Machine default/classy-md-0-tjz4h-9c5vx-r7tcp (what extensions answer is not in a dump)";
    assert!(answer.remarks.iter().any(|remark| remark == extension), "{:#?}", answer.remarks);
    let list: Value = serde_json::from_str(&run(StatusOutputArg::Json, false).document).unwrap();
    assert_eq!((list["kind"].as_str(), list["apiVersion"].as_str()), (Some("List"), Some("v1")));
    let stream: Vec<Value> =
        serde_saphyr::from_multiple(&run(StatusOutputArg::Yaml, false).document).unwrap();
    assert_eq!(Some(&stream), list["items"].as_array());
}

/// One cluster of each sort with its Machines, made up as a whole.
fn synthetic() -> Vec<Value> {
    Sample::parse("synthetic:clusters=3,machines=40,seed=7").unwrap().objects(now()).collect()
}

fn in_place(objects: &mut [Value], one: &Computed) {
    let same = |o: &&mut Value| {
        o["kind"] == one.kind.name()
            && o["metadata"]["name"] == one.key.name.as_str()
            && o["metadata"]["namespace"].as_str().unwrap_or("default") == one.key.namespace
    };
    if let Some(slot) = objects.iter_mut().find(same) {
        *slot = one.after.clone();
    }
}

/// Each object alone: what is above it in the dump is judged by what is stored.
fn again_changes_nothing<'a>(objects: &[Value], picked: impl Iterator<Item = &'a Computed>) {
    for one in picked {
        let mut world = objects.to_vec();
        in_place(&mut world, one);
        let again = computed(&world).into_iter().find(|c| (c.kind, &c.key) == (one.kind, &one.key)).unwrap();
        assert_eq!(again.after["status"], one.after["status"], "{} {}", one.kind.name(), one.key);
    }
}

#[test]
fn computing_a_status_again_changes_nothing() {
    let objects = synthetic();
    again_changes_nothing(&objects, computed(&objects).iter());
    // Of the samples the first of each kind, for the sake of time.
    for objects in samples() {
        let mut all = computed(objects);
        all.dedup_by_key(|one| one.kind);
        again_changes_nothing(objects, all.iter());
    }
}

#[test]
fn a_computed_status_fits_its_schema() {
    let schemas: Vec<(String, Schema)> = crds::all()
        .into_iter()
        .map(|definition| {
            let mut definition = json!(definition);
            crd::default(&mut definition);
            let kind = definition["spec"]["names"]["kind"].as_str().unwrap().to_owned();
            let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let schema = Schema::custom(&kind, "v1beta2", schema, "s").unwrap();
            (kind, schema)
        })
        .collect();
    let mut checked = 0;
    for one in
        computed(&synthetic()).into_iter().chain(samples().iter().flat_map(|objects| computed(objects)))
    {
        let Some((_, schema)) = schemas.iter().find(|(kind, _)| kind == one.kind.name()) else { continue };
        let mut object = one.after;
        let what = format!("{} {}", one.kind.name(), one.key);
        assert_eq!(schema.decode(&mut object), Ok(Vec::new()), "{what}");
        assert_eq!(schema.validate(&object, None), Vec::<Cause>::new(), "{what}");
        checked += 1;
    }
    assert!(checked > 40, "{checked} objects");
}

/// A generator of its own: one number decides everything.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % sides.max(1) as u64).unwrap()
    }

    /// Puts something odd somewhere into a value.
    fn spoil(&mut self, value: &mut Value) {
        let deeper = self.roll(8) > 0;
        match value {
            Value::Object(map) if deeper && !map.is_empty() => {
                let at = self.roll(map.len());
                let key = map.keys().nth(at).unwrap().clone();
                if self.roll(12) == 0 {
                    map.remove(&key);
                } else {
                    self.spoil(map.get_mut(&key).unwrap());
                }
            }
            Value::Array(list) if deeper && !list.is_empty() => {
                let at = self.roll(list.len());
                if self.roll(6) == 0 {
                    list.push(list[at].clone());
                } else {
                    self.spoil(&mut list[at]);
                }
            }
            _ => *value = self.odd(),
        }
    }

    fn odd(&mut self) -> Value {
        let values = [
            json!(null),
            json!(true),
            json!(-1),
            json!(i32::MAX),
            json!(i32::MIN),
            json!(i64::MAX),
            json!(1.5),
            json!(""),
            json!("v99999999999999999999.1"),
            json!("v1.34.1+b.a"),
            json!("Perhaps"),
            json!("True"),
            json!("2999-01-01T00:00:00Z"),
            json!("0001-01-01T00:00:00Z"),
            json!("2147483647%"),
            json!("* a\n * b *\tc"),
            json!([]),
            json!({}),
        ];
        values[self.roll(values.len())].clone()
    }
}

/// The four samples; none without the shared folder. Read once.
fn samples() -> &'static [Vec<Value>] {
    static SAMPLES: OnceLock<Vec<Vec<Value>>> = OnceLock::new();
    let files = ["01-healthy-ha.yaml", "02-md-rollout.yaml", "03-broken.yaml", "04-classy-in-place.yaml"];
    SAMPLES.get_or_init(|| {
        let texts =
            files.iter().filter_map(|file| sample(file)).map(|path| std::fs::read_to_string(path).unwrap());
        texts.map(|text| serde_saphyr::from_multiple::<Value>(&text).unwrap()).collect()
    })
}

/// Odd values in odd places, objects twice, owners that are owned by what they own.
fn spoiled(mut objects: Vec<Value>, dice: &mut Dice, blows: usize) -> Vec<Value> {
    for _ in 0..blows {
        let at = dice.roll(objects.len());
        match dice.roll(8) {
            0 => objects.push(objects[at].clone()),
            1 => {
                let other = dice.roll(objects.len());
                let owner = json!([{"apiVersion": objects[other]["apiVersion"], "kind": objects[other]["kind"],
                    "name": objects[other]["metadata"]["name"], "uid": objects[other]["metadata"]["uid"], "controller": true}]);
                if objects[at]["metadata"].is_object() {
                    objects[at]["metadata"]["ownerReferences"] = owner;
                }
            }
            _ => dice.spoil(&mut objects[at]),
        }
    }
    objects
}

/// Whatever came in, statuses come out whose conditions have a type and one of three values.
fn assert_sound(objects: &[Value]) -> Result<(), TestCaseError> {
    for one in &computed(objects) {
        if one.left.is_some() || !one.differs() {
            continue;
        }
        for c in one.after["status"]["conditions"].as_array().into_iter().flatten() {
            prop_assert!(c["type"].is_string(), "{} {}: {c}", one.kind.name(), one.key);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_dump_makes_it_panic(seed in any::<u64>(), blows in 1_usize..12) {
        let objects = Sample::parse("synthetic:clusters=1,machines=6,seed=3").unwrap().objects(now()).collect();
        assert_sound(&spoiled(objects, &mut Dice(seed), blows))?;
    }

    #[test]
    fn no_spoiled_sample_makes_it_panic(seed in any::<u64>(), which in 0_usize..4, blows in 1_usize..60) {
        if let Some(objects) = samples().get(which) {
            assert_sound(&spoiled(objects.clone(), &mut Dice(seed), blows))?;
        }
    }

    #[test]
    fn the_order_of_the_objects_does_not_matter(seed in any::<u64>()) {
        let objects = synthetic();
        let mut shuffled = objects.clone();
        let mut dice = Dice(seed);
        for at in (1..shuffled.len()).rev() {
            let other = dice.roll(at + 1);
            shuffled.swap(at, other);
        }
        prop_assert_eq!(computed(&objects), computed(&shuffled));
    }
}
