//! Rules of Hosts and what is made of them.

use serde_json::{Value, json};

use super::{Row, change, create, update};

const SIGNS: &str = "expected letters, digits, `.`, `-`, `_`, and no `-` in front";

fn host(spec: Value) -> Value {
    json!({ "spec": spec })
}

/// Sentences of rows live as long as the test.
fn said(text: String) -> &'static str {
    text.leak()
}

pub fn rows() -> Vec<Row> {
    let mut rows = words();
    rows.extend(claims());
    rows.extend(endpoints());
    rows
}

fn words() -> Vec<Row> {
    let mut rows = Vec::new();
    for address in ["-oProxyCommand=id", "h1 id", "h1;id", "$(id)", "fe80::1%-x", "a/b"] {
        let what = "a name or an address that ssh goes to";
        let says = said(format!("spec.address: Invalid value: \"{address}\": it is not {what}: {SIGNS}"));
        rows.push(create("HO-1", "Host", host(json!({ "address": address })), says));
    }
    let says = said(format!("spec.connection.user: Invalid value: \"-l\": it is not a user: {SIGNS}"));
    rows.push(create("HO-1", "Host", host(json!({"connection": {"user": "-l"}})), says));
    rows.push(create("HO-1", "HostPool", host(json!({"connection": {"user": "-l"}})), says));
    let says = said(format!(
        "spec.connection.jump[0].address: Invalid value: \"a,b\": it is not a name or an address: {SIGNS}"
    ));
    rows.push(create("HO-1", "HostPool", host(json!({"connection": {"jump": [{"address": "a,b"}]}})), says));
    for key in ["h1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5", "@cert-authority * ssh-rsa A", "ssh-ed25519 AAAA", ""]
    {
        let says = said(format!(
            "spec.hostKeys[0]: Invalid value: {}: expected a public key as /etc/ssh/ssh_host_ed25519_key.pub has it: type and \
             key, no host before them",
            json!(key)
        ));
        rows.push(create("HO-2", "Host", host(json!({ "hostKeys": [key] })), says));
    }
    rows
}

fn claims() -> Vec<Row> {
    let by = |uid: &str| host(json!({"consumerRef": {"kind": "HostMachine", "name": "m", "uid": uid}}));
    vec![
        change(
            "HO-3",
            "Host",
            by("1"),
            by("2"),
            "spec.consumerRef: Forbidden: the Host is claimed by another HostMachine",
        ),
        update(
            "HO-4",
            "HostMachine",
            host(json!({"hostName": "h2"})),
            "spec: Forbidden: HostMachine spec is immutable. Diff: - hostName: \"h1\"\n+ hostName: \"h2\"",
        ),
        change(
            "HO-4",
            "HostMachine",
            host(json!({"providerID": "capstan-host://a/b"})),
            host(json!({"providerID": "capstan-host://a/c"})),
            "spec: Forbidden: HostMachine spec is immutable. Diff: - providerID: \"capstan-host://a/b\"\n+ providerID: \
             \"capstan-host://a/c\"",
        ),
        update(
            "HO-5",
            "HostMachineTemplate",
            host(json!({"template": {"spec": {"hostName": "h2"}}})),
            "spec.template.spec: Invalid value: \"object\": HostMachineTemplate spec.template.spec field is immutable. \
             Please create a new resource instead. Diff: - hostName: \"h1\"\n+ hostName: \"h2\"",
        ),
        update(
            "HO-5",
            "HostClusterTemplate",
            host(json!({"template": {"spec": {"endpoint": {"hostName": "h2"}}}})),
            "spec.template.spec: Invalid value: \"object\": HostClusterTemplate spec.template.spec field is immutable. \
             Please create a new resource instead. Diff: - endpoint.hostName: \"h1\"\n+ endpoint.hostName: \"h2\"",
        ),
        create(
            "HO-6",
            "HostMachineTemplate",
            host(json!({"template": {"spec": {"providerID": "x"}}})),
            "spec.template.spec.providerID: Forbidden: each HostMachine gets one of its own",
        ),
    ]
}

fn endpoints() -> Vec<Row> {
    let vip = "an address that the control plane holds by itself is not there yet: name a load balancer with External, or one \
               Host with SingleHost";
    vec![
        create(
            "HO-7",
            "HostCluster",
            host(json!({"endpoint": {"mode": "VIP"}})),
            said(format!("spec.endpoint.mode: Invalid value: \"VIP\": {vip}")),
        ),
        create(
            "HO-8",
            "HostCluster",
            host(json!({"endpoint": {"hostName": null}})),
            "spec.endpoint.hostName: Required value: SingleHost needs the name of the Host whose address is the endpoint",
        ),
        create(
            "HO-8",
            "HostClusterTemplate",
            host(json!({"template": {"spec": {"endpoint": {"mode": "External"}}}})),
            "spec.template.spec.endpoint.hostName: Forbidden: only SingleHost has a Host at its endpoint",
        ),
        change(
            "HO-9",
            "HostCluster",
            host(json!({"controlPlaneEndpoint": {"host": "a", "port": 6443}})),
            host(json!({"controlPlaneEndpoint": {"host": "b", "port": 6443}})),
            "spec.controlPlaneEndpoint: Forbidden: the endpoint stands in the certificates and kubeconfigs of the cluster; it \
             cannot change",
        ),
    ]
}

#[test]
fn what_a_host_may_say_is_taken() {
    use super::{checked, patched, request};
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICMz1NVZOMPZz0sEADzBN96ZjMn2qOzIhvZtebSOjyaR root@h1";
    for spec in [
        json!({"address": "fe80::1%eth0"}),
        json!({"address": "edge-1.example", "hostKeys": [key]}),
        json!({"connection": {"user": "admin_1", "jump": [{"address": "10.0.0.1", "port": 22}]}}),
    ] {
        let object = patched("Host", &host(spec));
        assert_eq!(checked(&request("Host", None), &object, &[]), Ok(Vec::new()), "{object}");
    }
    // A claim is given back, and a provider ID is written once.
    let claimed = host(json!({"consumerRef": {"kind": "HostMachine", "name": "m", "uid": "1"}}));
    let old = patched("Host", &claimed);
    assert_eq!(checked(&request("Host", Some(&old)), &patched("Host", &json!({})), &[]), Ok(Vec::new()));
    let old = patched("HostMachine", &json!({}));
    let new = patched("HostMachine", &host(json!({"providerID": "capstan-host://a/b"})));
    assert_eq!(checked(&request("HostMachine", Some(&old)), &new, &[]), Ok(Vec::new()));
}
