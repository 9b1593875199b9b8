//! Statements 83-90, 101, 102: lists, pages, selectors.

use std::time::Duration;

use capstan_store::Store as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::lifecycle::secret;
use super::{MAPS, NAMESPACES, SECRETS, Site, THINGS, config_map, namespace, thing, version};

/// The query that sends `text` as it is.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        use std::fmt::Write as _;
        write!(out, "%{byte:02X}").expect("text");
        out
    })
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("items");
    items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
}

/// `m0` to `m(count - 1)`; the odd ones have label `odd=true`.
async fn filled(count: usize) -> Site {
    let site = Site::open().await;
    for n in 0..count {
        let mut map = config_map(&format!("m{n}"), json!({ "n": n.to_string() }));
        map["metadata"]["labels"] = json!({ "odd": (n % 2 == 1).to_string() });
        site.made(MAPS, &map).await;
    }
    site
}

async fn list(site: &Site, query: &str) -> Value {
    site.get(&format!("{MAPS}?{query}")).await.expect(200).json()
}

#[tokio::test]
async fn s083_a_list_shows_every_write_before_it() {
    let site = Site::open().await;
    for n in 0..50 {
        let made = site.made(MAPS, &config_map(&format!("m{n}"), json!({}))).await;
        let all = list(&site, "").await;
        assert_eq!(names(&all).len(), n + 1);
        assert_eq!(version(&all), version(&made));
    }
    site.delete(&format!("{MAPS}/m7")).await.expect(200);
    let all = list(&site, "").await;
    assert_eq!((names(&all).len(), version(&all)), (49, site.revision().await.as_str()));
    assert!(!names(&all).contains(&"m7".to_owned()));
}

#[tokio::test]
async fn s084_any_state_is_listed_whole() {
    let site = filled(5).await;
    for query in ["resourceVersion=0&limit=2", "resourceVersion=0&limit=2&resourceVersionMatch=NotOlderThan"]
    {
        let all = list(&site, query).await;
        assert_eq!(names(&all).len(), 5, "{query}");
        assert!(all["metadata"]["continue"].as_str().unwrap_or_default().is_empty(), "{query}");
        assert!(all["metadata"].get("remainingItemCount").is_none(), "{query}");
    }
}

#[tokio::test]
async fn s085_s087_pages_show_one_moment() {
    let site = filled(7).await;
    let before = list(&site, "").await;
    let (mut seen, mut token, mut rounds) = (Vec::new(), String::new(), 0);
    loop {
        let page = list(&site, &format!("limit=2&continue={token}")).await;
        assert_eq!(version(&page), version(&before));
        seen.extend(page["items"].as_array().expect("items").clone());
        let left = 7 - seen.len();
        let counted = page["metadata"]["remainingItemCount"].as_u64();
        assert_eq!(counted, (left > 0).then_some(left as u64));
        // Whatever happens meanwhile: before, at and behind the place of the page.
        site.merge(&format!("{MAPS}/m{}", 6 - rounds), &json!({ "data": { "n": "changed" } })).await;
        site.delete(&format!("{MAPS}/m{}", rounds + 3)).await;
        site.made(MAPS, &config_map(&format!("m{rounds}-new"), json!({}))).await;
        rounds += 1;
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(rounds, 4);
    assert_eq!(Value::from(seen), before["items"]);
}

#[tokio::test]
async fn s085_pages_of_a_selection_are_full() {
    let site = filled(9).await;
    let mut names_seen = Vec::new();
    let mut token = String::new();
    for expected in [3, 1] {
        let page = list(&site, &format!("labelSelector=odd%3Dtrue&limit=3&continue={token}")).await;
        assert_eq!(names(&page).len(), expected);
        assert!(page["metadata"].get("remainingItemCount").is_none(), "s087: not counted with a selector");
        names_seen.extend(names(&page));
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        assert_eq!(token.is_empty(), expected == 1);
    }
    assert_eq!(names_seen, ["m1", "m3", "m5", "m7"]);
    let fields = list(&site, "fieldSelector=metadata.namespace%3Ddefault&limit=3").await;
    assert!(fields["metadata"].get("remainingItemCount").is_none());
    assert_eq!(names(&fields).len(), 3);
}

#[tokio::test]
async fn s086_a_page_whose_moment_is_forgotten_can_be_gone_on_from() {
    let site = filled(6).await;
    let first = list(&site, "limit=2").await;
    let token = first["metadata"]["continue"].as_str().expect("a token");
    site.made(MAPS, &config_map("m3-new", json!({}))).await;
    site.store.compact(site.store.revision().await.expect("a revision")).await.expect("compacted");
    let answer = site.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    let refusal = answer.refused(410, "Expired");
    let inconsistent = refusal.0["metadata"]["continue"].as_str().expect("a token to go on with");
    assert!(
        refusal.message().starts_with("The provided continue parameter is too old"),
        "{}",
        refusal.message()
    );
    let second = list(&site, &format!("limit=2&continue={inconsistent}")).await;
    assert_eq!(names(&second), ["m2", "m3"]);
    assert_eq!(second["metadata"]["remainingItemCount"], 3);
    // The rest is one moment again.
    site.delete(&format!("{MAPS}/m4")).await.expect(200);
    let token = second["metadata"]["continue"].as_str().expect("a token");
    let rest = list(&site, &format!("continue={token}")).await;
    assert_eq!(names(&rest), ["m3-new", "m4", "m5"]);
    assert_eq!(version(&rest), version(&second));
}

#[tokio::test]
async fn s086_tokens_that_are_none_are_refused() {
    let site = filled(3).await;
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    for token in [
        "x".to_owned(),
        "%25%25".to_owned(),
        encode("{}"),
        encode("not json"),
        encode(r#"{"v":"meta.k8s.io/v2","rv":5,"start":"m1\u0000"}"#),
        encode(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"m1\u0000"}"#),
        encode(r#"{"v":"meta.k8s.io/v1","rv":5,"start":""}"#),
        encode(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"../secrets/x\u0000"}"#),
    ] {
        let refusal = site.get(&format!("{MAPS}?continue={token}")).await.refused(400, "BadRequest");
        assert!(refusal.message().starts_with("invalid continue token: "), "{token}: {}", refusal.message());
    }
}

#[tokio::test]
async fn s088_every_invalid_combination_is_refused() {
    let site = filled(4).await;
    let page = list(&site, "limit=1").await;
    let token = page["metadata"]["continue"].as_str().expect("a token");
    let continued = format!("continue={token}");
    let at = |query: &str| format!("{continued}&{query}");
    let field = "resourceVersionMatch";
    let forbidden = "FieldValueForbidden";
    let unset = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
    let with_token = "Forbidden: resourceVersionMatch is forbidden when continue is provided";
    let zero = "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
    let unknown = "Unsupported value: \"Newest\": supported values: \"Exact\", \"NotOlderThan\", \"\"";
    for (query, causes) in [
        (format!("{field}=Exact"), vec![(forbidden, field, unset)]),
        (format!("{field}=NotOlderThan"), vec![(forbidden, field, unset)]),
        (format!("resourceVersion=0&{field}=Exact"), vec![(forbidden, field, zero)]),
        (format!("resourceVersion=2&{field}=Newest"), vec![("FieldValueNotSupported", field, unknown)]),
        (
            format!("{field}=Newest"),
            vec![(forbidden, field, unset), ("FieldValueNotSupported", field, unknown)],
        ),
        (at(&format!("resourceVersion=2&{field}=Exact")), vec![(forbidden, field, with_token)]),
        (at(&format!("resourceVersion=0&{field}=NotOlderThan")), vec![(forbidden, field, with_token)]),
        (
            at(&format!("{field}=NotOlderThan")),
            vec![(forbidden, field, unset), (forbidden, field, with_token)],
        ),
    ] {
        let refusal = site.get(&format!("{MAPS}?{query}")).await.refused(422, "Invalid");
        assert_eq!(refusal.details()["kind"], "ListOptions", "{query}");
        let found: Vec<_> = refusal.causes().into_iter().zip(refusal.cause_messages()).collect();
        let expected: Vec<_> = causes.into_iter().map(|(reason, at, text)| ((reason, at), text)).collect();
        assert_eq!(found, expected, "{query}");
    }
    let specified = "specifying resource version is not allowed when using continue";
    for (query, message) in [
        (at("resourceVersion=2"), specified),
        ("resourceVersion=x".to_owned(), "Invalid value: \"x\": invalid resource version"),
        ("resourceVersion=-1".to_owned(), "Invalid value: \"-1\": invalid resource version"),
    ] {
        let refusal = site.get(&format!("{MAPS}?{query}")).await.refused(400, "BadRequest");
        assert_eq!(refusal.message(), message, "{query}");
    }
    assert_eq!(names(&list(&site, &at("resourceVersion=0")).await).len(), 3, "0 says nothing");
    site.get(&format!("{MAPS}/m0?resourceVersion=x")).await.refused(400, "BadRequest");
    site.get(&format!("{MAPS}/m0?limit=x&resourceVersionMatch=Odd")).await.expect(200);
}

#[tokio::test]
async fn s089_exact_lists_show_the_past() {
    let site = filled(4).await;
    let past = list(&site, "").await;
    let then = version(&past);
    site.delete(&format!("{MAPS}/m1")).await.expect(200);
    site.merge(&format!("{MAPS}/m2"), &json!({ "data": { "n": "changed" } })).await.expect(200);
    site.made(MAPS, &config_map("a-new", json!({}))).await;
    let now = site.revision().await;
    for (query, state, moment) in [
        (format!("resourceVersion={then}&resourceVersionMatch=Exact"), past.clone(), then),
        (format!("resourceVersion={now}&resourceVersionMatch=Exact"), list(&site, "").await, &now),
        (format!("resourceVersion={then}"), list(&site, "").await, &now),
        (format!("resourceVersion={then}&resourceVersionMatch=NotOlderThan"), list(&site, "").await, &now),
        ("resourceVersion=0".to_owned(), list(&site, "").await, &now),
    ] {
        let listed = list(&site, &query).await;
        assert_eq!(listed["items"], state["items"], "{query}");
        assert_eq!(version(&listed), moment, "{query}");
    }
    // A version and a limit mean exactly that version; asked for as a minimum they do not.
    for (query, expected, moment, left) in [
        (format!("resourceVersion={then}&limit=2"), ["m0", "m1"], then, 2),
        (format!("resourceVersion={then}&resourceVersionMatch=Exact&limit=2"), ["m0", "m1"], then, 2),
        (
            format!("resourceVersion={then}&resourceVersionMatch=NotOlderThan&limit=2"),
            ["a-new", "m0"],
            now.as_str(),
            2,
        ),
    ] {
        let listed = list(&site, &query).await;
        assert_eq!(
            (names(&listed), version(&listed)),
            (expected.map(str::to_owned).into(), moment),
            "{query}"
        );
        assert_eq!(listed["metadata"]["remainingItemCount"], left, "{query}");
    }
    let selected = format!("labelSelector=odd%3Dtrue&resourceVersion={then}&resourceVersionMatch=Exact");
    assert_eq!(names(&list(&site, &selected).await), ["m1", "m3"]);
    let named = format!("fieldSelector=metadata.name%3Dm1&resourceVersion={then}&resourceVersionMatch=Exact");
    assert_eq!(names(&list(&site, &named).await), ["m1"]);
    site.store.compact(site.store.revision().await.expect("a revision")).await.expect("compacted");
    for query in ["resourceVersionMatch=Exact", "limit=2"] {
        let query = format!("resourceVersion={then}&{query}");
        let refusal = site.get(&format!("{MAPS}?{query}")).await.refused(410, "Expired");
        assert_eq!(refusal.message(), "The resourceVersion for the provided list is too old.", "{query}");
    }
    list(&site, &format!("resourceVersion={then}")).await;
}

#[tokio::test(start_paused = true)]
async fn s090_a_version_that_does_not_come_is_said_so_after_three_seconds() {
    let site = Site::paused().await;
    let now: u64 = site.revision().await.parse().expect("a number");
    let future = now + 1_000;
    for path in [
        format!("{MAPS}?resourceVersion={future}"),
        format!("{MAPS}?resourceVersion={future}&resourceVersionMatch=NotOlderThan"),
        format!("{MAPS}?resourceVersion={future}&resourceVersionMatch=Exact"),
        format!("{MAPS}?resourceVersion={future}&limit=5"),
        format!("{NAMESPACES}/default?resourceVersion={future}"),
    ] {
        let start = Instant::now();
        let answer = site.get(&path).await;
        let waited = start.elapsed();
        assert!(waited >= Duration::from_secs(3) && waited < Duration::from_secs(4), "{path}: {waited:?}");
        assert_eq!(answer.header("retry-after"), "1", "{path}");
        let refusal = answer.refused(504, "Timeout");
        assert_eq!(
            refusal.message(),
            format!("Timeout: Too large resource version: {future}, current: {now}")
        );
        assert_eq!(refusal.causes(), [("ResourceVersionTooLarge", "")]);
        assert_eq!(refusal.cause_messages(), ["Too large resource version"]);
        assert_eq!(refusal.details()["retryAfterSeconds"], 1);
    }
    // One that comes in time is waited for.
    let waiting = tokio::spawn({
        let (site, path) = (site.clone(), format!("{MAPS}?resourceVersion={}", now + 1));
        async move { site.get(&path).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    site.made(MAPS, &config_map("m", json!({}))).await;
    let listed = waiting.await.expect("an answer").expect(200).json();
    assert_eq!(names(&listed), ["m"]);
}

#[tokio::test]
async fn s101_label_selectors_select() {
    let site = Site::open().await;
    for (name, labels) in [
        ("plain", json!({})),
        ("a1", json!({ "a": "1" })),
        ("a2", json!({ "a": "2", "b": "x" })),
        ("empty", json!({ "a": "" })),
        ("n10", json!({ "n": "10", "example.io/k": "v" })),
    ] {
        let mut map = config_map(name, json!({}));
        map["metadata"]["labels"] = labels;
        site.made(MAPS, &map).await;
    }
    let all = ["a1", "a2", "empty", "n10", "plain"];
    for (selector, expected) in [
        ("", all.as_slice()),
        ("a=1", &["a1"]),
        ("a==1", &["a1"]),
        (" a = 1 ", &["a1"]),
        ("a=", &["empty"]),
        ("a", &["a1", "a2", "empty"]),
        ("!a", &["n10", "plain"]),
        ("a!=1", &["a2", "empty", "n10", "plain"]),
        ("a in (1,2)", &["a1", "a2"]),
        ("a in (1,)", &["a1", "empty"]),
        ("a notin (1, 2)", &["empty", "n10", "plain"]),
        ("a,b", &["a2"]),
        ("a,!b", &["a1", "empty"]),
        ("a in (1,2),b=x", &["a2"]),
        ("n>9", &["n10"]),
        ("n<10", &[]),
        ("n>9,n<11", &["n10"]),
        ("example.io/k=v", &["n10"]),
        ("in=1", &[]),
    ] {
        let found = list(&site, &format!("labelSelector={}", escaped(selector))).await;
        assert_eq!(names(&found), expected, "{selector}");
    }
    for selector in
        ["a b", "a=1=2", "a in 1", "a in (1", "=1", "a,,b", "a/b/c", "a=-", "n>x", "a &", "a=(1)", ","]
    {
        let path = format!("{MAPS}?labelSelector={}", escaped(selector));
        let refusal = site.get(&path).await.refused(400, "BadRequest");
        let known = ["unable to parse requirement: ", "found '"];
        assert!(known.iter().any(|start| refusal.message().starts_with(start)), "{}", refusal.message());
        let watch = site.get(&format!("{path}&watch=1")).await;
        watch.refused(400, "BadRequest");
    }
}

#[tokio::test]
async fn s102_field_selectors_of_every_resource() {
    let site = Site::open().await;
    site.made(NAMESPACES, &namespace("other")).await;
    let all = "/api/v1/configmaps";
    for space in ["default", "other"] {
        for name in ["a", "b"] {
            let map = config_map(name, json!({}));
            site.made(&format!("/api/v1/namespaces/{space}/configmaps"), &map).await;
        }
    }
    site.made(THINGS, &thing("a", json!({}))).await;
    let mut token = secret("t");
    token["type"] = "example.io/token".into();
    site.made(SECRETS, &token).await;
    site.made(SECRETS, &secret("o")).await;
    for n in ["one", "two"] {
        let event = json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": n }, "type": "Normal",
            "reason": n, "source": { "component": "kubelet" }, "reportingComponent": "x", "involvedObject": {
                "kind": "Thing", "name": "a", "namespace": "default", "uid": n, "apiVersion": "example.io/v1",
                "resourceVersion": "5", "fieldPath": "spec" } });
        site.made("/api/v1/namespaces/default/events", &event).await;
    }
    let events = "/api/v1/events";
    let new_events = "/apis/events.k8s.io/v1/namespaces/default/events";
    for (path, selector, expected) in [
        (MAPS, "metadata.name=a", &["a"][..]),
        (MAPS, "metadata.name==a", &["a"]),
        (MAPS, "metadata.name!=a", &["b"]),
        (MAPS, "metadata.name=a,metadata.name=b", &[]),
        (MAPS, "metadata.namespace=other", &[]),
        (all, "metadata.name=a", &["a", "a"]),
        (all, "metadata.namespace=other", &["a", "b"]),
        (all, "metadata.name=a,metadata.namespace=other", &["a"]),
        (all, "metadata.name=a\\,b", &[]),
        (THINGS, "metadata.name=a", &["a"]),
        (SECRETS, "type=example.io/token", &["t"]),
        (SECRETS, "type!=example.io/token", &["o"]),
        (NAMESPACES, "metadata.name=other", &["other"]),
        (NAMESPACES, "name=other,status.phase=Active", &["other"]),
        (events, "involvedObject.uid=one", &["one"]),
        (events, "involvedObject.name=a,involvedObject.kind=Thing,reason=two", &["two"]),
        (events, "involvedObject.namespace=default,involvedObject.apiVersion=example.io/v1", &["one", "two"]),
        (events, "involvedObject.resourceVersion=5,involvedObject.fieldPath=spec", &["one", "two"]),
        (events, "type=Warning", &[]),
        (events, "source=kubelet,reportingComponent=x,reason!=one", &["two"]),
        (new_events, "regarding.uid=one,type=Normal,reportingController=x", &["one"]),
    ] {
        let found = site.get(&format!("{path}?fieldSelector={}", escaped(selector))).await.expect(200).json();
        assert_eq!(names(&found), expected, "{path} {selector}");
    }
    for (path, selector, message) in [
        (MAPS, "spec.foo=1", "field label not supported: spec.foo"),
        (THINGS, "spec.replicas=1", "field label not supported: spec.replicas"),
        (SECRETS, "metadata.uid=1", "field label not supported: metadata.uid"),
        (NAMESPACES, "metadata.namespace=x", "field label not supported: metadata.namespace"),
        (MAPS, "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
    ] {
        let at = format!("{path}?fieldSelector={}", escaped(selector));
        assert_eq!(site.get(&at).await.refused(400, "BadRequest").message(), message, "{path}");
    }
}
