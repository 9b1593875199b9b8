//! Is a KubeadmConfig what its control plane wants? Compares documents, not text: what upstream
//! ignores is ignored, what it defaults is defaulted, and every difference has a path. Must not
//! know Machines or decide what follows from a difference.
//! Source: cluster-api `controlplane/kubeadm/pkg/filters.go` (`matchesKubeadmConfig`) and
//! `pkg/desiredstate/desired_state.go`, v1.14.2.

use serde_json::{Map, Value, json};

use crate::status::fields::{self, FieldDifference};
use k8s_machinery::version::wants_kubelet_local_mode;

/// Subtrees whose values may hold credentials: a difference there is named but not shown.
pub const HIDDEN: [&str; 4] =
    ["files", "users", "initConfiguration.bootstrapTokens", "joinConfiguration.discovery"];

/// The KubeadmConfig spec of the first Machine: `joinConfiguration` cleared.
/// `spec` is `kubeadmConfigSpec` of the control plane as JSON; `version` its Kubernetes version.
pub fn desired_init(spec: &Value, version: &str) -> Value {
    let mut desired = object(spec);
    desired.remove("joinConfiguration");
    default_feature_gate(&mut desired, version);
    Value::Object(desired)
}

/// The KubeadmConfig spec of every further Machine: `initConfiguration` cleared and
/// `joinConfiguration.controlPlane` present, by which a join is recognised later.
pub fn desired_join(spec: &Value, version: &str) -> Value {
    let mut desired = object(spec);
    desired.remove("initConfiguration");
    let join = desired.entry("joinConfiguration").or_insert_with(|| json!({}));
    if let Some(join) = join.as_object_mut() {
        join.entry("controlPlane").or_insert_with(|| json!({}));
    }
    default_feature_gate(&mut desired, version);
    Value::Object(desired)
}

/// `ControlPlaneKubeletLocalMode` from 1.31 up to 1.35, unless the user set it.
fn default_feature_gate(spec: &mut Map<String, Value>, version: &str) {
    if !wants_kubelet_local_mode(version) {
        return;
    }
    let configuration = spec.entry("clusterConfiguration").or_insert_with(|| json!({}));
    let gates = configuration.as_object_mut().map(|c| c.entry("featureGates").or_insert_with(|| json!({})));
    if let Some(gates) = gates.and_then(Value::as_object_mut) {
        gates.entry("ControlPlaneKubeletLocalMode").or_insert(Value::Bool(true));
    }
}

/// Where `live` (the spec of a Machine's KubeadmConfig) differs from what the control plane's
/// `kubeadmConfigSpec` yields. Empty when it matches. A live init configuration matches when it
/// equals either the desired join configuration (its fields moved over) or the desired init one;
/// the differences reported are those to the join form, which a replacement would get.
pub fn differences(live: &Value, spec: &Value, version: &str) -> Vec<FieldDifference> {
    let desired = normalised(desired_join(spec, version));
    let as_join = normalised(join_form(live, &desired));
    let found = fields::differences(&as_join, &desired, &HIDDEN);
    // Only the first Machine has an init configuration, which need not equal any join form.
    if found.is_empty() || is_join(live) {
        return found;
    }
    if normalised(live.clone()) == normalised(desired_init(spec, version)) { Vec::new() } else { found }
}

/// The two sides of a comparison as an extension gets them: the live spec in join form, and the desired one. What is
/// not compared is the same on both sides, or left out. Source: `PrepareKubeadmConfigsForDiff`.
pub fn prepared(live: &Value, spec: &Value, version: &str) -> [Value; 2] {
    let desired = desired_join(spec, version);
    let mut current = join_form(live, &desired);
    for field in ["controlPlaneEndpoint", "dns"] {
        let path = format!("/clusterConfiguration/{field}");
        remove(&mut current, &path);
        if let (Some(value), Some(current)) = (desired.pointer(&path), current.as_object_mut()) {
            // Upstream copies these from the desired side: nothing on the host follows them.
            current.entry("clusterConfiguration").or_insert_with(|| json!({}))[field] = value.clone();
        }
    }
    [current, desired].map(|mut config| {
        remove(&mut config, "/joinConfiguration/discovery");
        remove(&mut config, "/joinConfiguration/timeouts/controlPlaneComponentHealthCheckSeconds");
        collapse("", &mut config);
        // As admission fills it in: in both, whichever of them counts.
        for half in ["initConfiguration", "joinConfiguration"] {
            let policy = &mut config[half]["nodeRegistration"]["imagePullPolicy"];
            if policy.is_null() {
                *policy = json!("IfNotPresent");
            }
        }
        let join = &mut config["joinConfiguration"];
        if join["controlPlane"].is_null() {
            join["controlPlane"] = json!({});
        }
        if config["format"].is_null() {
            config["format"] = json!("cloud-config");
        }
        config
    })
}

/// Machines that joined under Cluster API 1.11 may have no `controlPlane` there: only the first Machine has an init configuration.
/// Source: cluster-api pull request 14167, release-1.14.
fn is_join(config: &Value) -> bool {
    let is_there = |path: &str| config.pointer(path).is_some_and(|value| !value.is_null());
    is_there("/joinConfiguration/controlPlane")
        || (is_there("/joinConfiguration") && !is_there("/initConfiguration"))
}

/// An init configuration rewritten as the join configuration with the same effect.
fn join_form(live: &Value, desired: &Value) -> Value {
    if is_join(live) {
        return live.clone();
    }
    let mut form = object(live);
    let init = form.remove("initConfiguration").unwrap_or(Value::Null);
    let mut join = Map::new();
    // Both forms share these only; the rest of init is used once, at the first boot.
    for field in ["timeouts", "patches", "skipPhases", "nodeRegistration"] {
        if let Some(value) = init.get(field) {
            join.insert(field.to_owned(), value.clone());
        }
    }
    let endpoint =
        init.get("localAPIEndpoint").map_or_else(|| json!({}), |e| json!({ "localAPIEndpoint": e }));
    join.insert("controlPlane".to_owned(), endpoint);
    // Init has no such field, so any desired value counts as there.
    if let Some(path) = desired.pointer("/joinConfiguration/caCertPath") {
        join.insert("caCertPath".to_owned(), path.clone());
    }
    form.insert("joinConfiguration".to_owned(), Value::Object(join));
    Value::Object(form)
}

/// Without what is ignored, what is a default, and what is empty.
fn normalised(mut config: Value) -> Value {
    for path in [
        // Endpoint and discovery are filled in when the data is made; CoreDNS follows without a
        // replacement.
        "/clusterConfiguration/controlPlaneEndpoint",
        "/clusterConfiguration/dns",
        "/joinConfiguration/discovery",
        "/initConfiguration/timeouts/controlPlaneComponentHealthCheckSeconds",
        "/joinConfiguration/timeouts/controlPlaneComponentHealthCheckSeconds",
    ] {
        remove(&mut config, path);
    }
    for (path, default) in [
        ("/format", "cloud-config"),
        ("/initConfiguration/nodeRegistration/imagePullPolicy", "IfNotPresent"),
        ("/joinConfiguration/nodeRegistration/imagePullPolicy", "IfNotPresent"),
    ] {
        if config.pointer(path).and_then(Value::as_str) == Some(default) {
            remove(&mut config, path);
        }
    }
    collapse("", &mut config);
    config
}

fn remove(value: &mut Value, path: &str) {
    if let Some((parent, field)) = path.rsplit_once('/')
        && let Some(map) = value.pointer_mut(parent).and_then(Value::as_object_mut)
    {
        map.remove(field);
    }
}

/// Empty and absent are the same, but for taints (none wanted is not "kubeadm's default") and the
/// endpoints of an external etcd.
fn collapse(field: &str, value: &mut Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => {
            map.retain(|field, child| !collapse(field, child));
            map.is_empty()
        }
        Value::Array(items) => {
            for item in items.iter_mut() {
                collapse("", item);
            }
            items.is_empty() && !matches!(field, "taints" | "endpoints")
        }
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "v1.36.0";

    /// Paths that differ between a Machine's config and what the control plane wants.
    fn check(live: Value, spec: Value, expected: &[&str]) {
        let paths: Vec<String> = differences(&live, &spec, VERSION).into_iter().map(|d| d.path).collect();
        assert_eq!(paths, expected, "live {live}, wanted {spec}");
    }

    #[test]
    fn a_join_config_matches_what_it_was_made_from() {
        let spec = json!({ "clusterConfiguration": { "imageRepository": "r" }, "joinConfiguration": {} });
        check(desired_join(&spec, VERSION), spec.clone(), &[]);
        check(desired_init(&spec, VERSION), spec, &[]);
    }

    /// It was taken for an init config, and its Machine was replaced.
    #[test]
    fn a_join_config_without_a_control_plane_is_one() {
        let registration = json!({ "criSocket": "unix:///x" });
        let spec = json!({
            "initConfiguration": { "nodeRegistration": registration },
            "joinConfiguration": { "nodeRegistration": registration },
        });
        let joined = json!({ "joinConfiguration": { "nodeRegistration": registration, "discovery": {} } });
        check(joined.clone(), spec, &[]);
        let wanted = json!({ "joinConfiguration": { "nodeRegistration": { "criSocket": "unix:///y" } } });
        check(joined, wanted, &["joinConfiguration.nodeRegistration.criSocket"]);
    }

    #[test]
    fn an_init_config_is_compared_in_join_form_first_then_as_init() {
        let registration = json!({ "criSocket": "unix:///x" });
        let spec = json!({
            "initConfiguration": { "nodeRegistration": registration },
            "joinConfiguration": { "nodeRegistration": registration, "caCertPath": "/ca" },
        });
        check(desired_init(&spec, VERSION), spec, &[]);
        // Only the init form is configured: the live init config differs as a join, equals as an init.
        let spec = json!({ "initConfiguration": { "nodeRegistration": registration } });
        check(desired_init(&spec, VERSION), spec, &[]);
        let spec = json!({ "joinConfiguration": { "nodeRegistration": { "name": "new" } } });
        check(
            json!({ "initConfiguration": { "nodeRegistration": { "name": "old" } } }),
            spec,
            &["joinConfiguration.nodeRegistration.name"],
        );
    }

    #[test]
    fn ignored_fields_and_defaults_do_not_differ() {
        check(
            json!({
                "format": "cloud-config",
                "clusterConfiguration": { "controlPlaneEndpoint": "10.0.0.1:6443", "dns": { "imageTag": "v1" } },
                "joinConfiguration": {
                    "controlPlane": {},
                    "discovery": { "bootstrapToken": { "token": "t" } },
                    "nodeRegistration": { "imagePullPolicy": "IfNotPresent" },
                    "timeouts": { "controlPlaneComponentHealthCheckSeconds": 240 },
                },
            }),
            json!({}),
            &[],
        );
    }

    #[test]
    fn both_sides_for_an_extension_differ_only_where_a_machine_does() {
        let spec = json!({
            "clusterConfiguration": {"dns": {"imageTag": "v2"}, "imageRepository": "new"},
            "joinConfiguration": {"nodeRegistration": {"name": "n"}},
        });
        let live = json!({
            "clusterConfiguration": {"controlPlaneEndpoint": "h:6443", "dns": {"imageTag": "v1"}},
            "initConfiguration": {"nodeRegistration": {"name": "n"}, "localAPIEndpoint": {"bindPort": 1}},
        });
        let [current, desired] = prepared(&live, &spec, VERSION);
        assert_eq!(
            desired,
            json!({
                "clusterConfiguration": {"dns": {"imageTag": "v2"}, "imageRepository": "new"},
                "format": "cloud-config",
                "initConfiguration": {"nodeRegistration": {"imagePullPolicy": "IfNotPresent"}},
                "joinConfiguration": {
                    "controlPlane": {}, "nodeRegistration": {"name": "n", "imagePullPolicy": "IfNotPresent"},
                },
            })
        );
        let found: Vec<_> =
            fields::differences(&current, &desired, &[]).into_iter().map(|d| d.path).collect();
        assert_eq!(
            found,
            [
                "clusterConfiguration.imageRepository",
                "joinConfiguration.controlPlane.localAPIEndpoint.bindPort"
            ]
        );
        let joined = json!({"joinConfiguration": {
            "controlPlane": {}, "discovery": {"bootstrapToken": {"token": "secret"}}}});
        let [current, desired] = prepared(&joined, &json!({}), VERSION);
        assert_eq!(current, desired, "a token does not leave the process");
    }

    #[test]
    fn empty_is_absent_except_for_taints() {
        check(json!({ "joinConfiguration": { "controlPlane": {} }, "files": [] }), json!({}), &[]);
        check(
            json!({ "joinConfiguration": { "controlPlane": {}, "nodeRegistration": { "taints": [] } } }),
            json!({}),
            &["joinConfiguration.nodeRegistration.taints"],
        );
    }

    #[test]
    fn differences_carry_values_unless_they_may_be_secret() {
        let live = json!({
            "joinConfiguration": { "controlPlane": {} },
            "clusterConfiguration": { "imageRepository": "old" },
            "files": [{ "path": "/a", "content": "s3cret" }],
        });
        let found =
            differences(&live, &json!({ "clusterConfiguration": { "imageRepository": "new" } }), VERSION);
        assert_eq!(found[0].to_string(), r#"clusterConfiguration.imageRepository: "old" → "new""#);
        assert_eq!(found[1].to_string(), "files: changed (values not shown)");
    }

    #[test]
    fn the_feature_gate_follows_the_version() {
        let gate = "/clusterConfiguration/featureGates/ControlPlaneKubeletLocalMode";
        assert_eq!(desired_join(&json!({}), "v1.34.0").pointer(gate), Some(&Value::Bool(true)));
        assert_eq!(desired_join(&json!({}), "v1.36.0").pointer(gate), None);
        let off =
            json!({ "clusterConfiguration": { "featureGates": { "ControlPlaneKubeletLocalMode": false } } });
        assert_eq!(desired_init(&off, "v1.34.0").pointer(gate), Some(&Value::Bool(false)));
    }
}
