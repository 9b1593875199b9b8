//! Watches as clients keep them: kube's watchers and reflectors, selectors, bookmarks, and being too late.

use capstan_store::Store as _;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchParams};
use kube::core::WatchEvent;
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use serde_json::json;
use tokio::time::timeout;

use super::{SOON, config_map, fixture};

#[tokio::test]
async fn watchers_see_everything_once() {
    let fixture = fixture().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client.clone());
    maps.create(&PostParams::default(), &config_map("old", &[])).await.expect("created");
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let events = watcher(maps.clone(), config).applied_objects();
        let mut events = std::pin::pin!(events);
        let first = timeout(SOON, events.try_next()).await.expect("in time").expect("fine").expect("one");
        assert_eq!(first.name_any(), "old");
        let name = format!("new-{}", fixture.store.revision().await.expect("a revision"));
        maps.create(&PostParams::default(), &config_map(&name, &[])).await.expect("created");
        let mut seen = Vec::new();
        while seen.last() != Some(&name) {
            let next = timeout(SOON, events.try_next()).await.expect("in time").expect("fine").expect("one");
            seen.push(next.name_any());
        }
        maps.delete(&name, &DeleteParams::default()).await.expect("deleted");
    }
}

#[tokio::test]
async fn a_reflector_follows() {
    let fixture = fixture().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client.clone());
    let (reader, writer) = reflector::store();
    let stream = watcher(maps.clone(), watcher::Config::default()).reflect(writer).default_backoff();
    let follow = tokio::spawn(stream.for_each(|_| async {}));
    timeout(SOON, reader.wait_until_ready()).await.expect("in time").expect("ready");
    maps.create(&PostParams::default(), &config_map("a", &[])).await.expect("created");
    let seen = async {
        while reader.state().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, seen).await.expect("in time");
    follow.abort();
}

async fn events_of(
    api: &Api<ConfigMap>,
    params: &WatchParams,
    version: &str,
    count: usize,
) -> Vec<(String, String)> {
    let stream = api.watch(params, version).await.expect("a watch");
    let mut stream = std::pin::pin!(stream);
    let mut seen = Vec::new();
    while seen.len() < count {
        let event =
            timeout(SOON, stream.try_next()).await.expect("in time").expect("fine").expect("an event");
        seen.push(match event {
            WatchEvent::Added(object) => ("ADDED".to_owned(), object.name_any()),
            WatchEvent::Modified(object) => ("MODIFIED".to_owned(), object.name_any()),
            WatchEvent::Deleted(object) => ("DELETED".to_owned(), object.name_any()),
            WatchEvent::Bookmark(mark) => ("BOOKMARK".to_owned(), mark.metadata.resource_version),
            WatchEvent::Error(status) => ("ERROR".to_owned(), status.code.to_string()),
        });
    }
    seen
}

#[tokio::test]
async fn s094_s096_selectors_turn_changes_into_events() {
    let fixture = fixture().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client.clone());
    let start = fixture.store.revision().await.expect("a revision").to_string();
    maps.create(&PostParams::default(), &config_map("a", &[])).await.expect("created");
    let params = PatchParams::default();
    for value in [json!("in"), json!("in2"), json!("in"), json!(null)] {
        let label = json!({ "metadata": { "labels": { "x": value } } });
        maps.patch("a", &params, &Patch::Merge(label)).await.expect("labelled");
    }
    maps.create(&PostParams::default(), &config_map("b", &[])).await.expect("created");
    maps.delete("b", &DeleteParams::default()).await.expect("deleted");
    let pair = |type_: &str, name: &str| (type_.to_owned(), name.to_owned());
    let selected = WatchParams::default().labels("x=in");
    let seen = events_of(&maps, &selected, &start, 4).await;
    assert_eq!(seen, [pair("ADDED", "a"), pair("DELETED", "a"), pair("ADDED", "a"), pair("DELETED", "a")]);
    let named = WatchParams::default().fields("metadata.name=b");
    assert_eq!(events_of(&maps, &named, &start, 2).await, [pair("ADDED", "b"), pair("DELETED", "b")]);
    // 94: too late is said in the stream.
    let now = fixture.store.revision().await.expect("a revision");
    fixture.store.compact(now).await.expect("compacted");
    assert_eq!(events_of(&maps, &WatchParams::default(), &start, 1).await, [pair("ERROR", "410")]);
}

#[tokio::test(start_paused = true)]
async fn s097_an_idle_watch_sends_bookmarks_and_ends() {
    let fixture = fixture().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(fixture.client.clone());
    let now = fixture.store.revision().await.expect("a revision").to_string();
    let stream = maps.watch(&WatchParams::default().timeout(130), &now).await.expect("a watch");
    let events: Vec<_> = stream.collect().await;
    let bookmarks = events.iter().filter(|event| matches!(event, Ok(WatchEvent::Bookmark(_)))).count();
    assert_eq!((bookmarks, events.len()), (3, 3));
}
