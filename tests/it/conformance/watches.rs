//! Statements 91-100, 103-105: watches.

use std::collections::BTreeMap;
use std::time::Duration;

use capstan_store::Store as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{DEFINITIONS, MAPS, Site, THINGS, Watching, config_map, thing, version};

fn number(object: &Value) -> u64 {
    version(object).parse().expect("a number")
}

fn pair(type_: &str, name: &str) -> (String, String) {
    (type_.to_owned(), name.to_owned())
}

async fn label(site: &Site, name: &str, value: &Value) -> Value {
    let patch = json!({ "metadata": { "labels": { "x": value } } });
    site.merge(&format!("{MAPS}/{name}"), &patch).await.expect(200).json()
}

async fn map(site: &Site, name: &str) -> Value {
    site.made(MAPS, &config_map(name, json!({}))).await
}

#[tokio::test]
async fn s091_every_event_comes_once_and_in_order_across_10000_writes() {
    let site = Site::open().await;
    let start = site.revision().await;
    let mut early = site.watch(&format!("{MAPS}?watch&resourceVersion={start}")).await;
    let mut written = Vec::new();
    for round in 0..2_000 {
        let name = format!("m{}", round % 7);
        written.push(pair("ADDED", &name));
        map(&site, &name).await;
        for value in ["a", "b", "c"] {
            label(&site, &name, &json!(value)).await;
            written.push(pair("MODIFIED", &name));
        }
        site.delete(&format!("{MAPS}/{name}")).await.expect(200);
        written.push(pair("DELETED", &name));
    }
    assert_eq!(written.len(), 10_000);
    let mut late = site.watch(&format!("{MAPS}?watch&resourceVersion={start}")).await;
    for watching in [&mut early, &mut late] {
        let mut last: u64 = start.parse().expect("a number");
        for (type_, name) in &written {
            let event = watching.event().await.expect("an event");
            assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!(type_), &json!(name)));
            assert!(number(&event["object"]) > last, "versions grow");
            last = number(&event["object"]);
        }
        assert_eq!(last.to_string(), site.revision().await);
    }
    // From the middle: what is behind it, and no more.
    let middle: u64 = start.parse::<u64>().expect("a number") + 5_000;
    let mut rest = site.watch(&format!("{MAPS}?watch&resourceVersion={middle}")).await;
    assert_eq!(rest.names(5_000).await, written[5_000..]);
}

/// How a watch may start, and what it then sends first: the objects there are, and the mark of their end.
#[tokio::test(start_paused = true)]
async fn s092_a_watch_begins_as_its_parameters_say() {
    let site = Site::paused().await;
    let first = map(&site, "a").await;
    map(&site, "b").await;
    let now = site.revision().await;
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let silent = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let marks = "allowWatchBookmarks=true";
    let old = version(&first);
    for (query, objects, marked) in [
        (String::new(), 2, false),
        (marks.to_owned(), 2, true),
        ("resourceVersion=0".to_owned(), 2, false),
        (format!("resourceVersion=0&{marks}"), 2, false),
        (initial.to_owned(), 2, false),
        (format!("{initial}&{marks}"), 2, true),
        (format!("{initial}&{marks}&resourceVersion=0"), 2, true),
        (format!("{initial}&{marks}&resourceVersion={old}"), 2, true),
        (format!("resourceVersion={old}"), 1, false),
        (format!("resourceVersion={old}&{marks}"), 1, false),
        (format!("resourceVersion={now}"), 0, false),
        (silent.to_owned(), 0, false),
        (format!("{silent}&resourceVersion=0&{marks}"), 0, false),
    ] {
        let path = format!("{MAPS}?watch=1&timeoutSeconds=1&{query}");
        let events = site.watch(&path).await.until_the_end().await;
        let added = events.iter().filter(|event| event["type"] == "ADDED").count();
        let bookmarks: Vec<_> = events.iter().filter(|event| event["type"] == "BOOKMARK").collect();
        assert_eq!(
            (added, bookmarks.len(), events.len()),
            (objects, usize::from(marked), objects + bookmarks.len()),
            "{query}"
        );
        if let Some(mark) = bookmarks.first() {
            let metadata =
                json!({ "resourceVersion": now, "annotations": { "k8s.io/initial-events-end": "true" } });
            assert_eq!(
                mark["object"],
                json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata })
            );
            assert_eq!(events.last(), Some(*mark), "{query}");
        }
        if objects == 2 {
            let versions: Vec<_> = events[..2].iter().map(|event| version(&event["object"])).collect();
            assert_eq!(versions, [old, now.as_str()], "{query}: in key order, each at its own version");
        }
    }
}

#[tokio::test]
async fn s092_after_the_mark_come_the_changes() {
    let site = Site::open().await;
    map(&site, "a").await;
    let query = "watch&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events = site.watch(&format!("{MAPS}?{query}")).await;
    site.delete(&format!("{MAPS}/a")).await.expect(200);
    map(&site, "b").await;
    let seen = events.names(4).await;
    assert_eq!(seen, [pair("ADDED", "a"), pair("BOOKMARK", ""), pair("DELETED", "a"), pair("ADDED", "b")]);
    let mut selected = site.watch(&format!("{MAPS}?{query}&fieldSelector=metadata.name%3Db")).await;
    assert_eq!(selected.names(2).await, [pair("ADDED", "b"), pair("BOOKMARK", "")]);
    let mut nothing = site.watch(&format!("{THINGS}?{query}")).await;
    assert_eq!(nothing.names(1).await, [pair("BOOKMARK", "")]);
}

#[tokio::test(start_paused = true)]
async fn s092_initial_events_of_the_future_do_not_come() {
    let site = Site::paused().await;
    let future = site.revision().await.parse::<u64>().expect("a number") + 100;
    let query = "watch&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let start = Instant::now();
    let mut events = site.watch(&format!("{MAPS}?{query}&resourceVersion={future}")).await;
    let events = events.until_the_end().await;
    assert!(start.elapsed() < Duration::from_secs(4));
    assert_eq!(events.len(), 1);
    let status = &events[0]["object"];
    assert_eq!(
        (&events[0]["type"], &status["code"], &status["reason"]),
        (&json!("ERROR"), &json!(504), &json!("Timeout"))
    );
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}

#[tokio::test]
async fn s093_initial_events_need_not_older_than() {
    let site = Site::open().await;
    let field = "resourceVersionMatch";
    let requires = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    let without =
        "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
    let exact = "Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";
    for (query, causes) in [
        ("watch&sendInitialEvents=true", vec![(field, requires)]),
        ("watch&sendInitialEvents=false", vec![(field, requires)]),
        ("watch&sendInitialEvents=true&resourceVersionMatch=Exact", vec![(field, requires), (field, exact)]),
        ("watch&resourceVersionMatch=NotOlderThan", vec![(field, without)]),
        ("watch&resourceVersionMatch=Exact&resourceVersion=5", vec![(field, without), (field, exact)]),
        (
            "sendInitialEvents=true",
            vec![("sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list")],
        ),
        (
            "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0",
            vec![("sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list")],
        ),
    ] {
        let refusal = site.get(&format!("{MAPS}?{query}")).await.refused(422, "Invalid");
        let fields = refusal.causes().into_iter().map(|(_, field)| field);
        let found: Vec<_> = fields.zip(refusal.cause_messages()).collect();
        assert_eq!(found, causes, "{query}");
        assert_eq!(refusal.details()["kind"], "ListOptions");
    }
    site.get(&format!("{MAPS}?watch&resourceVersion=x")).await.refused(400, "BadRequest");
}

#[tokio::test]
async fn s094_a_watch_from_too_long_ago_says_so_and_ends() {
    let site = Site::open().await;
    let start = site.revision().await;
    map(&site, "a").await;
    let now = site.revision().await;
    site.store.compact(now.parse().expect("a number")).await.expect("compacted");
    for query in ["", "&allowWatchBookmarks=true", "&labelSelector=x"] {
        let mut events = site.watch(&format!("{MAPS}?watch&resourceVersion={start}{query}")).await;
        assert_eq!((events.code, events.headers["content-type"].as_bytes()), (200, &b"application/json"[..]));
        let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("too old resource version: {start} ({now})"), "reason": "Expired", "code": 410 });
        assert_eq!(events.until_the_end().await, [json!({ "type": "ERROR", "object": status })], "{query}");
    }
    let mut events = site.watch(&format!("{MAPS}?watch&resourceVersion={now}")).await;
    map(&site, "b").await;
    assert_eq!(events.names(1).await, [pair("ADDED", "b")], "the newest version is never too old");
}

/// After the store was lost and made anew, a client with an old version heard nothing, and then only
/// what came behind that version.
#[tokio::test(start_paused = true)]
async fn s095_a_watch_from_a_version_that_does_not_come_is_told_to_list_again() {
    let site = Site::paused().await;
    let now: u64 = site.revision().await.parse().expect("a number");
    let start = Instant::now();
    for query in ["", "&allowWatchBookmarks=true"] {
        let mut events = site.watch(&format!("{MAPS}?watch&resourceVersion={}{query}", now + 30)).await;
        assert_eq!(events.code, 200);
        let told = events.until_the_end().await;
        assert_eq!(told.len(), 1, "{told:?}");
        let status = &told[0]["object"];
        assert_eq!(
            (&told[0]["type"], &status["code"], &status["reason"]),
            (&json!("ERROR"), &json!(410), &json!("Expired"))
        );
        let message =
            format!("resource version {} is not of this history, which is at {now}; list again", now + 30);
        assert_eq!(status["message"], message);
    }
    assert!((3..8).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

/// Another server on the same etcd may have given the version out a moment ago.
#[tokio::test(start_paused = true)]
async fn s095_a_watch_from_a_version_that_comes_in_time_goes_on_from_it() {
    let site = Site::paused().await;
    let now: u64 = site.revision().await.parse().expect("a number");
    let path = format!("{MAPS}?watch&resourceVersion={}", now + 2);
    let writes = async {
        for name in ["a", "b"] {
            map(&site, name).await;
        }
    };
    let (mut events, ()) = tokio::join!(site.watch(&path), writes);
    map(&site, "c").await;
    assert_eq!(events.names(1).await, [pair("ADDED", "c")]);
}

#[tokio::test]
async fn s096_selection_decides_what_a_change_is() {
    let site = Site::open().await;
    map(&site, "a").await;
    let start = site.revision().await;
    let mut events = site.watch(&format!("{MAPS}?watch&labelSelector=x%3Din&resourceVersion={start}")).await;
    let mut moments = Vec::new();
    for value in [json!("in"), json!("out"), json!("other"), json!("in")] {
        moments.push(label(&site, "a", &value).await);
    }
    let changed = site.merge(&format!("{MAPS}/a"), &json!({ "data": { "k": "v" } })).await.json();
    site.delete(&format!("{MAPS}/a")).await.expect(200);
    let end = site.revision().await;
    let labels = |event: &Value| event["object"]["metadata"]["labels"]["x"].clone();
    let seen: Vec<_> = events
        .events(5)
        .await
        .iter()
        .map(|event| {
            (
                event["type"].as_str().expect("a type").to_owned(),
                labels(event),
                version(&event["object"]).to_owned(),
            )
        })
        .collect();
    let expected = [
        ("ADDED", &moments[0]["metadata"]),
        // The old labels at the new version.
        ("DELETED", &moments[1]["metadata"]),
        ("ADDED", &moments[3]["metadata"]),
        ("MODIFIED", &changed["metadata"]),
    ];
    for (found, (type_, metadata)) in seen.iter().zip(expected) {
        assert_eq!(
            (found.0.as_str(), &found.1, &json!(found.2)),
            (type_, &json!("in"), &metadata["resourceVersion"])
        );
    }
    assert_eq!(seen[4], ("DELETED".to_owned(), json!("in"), end));
    let mut named =
        site.watch(&format!("{MAPS}?watch&fieldSelector=metadata.name%3Db&resourceVersion={start}")).await;
    map(&site, "b").await;
    assert_eq!(named.names(1).await, [pair("ADDED", "b")]);
}

#[tokio::test(start_paused = true)]
async fn s097_bookmarks_come_when_asked_for() {
    let site = Site::paused().await;
    let path = format!("{MAPS}?watch&timeoutSeconds=200&resourceVersion={}", site.revision().await);
    assert_eq!(site.watch(&path).await.until_the_end().await, Vec::<Value>::new(), "nobody asked");
    let start = Instant::now();
    let mut events = site.watch(&format!("{path}&allowWatchBookmarks=true")).await;
    // Something else happens meanwhile: bookmarks move on with it.
    site.made(THINGS, &thing("t", json!({}))).await;
    let (mut times, mut last) = (Vec::new(), 0);
    while let Some(event) = events.event().await {
        assert_eq!(event["type"], "BOOKMARK");
        let metadata = json!({ "resourceVersion": version(&event["object"]) });
        assert_eq!(event["object"], json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata }));
        assert!(number(&event["object"]) >= last, "a bookmark goes back");
        last = number(&event["object"]);
        times.push(start.elapsed().as_secs());
    }
    assert_eq!(times, [60, 120, 180, 198], "every minute, and 2 s before the end");
    assert_eq!(last.to_string(), site.revision().await);
}

#[tokio::test(start_paused = true)]
async fn s097_s098_a_busy_watch_has_bookmarks_and_an_end_too() {
    let site = Site::paused().await;
    let path = format!(
        "{MAPS}?watch&timeoutSeconds=90&allowWatchBookmarks=true&resourceVersion={}",
        site.revision().await
    );
    let mut events = site.watch(&path).await;
    map(&site, "a").await;
    let start = Instant::now();
    let (mut marks, mut last) = (Vec::new(), 0);
    let mut n = 0;
    loop {
        n += 1;
        tokio::time::advance(Duration::from_millis(100)).await;
        label(&site, "a", &json!(n.to_string())).await;
        let Some(event) = events.event().await else { break };
        assert!(number(&event["object"]) >= last, "order");
        last = number(&event["object"]);
        if event["type"] == "BOOKMARK" {
            marks.push(start.elapsed().as_secs());
        }
        assert!(start.elapsed() < Duration::from_secs(95), "it does not end");
    }
    assert_eq!(marks, [60, 88]);
}

#[tokio::test(start_paused = true)]
async fn s098_a_watch_ends_when_it_said() {
    let site = Site::paused().await;
    let now = site.revision().await;
    for (query, least, most) in [
        ("&timeoutSeconds=7", 7, 7),
        ("", 1_800, 3_600),
        ("&timeoutSeconds=0", 1_800, 3_600),
        ("&timeout=5s", 1_800, 3_600),
    ] {
        let start = Instant::now();
        let mut events = site.watch(&format!("{MAPS}?watch&resourceVersion={now}{query}")).await;
        assert_eq!(events.until_the_end().await, Vec::<Value>::new(), "{query}");
        let life = start.elapsed().as_secs();
        assert!((least..=most).contains(&life), "{query}: {life} s");
    }
}

#[tokio::test(start_paused = true)]
async fn s099_a_stalled_watcher_holds_up_nobody_and_can_resume() {
    let site = Site::paused().await;
    let path = format!("{MAPS}?watch&timeoutSeconds=60&resourceVersion={}", site.revision().await);
    let (mut stalled, mut lively) = (site.watch(&path).await, site.watch(&path).await);
    map(&site, "m").await;
    let mut expected = vec![pair("ADDED", "m")];
    for n in 0..2_000 {
        label(&site, "m", &json!(n.to_string())).await;
        expected.push(pair("MODIFIED", "m"));
    }
    assert_eq!(lively.names(expected.len()).await, expected);
    // It reads a little, then no more until its time is over: then it is let go.
    let some = stalled.events(10).await;
    let last = some.last().expect("an event")["object"].clone();
    tokio::time::advance(Duration::from_secs(61)).await;
    let mut rest = stalled.until_the_end().await;
    assert!(rest.len() < 1_000, "{} events after the end", rest.len());
    let last = rest.pop().map_or(last, |event| event["object"].clone());
    let left = expected.len() - 10 - rest.len() - usize::from(number(&last) > number(&some[9]["object"]));
    let mut resumed = site.watch(&format!("{MAPS}?watch&resourceVersion={}", version(&last))).await;
    let seen = resumed.events(left).await;
    assert_eq!(number(&seen[0]["object"]), number(&last) + 1);
    assert_eq!(version(&seen[left - 1]["object"]), site.revision().await);
}

#[tokio::test]
async fn s099_a_watcher_that_history_has_passed_is_told() {
    let site = Site::open().await;
    let path = format!("{MAPS}?watch&resourceVersion={}", site.revision().await);
    let mut stalled = site.watch(&path).await;
    for n in 0..10 {
        map(&site, &format!("m{n}")).await;
    }
    site.store.compact(site.store.revision().await.expect("a revision")).await.expect("compacted");
    let events = stalled.until_the_end().await;
    assert_eq!((&events[0]["type"], &events[0]["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(events.len(), 1);
}

#[tokio::test]
async fn s100_the_same_name_is_not_the_same_object() {
    let site = Site::open().await;
    let first = map(&site, "a").await;
    let mut events = site.watch(&format!("{MAPS}?watch&resourceVersion={}", version(&first))).await;
    site.delete(&format!("{MAPS}/a")).await.expect(200);
    let second = map(&site, "a").await;
    let seen = events.events(2).await;
    assert_eq!(
        (&seen[0]["type"], &seen[0]["object"]["metadata"]["uid"]),
        (&json!("DELETED"), &first["metadata"]["uid"])
    );
    assert_eq!((&seen[1]["type"], &seen[1]["object"]), (&json!("ADDED"), &second));
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
}

#[tokio::test]
async fn s103_headers_come_first_and_an_event_is_a_line() {
    let site = Site::open().await;
    // The harness fails when there are no headers before the first event.
    let mut events = site.watch(&format!("{MAPS}?watch&resourceVersion={}", site.revision().await)).await;
    assert_eq!((events.code, events.headers["content-type"].as_bytes()), (200, &b"application/json"[..]));
    site.made(MAPS, &config_map("a", json!({ "text": "two\nlines", "more": "\u{2028}" }))).await;
    let line = events.line().await.expect("a line");
    let event: Value = serde_json::from_slice(&line).expect("one value in one line");
    assert_eq!(event["object"]["data"]["text"], "two\nlines");
}

#[tokio::test]
async fn s104_a_watch_ends_with_its_definition() {
    let site = Site::open().await;
    site.made(THINGS, &thing("a", json!({}))).await;
    let mut events = site.watch(&format!("{THINGS}?watch")).await;
    let mut others = site.watch(&format!("{MAPS}?watch&resourceVersion={}", site.revision().await)).await;
    site.delete(&format!("{DEFINITIONS}/things.example.io")).await.expect(200);
    site.until_gone(THINGS).await;
    let seen: Vec<String> = events
        .until_the_end()
        .await
        .iter()
        .map(|event| event["type"].as_str().expect("a type").to_owned())
        .collect();
    assert!(seen == ["ADDED"] || seen == ["ADDED", "DELETED"], "{seen:?}");
    map(&site, "m").await;
    assert_eq!(others.names(1).await, [pair("ADDED", "m")], "other watches go on");
}

#[tokio::test]
async fn s105_a_thousand_watchers_hear_the_same() {
    let site = Site::open().await;
    let path = format!("{MAPS}?watch&resourceVersion={}", site.revision().await);
    let mut watchers: Vec<Watching> = Vec::new();
    for _ in 0..1_000 {
        watchers.push(site.watch(&path).await);
    }
    site.made(MAPS, &config_map("big", json!({ "text": "x".repeat(10_000) }))).await;
    label(&site, "big", &json!("y")).await;
    let mut lines: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for watcher in &mut watchers {
        for _ in 0..2 {
            *lines.entry(watcher.line().await.expect("a line")).or_default() += 1;
        }
    }
    assert_eq!(lines.into_values().collect::<Vec<_>>(), [1_000, 1_000], "see also lines::s105");
}
