//! Until when the Cluster API of a server is looked after upstream, as the dashboard says it: read once of what clusterctl noted, and
//! nothing where it noted nothing.

use std::time::Duration;

use capstan_base::rng::Rng;
use capstan_base::time::{Clock, Timestamp, parse_rfc3339};
use capstan_dashboard::fleet::watch::{self, Recording, Scope};
use capstan_dashboard::fleet::{Delta, Fleet, SourceId};
use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command::check;
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::update::update;
use k8s_machinery::admission::AdmitAll;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use ratatui::layout::Rect;
use serde_json::{Value, json};

use crate::actions::Place;

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

fn provider(name: &str, version: &str) -> Value {
    json!({"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
        "metadata": {"name": name, "namespace": "capi-system"},
        "providerName": name, "type": "CoreProvider", "version": version})
}

fn cluster() -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "shop", "namespace": "default", "uid": "u", "creationTimestamp": "2026-11-20T09:00:00Z"},
        "spec": {"controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "shop"}}})
}

fn screen(deltas: Vec<Delta>, width: u16) -> Model {
    let look = Look::load("default", "default", Tier::None, false, None, check).expect("shipped files load");
    let mut model = Model::new(Session::default(), look, Rect::new(0, 0, width, 40), now());
    update(&mut model, Msg::Fleet(deltas));
    model
}

#[test]
fn the_head_and_the_details_of_a_cluster_say_it() {
    for (version, wide, narrow, details) in [
        (
            "v1.10.5",
            "support of Cluster API 1.10 ended",
            "  Cluster API 1.10 ended",
            "Cluster API v1.10.5; Cluster API 1.10 ended 2026-04-21, by upstream's table of",
        ),
        (
            "v1.12.3",
            "support of Cluster API 1.12 ends",
            "  Cluster API 1.12 ends",
            "Cluster API v1.12.3; Cluster API 1.12 ends 2026-12-08, by upstream's table of",
        ),
        ("v1.14.2", "", "", "Cluster API v1.14.2"),
        ("", "", "", ""),
    ] {
        let mut objects = vec![cluster(), provider("infrastructure-docker", "v1.5.0")];
        if !version.is_empty() {
            objects.push(provider("cluster-api", version));
        }
        let deltas = Recording::new(objects).deltas(SourceId(0), "demo", now());
        for (width, words) in [(120, wide), (80, narrow)] {
            let mut model = screen(deltas.clone(), width);
            let shown = text(&mut model);
            let head = shown.lines().next().unwrap_or_default();
            assert!(head.contains(words), "{version}: {head}");
            assert_eq!(head.contains("Cluster API"), !words.is_empty(), "{version}: {head}");
        }
        let mut model = screen(deltas, 120);
        press(&mut model, "d end").expect("keys");
        let shown = text(&mut model);
        assert!(shown.contains(details), "{version}: {shown}");
        assert_eq!(shown.contains("looked after by"), !details.is_empty(), "{version}: {shown}");
    }
}

fn providers() -> CustomResourceDefinition {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "providers.clusterctl.cluster.x-k8s.io"},
        "spec": {"group": "clusterctl.cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "Provider", "listKind": "ProviderList", "plural": "providers", "singular": "provider"},
            "versions": [{"name": "v1alpha3", "served": true, "storage": true, "schema": {"openAPIV3Schema": anything}}]}
    });
    serde_json::from_value(definition).expect("a definition")
}

#[tokio::test]
async fn it_is_read_of_a_server_where_clusterctl_noted_it() {
    for is_noted in [true, false] {
        let mut definitions = capi_types::crds::all();
        if is_noted {
            definitions.push(providers());
        }
        let mut place = Place::serving(definitions, std::sync::Arc::new(AdmitAll)).await;
        place = place.with(cluster()).await;
        if is_noted {
            place = place.with(provider("cluster-api", "v1.10.5")).await;
        }
        let (mut batches, _source) = watch::spawn(
            &place.connection(true),
            SourceId(0),
            Scope::default(),
            Clock::system(),
            Rng::seeded(1),
        );
        let mut fleet = Fleet::new();
        while fleet.clusters().is_empty() || (is_noted && fleet.cluster_api(SourceId(0)).is_none()) {
            let batch = tokio::time::timeout(Duration::from_secs(60), batches.recv()).await;
            fleet.apply(batch.expect("in time").expect("a batch"));
        }
        assert_eq!(fleet.cluster_api(SourceId(0)), is_noted.then_some("v1.10.5"));
        fleet.advance(now());
        assert_eq!(fleet.manager_support_end(SourceId(0)).is_some(), is_noted);
    }
}
