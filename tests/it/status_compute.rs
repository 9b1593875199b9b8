//! `status compute` over whole dumps: what it makes of the samples, and what holds for any dump.

use std::path::{Path, PathBuf};

use capstan::api::crds;
use capstan::apiserver::failure::cause::Cause;
use capstan::apiserver::schema::{Schema, crd};
use capstan::cli::args::{StatusComputeArgs, StatusOutputArg};
use capstan::cli::status_compute::compute::{Computed, all};
use capstan::cli::status_compute::dump::{Document, Dump};
use capstan::cli::status_compute::run;
use capstan::sim::scenario::Scenario;
use capstan::time::{Timestamp, parse_rfc3339};
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
    let documents = objects.iter().map(|value| Document { value: value.clone(), workload: None });
    all(&Dump::new(documents.collect()), now())
}

/// What is missing in the samples' inputs, so that a status made from them cannot be the stored one.
fn completed(mut objects: Vec<Value>) -> Vec<Value> {
    let planes: Vec<Value> = objects.iter().filter(|o| o["kind"] == "KubeadmControlPlane").cloned().collect();
    let cluster = |o: &Value| o["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"].clone();
    for object in &mut objects {
        let expiry = object["status"]["certificatesExpiryDate"].clone();
        match object["kind"].as_str() {
            // The date is read from the API server's certificate into an annotation, which they lack.
            Some("Machine") if expiry.is_string() => {
                object["metadata"]["annotations"]["machine.cluster.x-k8s.io/certificates-expiry"] = expiry;
            }
            // A control plane's configs carry its cluster configuration, with the defaulted feature gate
            // before 1.36, and no bind port that it does not ask for.
            Some("KubeadmConfig") if !object["spec"]["joinConfiguration"]["controlPlane"].is_null() => {
                let plane = planes.iter().find(|p| cluster(p) == cluster(object)).unwrap();
                object["spec"]["joinConfiguration"]["controlPlane"] = json!({});
                let mut configuration = plane["spec"]["kubeadmConfigSpec"]["clusterConfiguration"].clone();
                if plane["spec"]["version"].as_str().unwrap() < "v1.36" {
                    configuration["featureGates"] = json!({"ControlPlaneKubeletLocalMode": true});
                }
                object["spec"]["clusterConfiguration"] = configuration;
            }
            // The stored text leaves out half of the labels that the spec selects by.
            Some("MachineDeployment")
                if object["metadata"]["name"].as_str().unwrap().starts_with("classy") =>
            {
                let labels = object["spec"]["selector"]["matchLabels"].as_object().unwrap();
                let text: Vec<String> =
                    labels.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap())).collect();
                object["status"]["selector"] = text.join(",").into();
            }
            _ => {}
        }
    }
    objects
}

/// Every stored status of a sample is the computed one; what could not be judged is listed.
fn agrees(file: &str, left: &[&str]) {
    let Some(path) = sample(file) else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let objects = completed(serde_saphyr::from_multiple::<Value>(&text).unwrap());
    let all = computed(&objects);
    for one in &all {
        let what = format!("{file}: {} {}", one.kind.name(), one.key);
        assert_eq!(one.after["status"], one.before["status"], "{what}");
    }
    assert!(all.len() > 20, "{} objects", all.len());
    assert_eq!(all.iter().filter_map(Computed::remark).collect::<Vec<_>>(), left, "{file}");
}

#[test]
fn sample_healthy() {
    let check = "MachineHealthCheck default/prod-eu-workers keeps its status: there is no connection to the workload cluster";
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

/// The command as people call it: samples as they are differ where their inputs are incomplete.
#[test]
fn the_command_shows_what_differs() {
    let Some(path) = sample("04-classy-in-place.yaml") else { return };
    let mut args = StatusComputeArgs {
        files: vec![path],
        workloads: Vec::new(),
        now: None,
        output: StatusOutputArg::Json,
        diff: true,
        exit_status: false,
    };
    let answer = run(&args, now()).unwrap();
    assert!(answer.differs);
    let expected = "  status.certificatesExpiryDate: \"2027-07-20T13:01:00Z\" → absent\n";
    assert_eq!(answer.document.matches(expected).count(), 3, "{}", answer.document);
    args.diff = false;
    let list: Value = serde_json::from_str(&run(&args, now()).unwrap().document).unwrap();
    assert_eq!(list["kind"], "List");
    args.output = StatusOutputArg::Yaml;
    let stream: Vec<Value> = serde_saphyr::from_multiple(&run(&args, now()).unwrap().document).unwrap();
    assert_eq!(Some(&stream), list["items"].as_array());
    args.files = vec!["no/such/file.yaml".into()];
    assert!(run(&args, now()).unwrap_err().to_string().starts_with("cannot read no/such/file.yaml"));
}

/// One cluster of each sort with its Machines, made up as a whole.
fn synthetic() -> Vec<Value> {
    Scenario::parse("synthetic:clusters=3,machines=40,seed=7").unwrap().objects(now()).collect()
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

#[test]
fn computing_a_status_again_changes_nothing() {
    let objects = synthetic();
    for one in computed(&objects) {
        let mut world = objects.clone();
        in_place(&mut world, &one);
        let again = computed(&world).into_iter().find(|c| (c.kind, &c.key) == (one.kind, &one.key)).unwrap();
        assert_eq!(again.after["status"], one.after["status"], "{} {}", one.kind.name(), one.key);
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
    let files = ["01-healthy-ha.yaml", "02-md-rollout.yaml", "03-broken.yaml", "04-classy-in-place.yaml"];
    let samples = files.iter().filter_map(|file| sample(file)).flat_map(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        serde_saphyr::from_multiple::<Value>(&text).unwrap()
    });
    let mut checked = 0;
    for one in computed(&synthetic()).into_iter().chain(computed(&samples.collect::<Vec<_>>())) {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_dump_makes_it_panic(seed in any::<u64>(), blows in 1_usize..12) {
        let mut objects: Vec<Value> =
            Scenario::parse("synthetic:clusters=1,machines=6,seed=3").unwrap().objects(now()).collect();
        let mut dice = Dice(seed);
        for _ in 0..blows {
            let at = dice.roll(objects.len());
            match dice.roll(8) {
                // Twice the same name, or an owner that is owned by what it owns.
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
        let forwards = computed(&objects);
        for one in &forwards {
            for c in one.after["status"]["conditions"].as_array().into_iter().flatten() {
                prop_assert!(c["type"].is_string(), "{} {}: {c}", one.kind.name(), one.key);
            }
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
