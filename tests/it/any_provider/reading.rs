//! What can stand between the engine and a provider's objects: no definition, no right, another version.

use capi_rules::status::contract::External;
use capi_types::reference::ContractRef;
use capstan_engine::controllers::external::{Externals, Reader};

use super::*;

const READY: &str = "InfrastructureReady";

/// Runs so far, but for those of MachineSets, which look at Machines that are not ready every 15 s anyway.
fn runs(running: &Running) -> usize {
    let entries = running.handle.trace().entries();
    entries.iter().filter(|run| run.controller != "machine-set").count()
}

/// The Cluster's infrastructure as the engine sees it does not change for five minutes, and the engine does not
/// look at anything.
async fn assert_calm(site: &Site, running: &Running, reason: &str) {
    // The last runs that the change called for, and everything that does not need what cannot be read.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (writes, before) = (running.handle.writes(), runs(running));
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(site.reason(READY).await, reason);
    }
    assert_eq!(running.handle.writes(), writes, "nothing is written meanwhile");
    assert_eq!(runs(running), before, "nothing is looked at meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_provider_may_be_installed_removed_and_installed_again() {
    let site = Site::with(Vec::new()).await;
    let running = start(&site);
    site.create(&cluster()).await;
    until("a report", &site, &running, 30, async || site.reason(READY).await == "InternalError").await;
    assert_calm(&site, &running, "InternalError").await;

    for name in ["ForgeCluster", "SmithControlPlane"] {
        site.create(&provider::definition(name)).await;
    }
    until("what is missing", &site, &running, 60, async || site.reason(READY).await == "ObjectDoesNotExist")
        .await;
    site.create(&object("ForgeCluster", "harbor", json!({}))).await;
    site.create(&object("SmithControlPlane", "harbor-cp", json!({"version": "v1.34.1"}))).await;
    until("infrastructure", &site, &running, 60, async || site.reason(READY).await == "Ready").await;

    // The server deletes the objects with the definition; that they were deleted is then no longer to be seen.
    site.delete(&definition("forgeclusters.forge.example.com")).await;
    until("a report", &site, &running, 60, async || site.reason(READY).await == "InternalError").await;
    assert_calm(&site, &running, "InternalError").await;

    site.create(&provider::definition("ForgeCluster")).await;
    until("what was deleted", &site, &running, 60, async || site.reason(READY).await == "ObjectDeleted")
        .await;
    site.create(&object("ForgeCluster", "harbor", json!({}))).await;
    until("infrastructure", &site, &running, 60, async || site.reason(READY).await == "Ready").await;
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_is_said_and_tried_again() {
    let site = Site::with(provider::definitions()).await;
    site.forbidden.lock().insert("/forgeclusters");
    let running = start(&site);
    create_fleet(&site, 1).await;
    until("a report", &site, &running, 30, async || site.reason(READY).await == "InternalError").await;
    assert_calm(&site, &running, "InternalError").await;
    site.forbidden.lock().clear();
    until("infrastructure", &site, &running, 90, async || site.reason(READY).await == "Ready").await;
    until("1 worker", &site, &running, 120, async || is_settled(&site, "v1.34.1", 1).await).await;
}

#[tokio::test(start_paused = true)]
async fn templates_that_may_not_be_read_hold_machines_back() {
    let site = Site::with(provider::definitions()).await;
    site.forbidden.lock().insert("/forgeboxtemplates");
    let running = start(&site);
    create_fleet(&site, 2).await;
    until("infrastructure", &site, &running, 60, async || site.reason(READY).await == "Ready").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    for gvk in [Gvk::of::<Machine>(), provider::gvk("ForgeBox"), provider::gvk("SparkConfig")] {
        assert_eq!(site.list(&gvk).await, Vec::<Value>::new(), "{}", gvk.kind);
    }
    site.forbidden.lock().clear();
    until("2 workers", &site, &running, 180, async || is_settled(&site, "v1.34.1", 2).await).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_read_in_the_newest_version_that_its_definition_promises() {
    let site = Site::with(provider::definitions()).await;
    let mut engine = site.engine();
    let externals = Externals::of(&mut engine);
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let handle = engine.handle();
    tokio::spawn(engine.run(stop));
    handle.wait_until_idle(Duration::from_millis(100)).await;
    site.create(&object("ForgeCluster", "harbor", json!({}))).await;
    let reference = ContractRef {
        api_group: FORGE.to_owned(),
        kind: "ForgeCluster".to_owned(),
        name: "harbor".to_owned(),
    };
    let read = async || {
        externals.prepare(Reader::Cluster, [Some(&reference)]).await;
        match externals.get("default", Some(&reference)) {
            External::Found(object) => object.content()["apiVersion"].as_str().unwrap_or_default().to_owned(),
            External::Unreadable { error, .. } => error,
            other => format!("{other:?}"),
        }
    };
    assert_eq!(read().await, "forge.example.com/v1");
    let label = |versions: Value| json!({"metadata": {"labels": {"cluster.x-k8s.io/v1beta2": versions}}});
    let name = definition("forgeclusters.forge.example.com");
    for (versions, expected) in [
        (json!("v1alpha1"), "forge.example.com/v1alpha1"),
        (json!("v1alpha1_v1"), "forge.example.com/v1"),
        (json!(null), "cannot find any versions matching contract versions"),
        (json!("v9"), "ForgeCluster default/harbor: objects of this kind cannot be read in version v9: "),
        (json!("v1"), "forge.example.com/v1"),
    ] {
        site.patch(&name, &label(versions.clone())).await;
        handle.wait_until_idle(Duration::from_millis(100)).await;
        let found = read().await;
        assert!(found.starts_with(expected), "{versions}: {found}");
    }
    let unknown = ContractRef { kind: "Nobody".to_owned(), ..reference.clone() };
    let External::Unreadable { error, .. } = externals.get("default", Some(&unknown)) else {
        panic!("there is no such kind")
    };
    assert!(error.contains("nobodies.forge.example.com"), "{error}");
    assert_eq!(externals.get("default", None), External::NotSet);
}
