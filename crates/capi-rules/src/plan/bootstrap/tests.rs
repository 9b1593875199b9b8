//! Tables for the KubeadmConfig's plan, and what its data says.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::{Value, json};

use super::*;
use crate::plan::Step;
use crate::status::bootstrap::SecretValue;
use crate::status::contract::{External, Provided};
use crate::status::control_plane::certificates::Purpose;
use capi_types::names::label;
use capstan_base::time::parse_rfc3339;

fn now() -> Timestamp {
    parse_rfc3339("2026-01-01T12:00:00Z").expect("a moment")
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

fn observed(control_plane: bool, initialized: bool) -> Observed {
    let conditions = if initialized {
        json!([{"type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized", "message": "",
                "lastTransitionTime": "2026-01-01T11:00:00Z"}])
    } else {
        json!([])
    };
    let labels = if control_plane { json!({label::CONTROL_PLANE: ""}) } else { json!({}) };
    Observed {
        config: object(json!({"metadata": {"name": "m", "namespace": "ns", "uid": "u"}, "spec": {
            "files": [{"path": "/etc/v", "content": "at {{ .controlPlane.version }}", "contentFormat": "Template"}]}})),
        machine: object(json!({"metadata": {"name": "m", "namespace": "ns", "labels": labels}, "spec": {
            "clusterName": "c", "version": "v1.34.1", "bootstrap": {},
            "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}})),
        cluster: object(json!({"metadata": {"name": "c", "namespace": "ns"},
            "spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}},
            "status": {"initialization": {"infrastructureProvisioned": true}, "conditions": conditions}})),
        control_plane: External::Found(Provided::new(
            json!({"kind": "KubeadmControlPlane", "spec": {"version": "1.34.1"}}),
        )),
        lock: Lock::Free,
        certificates: authority(CERTIFICATE),
        new_token: "abcdef.0123456789abcdef".to_owned(),
        ..Observed::default()
    }
}

fn authority(certificate: &str) -> Certificates {
    Certificates::Found(BTreeMap::from([(Purpose::Ca, (certificate.to_owned(), "KEY".to_owned()))]))
}

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIBcTCCARegAwIBAgIUcoigdt9DAr3lmY7t0h84inJQzQ4wCgYIKoZIzj0EAwIw
DTELMAkGA1UEAwwCY2EwIBcNMjYxMTIyMDAwNDE2WhgPMjEyNjEwMjkwMDA0MTZa
MA0xCzAJBgNVBAMMAmNhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEmOaUAgFQ
O/v+L69DTHgsCykUIUmqRN8O5YkD0vCf4JSJC17DKpCRX2vTfje1nxzQvQr5RlTp
uO/EwqCxFCp3WKNTMFEwHQYDVR0OBBYEFFzSqyorkhNtm41Td2uPE1mi4UzIMB8G
A1UdIwQYMBaAFFzSqyorkhNtm41Td2uPE1mi4UzIMA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDSAAwRQIgDFWrk65KYcttrtWbjgmWqN091ewrE5BbFMJ36P33
CiECIQCyi0JNAQ9yykuvR7mGy0447fjouWmEeICS1pPDzgu0tg==
-----END CERTIFICATE-----
";

fn check(o: &Observed, steps: &[&str], blockers: &[&str]) -> Vec<Step> {
    let plan = plan(o, now()).plan;
    let did: Vec<_> = plan.steps.iter().map(|s| s.reason.rule).collect();
    let held: Vec<_> = plan.blockers.iter().map(|b| b.reason.rule).collect();
    assert_eq!((did.as_slice(), held.as_slice()), (steps, blockers));
    plan.steps
}

/// The user data in the last step, read back.
fn user_data(steps: &[Step]) -> Value {
    let Some([Write::Create { content, .. }]) = steps.last().map(|step| step.writes.as_slice()) else {
        unreachable!("a secret")
    };
    let encoded = content["data"]["value"].as_str().unwrap_or_default();
    let text = base64::engine::general_purpose::STANDARD.decode(encoded).expect("base64");
    serde_saphyr::from_str(&String::from_utf8(text).expect("text")).expect("YAML")
}

fn file(data: &Value, path: &str) -> String {
    let files = data["write_files"].as_array().cloned().unwrap_or_default();
    let found = files.iter().find(|f| f["path"] == path).and_then(|f| f["content"].as_str());
    found.unwrap_or_default().to_owned()
}

#[test]
fn the_first_control_plane_machine_takes_the_lock_and_initializes() {
    let mut o = observed(true, false);
    let steps = check(&o, &["take-init-lock", "keep-endpoint", "store-bootstrap-data"], &[]);
    let locks = steps.iter().flat_map(|step| &step.writes).filter_map(|write| match write {
        Write::Create { object, content, .. } if object.gvk.kind == "ConfigMap" => Some(content),
        _ => None,
    });
    let labels: Vec<&Value> = locks.map(|content| &content["metadata"]["labels"]).collect();
    assert_eq!(labels, [&json!({label::CLUSTER_NAME: o.cluster.metadata.name})], "as upstream finds it by");
    let data = user_data(&steps);
    assert_eq!(file(&data, "/etc/kubernetes/pki/ca.key"), "KEY\n");
    assert_eq!(file(&data, "/etc/v"), "at v1.34.1\n");
    let config = file(&data, "/run/kubeadm/kubeadm.yaml");
    for text in
        ["kubeadm.k8s.io/v1beta4", "kind: ClusterConfiguration", "kind: InitConfiguration", "10.0.0.1:6443"]
    {
        assert!(config.contains(text), "{text} in {config}");
    }
    o.lock = Lock::Mine;
    check(&o, &["keep-endpoint", "store-bootstrap-data"], &[]);
    o.lock = Lock::HeldBy { machine: "n".to_owned(), exists: true };
    check(&o, &[], &["init-locked"]);
    o.lock = Lock::HeldBy { machine: "n".to_owned(), exists: false };
    check(&o, &["break-init-lock"], &[]);
    o.lock = Lock::Free;
    o.certificates = Certificates::Missing(vec![Purpose::Ca]);
    check(&o, &[], &["certificates-missing"]);
    let failure = Failure::Other("certificate secrets are missing: c-ca".to_owned());
    assert_eq!(plan(&o, now()).failure, Some(failure), "the generation is not observed");
    o.config.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(now()));
    assert_eq!(plan(&o, now()), Planned::default(), "on its way out");
}

#[test]
fn without_a_control_plane_object_the_first_machine_makes_the_certificates() {
    let mut o = observed(true, false);
    o.control_plane = External::NotSet;
    o.config.spec.cluster_configuration =
        Some(object(json!({"encryptionAlgorithm": "ECDSA-P384", "caCertificateValidityPeriodDays": 30})));
    o.certificates = Certificates::Missing(vec![Purpose::Ca, Purpose::Etcd]);
    let steps = check(&o, &["take-init-lock", "make-certificates"], &[]);
    let Write::Keys { owner, call, .. } = &steps[1].writes[0] else { unreachable!("keys") };
    assert_eq!(
        (owner.kind.as_str(), owner.uid.as_str(), owner.controller),
        ("KubeadmConfig", "u", Some(true))
    );
    let settings = KeySettings { algorithm: "ECDSA-P384".to_owned(), ca_validity_days: Some(30) };
    let purposes = vec![Purpose::Ca, Purpose::Etcd];
    assert_eq!(*call, KeyCall::CreateCertificates { purposes, settings });
    let planned = plan(&o, now());
    assert_eq!((planned.plan.recheck, planned.stores_data), (Some(Duration::ZERO), false));
    o.lock = Lock::HeldBy { machine: "n".to_owned(), exists: true };
    check(&o, &[], &["init-locked"]);
    // Those of the user are waited for, and nothing is made meanwhile.
    o.lock = Lock::Mine;
    o.certificates = Certificates::Missing(vec![Purpose::Ca, Purpose::ApiserverEtcdClient]);
    o.config.spec.cluster_configuration =
        Some(object(json!({"etcd": {"external": {"endpoints": ["https://e:2379"],
        "caFile": "/e/ca", "certFile": "/e/crt", "keyFile": "/e/key"}}})));
    check(&o, &[], &["certificates-missing"]);
    // A Machine that joins makes none.
    let mut joins = observed(true, true);
    joins.control_plane = External::NotSet;
    joins.certificates = Certificates::Missing(vec![Purpose::Ca]);
    check(&joins, &[], &["certificates-missing"]);
}

#[test]
fn the_format_that_is_asked_for_is_noted_beside_the_data() {
    let mut o = observed(false, true);
    for (format, expected) in [(None, "cloud-config"), (Some("ignition"), "ignition")] {
        o.config.spec.format = format.map(str::to_owned);
        let steps = plan(&o, now()).plan.steps;
        let Some(Write::Create { content, .. }) = steps.last().map(|step| &step.writes[0]) else {
            unreachable!("a secret")
        };
        let text = |key: &str| {
            let encoded = content["data"][key].as_str().unwrap_or_default();
            let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).expect("base64");
            String::from_utf8(bytes).expect("text")
        };
        assert_eq!(text("format"), expected);
        assert_eq!(text("value").starts_with("{\"ignition\":"), format.is_some());
    }
}

#[test]
fn certificates_of_an_external_etcd_were_written_where_kubeadm_did_not_look() {
    let mut o = observed(true, false);
    o.config.spec.cluster_configuration = Some(object(
        json!({"certificatesDir": "/pki", "etcd": {"external": {
        "endpoints": ["https://e:2379"], "caFile": "/e/ca.pem", "certFile": "/e/client.pem", "keyFile": "/e/client.key"}}}),
    ));
    let pair = |name: &str, key: &str| (name.to_owned(), key.to_owned());
    o.certificates = Certificates::Found(BTreeMap::from([
        (Purpose::Ca, (CERTIFICATE.to_owned(), "KEY".to_owned())),
        (Purpose::Etcd, pair("ETCD", "NOT OURS")),
        (Purpose::ApiserverEtcdClient, pair("CLIENT", "CLIENT KEY")),
    ]));
    let data = user_data(&plan(&o, now()).plan.steps);
    for (path, content) in [
        ("/pki/ca.key", "KEY\n"),
        ("/e/ca.pem", "ETCD\n"),
        ("/e/client.pem", "CLIENT\n"),
        ("/e/client.key", "CLIENT KEY\n"),
        ("/pki/etcd/ca.crt", ""),
        ("/pki/apiserver-etcd-client.crt", ""),
    ] {
        assert_eq!(file(&data, path), content, "{path}");
    }
    assert!(!data.to_string().contains("NOT OURS"));
}

#[test]
fn the_endpoint_was_rendered_and_then_forgotten() {
    let mut o = observed(true, false);
    o.lock = Lock::Mine;
    let steps = check(&o, &["keep-endpoint", "store-bootstrap-data"], &[]);
    let Write::Patch { body, .. } = &steps[0].writes[0] else { unreachable!("a patch") };
    assert_eq!(*body, json!({"spec": {"clusterConfiguration": {"controlPlaneEndpoint": "10.0.0.1:6443"}}}));
    o.config.spec.cluster_configuration = Some(object(json!({"controlPlaneEndpoint": "lb:443"})));
    let data = user_data(&check(&o, &["store-bootstrap-data"], &[]));
    assert!(file(&data, "/run/kubeadm/kubeadm.yaml").contains("lb:443"), "the user's own stays");
}

#[test]
fn the_data_secret_blocked_the_deletion_of_its_config() {
    let steps =
        check(&observed(true, false), &["take-init-lock", "keep-endpoint", "store-bootstrap-data"], &[]);
    let Some([Write::Create { content, .. }]) = steps.last().map(|step| step.writes.as_slice()) else {
        unreachable!("a secret")
    };
    let owner = &content["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["controller"], owner.get("blockOwnerDeletion")), (&json!(true), None));
}

#[test]
fn a_worker_waits_then_joins_with_a_token() {
    check(&observed(false, false), &[], &["waiting-for-control-plane"]);
    let mut o = observed(false, true);
    let steps = check(&o, &["make-join-token", "set-discovery", "store-bootstrap-data"], &[]);
    let data = user_data(&steps);
    let config = file(&data, "/run/kubeadm/kubeadm-join-config.yaml");
    for text in ["abcdef.0123456789abcdef", "10.0.0.1:6443", "node.cluster.x-k8s.io/uninitialized"] {
        assert!(config.contains(text), "{text} in {config}");
    }
    assert_eq!(file(&data, "/etc/kubernetes/pki/ca.key"), "", "workers get no keys");
    let Write::Patch { body, .. } = &steps[1].writes[0] else { unreachable!("a patch") };
    assert!(!body.to_string().contains("uninitialized"), "only the rendered copy has the taint");
    o.config.spec.join_configuration = Some(object(json!({"controlPlane": {}})));
    check(&o, &[], &["configuration-unusable"]);
}

#[test]
fn a_certificate_that_cannot_be_parsed_is_never_trusted_blindly() {
    let mut o = observed(false, true);
    o.certificates = authority("garbage");
    check(&o, &[], &["configuration-unusable"]);
    o.config.spec.join_configuration =
        Some(object(json!({"discovery": {"bootstrapToken": {"caCertHashes": ["sha256:given"]}}})));
    check(&o, &["make-join-token", "set-discovery", "store-bootstrap-data"], &[]);
}

#[test]
fn only_who_needs_the_endpoint_waits_for_it() {
    let mut o = observed(false, true);
    o.cluster.spec.control_plane_endpoint = None;
    let discovery = |value: Value| Some(object(json!({"discovery": value})));
    let file = |kubeconfig: Value| json!({"file": {"kubeConfigPath": "/k", "kubeConfig": kubeconfig}});
    for (given, waits) in [
        (json!({}), true),
        (json!({"bootstrapToken": {"token": "abcdef.0123456789abcdef"}}), true),
        (json!({"bootstrapToken": {"apiServerEndpoint": "10.0.0.9:6443"}}), false),
        (file(json!({"user": {}})), true),
        (file(json!({"user": {}, "cluster": {"server": "https://lb"}})), false),
        (json!({"file": {"kubeConfigPath": "/k"}}), false),
    ] {
        o.config.spec.join_configuration = discovery(given.clone());
        let planned = plan(&o, now());
        let held: Vec<_> = planned.plan.blockers.iter().map(|b| b.reason.rule).collect();
        assert_eq!(held, if waits { vec!["waiting-for-endpoint"] } else { vec![] }, "{given}");
        assert_eq!(planned.failure, None, "{given}");
    }
}

#[test]
fn the_kubeconfig_of_a_discovery_file_is_completed_and_written() {
    let mut o = observed(false, true);
    let exec = json!({"command": "login", "args": ["--now"], "env": [{"name": "A", "value": "b"}]});
    o.config.spec.join_configuration = Some(object(json!({"discovery": {"file": {
        "kubeConfigPath": "/run/discovery.yaml", "kubeConfig": {"user": {"exec": exec}}}}})));
    let data = user_data(&check(&o, &["set-discovery", "store-bootstrap-data"], &[]));
    let written: Value = serde_saphyr::from_str(&file(&data, "/run/discovery.yaml")).expect("YAML");
    let authority = base64::engine::general_purpose::STANDARD.encode(CERTIFICATE);
    assert_eq!(
        written,
        json!({
            "clusters": [{"name": "default", "cluster": {
                "server": "https://10.0.0.1:6443", "certificate-authority-data": authority}}],
            "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
            "current-context": "default",
            "users": [{"name": "default", "user": {"exec": {
                "apiVersion": "client.authentication.k8s.io/v1", "command": "login", "args": ["--now"],
                "env": [{"name": "A", "value": "b"}], "provideClusterInfo": false, "interactiveMode": "Never"}}}],
        })
    );
    let config = file(&data, "/run/kubeadm/kubeadm-join-config.yaml");
    assert!(config.contains("kubeConfigPath: /run/discovery.yaml"), "{config}");
}

#[test]
fn further_control_plane_machines_release_the_lock_and_join() {
    let mut o = observed(true, true);
    o.lock = Lock::HeldBy { machine: "first".to_owned(), exists: true };
    let steps =
        check(&o, &["release-init-lock", "make-join-token", "set-discovery", "store-bootstrap-data"], &[]);
    assert_eq!(file(&user_data(&steps), "/etc/kubernetes/pki/ca.key"), "KEY\n");
}

#[test]
fn a_token_is_kept_alive_until_the_node_is_there() {
    let mut o = observed(false, true);
    o.config.status =
        Some(object(json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "m"})));
    o.config.spec.join_configuration =
        Some(object(json!({"discovery": {"bootstrapToken": {"token": "abcdef.0123456789abcdef"}}})));
    o.token = Token::Expires(now() + TimeDelta::minutes(10));
    check(&o, &["refresh-join-token"], &[]);
    o.token = Token::Expires(now() + TimeDelta::minutes(14));
    check(&o, &[], &[]);
    o.token = Token::Missing;
    check(&o, &[], &["join-token-missing"]);
    o.machine.status = Some(object(json!({"nodeRef": {"name": "m"}})));
    check(&o, &[], &[]);
}

#[test]
fn a_missing_secret_is_a_failure_of_the_files() {
    let mut o = observed(false, true);
    o.config.spec.files =
        vec![object(json!({"path": "/x", "contentFrom": {"secret": {"name": "s", "key": "k"}}}))];
    let refused = |o: &Observed, text: &str| {
        let planned = plan(o, now());
        assert_eq!(planned.failure, Some(Failure::Files(text.to_owned())));
        assert!(!planned.stores_data);
    };
    refused(&o, "failed to resolve file source: secret not found: ns/s: secrets \"s\" not found");
    o.secret_values.insert(("s".to_owned(), "k".to_owned()), SecretValue::NoSuchKey);
    refused(&o, "failed to resolve file source: secret references non-existent secret key: \"k\"");
    let reference = json!({"apiGroup": "g.io", "kind": "KubeadmControlPlane", "name": "cp"});
    o.cluster.spec.control_plane_ref = Some(object(reference));
    o.control_plane = External::NotFound { kind: "KubeadmControlPlane".to_owned() };
    refused(
        &o,
        "failed to read control plane version: failed to retrieve KubeadmControlPlane ns/cp: \
         kubeadmcontrolplanes.g.io \"cp\" not found",
    );
}

#[test]
fn only_what_the_stage_needs_is_read() {
    let needed = |o: &Observed| match reads(o) {
        Reads::Nothing => "nothing".to_owned(),
        Reads::Token => "token".to_owned(),
        Reads::Secrets(needed) => {
            let keyless = needed.iter().filter(|needed| needed.is_keyless).count();
            format!("{} certificates, {keyless} keyless", needed.len())
        }
    };
    let mut first = observed(true, false);
    assert_eq!(needed(&first), "4 certificates, 4 keyless", "the first may do without keys");
    assert_eq!(needed(&observed(true, true)), "4 certificates, 0 keyless");
    assert_eq!(needed(&observed(false, true)), "1 certificates, 0 keyless");
    assert_eq!(needed(&observed(false, false)), "nothing", "a worker waits for the control plane");
    first.config.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(now()));
    assert_eq!(needed(&first), "nothing");
}

#[test]
fn the_lock_names_its_holder_or_nobody() {
    for (data, holder) in [
        (json!({"lock-information": "{\"machineName\": \"m\"}"}), "m"),
        (json!({"lock-information": "not JSON"}), ""),
        (json!({}), ""),
    ] {
        assert_eq!(lock_holder(&object(json!({ "data": data }))), holder, "{data}");
    }
}
