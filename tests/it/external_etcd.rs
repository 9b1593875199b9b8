//! A control plane with an etcd of the user's: its Secrets are waited for and never made, its members are left alone.

use capi_types::bootstrap::KubeadmConfig;
use capi_types::condition::{Conditioned as _, find};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::machine::Machine;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::simulation::{Sim, manifest, settled};

fn with_external_etcd(replicas: u32) -> Vec<Value> {
    let mut objects = manifest(replicas, 0);
    for object in &mut objects {
        if object["kind"] == "KubeadmControlPlane" {
            object["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["etcd"] = json!({"external": {
                "endpoints": ["https://10.0.0.9:2379"], "caFile": "/etc/etcd/ca.pem", "certFile": "/etc/etcd/client.pem",
                "keyFile": "/etc/etcd/client.key"}});
        }
    }
    objects
}

async fn give(sim: &Sim, name: &str, data: &[(&str, &str)]) {
    let data = data.iter().map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec())));
    let mut secret = Secret { data: Some(data.collect()), ..Secret::default() };
    secret.metadata.name = Some(name.to_owned());
    secret.metadata.namespace = Some("default".to_owned());
    sim.writer.create(&secret, capstan_engine::client::Mode::Real).await.expect("created");
}

async fn user_data(sim: &Sim, machine: &str) -> String {
    let data: Secret = sim.get(machine).await.expect("bootstrap data");
    let text = data.data.and_then(|mut data| data.remove("value")).expect("user data").0;
    String::from_utf8(text).expect("text")
}

#[tokio::test(start_paused = true)]
async fn an_etcd_of_the_users_is_read_and_left_alone() {
    let mut sim = Sim::start(61).await;
    sim.machines_max = (4, 0);
    sim.create(with_external_etcd(2)).await;
    let waits = async |s: &Sim| {
        let Some(control_plane) = s.get::<KubeadmControlPlane>("harbor-cp").await else { return false };
        find(control_plane.conditions(), "CertificatesAvailable").is_some_and(|c| c.status == "Unknown")
    };
    sim.until("the Secrets of the user are missed", 60, waits).await;
    assert!(sim.list::<Machine>().await.is_empty());
    assert!(sim.get::<Secret>("harbor-etcd").await.is_none(), "it is never made");

    give(&sim, "harbor-etcd", &[("tls.crt", "ETCD AUTHORITY")]).await;
    give(&sim, "harbor-apiserver-etcd-client", &[("tls.crt", "CLIENT"), ("tls.key", "CLIENT KEY")]).await;
    sim.until("2 machines up", 300, async |s| settled(s, 2, 0, "v1.34.1").await).await;
    for config in sim.list::<KubeadmConfig>().await {
        let text = user_data(&sim, config.metadata.name.as_deref().unwrap_or_default()).await;
        for part in ["/etc/etcd/ca.pem", "ETCD AUTHORITY", "/etc/etcd/client.key", "CLIENT KEY"] {
            assert!(text.contains(part), "{part}");
        }
        assert!(!text.contains("/etc/kubernetes/pki/etcd"), "etcd is not kubeadm's");
    }
    let owners: Secret = sim.get("harbor-etcd").await.expect("the user's");
    assert_eq!(owners.metadata.owner_references, None, "it stays the user's");
    let control_plane: KubeadmControlPlane = sim.get("harbor-cp").await.expect("a control plane");
    // As upstream: what was said before the control plane was initialized stays, and nobody looks at the etcd.
    let etcd = find(control_plane.conditions(), "EtcdClusterHealthy").expect("it was said once");
    assert_eq!((etcd.status.as_str(), etcd.reason.as_str()), ("Unknown", "InspectionFailed"));
    for machine in sim.list::<Machine>().await {
        let about_etcd: Vec<_> =
            machine.conditions().iter().filter(|c| c.type_.starts_with("Etcd")).map(|c| &c.type_).collect();
        assert!(about_etcd.is_empty(), "{about_etcd:?}");
    }

    // Two become one: with an etcd of its own a control plane could not have two.
    sim.patch::<KubeadmControlPlane>("harbor-cp", json!({"spec": {"replicas": 1}})).await;
    sim.until("1 machine left", 200, async |s| settled(s, 1, 0, "v1.34.1").await).await;
    sim.patch::<KubeadmControlPlane>("harbor-cp", json!({"spec": {"version": "v1.34.2"}})).await;
    sim.until("another version", 300, async |s| settled(s, 1, 0, "v1.34.2").await).await;
}
