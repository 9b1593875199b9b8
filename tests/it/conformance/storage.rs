//! Statements 151-156: what is stored stays stored, and old history goes away in time. Restarts,
//! crashes and etcd are in `keeping.rs` and `crash.rs`; what needs history to go is here, too.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Ask, JSON, MAPS, Site, config_map, version};

const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Lets time pass, and everything that happens by itself happen.
async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn watch_from(path: &str, revision: &str) -> String {
    format!("{path}?watch=1&resourceVersion={revision}&timeoutSeconds=1")
}

#[tokio::test]
async fn s153_a_hundred_writers_lose_no_increment() {
    let site = Site::open().await;
    site.made(MAPS, &config_map("counter", json!({ "n": "0" }))).await;
    let path = format!("{MAPS}/counter");
    let writers = (0..100).map(|_| {
        let (site, path) = (site.clone(), path.clone());
        tokio::spawn(async move {
            let mut lost = 0;
            loop {
                let mut object = site.get(&path).await.expect(200).json();
                let n: u32 = object["data"]["n"].as_str().unwrap().parse().unwrap();
                object["data"]["n"] = (n + 1).to_string().into();
                // Everybody has read before anybody writes, at first.
                tokio::task::yield_now().await;
                let answer = site.put(&path, &object).await;
                if answer.code == 200 {
                    return lost;
                }
                let refusal = answer.refused(409, "Conflict");
                assert!(refusal.message().contains("the object has been modified"), "{}", refusal.message());
                lost += 1;
            }
        })
    });
    let lost: u32 = futures::future::join_all(writers).await.into_iter().map(|done| done.unwrap()).sum();
    assert!(lost > 0, "nobody raced");
    assert_eq!(site.get(&path).await.json()["data"]["n"], "100");
}

#[tokio::test(start_paused = true)]
async fn s155_history_is_kept_for_five_minutes_and_then_goes() {
    let site = Site::paused().await;
    let before = site.revision().await;
    site.made(MAPS, &config_map("first", json!({}))).await;
    for minute in 0..5 {
        pass(58).await;
        site.made(MAPS, &config_map(&format!("minute-{minute}"), json!({}))).await;
    }
    // 4:50 later everything since then is told, and read as it was.
    let mut watch = site.watch(&watch_from(MAPS, &before)).await;
    let names: Vec<String> = watch.names(6).await.into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["first", "minute-0", "minute-1", "minute-2", "minute-3", "minute-4"]);
    let exact = format!("{MAPS}?resourceVersion={before}&resourceVersionMatch=Exact");
    assert_eq!(site.get(&exact).await.expect(200).json()["items"].as_array().map(Vec::len), Some(0));

    for _ in 0..4 {
        pass(120).await;
        site.made(
            MAPS,
            &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "later-" } }),
        )
        .await;
    }
    let events = site.watch(&watch_from(MAPS, &before)).await.until_the_end().await;
    let [error] = &events[..] else { panic!("{events:?}") };
    assert_eq!(error["type"], "ERROR");
    assert_eq!((&error["object"]["code"], &error["object"]["reason"]), (&json!(410), &json!("Expired")));
    let message = error["object"]["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("too old resource version: {before} (")), "{message}");
    let refusal = site.get(&exact).await.refused(410, "Expired");
    assert_eq!(refusal.message(), "The resourceVersion for the provided list is too old.");
}

#[tokio::test(start_paused = true)]
async fn s086_a_token_from_before_compaction_gives_way_to_an_inconsistent_one() {
    let site = Site::paused().await;
    for name in ["a", "b", "c"] {
        site.made(MAPS, &config_map(name, json!({}))).await;
    }
    let page = site.get(&format!("{MAPS}?limit=1")).await.expect(200).json();
    let token = page["metadata"]["continue"].as_str().unwrap();
    for _ in 0..5 {
        pass(120).await;
        site.made(
            MAPS,
            &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "z-" } }),
        )
        .await;
    }
    let refusal = site.get(&format!("{MAPS}?limit=1&continue={token}")).await.refused(410, "Expired");
    assert!(
        refusal.message().starts_with("The provided continue parameter is too old"),
        "{}",
        refusal.message()
    );
    let token = refusal.0["metadata"]["continue"].as_str().unwrap();
    let rest = site.get(&format!("{MAPS}?limit=2&continue={token}")).await.expect(200).json();
    let names: Vec<&str> = rest["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["b", "c"]);
    assert_eq!(version(&rest), site.revision().await);
}

#[tokio::test(start_paused = true)]
async fn s090_a_version_of_the_future_is_waited_for_and_then_refused() {
    let site = Site::paused().await;
    let current: u64 = site.revision().await.parse().unwrap();
    let future = current + 100;
    for query in [
        format!("resourceVersion={future}&resourceVersionMatch=NotOlderThan"),
        format!("resourceVersion={future}"),
    ] {
        let asked = Instant::now();
        let answer = site.get(&format!("{MAPS}?{query}")).await;
        let waited = asked.elapsed();
        assert!((Duration::from_secs(3)..Duration::from_secs(4)).contains(&waited), "{query}: {waited:?}");
        assert_eq!(answer.header("retry-after"), "1");
        let refusal = answer.refused(504, "Timeout");
        assert_eq!(
            refusal.message(),
            format!("Timeout: Too large resource version: {future}, current: {current}")
        );
        assert_eq!(refusal.causes(), [("ResourceVersionTooLarge", "")]);
        assert_eq!(refusal.cause_messages(), ["Too large resource version"]);
        assert_eq!(refusal.details()["retryAfterSeconds"], 1);
    }
    // One that comes while somebody waits is answered.
    let path = format!("{MAPS}?resourceVersion={}&resourceVersionMatch=NotOlderThan", current + 1);
    let waiting = tokio::spawn({
        let site = site.clone();
        async move { site.get(&path).await }
    });
    pass(1).await;
    site.made(MAPS, &config_map("now", json!({}))).await;
    let list = waiting.await.unwrap().expect(200).json();
    assert_eq!(list["items"][0]["metadata"]["name"], "now");
}

fn event(name: &str, seen: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": name },
        "involvedObject": { "kind": "ConfigMap", "namespace": "default", "name": "a" },
        "reason": "Tested", "message": "it was tested", "type": "Normal", "lastTimestamp": seen,
    })
}

#[tokio::test(start_paused = true)]
async fn s156_events_go_after_their_hour_and_say_so() {
    let site = Site::paused().await;
    site.made(EVENTS, &event("early", "2026-11-20T10:00:00Z")).await;
    site.made(EVENTS, &event("late", "2026-11-20T10:30:00Z")).await;
    let mut watch = site
        .watch(&format!("{EVENTS}?watch=1&timeoutSeconds=9000&resourceVersion={}", site.revision().await))
        .await;
    pass(59 * 60).await;
    site.get(&format!("{EVENTS}/early")).await.expect(200);
    let began = Instant::now();
    let event = watch.event().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("DELETED"), &json!("early")));
    assert_eq!(event["object"]["reason"], "Tested");
    assert!(began.elapsed() <= Duration::from_secs(180), "{:?}", began.elapsed());
    site.get(&format!("{EVENTS}/early")).await.refused(404, "NotFound");
    assert_eq!(site.send(Ask::get(&format!("{EVENTS}/late")).accept(JSON)).await.code, 200);
    assert_eq!(watch.event().await.unwrap()["object"]["metadata"]["name"], "late");
}
