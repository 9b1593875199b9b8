//! Statements 155, 156: how long history and events are kept.

use std::time::Duration;

use capstan_store::{Write, write_all};
use serde_json::{Value, json};

use super::{MAPS, Site, config_map};

const EVENTS: &str = "/api/v1/namespaces/default/events";

async fn minutes(count: u64) {
    tokio::time::sleep(Duration::from_secs(60 * count)).await;
}

fn event(name: &str, seen: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": name }, "lastTimestamp": seen,
        "involvedObject": { "kind": "Thing", "name": "a", "namespace": "default" } })
}

#[tokio::test(start_paused = true)]
async fn s155_history_is_kept_for_five_minutes_and_forgotten_then() {
    let site = Site::paused().await;
    let start = site.revision().await;
    site.made(MAPS, &config_map("a", json!({}))).await;
    let from_start = format!("{MAPS}?watch&timeoutSeconds=1&resourceVersion={start}");
    let exact = format!("{MAPS}?resourceVersion={start}&resourceVersionMatch=Exact");
    minutes(5).await;
    assert_eq!(site.watch(&from_start).await.names(1).await[0].1, "a");
    assert_eq!(site.get(&exact).await.expect(200).json()["items"], json!([]));
    site.made(MAPS, &config_map("b", json!({}))).await;
    minutes(4).await;
    let events = site.watch(&from_start).await.until_the_end().await;
    assert_eq!((events.len(), &events[0]["object"]["code"]), (1, &json!(410)));
    site.get(&exact).await.refused(410, "Expired");
    assert_eq!(site.get(MAPS).await.json()["items"].as_array().map_or(0, Vec::len), 2);
}

#[tokio::test(start_paused = true)]
async fn s156_events_expire_and_watchers_are_told() {
    let site = Site::paused().await;
    let first = "2026-11-20T10:00:00Z";
    for name in ["old", "renewed"] {
        site.made(EVENTS, &event(name, first)).await;
    }
    minutes(40).await;
    let seen = json!({ "lastTimestamp": "2026-11-20T10:40:00Z", "count": 2 });
    site.merge(&format!("{EVENTS}/renewed"), &seen).await.expect(200);
    let now = site.revision().await;
    let mut events = site.watch(&format!("{EVENTS}?watch&resourceVersion={now}")).await;
    minutes(19).await;
    site.get(&format!("{EVENTS}/old")).await.expect(200);
    assert_eq!(events.names(1).await, [("DELETED".to_owned(), "old".to_owned())]);
    site.get(&format!("{EVENTS}/old")).await.refused(404, "NotFound");
    site.get(&format!("{EVENTS}/renewed")).await.expect(200);
    minutes(45).await;
    site.get(&format!("{EVENTS}/renewed")).await.refused(404, "NotFound");
}

/// The name of the damaged one comes before the other's: whatever cannot be read must not keep what follows.
#[tokio::test(start_paused = true)]
async fn s156_an_event_that_is_damaged_does_not_keep_others() {
    let site = Site::paused().await;
    let key = "/registry/events/default/damaged".into();
    write_all(&*site.store, vec![Write::Put(key, "{".into())]).await.expect("written");
    site.made(EVENTS, &event("old", "2026-11-20T10:00:00Z")).await;
    minutes(62).await;
    site.get(&format!("{EVENTS}/old")).await.refused(404, "NotFound");
}
