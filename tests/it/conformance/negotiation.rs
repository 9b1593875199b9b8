//! Statements 22-41: media types, tables, compression, transports.

use std::io::Read as _;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::protobuf::{body, bytes, entry, metadata, number};
use super::wire::{ADMIN, Port, code};
use super::{
    Ask, DEFINITIONS, JSON, MAPS, NAMESPACES, PROTOBUF, SECRETS, Site, THINGS, YAML, config_map, thing,
    version,
};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIALS: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// What an object says, without what the server made up for it.
fn content(mut object: Value) -> Value {
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        object["metadata"].as_object_mut().expect("metadata").remove(field);
    }
    object
}

#[tokio::test]
async fn s022_s023_clients_of_protobuf_get_json() {
    let site = Site::open().await;
    site.made(MAPS, &config_map("a", json!({ "k": "v" }))).await;
    site.made(THINGS, &thing("a", json!({}))).await;
    for accept in
        ["application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf, */*"]
    {
        for path in [format!("{MAPS}/a"), MAPS.to_owned(), format!("{THINGS}/a"), THINGS.to_owned()] {
            let answer = site.send(Ask::get(&path).accept(accept)).await.expect(200);
            assert_eq!(answer.header("content-type"), JSON, "{accept} {path}");
            assert!(answer.json()["kind"].is_string());
        }
    }
    site.send(Ask::get(&format!("{THINGS}/a")).accept(PROTOBUF)).await.refused(406, "NotAcceptable");
}

/// The same object twice: as protobuf, as JSON, and where it goes.
fn twins() -> Vec<(&'static str, Vec<u8>, Value)> {
    let time = [number(1, 1_795_000_000), number(2, 5_000)].concat();
    let object = bytes(2, [bytes(1, "Pod"), bytes(2, "default"), bytes(3, "p"), bytes(4, "")].concat());
    let event = [
        metadata("e", ""),
        object,
        bytes(3, "Tested"),
        bytes(4, "text"),
        bytes(5, bytes(1, "")),
        number(8, 2),
    ];
    let lease = bytes(2, [bytes(1, "me"), number(2, 15), bytes(4, time), number(5, 0)].concat());
    let config = [metadata("m", ""), entry(2, "k", "v"), entry(2, "empty", ""), entry(3, "b", [0, 255])];
    let attributes =
        [bytes(1, "default"), bytes(2, "list"), bytes(3, ""), bytes(4, ""), bytes(5, "secrets")].concat();
    let access = bytes(2, bytes(1, attributes));
    let typed = |api_version: &str, kind: &str, rest: Value| {
        let mut object = json!({ "apiVersion": api_version, "kind": kind });
        object.as_object_mut().expect("a map").extend(rest.as_object().expect("a map").clone());
        object
    };
    vec![
        (
            MAPS,
            body("v1", "ConfigMap", &config),
            typed(
                "v1",
                "ConfigMap",
                json!({ "metadata": { "name": "m" }, "data": { "k": "v", "empty": "" },
                                             "binaryData": { "b": "AP8=" } }),
            ),
        ),
        (
            SECRETS,
            body(
                "v1",
                "Secret",
                &[metadata("s", ""), entry(2, "k", "v"), bytes(3, "Opaque"), entry(4, "t", "u")],
            ),
            typed(
                "v1",
                "Secret",
                json!({ "metadata": { "name": "s" }, "data": { "k": "dg==" }, "type": "Opaque",
                                          "stringData": { "t": "u" } }),
            ),
        ),
        (
            NAMESPACES,
            body("v1", "Namespace", &[metadata("n", ""), bytes(2, ""), bytes(3, bytes(1, ""))]),
            typed("v1", "Namespace", json!({ "metadata": { "name": "n" } })),
        ),
        (
            EVENTS,
            body("v1", "Event", &event),
            typed(
                "v1",
                "Event",
                json!({ "metadata": { "name": "e" }, "reason": "Tested", "message": "text", "count": 2,
                "involvedObject": { "kind": "Pod", "namespace": "default", "name": "p" } }),
            ),
        ),
        (
            LEASES,
            body("coordination.k8s.io/v1", "Lease", &[metadata("l", ""), lease]),
            typed(
                "coordination.k8s.io/v1",
                "Lease",
                json!({ "metadata": { "name": "l" }, "spec": {
                "holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-11-18T11:06:40.000005Z",
                "leaseTransitions": 0 } }),
            ),
        ),
        (
            ACCESS,
            body("authorization.k8s.io/v1", "SelfSubjectAccessReview", &[metadata("", ""), access]),
            typed(
                "authorization.k8s.io/v1",
                "SelfSubjectAccessReview",
                json!({ "metadata": {}, "spec": {
                "resourceAttributes": { "namespace": "default", "verb": "list", "resource": "secrets" } } }),
            ),
        ),
    ]
}

#[tokio::test]
async fn s024_s026_protobuf_bodies_mean_what_json_means() {
    for (path, protobuf, json) in twins() {
        let (site, other) = (Site::open().await, Site::open().await);
        let binary = site.send(Ask::new(Method::POST, path).body(PROTOBUF, protobuf)).await.expect(201);
        let text = other.post(path, &json).await.expect(201);
        assert_eq!(content(binary.json()), content(text.json()), "{path}");
        assert_eq!(binary.header("content-type"), JSON);
        // No zero value of the encoder came through.
        let object = binary.json();
        for field in ["generateName", "selfLink", "generation", "deletionTimestamp"] {
            assert!(object["metadata"].get(field).is_none(), "{path}: {field}");
        }
        assert!(object.get("source").is_none() && object.get("immutable").is_none(), "{path}: {object}");
    }
    let site = Site::open().await;
    let bad: [(&[u8], u16, &str); 4] = [
        (b"k8s\0\xff\xff\xff", 400, "BadRequest"),
        (b"{}", 400, "BadRequest"),
        (b"", 400, "BadRequest"),
        (&body("v1", "Gadget", &[]), 415, "UnsupportedMediaType"),
    ];
    for (bytes, code, reason) in bad {
        let ask = Ask::new(Method::POST, MAPS).body(PROTOBUF, bytes.to_vec());
        site.send(ask).await.refused(code, reason);
    }
}

#[tokio::test]
async fn s024_a_definition_in_protobuf_is_served() {
    let site = Site::serving(Vec::new()).await;
    let schema = [bytes(5, "object"), number(38, 1)].concat();
    let version = [
        bytes(1, "v1"),
        number(2, 1),
        number(3, 1),
        bytes(4, bytes(1, schema)),
        bytes(5, [bytes(1, ""), bytes(2, [bytes(1, ".spec.n"), bytes(2, ".status.n")].concat())].concat()),
        number(7, 0),
    ];
    let names = [bytes(1, "toys"), bytes(2, ""), bytes(4, "Toy"), bytes(5, "")].concat();
    let spec =
        [bytes(1, "zoo.io"), bytes(3, names), bytes(4, "Cluster"), bytes(7, version.concat()), number(10, 0)];
    let fields = [metadata("toys.zoo.io", ""), bytes(2, spec.concat()), bytes(3, bytes(2, bytes(1, "")))];
    let definition = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &fields);
    let made =
        site.send(Ask::new(Method::POST, DEFINITIONS).body(PROTOBUF, definition)).await.expect(201).json();
    assert_eq!(made["spec"]["versions"][0]["subresources"]["status"], json!({}));
    let toy =
        json!({ "apiVersion": "zoo.io/v1", "kind": "Toy", "metadata": { "name": "t" }, "spec": { "n": 3 } });
    site.made("/apis/zoo.io/v1/toys", &toy).await;
    assert_eq!(site.get("/apis/zoo.io/v1/toys/t/scale").await.expect(200).json()["spec"]["replicas"], 3);
}

#[tokio::test]
async fn s025_updates_and_deletions_come_in_protobuf() {
    let site = Site::open().await;
    let spec = |holder: &str| bytes(2, [bytes(1, holder), number(2, 15)].concat());
    let lease = |version: &str, holder: &str| {
        body("coordination.k8s.io/v1", "Lease", &[metadata("l", version), spec(holder)])
    };
    let path = format!("{LEASES}/l");
    let put = |body: Vec<u8>| Ask::new(Method::PUT, &path).body(PROTOBUF, body);
    let made = site.send(put(lease("", "one"))).await.expect(201).json();
    let next = site.send(put(lease(version(&made), "two"))).await.expect(200).json();
    assert_eq!(next["spec"], json!({ "holderIdentity": "two", "leaseDurationSeconds": 15 }));
    site.send(put(lease(version(&made), "three"))).await.refused(409, "Conflict");
    // Options of a deletion: preconditions, then a policy.
    let options = |fields: &[Vec<u8>]| body("v1", "DeleteOptions", fields);
    let delete = |path: &str, options: Vec<u8>| Ask::delete(path).body(PROTOBUF, options);
    let other = bytes(2, bytes(1, "00000000-0000-4000-8000-000000000000"));
    site.send(delete(&path, options(&[other]))).await.refused(409, "Conflict");
    let uid = made["metadata"]["uid"].as_str().expect("a uid");
    let gone = site.send(delete(&path, options(&[bytes(2, bytes(1, uid))]))).await.expect(200).json();
    assert_eq!((&gone["kind"], &gone["details"]["uid"]), (&json!("Status"), &made["metadata"]["uid"]));
    site.made(THINGS, &thing("a", json!({}))).await;
    let path = format!("{THINGS}/a");
    let held = site.send(delete(&path, options(&[bytes(4, "Foreground")]))).await.expect(200).json();
    assert_eq!(held["metadata"]["finalizers"], json!(["foregroundDeletion"]));
}

#[tokio::test]
async fn s027_unknown_media_types_are_refused() {
    let site = Site::open().await;
    for accept in ["text/html", "application/xml, text/*", "application/json;as=Chart;g=meta.k8s.io;v=v1"] {
        for path in [MAPS, "/apis/example.io/v1/things"] {
            let refused = site.send(Ask::get(path).accept(accept)).await.refused(406, "NotAcceptable");
            assert!(
                refused
                    .message()
                    .starts_with("only the following media types are accepted: application/json"),
                "{}",
                refused.message()
            );
        }
    }
    let ask = Ask::new(Method::POST, MAPS).body("text/plain", "hello");
    let refused = site.send(ask).await.refused(415, "UnsupportedMediaType");
    assert!(
        refused.message().starts_with(
            "the body of the request was in an unknown format - accepted media types include: application/json"
        ),
        "{}",
        refused.message()
    );
    // Quality decides, unknown parameters do not.
    let ask = Ask::get(MAPS).accept("text/html, application/json;charset=utf-8;q=0.2;x=y");
    assert_eq!(site.send(ask).await.expect(200).json()["kind"], "ConfigMapList");
}

#[tokio::test]
async fn s028_s029_tables_have_a_cell_per_column() {
    let site = Site::open().await;
    let made = site.made(THINGS, &thing("a", json!({ "replicas": 3 }))).await;
    site.made(MAPS, &config_map("m", json!({ "k": "v" }))).await;
    let one = format!("{THINGS}/a");
    let map = format!("{MAPS}/m");
    for path in [THINGS, MAPS, &one, &map, "/api/v1/namespaces", "/api/v1/nodes", EVENTS, DEFINITIONS] {
        for kind in [TABLE, "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"] {
            let answer = site.send(Ask::get(path).accept(kind)).await.expect(200);
            let table = answer.json();
            assert_eq!((&table["kind"], answer.header("content-type")), (&json!("Table"), JSON));
            let columns = table["columnDefinitions"].as_array().expect("columns").len();
            for row in table["rows"].as_array().expect("rows") {
                assert_eq!(row["cells"].as_array().map(Vec::len), Some(columns), "{path}: {row}");
                assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
                assert_eq!(row["object"]["apiVersion"], "meta.k8s.io/v1");
                assert!(row["object"].get("spec").is_none() && row["object"]["metadata"]["uid"].is_string());
            }
        }
    }
    let row = async |query: &str| {
        site.send(Ask::get(&format!("{THINGS}{query}")).accept(TABLE)).await.expect(200).json()["rows"][0]
            .clone()
    };
    let none = row("?includeObject=None").await;
    assert_eq!((none.get("object"), &none["cells"]), (Some(&Value::Null), &json!(["a", 3])));
    assert_eq!(row("?includeObject=Object").await["object"], made);
    assert_eq!(row("?includeObject=Metadata").await["object"]["metadata"], made["metadata"]);
    let ask = Ask::get(&format!("{THINGS}?includeObject=X")).accept(TABLE);
    site.send(ask).await.refused(400, "BadRequest");
}

#[tokio::test]
async fn s030_s031_tables_of_lists_and_watches() {
    let site = Site::open().await;
    for name in ["a", "b", "c"] {
        site.made(MAPS, &config_map(name, json!({}))).await;
    }
    let revision = site.revision().await;
    let first = site.send(Ask::get(&format!("{MAPS}?limit=1")).accept(TABLE)).await.expect(200).json();
    assert_eq!(first["metadata"]["resourceVersion"], revision.as_str());
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let rest = site
        .send(Ask::get(&format!("{MAPS}?limit=5&continue={token}")).accept(TABLE))
        .await
        .expect(200)
        .json();
    assert_eq!(rest["rows"].as_array().map(Vec::len), Some(2));
    let bookmarks = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = site.follow(Ask::get(&format!("{MAPS}?watch&{bookmarks}")).accept(TABLE)).await;
    let events = watch.events(4).await;
    for (index, event) in events.iter().enumerate() {
        let columns = event["object"]["columnDefinitions"].as_array().map_or(0, Vec::len);
        assert_eq!((&event["object"]["kind"], columns > 0), (&json!("Table"), index == 0), "{event}");
        assert_eq!(event["object"]["rows"].as_array().map(Vec::len), Some(1));
    }
    assert_eq!(events[3]["type"], "BOOKMARK");
    let mark = &events[3]["object"]["rows"][0];
    assert_eq!((&mark["cells"], &mark["object"]["kind"]), (&json!([]), &json!("PartialObjectMetadata")));
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

#[tokio::test]
async fn s032_metadata_alone() {
    let site = Site::open().await;
    let made = site.made(THINGS, &thing("a", json!({ "replicas": 3 }))).await;
    let one = format!("{THINGS}/a");
    let expected = json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"] });
    assert_eq!(site.send(Ask::get(&one).accept(PARTIAL)).await.expect(200).json(), expected);
    let list = site.send(Ask::get(THINGS).accept(PARTIALS)).await.expect(200).json();
    assert_eq!((&list["kind"], &list["items"][0]), (&json!("PartialObjectMetadataList"), &expected));
    let mut watch = site.follow(Ask::get(&format!("{THINGS}?watch=1")).accept(PARTIAL)).await;
    assert_eq!(watch.event().await.expect("an event")["object"], expected);
    let label = json!({ "metadata": { "labels": { "x": "y" } } });
    let patched = site.send(Ask::patch(&one, super::MERGE, &label).accept(PARTIAL)).await.expect(200).json();
    assert_eq!((&patched["kind"], patched.get("spec")), (&json!("PartialObjectMetadata"), None));
    site.send(Ask::get(THINGS).accept(PARTIAL)).await.refused(406, "NotAcceptable");
    site.send(Ask::get(&one).accept(PARTIALS)).await.refused(406, "NotAcceptable");
    // Metadata clients name protobuf first.
    let protobuf = PARTIAL.replace(JSON, PROTOBUF);
    let both = Ask::get(&one).accept(&format!("{protobuf},{PARTIAL},application/json"));
    assert_eq!(site.send(both).await.expect(200).json()["kind"], "PartialObjectMetadata");
}

#[tokio::test]
async fn s033_s034_lists_by_kind() {
    let site = Site::open().await;
    for path in [THINGS, MAPS, "/api/v1/nodes"] {
        assert_eq!(site.get(path).await.expect(200).json()["items"], json!([]), "{path}");
    }
    site.made(MAPS, &config_map("m", json!({}))).await;
    site.made(THINGS, &thing("a", json!({}))).await;
    let maps = site.get(MAPS).await.json();
    assert_eq!((&maps["kind"], &maps["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    assert!(maps["items"][0].get("kind").is_none() && maps["items"][0].get("apiVersion").is_none());
    let things = site.get(THINGS).await.json();
    assert_eq!((&things["kind"], &things["items"][0]["kind"]), (&json!("ThingList"), &json!("Thing")));
    assert_eq!(things["items"][0]["apiVersion"], "example.io/v1");
}

fn unzipped(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).expect("gzip");
    out
}

#[tokio::test]
async fn s035_large_answers_are_compressed() {
    let site = Site::open().await;
    for name in ["a", "b"] {
        site.made(MAPS, &config_map(name, json!({ "k": "v".repeat(100_000) }))).await;
    }
    let gzip = |path: &str| Ask::get(path).header("accept-encoding", "gzip, deflate");
    let plain = site.get(MAPS).await.expect(200);
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), ("", "Accept-Encoding"));
    let packed = site.send(gzip(MAPS)).await.expect(200);
    assert_eq!((packed.header("content-encoding"), packed.header("vary")), ("gzip", "Accept-Encoding"));
    assert_eq!(packed.header("content-length"), packed.body.len().to_string());
    assert!(packed.body.len() < plain.body.len() / 10);
    assert_eq!(unzipped(&packed.body), plain.body);
    // Small answers and watches are sent as they are.
    let small = site.send(gzip(&format!("{MAPS}/a"))).await.expect(200);
    assert_eq!((small.header("content-encoding"), small.header("vary")), ("", ""));
    let mut watch = site.follow(gzip(&format!("{MAPS}?watch"))).await;
    assert!(watch.headers.get("content-encoding").is_none());
    assert_eq!(watch.event().await.expect("an event")["type"], "ADDED");
    // What is compressed beside the runtime's threads.
    for n in 0..12 {
        site.made(MAPS, &config_map(&format!("c{n}"), json!({ "k": format!("{n}").repeat(100_000) }))).await;
    }
    let packed = site.send(gzip(MAPS)).await.expect(200);
    assert_eq!(unzipped(&packed.body), site.get(MAPS).await.body);
}

#[tokio::test]
async fn s036_people_get_indented_json() {
    let site = Site::open().await;
    site.made(MAPS, &config_map("a", json!({ "k": "{\"a\": [1,2]}" }))).await;
    let path = format!("{MAPS}/a");
    let plain = site.get(&path).await;
    assert!(!plain.text().contains('\n'));
    for ask in [
        Ask::get(&format!("{path}?pretty=1")),
        Ask::get(&format!("{path}?pretty=true")),
        Ask::get(&path).header("user-agent", "curl/8.5.0"),
        Ask::get(&path).header("user-agent", "Wget/1.21"),
        Ask::get(&path).accept("application/json;pretty=1"),
    ] {
        let what = ask.to_string();
        let answer = site.send(ask).await.expect(200);
        assert!(
            answer.text().starts_with("{\n  \"") && answer.text().contains("\n    \"name\": \"a\""),
            "{what}"
        );
        assert_eq!(answer.json(), plain.json());
    }
    let ask = Ask::get(&format!("{path}?pretty=false")).header("user-agent", "curl/8.5.0");
    assert_eq!(site.send(ask).await.body, plain.body);
    let missing = site.send(Ask::get(&format!("{MAPS}/b")).header("user-agent", "curl/8")).await.expect(404);
    assert!(missing.text().starts_with("{\n  \""));
}

#[tokio::test]
async fn s037_queries_are_read_generously() {
    let site = Site::open().await;
    site.made(MAPS, &config_map("a", json!({}))).await;
    assert_eq!(
        site.get(&format!("{MAPS}?nonsense=1&timeout=32s&=&&x")).await.expect(200).json()["kind"],
        "ConfigMapList"
    );
    for query in ["watch", "watch=1", "watch=true", "watch=True", "watch=", "nonsense=%zz&watch"] {
        let mut watch = site.watch(&format!("{MAPS}?{query}")).await;
        assert_eq!(watch.names(1).await, [("ADDED".to_owned(), "a".to_owned())], "{query}");
    }
    for query in ["watch=0", "watch=false", ""] {
        assert_eq!(site.get(&format!("{MAPS}?{query}")).await.json()["kind"], "ConfigMapList", "{query}");
    }
}

#[tokio::test]
async fn s038_head_is_get_without_a_body() {
    let site = Site::open().await;
    site.made(MAPS, &config_map("a", json!({}))).await;
    for path in
        [MAPS, &format!("{MAPS}/a"), &format!("{MAPS}/b"), "/version", "/readyz", "/apis", "/openapi/v3"]
    {
        let got = site.get(path).await;
        let head = site.send(Ask::new(Method::HEAD, path)).await.expect(got.code);
        assert!(head.body.is_empty(), "{path}");
        for header in ["content-type", "content-length", "cache-control", "vary"] {
            assert_eq!(head.header(header), got.header(header), "{path} {header}");
        }
        assert_eq!(head.header("content-length"), got.body.len().to_string());
    }
    let port = Port::open().await;
    let request = "HEAD /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_string();
    let answer = port.raw(request.as_bytes()).await;
    assert!(answer.contains("content-length: 2\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn s039_bodies_have_a_limit() {
    let site = Site::open().await;
    let limit = 3 * 1024 * 1024;
    let refused = site
        .send(Ask::new(Method::POST, MAPS).body(JSON, vec![b' '; limit + 1]))
        .await
        .refused(413, "RequestEntityTooLarge");
    assert_eq!(refused.message(), "Request entity too large: limit is 3145728");
    // Exactly the limit is read: and is no JSON.
    site.send(Ask::new(Method::POST, MAPS).body(JSON, vec![b' '; limit])).await.refused(400, "BadRequest");
    let port = Port::open().await;
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\nContent-Length: {}\r\n\r\n",
        limit * 2
    );
    let answer = port.raw(&[head.as_bytes(), &vec![b'x'; limit * 2]].concat()).await;
    assert!(matches!(code(&answer), 413 | 0), "{answer}");
    assert_eq!(code(&port.get("/readyz", None, &[]).await), 200);
}

/// The events of `count` watches on one HTTP/2 connection after one write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s040_one_connection_carries_a_hundred_watches() {
    let port = Port::open().await;
    let mut connection = port.http2().await;
    let revision = port.site.revision().await;
    let url = format!("https://localhost:{}{MAPS}?watch=1&resourceVersion={revision}", port.address().port());
    let ask = |url: &str| {
        Request::get(url)
            .header("authorization", format!("Bearer {ADMIN}"))
            .body(Full::new(Bytes::new()))
            .expect("a request")
    };
    let mut watches = Vec::new();
    for _ in 0..100 {
        let response = connection.send_request(ask(&url)).await.expect("headers");
        assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
        watches.push(response.into_body());
    }
    port.site.made(MAPS, &config_map("a", json!({}))).await;
    for watch in &mut watches {
        let frame =
            tokio::time::timeout(super::SOON, watch.frame()).await.expect("in time").expect("a frame");
        let event: Value =
            serde_json::from_slice(&frame.expect("fine").into_data().expect("data")).expect("an event");
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("a")));
    }
    // And another request beside them.
    let other = connection.send_request(ask(&format!("https://localhost{MAPS}/a"))).await.expect("headers");
    assert_eq!(other.status().as_u16(), 200);
    // HTTP/1.1 works on the same port.
    let answer = port.get(&format!("{MAPS}/a"), Some(ADMIN), &[]).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\"name\":\"a\""), "{answer}");
}

#[tokio::test]
async fn s041_yaml_is_read_and_written() {
    let site = Site::open().await;
    let yaml = "# a comment\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: text, creationTimestamp: null}\ndata:\n  k: |\n    two\n    lines\n";
    let made = site.send(Ask::new(Method::POST, MAPS).body(YAML, yaml)).await.expect(201).json();
    assert_eq!(made["data"], json!({ "k": "two\nlines\n" }));
    let put = yaml.replace("lines", "words");
    let path = format!("{MAPS}/text");
    let changed = site.send(Ask::new(Method::PUT, &path).body(YAML, put)).await.expect(200).json();
    assert_eq!(changed["data"]["k"], "two\nwords\n");
    for bad in ["a: [1", "a: *nowhere", "- just\n- a list", "\u{0}", "a: 1\n---\nb: 2\n"] {
        site.send(Ask::new(Method::POST, MAPS).body(YAML, bad.to_owned())).await.refused(400, "BadRequest");
    }
    let shown = site.send(Ask::get(&path).accept(YAML)).await.expect(200);
    assert_eq!(shown.header("content-type"), YAML);
    let read: Value = serde_saphyr::from_str(&shown.text()).expect("yaml");
    assert_eq!(read, changed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_headers_are_refused_and_the_server_stays() {
    let port = Port::open().await;
    let huge = "x".repeat(200 * 1024);
    for header in
        [format!("X-Big: {huge}"), format!("Cookie: {huge}"), "a: b\r\n".repeat(2_000), format!("{huge}: y")]
    {
        let request = format!("GET /version HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n");
        let answer = port.raw(request.as_bytes()).await;
        assert!(matches!(code(&answer), 400 | 431 | 0), "{answer}");
    }
    for garbage in [
        "\u{1}\u{2}\r\n\r\n",
        "GET\r\n\r\n",
        "GET /\u{7f} HTTP/9.9\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
    ] {
        let answer = port.raw(garbage.as_bytes()).await;
        assert!(!answer.contains(" 200 "), "{answer}");
    }
    let long = format!("/api/v1/{}", "a/".repeat(10_000));
    assert!(matches!(code(&port.get(&long, Some(ADMIN), &[]).await), 404 | 414 | 431));
    let mut connection = port.http2().await;
    let request =
        Request::get("https://localhost/version").header("x-big", &huge).body(Full::new(Bytes::new()));
    let answer = connection.send_request(request.expect("a request")).await;
    assert!(answer.is_err() || answer.is_ok_and(|response| response.status().as_u16() == 431));
    assert_eq!(code(&port.get("/readyz", None, &[]).await), 200);
}
