//! Rules of add-ons, extensions, drain rules and addresses.

use serde_json::json;

use super::{Row, create, good, update};

const CRS: &str = "ClusterResourceSet";
const EXT: &str = "ExtensionConfig";
const MDR: &str = "MachineDrainRule";
const IP: &str = "IPAddress";

pub fn rows() -> Vec<Row> {
    [resource_sets(), extensions(), services(), drain_rules(), addresses()].into_iter().flatten().collect()
}

fn resource_sets() -> Vec<Row> {
    vec![
        create(
            "CRS-1",
            CRS,
            json!({"spec": {"clusterSelector": {"matchLabels": null, "matchExpressions": [{"key": "a", "operator": "x"}]}}}),
            "spec.clusterSelector: Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"x\"}]}: \"x\" is not \
             a valid label selector operator",
        ),
        create(
            "CRS-2",
            CRS,
            json!({"spec": {"clusterSelector": {"matchLabels": null}}}),
            "spec.clusterSelector: Invalid value: {}: selector must not be empty",
        ),
        update(
            "CRS-3",
            CRS,
            json!({"spec": {"strategy": "Reconcile"}}),
            "spec.strategy: Invalid value: \"Reconcile\": field is immutable",
        ),
        update(
            "CRS-4",
            CRS,
            json!({"spec": {"clusterSelector": {"matchLabels": {"a": "c"}}}}),
            "spec.clusterSelector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable",
        ),
        update(
            "CRSB-1",
            "ClusterResourceSetBinding",
            json!({"spec": {"clusterName": "d"}}),
            "spec.clusterName: Invalid value: \"d\": field is immutable",
        ),
    ]
}

fn extensions() -> Vec<Row> {
    let url = |url: &str| json!({"spec": {"clientConfig": {"service": null, "url": url}}});
    vec![
        create(
            "EXT-1",
            EXT,
            json!({"metadata": {"name": "a.b"}}),
            "metadata.name: Invalid value: \"a.b\": ExtensionConfig name should be a valid DNS1123 label name: [a \
             lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
             with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')]",
        ),
        create(
            "EXT-2",
            EXT,
            json!({"spec": {"clientConfig": {"service": null}}}),
            "spec.clientConfig: Required value: either url or service must be defined",
        ),
        create(
            "EXT-3",
            EXT,
            json!({"spec": {"clientConfig": {"url": "https://a"}}}),
            "spec.clientConfig: Forbidden: only one of url or service can be defined",
        ),
        create(
            "EXT-4",
            EXT,
            url("a b"),
            "spec.clientConfig.url: Invalid value: \"a b\": must be a valid URL, e.g. https://example.com: parse \"a b\": \
             invalid URI for request",
        ),
        create(
            "EXT-5",
            EXT,
            url("http://a"),
            "spec.clientConfig.url: Invalid value: \"http://a\": 'https' is the only allowed URL scheme, e.g. \
             https://example.com",
        ),
        create(
            "EXT-11",
            EXT,
            json!({"spec": {"namespaceSelector": null}}),
            "spec.namespaceSelector: Required value: must be defined",
        ),
        create(
            "EXT-12",
            EXT,
            json!({"spec": {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "x"}]}}}),
            "spec.namespaceSelector: Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"x\"}]}: \"x\" is \
             not a valid label selector operator",
        ),
    ]
}

fn services() -> Vec<Row> {
    let service = |service| json!({"spec": {"clientConfig": {"service": service}}});
    vec![
        create(
            "EXT-6",
            EXT,
            service(json!({"name": "1"})),
            "spec.clientConfig.service.name: Invalid value: \"1\": a DNS-1035 label must consist of lower case \
             alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character \
             (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        ),
        create(
            "EXT-7",
            EXT,
            service(json!({"namespace": "A"})),
            "spec.clientConfig.service.namespace: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower \
             case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  \
             or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        ),
        create(
            "EXT-8",
            EXT,
            service(json!({"path": "a"})),
            "spec.clientConfig.service.path: Invalid value: \"a\": must be a valid URL path e.g. /path/to/hook: parse \
             \"a\": invalid URI for request",
        )
        .and("spec.clientConfig.service.path: Invalid value: \"a\": must start with \"/\" to be a valid URL path"),
        create(
            "EXT-9",
            EXT,
            service(json!({"path": "x:y"})),
            "spec.clientConfig.service.path: Invalid value: \"x:y\": must start with \"/\" to be a valid URL path",
        ),
        create(
            "EXT-10",
            EXT,
            service(json!({"port": 65_536})),
            "spec.clientConfig.service.port: Invalid value: 65536: must be between 1 and 65535, inclusive",
        ),
    ]
}

fn drain_rules() -> Vec<Row> {
    let bad = json!({"matchExpressions": [{"key": "a", "operator": "x"}]});
    vec![
        create(
            "MDR-1",
            MDR,
            json!({"spec": {"drain": {"behavior": "Skip", "order": 0}}}),
            "spec.drain.order: Invalid value: 0: order must not be set if drain behavior is \"Skip\" or \"WaitCompleted\"",
        ),
        create(
            "MDR-2",
            MDR,
            json!({"spec": {"machines": [{}, {"selector": bad}]}}),
            "spec.machines[1].selector: Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"x\"}]}: \"x\" is \
             not a valid label selector operator",
        ),
        create(
            "MDR-3",
            MDR,
            json!({"spec": {"machines": [{"clusterSelector": bad}]}}),
            "spec.machines[0].clusterSelector: Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"x\"}]}: \
             \"x\" is not a valid label selector operator",
        ),
        create(
            "MDR-4",
            MDR,
            json!({"spec": {"pods": [{"selector": bad}]}}),
            "spec.pods[0].selector: Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"x\"}]}: \"x\" is not \
             a valid label selector operator",
        ),
        create(
            "MDR-5",
            MDR,
            json!({"spec": {"pods": [{"namespaceSelector": bad}]}}),
            "spec.pods[0].namespaceSelector: Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"x\"}]}: \
             \"x\" is not a valid label selector operator",
        ),
    ]
}

fn addresses() -> Vec<Row> {
    let mut claim = good("IPAddressClaim");
    claim["metadata"]["name"] = json!("claim");
    claim["spec"]["poolRef"]["name"] = json!("other");
    vec![
        create(
            "IP-1",
            IP,
            json!({"spec": {"address": "10.0.0"}}),
            "spec.address: Invalid value: \"10.0.0\": not a valid IP address",
        ),
        create("IP-2", IP, json!({"spec": {"prefix": -1}}), "spec.prefix: Invalid value: -1: prefix cannot be negative"),
        create(
            "IP-3",
            IP,
            json!({"spec": {"prefix": 33}}),
            "spec.prefix: Invalid value: 33: prefix is too large for an IPv4 address",
        ),
        create(
            "IP-4",
            IP,
            json!({"spec": {"address": "fd00::1", "prefix": 129, "gateway": null}}),
            "spec.prefix: Invalid value: 129: prefix is too large for an IPv6 address",
        ),
        create(
            "IP-5",
            IP,
            json!({"spec": {"address": "x", "gateway": "y"}}),
            "[spec.address: Invalid value: \"x\": not a valid IP address, spec.gateway: Invalid value: \"y\": not a valid \
             IP address]",
        ),
        create(
            "IP-6",
            IP,
            json!({}),
            "spec.poolRef: Invalid value: {\"apiGroup\":\"g\",\"kind\":\"k\",\"name\":\"pool\"}: the referenced pool is \
             different from the pool referenced by the claim this address should fulfill",
        )
        .with([claim]),
        update(
            "IP-7",
            IP,
            json!({"spec": {"prefix": 25}}),
            "spec: Forbidden: IPAddress spec is immutable. Diff: - prefix: 24\n+ prefix: 25",
        ),
        update(
            "IP-8",
            "IPAddressClaim",
            json!({"spec": {"poolRef": {"name": "x"}}}),
            "spec: Forbidden: IPAddressClaim spec is immutable. Diff: - poolRef.name: \"pool\"\n+ poolRef.name: \"x\"",
        ),
    ]
}
