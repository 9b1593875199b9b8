//! Rules of MachineDeployment, MachineSet, Machine, MachinePool, MachineHealthCheck; also of the parts
//! they share with others: taints, template metadata, naming templates.

use serde_json::json;

use super::{Row, create, update};

const MD: &str = "MachineDeployment";
const MS: &str = "MachineSet";
const MP: &str = "MachinePool";
const MA: &str = "Machine";
const MHC: &str = "MachineHealthCheck";

pub fn rows() -> Vec<Row> {
    [deployments(), sets(), machines(), pools(), health_checks(), taints(), metadata(), naming()]
        .into_iter()
        .flatten()
        .collect()
}

fn deployments() -> Vec<Row> {
    let strategy = |rolling| json!({"spec": {"rollout": {"strategy": {"rollingUpdate": rolling}}}});
    vec![
        create(
            "MD-1",
            MD,
            json!({"metadata": {"name": "-a"}}),
            "metadata.name: Invalid value: \"-a\": must be a valid label value: a valid label must be an empty \
             string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
        create(
            "MD-2",
            MD,
            json!({"spec": {"template": {"spec": {"bootstrap": {"configRef": null}}}}}),
            "spec.template.spec.bootstrap: Required value: expected either \
             spec.template.spec.bootstrap.dataSecretName or spec.template.spec.bootstrap.configRef to be populated",
        ),
        create(
            "MD-3",
            MD,
            json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}}),
            "spec.selector: Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Like\"}],\
             \"matchLabels\":{\"a\":\"b\"}}: \"Like\" is not a valid label selector operator",
        ),
        create(
            "MD-4",
            MD,
            json!({"spec": {"selector": {"matchLabels": {"c": "d"}}}}),
            "spec.template.metadata.labels: Forbidden: must match spec.selector \"a=b,c=d\"",
        ),
        create(
            "MD-5",
            MD,
            json!({"metadata": {"annotations": {"machineset.cluster.x-k8s.io/skip-preflight-checks": "All, Some"}}}),
            "metadata.annotations.machineset.cluster.x-k8s.io/skip-preflight-checks: Invalid value: [\"Some\"]: \
             skipped preflight check(s) must be among: [All ControlPlaneIsStable ControlPlaneVersionSkew \
             KubeadmVersionSkew KubernetesVersionSkew]",
        ),
        update(
            "MD-6",
            MD,
            json!({"spec": {"clusterName": "d", "template": {"spec": {"clusterName": "d"}}}}),
            "spec.clusterName: Forbidden: field is immutable",
        ),
        create(
            "MD-7",
            MD,
            json!({"spec": {"template": {"spec": {"clusterName": "d"}}}}),
            "spec.clusterName: Invalid value: \"c\": spec.clusterName and spec.template.spec.clusterName must be set \
             to the same value",
        ),
        create(
            "MD-8",
            MD,
            strategy(json!({"maxSurge": "many"})),
            "spec.rollout.strategy.rollingUpdate.maxSurge: Invalid value: \"many\": must be either an int or a \
             percentage: invalid value for IntOrString: invalid type: string is not a percentage",
        ),
        create(
            "MD-9",
            MD,
            strategy(json!({"maxUnavailable": "x%"})),
            "spec.rollout.strategy.rollingUpdate.maxUnavailable: Invalid value: \"x%\": must be either an int or a \
             percentage: invalid value for IntOrString: invalid value \"x%\": strconv.Atoi: parsing \"x\": invalid \
             syntax",
        ),
        create(
            "MD-10",
            MD,
            strategy(json!({"maxSurge": 0, "maxUnavailable": 0})),
            "spec.rollout.strategy.rollingUpdate: Invalid value: \"0\": maxUnavailable and maxSurge cannot both be 0",
        ),
        create(
            "MD-11",
            MD,
            json!({"spec": {"remediation": {"maxInFlight": "few"}}}),
            "spec.remediation.maxInFlight: Invalid value: \"few\": must be either an int or a percentage: invalid \
             value for IntOrString: invalid type: string is not a percentage",
        ),
        create(
            "MD-12",
            MD,
            json!({"spec": {"template": {"spec": {"version": "1.35.0"}}}}),
            "spec.template.spec.version: Invalid value: \"1.35.0\": must start with v",
        ),
        update(
            "MD-13",
            MD,
            json!({"spec": {"template": {"spec": {"version": "v1.35"}}}}),
            "spec.template.spec.version: Invalid value: \"v1.35\": must be a valid semantic version",
        ),
    ]
}

fn sets() -> Vec<Row> {
    vec![
        create(
            "MS-1",
            MS,
            json!({"spec": {"template": {"spec": {"bootstrap": null}}}}),
            "spec.template.spec.bootstrap: Required value: expected either \
             spec.template.spec.bootstrap.dataSecretName or spec.template.spec.bootstrap.configRef to be populated",
        ),
        create(
            "MS-2",
            MS,
            json!({"spec": {"selector": {"matchLabels": {"a": "b", "-": "x"}}}}),
            "spec.selector: Invalid value: {\"matchLabels\":{\"-\":\"x\",\"a\":\"b\"}}: key: Invalid value: \"-\": name \
             part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
        create(
            "MS-3",
            MS,
            json!({"spec": {"template": {"metadata": {"labels": {"a": "z"}}}}}),
            "spec.template.metadata.labels: Invalid value: {\"a\":\"z\"}: must match spec.selector \"a=b\"",
        ),
        create(
            "MS-4",
            MS,
            json!({"metadata": {"annotations": {"machineset.cluster.x-k8s.io/skip-preflight-checks": "None"}}}),
            "metadata.annotations.machineset.cluster.x-k8s.io/skip-preflight-checks: Invalid value: [\"None\"]: \
             skipped preflight check(s) must be among: [All ControlPlaneIsStable ControlPlaneVersionSkew \
             KubeadmVersionSkew KubernetesVersionSkew]",
        ),
        update(
            "MS-5",
            MS,
            json!({"spec": {"clusterName": "d", "template": {"spec": {"clusterName": "d"}}}}),
            "spec.clusterName: Forbidden: field is immutable",
        ),
        create(
            "MS-6",
            MS,
            json!({"spec": {"template": {"spec": {"clusterName": "d"}}}}),
            "spec.clusterName: Invalid value: \"c\": spec.clusterName and spec.template.spec.clusterName must be set \
             to the same value",
        ),
        create(
            "MS-7",
            MS,
            json!({"spec": {"template": {"spec": {"version": "x"}}}}),
            "spec.template.spec.version: Invalid value: \"x\": must start with v",
        )
        .and("spec.template.spec.version: Invalid value: \"x\": must be a valid semantic version"),
    ]
}

fn machines() -> Vec<Row> {
    vec![
        create(
            "MA-1",
            MA,
            json!({"spec": {"bootstrap": {"dataSecretName": null}}}),
            "spec.bootstrap: Required value: expected either spec.bootstrap.dataSecretName or spec.bootstrap.configRef \
             to be populated",
        ),
        update(
            "MA-2",
            MA,
            json!({"spec": {"clusterName": "d"}}),
            "spec.clusterName: Forbidden: field is immutable",
        ),
        create(
            "MA-3",
            MA,
            json!({"spec": {"version": "1.35.0"}}),
            "spec.version: Invalid value: \"1.35.0\": must start with v",
        ),
        create(
            "MA-4",
            MA,
            json!({"spec": {"version": "v1"}}),
            "spec.version: Invalid value: \"v1\": must be a valid semantic version",
        ),
    ]
}

fn pools() -> Vec<Row> {
    vec![
        create(
            "MP-1",
            MP,
            json!({"spec": {"template": {"spec": {"bootstrap": null}}}}),
            "spec.template.spec.bootstrap: Required value: expected either \
             spec.template.spec.bootstrap.dataSecretName or spec.template.spec.bootstrap.configRef to be populated",
        ),
        update(
            "MP-2",
            MP,
            json!({"spec": {"clusterName": "d", "template": {"spec": {"clusterName": "d"}}}}),
            "spec.clusterName: Forbidden: field is immutable",
        ),
        create(
            "MP-3",
            MP,
            json!({"spec": {"clusterName": "d"}}),
            "spec.clusterName: Invalid value: \"d\": spec.clusterName and spec.template.spec.clusterName must be set \
             to the same value",
        ),
        create(
            "MP-4",
            MP,
            json!({"spec": {"template": {"spec": {"version": "v1.2.3.4"}}}}),
            "spec.template.spec.version: Invalid value: \"v1.2.3.4\": must be a valid semantic version",
        ),
        create(
            "MP-5",
            MP,
            json!({"spec": {"template": {"spec": {"taints": [{"key": "a"}]}}}}),
            "spec.taints: Forbidden: taints feature for MachinePools is not yet implemented",
        ),
    ]
}

fn health_checks() -> Vec<Row> {
    vec![
        create(
            "MHC-1",
            MHC,
            json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}),
            "spec.selector: Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\"}],\
             \"matchLabels\":{\"a\":\"b\"}}: values: Invalid value: null: for 'in', 'notin' operators, values set can't \
             be empty",
        ),
        create(
            "MHC-2",
            MHC,
            json!({"spec": {"selector": {"matchLabels": null}}}),
            "spec.selector: Required value: selector must not be empty",
        ),
        create(
            "MHC-3",
            MHC,
            json!({"spec": {"selector": {"matchLabels": {"a": null, "cluster.x-k8s.io/cluster-name": "d"}}}}),
            "spec.selector: Invalid value: {\"matchLabels\":{\"cluster.x-k8s.io/cluster-name\":\"d\"}}: cannot specify a \
             cluster selector other than the one specified by ClusterName",
        ),
        update(
            "MHC-4",
            MHC,
            json!({"spec": {"clusterName": "d"}}),
            "spec.clusterName: Forbidden: field is immutable",
        ),
        create(
            "MHC-5",
            MHC,
            json!({"spec": {"checks": {"nodeStartupTimeoutSeconds": 29}}}),
            "spec.checks.nodeStartupTimeoutSeconds: Invalid value: 29: must be at least 30s",
        ),
        create(
            "MHC-6",
            MHC,
            json!({"spec": {"remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "half"}}}}),
            "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo: Invalid value: \"half\": must be either an int or a \
             percentage: invalid value for IntOrString: invalid type: string is not a percentage",
        ),
    ]
}

fn taints() -> Vec<Row> {
    let machine = |key: &str| json!({"spec": {"taints": [{"key": "mine"}, {"key": key}]}});
    vec![
        create(
            "TA-1",
            MA,
            machine("node.cluster.x-k8s.io/uninitialized"),
            "spec.taints[1].key: Invalid value: \"node.cluster.x-k8s.io/uninitialized\": taint key is not allowed",
        ),
        create(
            "TA-1",
            MD,
            json!({"spec": {"template": {"spec": {"taints": [{"key": "node.cluster.x-k8s.io/outdated-revision"}]}}}}),
            "spec.template.spec.taints[0].key: Invalid value: \"node.cluster.x-k8s.io/outdated-revision\": taint key is \
             not allowed",
        ),
        create(
            "TA-2",
            MA,
            machine("node.kubernetes.io/unreachable"),
            "spec.taints[1].key: Invalid value: \"node.kubernetes.io/unreachable\": taint key must not have the prefix \
             node.kubernetes.io/, except for node.kubernetes.io/out-of-service",
        ),
        create(
            "TA-3",
            MA,
            machine("node.cloudprovider.kubernetes.io/x"),
            "spec.taints[1].key: Invalid value: \"node.cloudprovider.kubernetes.io/x\": taint key must not have the \
             prefix node.cloudprovider.kubernetes.io/",
        ),
        create(
            "TA-4",
            MA,
            machine("node-role.kubernetes.io/master"),
            "spec.taints[1].key: Invalid value: \"node-role.kubernetes.io/master\": taint is deprecated since 1.24 and \
             should not be used anymore",
        ),
        create(
            "TA-5",
            MA,
            machine(""),
            "spec.taints[1].key: Invalid value: \"\": name part must be non-empty",
        )
        .and(
            "spec.taints[1].key: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or \
             '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', \
             regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
        create(
            "TA-6",
            MA,
            machine("node-role.kubernetes.io/control-plane"),
            "spec.taints[1].key: Invalid value: \"node-role.kubernetes.io/control-plane\": taint is not allowed for \
             worker Machines",
        ),
        create(
            "TA-6",
            MS,
            json!({"spec": {"template": {"spec": {"taints": [{"key": "node-role.kubernetes.io/control-plane"}]}}}}),
            "spec.template.spec.taints[0].key: Invalid value: \"node-role.kubernetes.io/control-plane\": taint is not \
             allowed for worker Machines",
        ),
    ]
}

fn metadata() -> Vec<Row> {
    vec![
        create(
            "ME-1",
            MP,
            json!({"spec": {"template": {"metadata": {"labels": {"a/b/c": "d"}}}}}),
            "spec.template.metadata.labels: Invalid value: \"a/b/c\": a qualified name must consist of alphanumeric \
             characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or \
             'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an \
             optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        ),
        create(
            "ME-2",
            MD,
            json!({"spec": {"template": {"metadata": {"labels": {"c": "-"}}}}}),
            "spec.template.metadata.labels: Invalid value: \"-\": a valid label must be an empty string or consist of \
             alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
             'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
        create(
            "ME-3",
            MS,
            json!({"spec": {"template": {"metadata": {"annotations": {"/a": "x"}}}}}),
            "spec.template.metadata.annotations: Invalid value: \"/a\": prefix part must be non-empty",
        ),
    ]
}

fn naming() -> Vec<Row> {
    let template = |template: &str| json!({"spec": {"machineNaming": {"template": template}}});
    vec![
        create(
            "NA-1",
            MD,
            template("{{ .machineSet.name }}-{{.random}}"),
            "spec.machineNaming.template: Invalid value: \"{{ .machineSet.name }}-{{.random}}\": invalid template, {{ \
             .random }} is missing",
        ),
        create(
            "NA-2",
            MS,
            template("{{ .pool.name }}-{{ .random }}"),
            "spec.machineNaming.template: Invalid value: \"{{ .pool.name }}-{{ .random }}\": invalid template: \
             rendering template: template: template name generator:1:8: executing \"template name generator\" at \
             <.pool.name>: map has no entry for key \"pool\"",
        ),
        create(
            "NA-3",
            MS,
            template("X-{{ .random }}"),
            "spec.machineNaming.template: Invalid value: \"X-{{ .random }}\": invalid template, generated names would \
             not be valid Kubernetes object names: a lowercase RFC 1123 subdomain must consist of lower case \
             alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
             'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
    ]
}
