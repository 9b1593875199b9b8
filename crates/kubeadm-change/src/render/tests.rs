//! Manifests over the versions at which rules changed, and every vector.

use serde_json::json;

use super::*;

fn rendered(version: &str, configuration: Value, host: &HostFacts) -> NodeArtefacts {
    let mut value = configuration;
    value["kubernetesVersion"] = version.into();
    let settings = ClusterSettings::new(&value, None).expect("a version");
    node(&settings, host).expect("an address")
}

fn flag<'p>(pod: &'p StaticPod, name: &str) -> Option<&'p str> {
    let prefix = format!("--{name}=");
    pod.command.iter().rev().find_map(|argument| argument.strip_prefix(prefix.as_str()))
}

#[test]
fn a_plain_cluster() {
    let node = rendered(
        "v1.36.1",
        json!({"networking": {"podSubnet": "10.244.0.0/16"}}),
        &HostFacts::new("n1", "10.0.0.1"),
    );
    let server = &node.static_pods[API_SERVER];
    assert_eq!(server.image, "registry.k8s.io/kube-apiserver:v1.36.1");
    assert_eq!(server.command[1], "--advertise-address=10.0.0.1");
    assert_eq!(flag(server, "etcd-servers"), Some("https://127.0.0.1:2379"));
    assert_eq!(flag(server, "authorization-mode"), Some("Node,RBAC"));
    let manager = &node.static_pods[CONTROLLER_MANAGER];
    assert_eq!(flag(manager, "service-cluster-ip-range"), Some("10.96.0.0/12"));
    assert!(!manager.volumes.iter().any(|volume| volume.name == "flexvolume-dir"));
    assert_eq!(node.static_pods[ETCD].image, "registry.k8s.io/etcd:3.6.8-0");
    assert_eq!(
        node.certificates["apiserver"],
        [
            "10.0.0.1",
            "10.96.0.1",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "n1"
        ]
    );
    assert_eq!(node.certificates["etcd-peer"], ["10.0.0.1", "127.0.0.1", "::1", "localhost", "n1"]);
}

#[test]
fn names_of_the_api_server_are_lowered() {
    let configuration = json!({"apiServer": {"certSANs": ["LB-1.Example"]}, "etcd": {"local": {"serverCertSANs": ["A.example"]}}});
    let node = rendered("v1.36.1", configuration, &HostFacts::new("n1", "10.0.0.1"));
    assert!(node.certificates["apiserver"].contains(&"lb-1.example".to_owned()));
    assert!(!node.certificates["etcd-server"].iter().any(|name| name.to_lowercase() == "a.example"));
}

#[test]
fn without_a_pod_range_the_controller_manager_gets_no_range_at_all() {
    let node = rendered("v1.31.0", json!({}), &HostFacts::new("n1", "fd00::1"));
    let manager = &node.static_pods[CONTROLLER_MANAGER];
    assert_eq!((flag(manager, "cluster-cidr"), flag(manager, "service-cluster-ip-range")), (None, None));
    assert!(manager.volumes.iter().any(|volume| volume.name == "flexvolume-dir"));
    assert_eq!(flag(&node.static_pods[API_SERVER], "etcd-servers"), Some("https://[::1]:2379"));
    assert_eq!(flag(&node.static_pods[ETCD], "initial-cluster"), Some("n1=https://[fd00::1]:2380"));
    assert_eq!(flag(&node.static_pods[ETCD], "experimental-initial-corrupt-check"), Some("true"));
}

#[test]
fn addresses_have_their_canonical_form() {
    for (given, written) in [
        ("2001:db8:0:0:0:0:0:1", "2001:db8::1"),
        ("2001:DB8::0001", "2001:db8::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("010.000.0.1", "10.0.0.1"),
    ] {
        let node = rendered("v1.36.0", json!({}), &HostFacts::new("n1", given));
        assert_eq!(flag(&node.static_pods[API_SERVER], "advertise-address"), Some(written), "{given}");
        assert!(node.certificates["apiserver"].iter().any(|name| name == written), "{given}");
    }
}

#[test]
fn the_node_of_an_init_configuration() {
    let init = |endpoint: Value| json!({"nodeRegistration": {"name": "n1"}, "localAPIEndpoint": endpoint});
    let of = |endpoint: Value| HostFacts::of_init(&init(endpoint)).map(|host| (host.address, host.port));
    assert_eq!(
        of(json!({"advertiseAddress": "fd00::0:1", "bindPort": 8443})),
        Some(("fd00::1".to_owned(), 8443))
    );
    assert_eq!(
        of(json!({"advertiseAddress": "10.0.0.1", "bindPort": 0})),
        Some(("10.0.0.1".to_owned(), 6443))
    );
    assert_eq!(of(json!({"bindPort": 8443})), None, "kubeadm looks for an address");
}

#[test]
fn authorization_modes_over_the_releases() {
    let modes = json!([{"name": "authorization-mode", "value": "Node,Other,RBAC"}]);
    let structured = json!([{"name": "authorization-config", "value": "/etc/a.yaml"}]);
    let server = |version: &str, flags: &Value| {
        let configuration = json!({"apiServer": {"extraArgs": flags}});
        rendered(version, configuration, &HostFacts::new("n1", "10.0.0.1")).static_pods[API_SERVER].clone()
    };
    assert_eq!(flag(&server("v1.27.3", &modes), "authorization-mode"), Some("Node,RBAC"));
    assert_eq!(flag(&server("v1.31.3", &modes), "authorization-mode"), Some("Node,Other,RBAC"));
    assert_eq!(flag(&server("v1.27.3", &structured), "authorization-mode"), Some("Node,RBAC"));
    assert_eq!(flag(&server("v1.31.3", &structured), "authorization-mode"), None);
}

#[test]
fn variables_of_the_user_win_over_those_of_the_shell() {
    let mut host = HostFacts::new("n1", "10.0.0.1");
    host.proxy_variables =
        vec![("https_proxy".to_owned(), "http://p".to_owned()), ("no_proxy".to_owned(), "a".to_owned())];
    let configuration = json!({"apiServer": {"extraEnvs": [{"name": "no_proxy", "value": "b"}, {"name": "EMPTY", "value": ""}]}});
    let node = rendered("v1.34.0", configuration.clone(), &host);
    assert_eq!(
        node.static_pods[API_SERVER].env,
        [
            json!({"name": "EMPTY"}),
            json!({"name": "https_proxy", "value": "http://p"}),
            json!({"name": "no_proxy", "value": "b"})
        ]
    );
    assert_eq!(node.static_pods[ETCD].env, Vec::<Value>::new(), "etcd gets no proxy");
    assert_eq!(
        rendered("v1.29.0", configuration, &host).static_pods[API_SERVER].env.len(),
        2,
        "v1beta3 has no variables"
    );
}

#[test]
fn images_of_addons() {
    let images = |configuration: Value| {
        ClusterSettings::new(&configuration, None).expect("a version").addon_images(None)
    };
    let plain = images(json!({"kubernetesVersion": "v1.31.0"}));
    assert_eq!(
        (plain.kube_proxy.as_str(), plain.coredns.as_str()),
        ("registry.k8s.io/kube-proxy:v1.31.0", "registry.k8s.io/coredns/coredns:v1.11.1")
    );
    let own = images(
        json!({"kubernetesVersion": "v1.31.0+x", "imageRepository": "r.example", "dns": {"imageTag": "v1"}}),
    );
    assert_eq!(
        (own.kube_proxy.as_str(), own.coredns.as_str()),
        ("r.example/kube-proxy:v1.31.0_x", "r.example/coredns:v1")
    );
}

#[test]
fn the_deepest_mount_covers_those_above_it() {
    let volume = |host: &str, mount: &str| json!({"name": mount, "hostPath": host, "mountPath": mount});
    for (volumes, path, expected) in [
        (vec![], "/etc/a/b", "/etc/a/b"),
        (vec![volume("/srv", "/etc")], "/etc/a/b", "/srv/a/b"),
        (vec![volume("/srv/a", "/etc/a"), volume("/srv", "/etc")], "/etc/a/b", "/srv/a/b"),
        (vec![volume("/deep", "/etc/a"), volume("/srv", "/etc")], "/etc/a/b", "/deep/b"),
        (vec![volume("/srv", "/etc"), volume("/deep", "/etc/a")], "/etc/a/b", "/deep/b"),
        // The file itself is the deepest.
        (vec![volume("/x.yaml", "/etc/a/b"), volume("/deep", "/etc/a")], "/etc/a/b", "/x.yaml"),
        (vec![volume("/one", "/etc/a"), volume("/two", "/etc/a/")], "/etc/a/b", "/two/b"),
        (vec![volume("/srv/", "/etc/")], "/etc/a/b", "/srv/a/b"),
        (vec![volume("/srv", "/et"), volume("/srv", "/etc/a/b/c")], "/etc/a/b", "/etc/a/b"),
    ] {
        let value = json!({"kubernetesVersion": "v1.36.0", "scheduler": {"extraVolumes": volumes}});
        let settings = ClusterSettings::new(&value, None).expect("a version");
        assert_eq!(settings.on_host("scheduler", path), expected, "{value}");
    }
}

#[test]
fn what_cannot_be_rendered_is_said() {
    let error =
        ClusterSettings::new(&json!({"kubernetesVersion": "stable-1"}), None).expect_err("no version");
    assert_eq!(
        error.to_string(),
        "kubernetesVersion is `stable-1`; expected the version of the cluster, such as v1.36.0"
    );
    let value = json!({"kubernetesVersion": "v1.36.0"});
    let settings = ClusterSettings::new(&value, None).expect("a version");
    assert!(matches!(node(&settings, &HostFacts::new("n1", "x")), Err(RenderError::Address { .. })));
    let value = json!({"kubernetesVersion": "v1.36.0", "networking": {"serviceSubnet": "x"}});
    let settings = ClusterSettings::new(&value, None).expect("a version");
    assert!(matches!(node(&settings, &HostFacts::new("n1", "10.0.0.1")), Err(RenderError::ServiceSubnet(_))));
}

/// A file of what kubeadm itself wrote from configurations made by chance.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vectors {
    kubeadm: String,
    ca_folders: Vec<String>,
    vectors: Vec<Vector>,
}

#[derive(serde::Deserialize)]
struct Vector {
    documents: String,
    node: Value,
}

/// `kubeadm init phase … --dry-run` of each release, made once and kept; `docs/changing-clusters.md` says how.
#[test]
fn what_is_rendered_is_what_kubeadm_writes() {
    use crate::document::{DocumentKind, read_inputs};
    for file in [
        include_str!("vectors/1.27.16.json"),
        include_str!("vectors/1.31.4.json"),
        include_str!("vectors/1.34.0.json"),
        include_str!("vectors/1.34.4.json"),
        include_str!("vectors/1.36.3.json"),
    ] {
        let vectors: Vectors = serde_json::from_str(file).expect("vectors");
        let release = Release::of(&vectors.kubeadm);
        for (index, vector) in vectors.vectors.iter().enumerate() {
            let inputs = read_inputs(&[("vector".to_owned(), vector.documents.clone())]).expect("documents");
            let init = &inputs.document(DocumentKind::Init).expect("a node").value;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let mut host = HostFacts::new(
                &text(&init["nodeRegistration"]["name"]),
                &text(&init["localAPIEndpoint"]["advertiseAddress"]),
            );
            host.ca_folders.clone_from(&vectors.ca_folders);
            if let Some(port) = init["localAPIEndpoint"]["bindPort"].as_u64() {
                host.port = u16::try_from(port).expect("a port");
            }
            let cluster = inputs.document(DocumentKind::Cluster).expect("a cluster");
            let settings = ClusterSettings::new(&cluster.value, release).expect("a version");
            let rendered = json!(node(&settings, &host).expect("an address"));
            let mut expected = vector.node.clone();
            for names in expected["certificates"].as_object_mut().expect("certificates").values_mut() {
                names.as_array_mut().expect("names").sort_by_key(ToString::to_string);
            }
            assert_eq!(rendered, expected, "kubeadm {}, vector {index}", vectors.kubeadm);
        }
    }
}
