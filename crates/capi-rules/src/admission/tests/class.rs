//! Rules of ClusterClass and its patches.

use serde_json::{Value, json};

use super::{Row, annotation, create, good, patched, update};

const CC: &str = "ClusterClass";

pub fn rows() -> Vec<Row> {
    [templates(), parts(), versions(), uses(), patch_frames(), patch_changes(), patch_selectors()]
        .into_iter()
        .flatten()
        .collect()
}

/// The first member of a list of workers, changed.
fn worker(list: &str, patch: &Value) -> Value {
    let mut member = good(CC)["spec"]["workers"][list][0].clone();
    json_patch::merge(&mut member, patch);
    json!({"spec": {"workers": {list: [member]}}})
}

fn templates() -> Vec<Row> {
    let infrastructure = |reference: Value| json!({"spec": {"infrastructure": {"templateRef": reference}}});
    let twice = |list: &str| {
        let member = good(CC)["spec"]["workers"][list][0].clone();
        json!({"spec": {"workers": {list: [member, member]}}})
    };
    vec![
        create(
            "CC-1",
            CC,
            infrastructure(json!({"name": null})),
            "spec.infrastructure.ref.name: Required value: template name must be defined",
        ),
        create(
            "CC-2",
            CC,
            json!({"spec": {"controlPlane": {"templateRef": {"kind": "Template"}}}}),
            "spec.controlPlane.ref.kind: Invalid value: \"Template\": template kind must be of form \"<name>Template\"",
        ),
        create(
            "CC-3",
            CC,
            json!({"spec": {"controlPlane": {"machineInfrastructure": {"templateRef": {"apiVersion": "a/b/c"}}}}}),
            "spec.controlPlane.machineInfrastructure.ref.apiVersion: Invalid value: \"a/b/c\": template apiVersion must be \
             a valid Kubernetes apiVersion: unexpected GroupVersion string: a/b/c",
        ),
        create(
            "CC-4",
            CC,
            worker("machineDeployments", &json!({"bootstrap": {"templateRef": {"apiVersion": null}}})),
            "spec.workers.machineDeployments[0].template.bootstrap.ref.apiVersion: Required value: template apiVersion \
             must be defined",
        ),
        create(
            "CC-5",
            CC,
            twice("machineDeployments"),
            "spec.workers.machineDeployments[1].class: Invalid value: \"w\": MachineDeployment class must be unique. \
             MachineDeployment with class \"w\" is defined more than once",
        ),
        create(
            "CC-5",
            CC,
            twice("machinePools"),
            "spec.workers.machinePools[1].class: Invalid value: \"p\": MachinePool class must be unique. MachinePool with \
             class \"p\" is defined more than once",
        ),
    ]
}

fn parts() -> Vec<Row> {
    let check = json!({"checks": {"nodeStartupTimeoutSeconds": 29}});
    vec![
        create(
            "MD-10",
            CC,
            worker(
                "machineDeployments",
                &json!({"rollout": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}}),
            ),
            "spec.workers.machineDeployments[w].rollout.strategy.rollingUpdate: Invalid value: \"0\": maxUnavailable and \
             maxSurge cannot both be 0",
        ),
        create(
            "CC-6",
            CC,
            json!({"spec": {"controlPlane": {
                "machineInfrastructure": null, "healthCheck": {"checks": {"nodeStartupTimeoutSeconds": 30}},
            }}}),
            "spec.controlPlane.healthCheck: Forbidden: can be only set if spec.controlPlane.machineInfrastructure is set",
        ),
        create(
            "MHC-5",
            CC,
            worker("machineDeployments", &json!({ "healthCheck": check })),
            "spec.workers.machineDeployments[w].healthCheck.checks.nodeStartupTimeoutSeconds: Invalid value: 29: must be \
             at least 30s",
        ),
        create(
            "CC-7",
            CC,
            json!({"spec": {"infrastructure": {"naming": {"template": "{{ .cluster.x }}"}}}}),
            "spec.infrastructure.naming.template: Invalid value: \"{{ .cluster.x }}\": invalid InfraCluster name template: \
             rendering template: template: template name generator:1:11: executing \"template name generator\" at \
             <.cluster.x>: map has no entry for key \"x\"",
        ),
        create(
            "CC-7",
            CC,
            worker("machinePools", &json!({"naming": {"template": "{{ .machinePool.topologyName"}})),
            "spec.workers.machinePools[p].naming.template: Invalid value: \"{{ .machinePool.topologyName\": invalid \
             MachinePool name template: parsing template \"{{ .machinePool.topologyName\": template: template name \
             generator:1: unclosed action",
        ),
        create(
            "CC-8",
            CC,
            json!({"spec": {"controlPlane": {"naming": {"template": "A-{{ .cluster.name }}"}}}}),
            "spec.controlPlane.naming.template: Invalid value: \"A-{{ .cluster.name }}\": a lowercase RFC 1123 subdomain \
             must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric \
             character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
        create(
            "TA-4",
            CC,
            worker("machinePools", &json!({"taints": [{"key": "node-role.kubernetes.io/master"}]})),
            "spec.workers.machinePools[p].taints[0].key: Invalid value: \"node-role.kubernetes.io/master\": taint is \
             deprecated since 1.24 and should not be used anymore",
        ),
        create(
            "ME-3",
            CC,
            worker("machineDeployments", &json!({"metadata": {"annotations": {"/a": "x"}}})),
            "spec.workers.machineDeployments[w].template.metadata.annotations: Invalid value: \"/a\": prefix part must be \
             non-empty",
        ),
    ]
}

fn versions() -> Vec<Row> {
    let versions = |list: Value| json!({"spec": {"kubernetesVersions": list}});
    vec![
        create(
            "CC-14",
            CC,
            versions(json!(["v1.33.0", "x"])),
            "spec.kubernetesVersion[1]: Invalid value: \"x\": version must be a valid semantic version",
        ),
        create(
            "CC-15",
            CC,
            versions(json!(["v1.33.1", "v1.33.0"])),
            "spec.kubernetesVersion[1]: Invalid value: \"v1.33.0\": version must be greater than v1.33.1",
        ),
        create(
            "CC-16",
            CC,
            versions(json!(["v1.33.1", "v1.35.0"])),
            "spec.kubernetesVersion[1]: Invalid value: \"v1.35.0\": expecting a version with minor 33 or 34, found version \
             1.35.0",
        ),
        update(
            "CC-17",
            CC,
            json!({"spec": {"controlPlane": {"templateRef": {"apiVersion": "other/v1"}}}}),
            "spec.controlPlane.templateRef.apiVersion: Forbidden: group of apiVersion cannot be changed from \
             \"controlplane.cluster.x-k8s.io\" to \"other\" to prevent incompatible changes in the Clusters",
        ),
        update(
            "CC-18",
            CC,
            worker("machinePools", &json!({"infrastructure": {"templateRef": {"kind": "OtherTemplate"}}})),
            "spec.workers.machinePools[0].infrastructure.templateRef.kind: Forbidden: kind cannot be changed from \
             \"DevMachineTemplate\" to \"OtherTemplate\" to prevent incompatible changes in the Clusters",
        ),
    ]
}

fn uses() -> Vec<Row> {
    let cluster = |patch: Value| patched("Cluster", &patch);
    let health = json!({"checks": {"nodeStartupTimeoutSeconds": 30}});
    let relies = |deployment: Value, plane: Value| {
        let deployment = json!({"class": "w", "name": "md", "healthCheck": deployment});
        cluster(json!({"spec": {"topology": {
            "controlPlane": {"healthCheck": plane}, "workers": {"machineDeployments": [deployment]},
        }}}))
    };
    let on = json!({"enabled": true});
    vec![
        update(
            "CC-19",
            CC,
            json!({"spec": {"kubernetesVersions": ["v1.35.0"]}}),
            "spec.kubernetesVersions: Forbidden: Kubernetes Version v1.34.0 is used by Cluster \"it\" but not set in \
             ClusterClass",
        )
        .with([good("Cluster")]),
        update(
            "CC-20",
            CC,
            json!({"spec": {"workers": {"machineDeployments": null}}}),
            "spec.workers.machineDeployments: Forbidden: MachineDeploymentClass \"w\" cannot be deleted because it is used \
             by Cluster \"it\"",
        )
        .with([good("Cluster")]),
        update(
            "CC-20",
            CC,
            json!({"spec": {"workers": {"machinePools": []}}}),
            "spec.workers.machinePools: Forbidden: MachinePoolClass \"p\" cannot be deleted because it is used by Cluster \
             \"it\"",
        )
        .with([cluster(json!({"spec": {"topology": {"workers": {"machinePools": [{"class": "p", "name": "mp"}]}}}}))]),
        super::change(
            "CC-21",
            CC,
            json!({"spec": {"controlPlane": {"healthCheck": health}}}),
            json!({}),
            "spec.controlPlane.healthCheck: Forbidden: healthCheck cannot be deleted because it is used by Cluster(s) \
             \"it\"",
        )
        .with([relies(json!({}), on.clone())]),
        super::change(
            "CC-22",
            CC,
            worker("machineDeployments", &json!({ "healthCheck": health })),
            json!({}),
            "spec.workers.machineDeployments[w].healthCheck: Forbidden: healthCheck cannot be deleted because it is used \
             by Cluster(s) \"it\"",
        )
        .with([relies(on, json!({}))]),
        update(
            "CC-23",
            CC,
            worker("machineDeployments", &json!({"metadata": {"annotations": {annotation::AUTOSCALER_MIN_SIZE: "1"}}})),
            "spec.topology.workers.machineDeployments[md].replicas: Invalid value: 1: cannot be set for cluster \"it\" in \
             namespace \"ns\" if the source class \"w\" of this MachineDeploymentTopology has autoscaler annotations",
        )
        .with([cluster(json!({"spec": {"topology": {"workers": {
            "machineDeployments": [{"class": "w", "name": "md", "replicas": 1}],
        }}}}))]),
    ]
}

/// A class with one patch: a good one, changed.
fn with_patch(patch: &Value) -> Value {
    let mut whole = json!({"name": "a", "definitions": [definition(json!({}), json!({}))]});
    json_patch::merge(&mut whole, patch);
    json!({"spec": {"patches": [whole], "variables": [{"name": "v"}]}})
}

/// A good definition, its change and its selector changed.
fn definition(change: Value, selector: Value) -> Value {
    let mut definition = json!({
        "jsonPatches": [{"op": "add", "path": "/spec/x/-", "valueFrom": {"variable": "v.part"}}],
        "selector": {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachineTemplate",
            "matchResources": {"machineDeploymentClass": {"names": ["*"]}},
        },
    });
    json_patch::merge(&mut definition["jsonPatches"][0], &change);
    json_patch::merge(&mut definition["selector"], &selector);
    definition
}

fn patch_frames() -> Vec<Row> {
    let patch = json!({"name": "a", "definitions": [definition(json!({}), json!({}))]});
    vec![
        create(
            "CC-9",
            CC,
            with_patch(&json!({"name": ""})),
            "spec.patches[0].name: Required value: patch name must be defined",
        ),
        create(
            "CC-10",
            CC,
            with_patch(&json!({"name": "inline"})),
            "spec.patches[0].name: Required value: \"inline\" can not be used as the name of a patch",
        ),
        create(
            "CC-11",
            CC,
            json!({"spec": {"patches": [patch, patch], "variables": [{"name": "v"}]}}),
            "spec.patches[1].name: Invalid value: \"a\": patch names must be unique. Patch with name \"a\" is defined more \
             than once",
        ),
        create(
            "CC-12",
            CC,
            with_patch(&json!({"definitions": null})),
            "spec.patches[0]: Required value: one of definitions or external must be defined",
        ),
        create(
            "CC-12",
            CC,
            with_patch(&json!({"definitions": [], "external": {"generatePatchesExtension": "x"}})),
            "spec.patches[0]: Invalid value: {\"definitions\":[],\"external\":{\"generatePatchesExtension\":\"x\"},\
             \"name\":\"a\"}: only one of definitions or external can be defined",
        ),
        create(
            "CC-13",
            CC,
            with_patch(&json!({"definitions": null, "external": {"settings": {"a": "b"}}})),
            "spec.patches[0].external: Invalid value: {\"settings\":{\"a\":\"b\"}}: one of validateTopologyExtension and \
             generatePatchesExtension must be defined",
        ),
    ]
}

fn patch_changes() -> Vec<Row> {
    let change = |change: Value| with_patch(&json!({"definitions": [definition(change, json!({}))]}));
    vec![
        create(
            "CP-1",
            CC,
            change(json!({"op": "move", "valueFrom": null})),
            "spec.patches[0].definitions[0].jsonPatches[0].op: Unsupported value: \
             \"{\\n  \\\"op\\\": \\\"move\\\",\\n  \\\"path\\\": \\\"/spec/x/-\\\"\\n}\": supported values: \"add\", \
             \"remove\", \"replace\"",
        ),
        create(
            "CP-2",
            CC,
            change(json!({"op": "remove", "path": "/status", "valueFrom": null})),
            "spec.patches[0].definitions[0].jsonPatches[0].path: Invalid value: \
             \"{\\n  \\\"op\\\": \\\"remove\\\",\\n  \\\"path\\\": \\\"/status\\\"\\n}\": jsonPatch path must start with \
             \"/spec\"",
        ),
        create(
            "CP-3",
            CC,
            change(json!({"path": "/spec/x/1"})),
            "spec.patches[0].definitions[0].jsonPatches[0].path: Invalid value: \"/spec/x/1\": arrays can only be accessed \
             using \"0\" (prepend) or \"-\" (append)",
        ),
        create(
            "CP-4",
            CC,
            change(json!({"op": "replace", "path": "/spec/x/0"})),
            "spec.patches[0].definitions[0].jsonPatches[0].path: Invalid value: \"/spec/x/0\": elements in arrays can not \
             be accessed in a replace operation",
        ),
        create(
            "CP-5",
            CC,
            change(json!({"valueFrom": null})),
            "spec.patches[0].definitions[0].jsonPatches[0]: Invalid value: \
             \"{\\n  \\\"op\\\": \\\"add\\\",\\n  \\\"path\\\": \\\"/spec/x/-\\\"\\n}\": jsonPatch must define one of value \
             or valueFrom",
        ),
        create(
            "CP-6",
            CC,
            change(json!({"valueFrom": {"variable": null}})),
            "spec.patches[0].definitions[0].jsonPatches[0].valueFrom: Invalid value: \"{}\": valueFrom must set either \
             template or variable",
        ),
        create(
            "CP-7",
            CC,
            change(json!({"valueFrom": {"variable": "builtin.cluster.size"}})),
            "spec.patches[0].definitions[0].jsonPatches[0].valueFrom.variable: Invalid value: \"builtin.cluster.size\": \
             not a defined builtin variable",
        ),
        create(
            "CP-8",
            CC,
            change(json!({"valueFrom": {"variable": "w[0]"}})),
            "spec.patches[0].definitions[0].jsonPatches[0].valueFrom.variable: Invalid value: \"w[0]\": variable with name \
             w[0] cannot be found",
        ),
    ]
}

fn patch_selectors() -> Vec<Row> {
    let selector = |selector: Value| with_patch(&json!({"definitions": [definition(json!({}), selector)]}));
    let matching = |resources: Value| {
        let mut resources = resources;
        if resources.get("machineDeploymentClass").is_none() {
            resources["machineDeploymentClass"] = Value::Null;
        }
        selector(json!({ "matchResources": resources }))
    };
    let names = |names: Value| matching(json!({"machineDeploymentClass": {"names": names}}));
    vec![
        create(
            "CP-9",
            CC,
            selector(json!({"apiVersion": null, "kind": null, "matchResources": null})),
            "spec.patches[0].definitions[0].selector: Invalid value: \"{}\": no selector enabled",
        ),
        create(
            "CP-10",
            CC,
            matching(json!({"infrastructureCluster": true})),
            "spec.patches[0].definitions[0].selector.matchResources.infrastructureCluster: Invalid value: true: selector \
             is enabled but does not match the infrastructure ref",
        ),
        create(
            "CP-11",
            CC,
            selector(json!({
                "kind": "DevClusterTemplate",
                "matchResources": {"controlPlane": true, "machineDeploymentClass": null},
            })),
            "spec.patches[0].definitions[0].selector.matchResources.controlPlane: Invalid value: true: selector is enabled \
             but matches neither the controlPlane ref nor the controlPlane machineInfrastructure ref",
        ),
        create(
            "CP-12",
            CC,
            names(json!(["w", "x*"])),
            "spec.patches[0].definitions[0].selector.matchResources.machineDeploymentClass.names[1]: Invalid value: \
             \"x*\": selector is enabled but matches neither the bootstrap ref nor the infrastructure ref of a \
             MachineDeployment class",
        ),
        create(
            "CP-12",
            CC,
            matching(json!({"machinePoolClass": {"names": ["q"]}})),
            "spec.patches[0].definitions[0].selector.matchResources.machinePoolClass.names[0]: Invalid value: \"q\": \
             selector is enabled but matches neither the bootstrap ref nor the infrastructure ref of a MachinePool class",
        ),
        create(
            "CP-13",
            CC,
            names(json!(["*a*", "x"])),
            "spec.patches[0].definitions[0].selector.matchResources.machineDeploymentClass.names[0]: Invalid value: \
             \"*a*\": selector can at most contain a single \"*\" rune",
        ),
        create(
            "CP-14",
            CC,
            names(json!(["a*b"])),
            "spec.patches[0].definitions[0].selector.matchResources.machineDeploymentClass.names[0]: Invalid value: \
             \"a*b\": \"*\" rune can only appear at the beginning, or ending of the selector",
        ),
        create(
            "CP-15",
            CC,
            names(json!(["-*"])),
            "spec.patches[0].definitions[0].selector.matchResources.machineDeploymentClass.names[0]: Invalid value: \
             \"-*\": selector does not comply with the Kubernetes naming standards",
        ),
    ]
}
