//! Rules of KubeadmControlPlane and its template, and of kubeadm's configuration in them and on its own.

use serde_json::{Value, json};

use super::{Row, change, create, update};

const KCP: &str = "KubeadmControlPlane";
const KCPT: &str = "KubeadmControlPlaneTemplate";
const KC: &str = "KubeadmConfig";

pub fn rows() -> Vec<Row> {
    [created(), rollouts(), updated(), dns(), templates(), configs(), ignition()]
        .into_iter()
        .flatten()
        .collect()
}

fn config(configuration: Value) -> Value {
    json!({"spec": {"kubeadmConfigSpec": {"clusterConfiguration": configuration}}})
}

fn created() -> Vec<Row> {
    let reference =
        |field: &str| json!({"spec": {"machineTemplate": {"spec": {"infrastructureRef": {field: null}}}}});
    vec![
        create(
            "KCP-1",
            KCP,
            json!({"spec": {"replicas": null}}),
            "spec.replicas: Required value: is required",
        ),
        create(
            "KCP-2",
            KCP,
            json!({"spec": {"replicas": -1}}),
            "spec.replicas: Forbidden: cannot be less than or equal to 0",
        ),
        create(
            "KCP-3",
            KCP,
            json!({"spec": {"replicas": 4}}),
            "spec.replicas: Forbidden: cannot be an even number when etcd is stacked",
        ),
        create(
            "KCP-4",
            KCP,
            reference("apiGroup"),
            "spec.machineTemplate.infrastructure.apiGroup: Invalid value: \"\": cannot be empty",
        ),
        create(
            "KCP-4",
            KCP,
            reference("kind"),
            "spec.machineTemplate.infrastructure.kind: Invalid value: \"\": cannot be empty",
        ),
        create(
            "KCP-4",
            KCP,
            reference("name"),
            "spec.machineTemplate.infrastructure.name: Invalid value: \"\": cannot be empty",
        ),
        create(
            "KCP-5",
            KCP,
            json!({"spec": {"version": "1.34.0"}}),
            "spec.version: Invalid value: \"1.34.0\": must start with v",
        ),
        create(
            "KCP-6",
            KCP,
            json!({"spec": {"version": "v1.34"}}),
            "spec.version: Invalid value: \"v1.34\": must be a valid semantic version",
        ),
        create(
            "KCP-7",
            KCP,
            config(json!({"dns": {"imageTag": "v1.11.1+x"}})),
            "spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag: Forbidden: tag v1.11.1+x is invalid",
        ),
        create(
            "KCP-8",
            KCP,
            config(json!({"dns": {"imageTag": "latest"}})),
            "dns.imageTag: Invalid value: \"latest\": failed to parse CoreDNS version: Invalid character(s) found in \
             major number \"0latest\"",
        ),
        create(
            "KCP-9",
            KCP,
            config(json!({"etcd": {"local": {"imageTag": "a/b"}}})),
            "spec.kubeadmConfigSpec.clusterConfiguration.etcd.local.imageTag: Forbidden: tag a/b is invalid",
        ),
        create(
            "KCP-10",
            KCP,
            config(json!({"etcd": {"external": {"endpoints": ["x"]}}})),
            "spec.kubeadmConfigSpec.clusterConfiguration.etcd.local: Forbidden: cannot have both external and local etcd",
        ),
        create(
            "TA-1",
            KCP,
            json!({"spec": {"machineTemplate": {"spec": {"taints": [{"key": "node.cluster.x-k8s.io/uninitialized"}]}}}}),
            "spec.machineTemplate.spec.taints[0].key: Invalid value: \"node.cluster.x-k8s.io/uninitialized\": taint key \
             is not allowed",
        ),
        create(
            "NA-1",
            KCP,
            json!({"spec": {"machineNaming": {"template": "{{ .kubeadmControlPlane.name }}"}}}),
            "spec.machineNaming.template: Invalid value: \"{{ .kubeadmControlPlane.name }}\": invalid template, {{ \
             .random }} is missing",
        ),
        create(
            "ME-3",
            KCP,
            json!({"spec": {"machineTemplate": {"metadata": {"annotations": {"/a": "x"}}}}}),
            "spec.machineTemplate.metadata.annotations: Invalid value: \"/a\": prefix part must be non-empty",
        ),
    ]
}

fn rollouts() -> Vec<Row> {
    let strategy = |strategy| json!({"spec": {"rollout": {"strategy": strategy}}});
    vec![
        create(
            "KCP-11",
            KCP,
            strategy(json!({"type": "OnDelete"})),
            "spec.rollout.strategy.type: Required value: only RollingUpdate is supported",
        ),
        create(
            "KCP-12",
            KCP,
            json!({"spec": {"replicas": 1, "rollout": {"strategy": {"rollingUpdate": {"maxSurge": 0}}}}}),
            "spec.rollout.strategy.rollingUpdate: Required value: when KubeadmControlPlane is configured to scale-in, \
             replica count needs to be at least 3",
        ),
        create(
            "KCP-13",
            KCP,
            strategy(json!({"rollingUpdate": {"maxSurge": 2}})),
            "spec.rollout.strategy.rollingUpdate.maxSurge: Required value: value must be 1 or 0",
        ),
        create(
            "KCP-14",
            KCP,
            config(json!({"certificateValidityPeriodDays": 90, "caCertificateValidityPeriodDays": 30})),
            "spec.kubeadmConfigSpec.clusterConfiguration.certificateValidityPeriodDays: Invalid value: 90: must be less \
             than or equal to caCertificateValidityPeriodDays (30)",
        ),
        create(
            "KCP-15",
            KCP,
            config(json!({"certificateValidityPeriodDays": 3651})),
            "spec.kubeadmConfigSpec.clusterConfiguration.certificateValidityPeriodDays: Invalid value: 3651: must be \
             less than or equal to the default value of caCertificateValidityPeriodDays (3650)",
        ),
        create(
            "KCP-16",
            KCP,
            json!({"spec": {
                "rollout": {"before": {"certificatesExpiryDays": 30}},
                "kubeadmConfigSpec": {"clusterConfiguration": {"certificateValidityPeriodDays": 30}},
            }}),
            "spec.rollout.before.certificatesExpiryDays: Invalid value: 30: must be less than \
             certificateValidityPeriodDays (30)",
        ),
    ]
}

fn updated() -> Vec<Row> {
    vec![
        update(
            "KCP-17",
            KCP,
            config(json!({"certificatesDir": "/b"})),
            "spec.kubeadmConfigSpec.clusterConfiguration.certificatesDir: Forbidden: cannot be modified",
        ),
        update(
            "KCP-17",
            KCP,
            config(Value::Null),
            "spec.kubeadmConfigSpec.clusterConfiguration: Forbidden: cannot be modified",
        ),
        change(
            "KCP-18",
            KCP,
            json!({"spec": {"version": "nonsense"}}),
            json!({}),
            "spec.version: Internal error: failed to parse current kubeadmcontrolplane version: nonsense: Invalid \
             character(s) found in major number \"0nonsense\"",
        ),
        update(
            "KCP-19",
            KCP,
            json!({"spec": {"version": "v1.36.0-rc.0"}}),
            "spec.version: Forbidden: cannot update Kubernetes version from v1.34.0 to v1.36.0-rc.0",
        ),
        update(
            "KCP-20",
            KCP,
            config(json!({"etcd": {"local": null, "external": {"endpoints": ["x"]}}})),
            "spec.kubeadmConfigSpec.clusterConfiguration.etcd.external: Forbidden: cannot change between external and \
             local etcd",
        ),
    ]
}

fn dns() -> Vec<Row> {
    let tag = |tag: &str| config(json!({"dns": {"imageTag": tag}}));
    vec![
        change(
            "KCP-21",
            KCP,
            tag("latest"),
            json!({}),
            "spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag: Invalid value: \"latest\": failed to parse \
             current CoreDNS version: Invalid character(s) found in major number \"0latest\"",
        ),
        update(
            "KCP-22",
            KCP,
            tag("x"),
            "dns.imageTag: Invalid value: \"x\": failed to parse CoreDNS version: Invalid character(s) found in major \
             number \"x\"",
        )
        .and(
            "spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag: Invalid value: \"x\": failed to parse target \
             CoreDNS version: Invalid character(s) found in major number \"x\"",
        ),
        update(
            "KCP-23",
            KCP,
            tag("v1.9.3"),
            "spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag: Forbidden: cannot migrate CoreDNS up to '1.9.3' \
             from '1.11.1': cannot migrate up to '1.9.3' from '1.11.1'",
        ),
    ]
}

fn templates() -> Vec<Row> {
    let spec = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    vec![
        update(
            "KCPT-1",
            KCPT,
            spec(json!({"kubeadmConfigSpec": {"verbosity": 3}})),
            "spec.template.spec: Invalid value: \"object\": KubeadmControlPlaneTemplate spec.template.spec field is \
             immutable. Please create new resource instead. Diff: + kubeadmConfigSpec.verbosity: 3",
        ),
        create(
            "KCP-13",
            KCPT,
            spec(json!({"rollout": {"strategy": {"rollingUpdate": {"maxSurge": "2"}}}})),
            "spec.template.spec.rollout.strategy.rollingUpdate.maxSurge: Required value: value must be 1 or 0",
        ),
        create(
            "KCP-10",
            KCPT,
            spec(
                json!({"kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {"external": {"caFile": "x"}}}}}),
            ),
            "spec.template.spec.kubeadmConfigSpec.clusterConfiguration.etcd.local: Forbidden: cannot have both external \
             and local etcd",
        ),
        create(
            "ME-3",
            KCPT,
            json!({"spec": {"template": {"metadata": {"annotations": {"/a": "x"}}}}}),
            "spec.template.metadata.annotations: Invalid value: \"/a\": prefix part must be non-empty",
        ),
    ]
}

fn configs() -> Vec<Row> {
    let timeout = |seconds: u32| json!({"timeouts": {"controlPlaneComponentHealthCheckSeconds": seconds}});
    let secret = json!({"secret": {"name": "s", "key": "k"}});
    vec![
        create(
            "KC-1",
            KC,
            json!({"spec": {"files": [{"path": "/a", "content": "x", "contentFrom": secret}]}}),
            "spec.files[0]: Invalid value: {\"content\":\"x\",\"contentFrom\":{\"secret\":{\"key\":\"k\",\"name\":\"s\"}},\
             \"path\":\"/a\"}: only one of content or contentFrom may be specified for a single file",
        ),
        create(
            "KC-2",
            KC,
            json!({"spec": {"files": [{"path": "/a", "contentFrom": {"secret": {"key": "k"}}}]}}),
            "spec.files[0].contentFrom.secret.name: Required value: secret file source must specify non-empty secret name",
        ),
        create(
            "KC-3",
            "KubeadmConfigTemplate",
            json!({"spec": {"template": {"spec": {"files": [{"path": "/a", "contentFrom": {"secret": {"name": "s"}}}]}}}}),
            "spec.template.spec.files[0].contentFrom.secret.key: Required value: secret file source must specify \
             non-empty secret key",
        ),
        create(
            "KC-4",
            KC,
            json!({"spec": {"files": [{"path": "/a"}, {"path": "/b"}, {"path": "/a"}]}}),
            "spec.files[2].path: Invalid value: {\"path\":\"/a\"}: path property must be unique among all files",
        ),
        create(
            "KC-5",
            KC,
            json!({"spec": {"users": [{"name": "u", "passwd": "x", "passwdFrom": secret}]}}),
            "spec.users[0]: Invalid value: {\"name\":\"u\",\"passwd\":\"x\",\"passwdFrom\":{\"secret\":{\"key\":\"k\",\
             \"name\":\"s\"}}}: only one of passwd or passwdFrom may be specified for a single user",
        ),
        create(
            "KC-6",
            KC,
            json!({"spec": {"users": [{"name": "u", "passwdFrom": {"secret": {"key": "k"}}}]}}),
            "spec.users[0].passwdFrom.secret.name: Required value: secret file source must specify non-empty secret name",
        ),
        create(
            "KC-7",
            KC,
            json!({"spec": {"diskSetup": {"partitions": [{"diskLayout": [{"percentage": 60}, {"percentage": 41}]}]}}}),
            "spec.diskSetup.partitions[0].diskLayout: Invalid value: 101: the sum of all partition percentages must not \
             be greater than 100",
        ),
        create(
            "KC-8",
            KC,
            json!({"spec": {"joinConfiguration": {"discovery": {"file": {"kubeConfig": {"user": {
                "exec": {"command": "c"}, "authProvider": {"name": "p"},
            }}}}}}}),
            "spec.joinConfiguration.discovery.file.kubeconfig.user: Invalid value: {\"authProvider\":{\"name\":\"p\"},\
             \"exec\":{\"command\":\"c\"}}: only one of authProvider or exec must be defined",
        ),
        create(
            "KC-9",
            KCP,
            json!({"spec": {"kubeadmConfigSpec": {"initConfiguration": timeout(5), "joinConfiguration": timeout(6)}}}),
            "spec.kubeadmConfigSpec.initConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds: Invalid value: \
             \"5\": controlPlaneComponentHealthCheckSeconds must be set to the same value both in \
             initConfiguration.timeouts (5) and in joinConfiguration.timeouts (6)",
        )
        .and(
            "spec.kubeadmConfigSpec.joinConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds: Invalid value: \
             \"6\": controlPlaneComponentHealthCheckSeconds must be set to the same value both in \
             initConfiguration.timeouts (5) and in joinConfiguration.timeouts (6)",
        ),
    ]
}

fn ignition() -> Vec<Row> {
    let with = |mut spec: Value| {
        spec["format"] = json!("ignition");
        json!({ "spec": spec })
    };
    vec![
        create(
            "KC-10",
            KC,
            json!({"spec": {"ignition": {"containerLinuxConfig": {"strict": true}}}}),
            "spec.format: Invalid value: \"cloud-config\": must be set to \"ignition\" if spec.ignition is set",
        ),
        create(
            "KC-11",
            KC,
            with(json!({"users": [{"name": "u", "inactive": true}]})),
            "spec.users[0].inactive: Forbidden: not supported when spec.format is set to: \"ignition\"",
        ),
        create(
            "KC-12",
            KC,
            with(json!({"files": [{"path": "/a", "encoding": "gzip+base64"}]})),
            "spec.files[0].encoding: Forbidden: not supported when spec.format is set to: \"ignition\"",
        ),
        create(
            "KC-13",
            KC,
            with(json!({"bootCommands": ["x"]})),
            "spec.bootCommands: Forbidden: not supported when spec.format is set to: \"ignition\"",
        ),
        create(
            "KC-14",
            KC,
            with(json!({"diskSetup": {"partitions": [{"tableType": "mbr"}]}})),
            "spec.diskSetup.partitions[0].tableType: Invalid value: \"mbr\": only partition type \"gpt\" is supported \
             when spec.format is set to \"ignition\"",
        ),
        create(
            "KC-15",
            KC,
            with(json!({"diskSetup": {"filesystems": [{"replaceFS": "x"}]}})),
            "spec.diskSetup.filesystems[0].replaceFS: Forbidden: not supported when spec.format is set to: \"ignition\"",
        ),
        create(
            "KC-16",
            KC,
            with(json!({"diskSetup": {"filesystems": [{"partition": "x"}]}})),
            "spec.diskSetup.filesystems[0].partition: Forbidden: not supported when spec.format is set to: \"ignition\"",
        ),
    ]
}
