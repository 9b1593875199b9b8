//! Statements 64-72, 76, 77: what a deletion answers, what it waits for and what it takes along.

use serde_json::{Value, json};

use super::lifecycle::stranger;
use super::{Ask, JSON, MAPS, NAMESPACES, SECRETS, Site, THINGS, config_map, namespace, thing, version};

const NO_UID: &str = "00000000-0000-4000-8000-000000000000";

fn options(options: &Value) -> Value {
    let mut body = json!({ "apiVersion": "v1", "kind": "DeleteOptions" });
    body.as_object_mut().expect("an object").extend(options.as_object().expect("options").clone());
    body
}

async fn delete(site: &Site, path: &str, wanted: &Value) -> super::Answer {
    site.send(Ask::delete(path).json(JSON, &options(wanted))).await
}

fn held(name: &str) -> Value {
    let mut object = thing(name, json!({}));
    object["metadata"]["finalizers"] = json!(["example.io/hold"]);
    object
}

/// A reference to `owner` that blocks, or not.
fn owner(owner: &Value, blocks: bool) -> Value {
    json!({ "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks })
}

fn owned(name: &str, owners: &[Value]) -> Value {
    let mut map = config_map(name, json!({}));
    map["metadata"]["ownerReferences"] = owners.into();
    map
}

/// A Thing that was made and is named `name`.
async fn made(site: &Site, name: &str) -> Value {
    site.made(THINGS, &thing(name, json!({}))).await
}

#[tokio::test]
async fn s064_a_deletion_without_finalizers_is_the_end() {
    let site = Site::open().await;
    let made = made(&site, "a").await;
    let mut events = site.watch(&format!("{THINGS}?watch&resourceVersion={}", version(&made))).await;
    let status = site.delete(&format!("{THINGS}/a")).await.expect(200).json();
    assert_eq!(
        status,
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": {
            "name": "a", "group": "example.io", "kind": "things", "uid": made["metadata"]["uid"] } })
    );
    site.get(&format!("{THINGS}/a")).await.refused(404, "NotFound");
    let event = events.event().await.expect("an event");
    assert_eq!((&event["type"], &event["object"]["spec"]), (&json!("DELETED"), &made["spec"]));
    assert_eq!(version(&event["object"]), site.revision().await);
    assert!(site.revision().await.as_str() > version(&made));
    site.delete(&format!("{THINGS}/a")).await.refused(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn s065_s066_a_finalizer_makes_a_deletion_wait() {
    let site = Site::paused().await;
    let made = site.made(THINGS, &held("a")).await;
    let at = format!("{THINGS}/a");
    let asked = site.delete(&at).await.expect(200).json();
    let metadata = &asked["metadata"];
    assert_eq!(metadata["deletionTimestamp"], "2026-11-20T10:00:00Z");
    assert_eq!((&metadata["deletionGracePeriodSeconds"], &metadata["generation"]), (&json!(0), &json!(2)));
    assert_ne!(version(&asked), version(&made));
    assert_eq!(asked["spec"], made["spec"]);
    tokio::time::advance(std::time::Duration::from_secs(90)).await;
    for again in [json!({}), json!({ "gracePeriodSeconds": 5 }), json!({ "gracePeriodSeconds": -1 })] {
        assert_eq!(delete(&site, &at, &again).await.expect(200).json(), asked, "{again}");
    }
    // The policy may still change: that is the one thing a second deletion can do.
    let orphan = delete(&site, &at, &json!({ "propagationPolicy": "Foreground" })).await.expect(200).json();
    assert_eq!(orphan["metadata"]["finalizers"], json!(["example.io/hold", "foregroundDeletion"]));
    assert_eq!(orphan["metadata"]["deletionTimestamp"], metadata["deletionTimestamp"]);
    assert_eq!(orphan["metadata"]["generation"], 2);
}

#[tokio::test]
async fn s067_finalizers_only_become_fewer_and_the_last_takes_the_object_along() {
    let site = Site::open().await;
    let at = format!("{THINGS}/a");
    let mut object = held("a");
    object["metadata"]["finalizers"] = json!(["example.io/one", "example.io/two"]);
    let made = site.made(THINGS, &object).await;
    site.delete(&at).await.expect(200);
    let finalizers = |names: Value| json!({ "metadata": { "finalizers": names } });
    let more = finalizers(json!(["example.io/one", "example.io/z", "example.io/three"]));
    let refusal = site.merge(&at, &more).await.refused(422, "Invalid");
    assert_eq!(refusal.causes(), [("FieldValueForbidden", "metadata.finalizers")]);
    assert_eq!(
        refusal.cause_messages(),
        ["Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers \
          []string{\"example.io/three\", \"example.io/z\"}"]
    );
    let fewer = site.merge(&at, &finalizers(json!(["example.io/two"]))).await.expect(200).json();
    let mut events = site.watch(&format!("{THINGS}?watch&resourceVersion={}", version(&fewer))).await;
    let mut last = fewer.clone();
    last["metadata"]["finalizers"] = json!([]);
    last["spec"]["note"] = "bye".into();
    let answer = site.put(&at, &last).await.expect(200).json();
    assert_eq!(answer["metadata"]["finalizers"].as_array().map_or(0, Vec::len), 0);
    assert_eq!((&answer["spec"]["note"], version(&answer)), (&json!("bye"), version(&fewer)));
    let event = events.event().await.expect("an event");
    assert_eq!(
        (&event["type"], &event["object"]["metadata"]["uid"]),
        (&json!("DELETED"), &made["metadata"]["uid"])
    );
    site.get(&at).await.refused(404, "NotFound");
}

#[tokio::test]
async fn s068_a_deletion_may_insist_on_what_it_saw() {
    let site = Site::open().await;
    let made = made(&site, "a").await;
    let (at, uid) = (format!("{THINGS}/a"), made["metadata"]["uid"].as_str().expect("a uid"));
    for (preconditions, expected) in [
        (
            json!({ "uid": "other" }),
            format!(
                "the UID in the precondition (other) does not match the UID in record ({uid}). The object might \
                 have been deleted and then recreated"
            ),
        ),
        (
            json!({ "uid": uid, "resourceVersion": "1" }),
            format!(
                "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({}). \
                 The object might have been modified",
                version(&made)
            ),
        ),
    ] {
        let refusal =
            delete(&site, &at, &json!({ "preconditions": preconditions })).await.refused(409, "Conflict");
        let start = "Operation cannot be fulfilled on Thing.example.io \"a\": ";
        assert_eq!(refusal.message(), format!("{start}{expected}"));
        assert_eq!(refusal.details()["kind"], "Thing");
    }
    let fitting = json!({ "uid": uid, "resourceVersion": version(&made) });
    delete(&site, &at, &json!({ "preconditions": fitting })).await.expect(200);
}

#[tokio::test]
async fn s069_delete_options_that_mean_nothing_are_refused() {
    let site = Site::open().await;
    made(&site, "a").await;
    let at = format!("{THINGS}/a");
    let unknown =
        "Unsupported value: \"Bogus\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
    let both = "Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set";
    let dry = "Unsupported value: [\"Some\"]: supported values: \"All\"";
    for (body, query, expected) in [
        (json!({ "propagationPolicy": "Bogus" }), "propagationPolicy=Bogus", ("propagationPolicy", unknown)),
        (
            json!({ "propagationPolicy": "Orphan", "orphanDependents": true }),
            "propagationPolicy=Orphan&orphanDependents=true",
            ("propagationPolicy", both),
        ),
        (json!({ "dryRun": ["Some"] }), "dryRun=Some", ("dryRun", dry)),
    ] {
        for answer in [delete(&site, &at, &body).await, site.delete(&format!("{at}?{query}")).await] {
            let refusal = answer.refused(422, "Invalid");
            assert_eq!(refusal.details()["kind"], "DeleteOptions", "{query}");
            assert_eq!(refusal.details()["group"], "meta.k8s.io", "{query}");
            assert_eq!((refusal.causes()[0].1, refusal.cause_messages()[0]), expected);
        }
    }
    // Something else than options, and options of the wrong shape.
    site.send(Ask::delete(&at).json(JSON, &thing("a", json!({})))).await.refused(400, "BadRequest");
    delete(&site, &at, &json!({ "dryRun": "All" })).await.refused(400, "BadRequest");
    delete(&site, &at, &json!({ "orphanDependents": "no" })).await.refused(400, "BadRequest");
    site.get(&at).await.expect(200);
    // A body wins over the query; a dry run counts from either.
    let both_ways = format!("{at}?propagationPolicy=Bogus&dryRun=All");
    delete(&site, &both_ways, &json!({ "propagationPolicy": "Background" })).await.expect(200);
    site.get(&at).await.expect(200);
}

#[tokio::test]
async fn s069_the_old_word_for_background_is_answered_as_accepted() {
    let site = Site::open().await;
    let at = format!("{THINGS}/a");
    site.made(THINGS, &held("a")).await;
    delete(&site, &at, &json!({ "orphanDependents": false })).await.expect(202);
    delete(&site, &at, &json!({ "propagationPolicy": "Background" })).await.expect(200);
    made(&site, "b").await;
    delete(&site, &format!("{THINGS}/b"), &json!({ "orphanDependents": false })).await.expect(200);
}

#[tokio::test]
async fn s070_policies_decide_about_dependents() {
    let site = Site::open().await;
    for wanted in
        [json!({}), json!({ "propagationPolicy": "Background" }), json!({ "orphanDependents": false })]
    {
        let parent = made(&site, "parent").await;
        site.made(MAPS, &owned("child", &[owner(&parent, true)])).await;
        let gone = delete(&site, &format!("{THINGS}/parent"), &wanted).await.expect(200).json();
        assert_eq!(gone["status"], "Success", "{wanted}: the owner goes at once");
        site.until_gone(&format!("{MAPS}/child")).await;
    }
    for wanted in [json!({ "propagationPolicy": "Orphan" }), json!({ "orphanDependents": true })] {
        let parent = made(&site, "parent").await;
        site.made(MAPS, &owned("child", &[owner(&parent, true)])).await;
        let asked = delete(&site, &format!("{THINGS}/parent"), &wanted).await.expect(200).json();
        assert_eq!(asked["metadata"]["finalizers"], json!(["orphan"]), "{wanted}");
        site.until_gone(&format!("{THINGS}/parent")).await;
        let child = site.get(&format!("{MAPS}/child")).await.expect(200).json();
        assert!(child["metadata"].get("ownerReferences").is_none(), "{child}");
        site.delete(&format!("{MAPS}/child")).await.expect(200);
    }
}

#[tokio::test]
async fn s070_foreground_waits_for_those_that_block() {
    let site = Site::open().await;
    let parent = made(&site, "parent").await;
    let mut child = held("child");
    child["metadata"]["ownerReferences"] = json!([owner(&parent, true)]);
    let child = site.made(THINGS, &child).await;
    site.made(MAPS, &owned("grandchild", &[owner(&child, true)])).await;
    let mut free = held("free");
    free["metadata"]["ownerReferences"] = json!([owner(&parent, false)]);
    site.made(THINGS, &free).await;
    let foreground = json!({ "propagationPolicy": "Foreground" });
    let asked = delete(&site, &format!("{THINGS}/parent"), &foreground).await.expect(200).json();
    assert_eq!(asked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    site.until_gone(&format!("{MAPS}/grandchild")).await;
    let waits = |answer: &super::Answer| answer.json()["metadata"].get("deletionTimestamp").is_some();
    let child_now = site.until(&format!("{THINGS}/child"), waits).await.json();
    assert!(child_now["metadata"]["finalizers"].to_string().contains("example.io/hold"), "{child_now}");
    site.get(&format!("{THINGS}/parent")).await.expect(200);
    let release = json!({ "metadata": { "finalizers": null } });
    site.merge(&format!("{THINGS}/child"), &release).await.expect(200);
    site.until_gone(&format!("{THINGS}/parent")).await;
    // The one that does not block is on its way out, and its finalizer did not hold the owner.
    site.until(&format!("{THINGS}/free"), waits).await;
}

#[tokio::test]
async fn s070_circles_do_not_wait_for_ever() {
    let site = Site::open().await;
    for size in [1, 2, 3] {
        let names: Vec<String> = (0..size).map(|n| format!("c{n}")).collect();
        let mut circle = Vec::new();
        for name in &names {
            circle.push(made(&site, name).await);
        }
        for (index, name) in names.iter().enumerate() {
            let before = &circle[(index + size - 1) % size];
            let patch = json!({ "metadata": { "ownerReferences": [owner(before, true)] } });
            site.merge(&format!("{THINGS}/{name}"), &patch).await.expect(200);
        }
        let foreground = json!({ "propagationPolicy": "Foreground" });
        delete(&site, &format!("{THINGS}/c0"), &foreground).await.expect(200);
        for name in &names {
            site.until_gone(&format!("{THINGS}/{name}")).await;
        }
    }
}

#[tokio::test]
async fn s071_owners_decide_who_stays() {
    let site = Site::open().await;
    let alive = made(&site, "alive").await;
    site.made(NAMESPACES, &namespace("far")).await;
    let far = site.made("/api/v1/namespaces/far/configmaps", &config_map("far", json!({}))).await;
    let spaces = site.get(&format!("{NAMESPACES}/far")).await.json();
    let mut never = owner(&alive, true);
    never["uid"] = NO_UID.into();
    for (name, owners) in [("never", vec![never.clone()]), ("elsewhere", vec![owner(&far, true)])] {
        site.made(MAPS, &owned(name, &owners)).await;
        site.until_gone(&format!("{MAPS}/{name}")).await;
    }
    for (name, owners, kept) in [
        ("none", vec![], vec![]),
        ("one", vec![owner(&alive, true)], vec![owner(&alive, true)]),
        ("cluster", vec![owner(&spaces, true)], vec![owner(&spaces, true)]),
        ("unknown", vec![stranger(NO_UID)], vec![stranger(NO_UID)]),
        ("mixed", vec![owner(&alive, false), never], vec![owner(&alive, false)]),
    ] {
        site.made(MAPS, &owned(name, &owners)).await;
        let found = |answer: &super::Answer| answer.json()["metadata"]["ownerReferences"].clone();
        let expected = if kept.is_empty() { Value::Null } else { kept.into() };
        site.until(&format!("{MAPS}/{name}"), |answer| found(answer) == expected).await;
    }
}

#[tokio::test]
async fn s071_a_co_owner_keeps_what_another_waits_for() {
    let site = Site::open().await;
    let (going, staying) = (made(&site, "going").await, made(&site, "staying").await);
    site.made(MAPS, &owned("shared", &[owner(&going, true), owner(&staying, true)])).await;
    let foreground = json!({ "propagationPolicy": "Foreground" });
    delete(&site, &format!("{THINGS}/going"), &foreground).await.expect(200);
    site.until_gone(&format!("{THINGS}/going")).await;
    let shared = site.get(&format!("{MAPS}/shared")).await.expect(200).json();
    assert_eq!(shared["metadata"]["ownerReferences"], json!([owner(&staying, true)]));
}

#[tokio::test]
async fn s071_a_kind_that_comes_later_is_judged_then() {
    let site = Site::serving(Vec::new()).await;
    let absent = json!({ "apiVersion": "example.io/v1", "kind": "Thing", "name": "x", "uid": NO_UID });
    site.made(MAPS, &owned("child", &[absent])).await;
    // A change that the collector has seen for certain: it works in order.
    let parent = site.made(MAPS, &config_map("parent", json!({}))).await;
    site.made(SECRETS, &{
        let mut secret = super::lifecycle::secret("s");
        secret["metadata"]["ownerReferences"] = json!([owner(&parent, true)]);
        secret
    })
    .await;
    site.delete(&format!("{MAPS}/parent")).await.expect(200);
    site.until_gone(&format!("{SECRETS}/s")).await;
    site.get(&format!("{MAPS}/child")).await.expect(200);
    let mut definition = serde_json::to_value(crate::things::definition()).expect("a definition");
    definition["apiVersion"] = "apiextensions.k8s.io/v1".into();
    definition["kind"] = "CustomResourceDefinition".into();
    site.made(super::DEFINITIONS, &definition).await;
    site.until_gone(&format!("{MAPS}/child")).await;
}

#[tokio::test]
async fn s072_a_collection_is_deleted_by_what_selects_it() {
    let site = Site::open().await;
    for n in 0..6 {
        let mut map = config_map(&format!("m{n}"), json!({}));
        map["metadata"]["labels"] = json!({ "odd": (n % 2 == 1).to_string() });
        if n == 3 {
            map["metadata"]["finalizers"] = json!(["example.io/hold"]);
        }
        site.made(MAPS, &map).await;
    }
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().expect("items");
        items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
    };
    let dry = site.delete(&format!("{MAPS}?labelSelector=odd%3Dtrue&dryRun=All")).await.expect(200).json();
    assert_eq!(names(&dry), ["m1", "m3", "m5"]);
    assert_eq!(names(&site.get(MAPS).await.json()).len(), 6);
    let list = site.delete(&format!("{MAPS}?labelSelector=odd%3Dtrue")).await.expect(200).json();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    assert_eq!(names(&list), ["m1", "m3", "m5"]);
    // What is held is marked.
    assert_eq!(names(&site.get(MAPS).await.json()), ["m0", "m2", "m3", "m4"]);
    let marked = site.get(&format!("{MAPS}/m3")).await.json();
    assert!(marked["metadata"].get("deletionTimestamp").is_some());
    let named = site.delete(&format!("{MAPS}?fieldSelector=metadata.name%3Dm0")).await.expect(200).json();
    assert_eq!(names(&named), ["m0"]);
    let nothing = site.delete(&format!("{MAPS}?labelSelector=odd%3Dmaybe")).await.expect(200).json();
    assert_eq!(nothing["items"], json!([]));
    delete(&site, MAPS, &json!({ "propagationPolicy": "Bogus" })).await.refused(422, "Invalid");
    assert_eq!(names(&site.delete(MAPS).await.expect(200).json()), ["m2", "m3", "m4"]);
    assert_eq!(names(&site.get(MAPS).await.json()), ["m3"]);
    assert!(site.delete("/apis/example.io/v1/things").await.code >= 400, "not in all namespaces at once");
}

#[tokio::test]
async fn s072_many_go_together_and_watchers_see_each() {
    let site = Site::open().await;
    for n in 0..500 {
        site.made(MAPS, &config_map(&format!("m{n:03}"), json!({}))).await;
    }
    let mut events = site.watch(&format!("{MAPS}?watch&resourceVersion={}", site.revision().await)).await;
    let list = site.delete(MAPS).await.expect(200).json();
    assert_eq!(list["items"].as_array().map_or(0, Vec::len), 500);
    let mut last = 0;
    for event in events.events(500).await {
        assert_eq!(event["type"], "DELETED");
        let now: u64 = version(&event["object"]).parse().expect("a number");
        assert!(now > last, "each deletion has its own version");
        last = now;
    }
}

#[tokio::test]
async fn s076_a_namespace_takes_everything_along() {
    let site = Site::open().await;
    let made = site.made(NAMESPACES, &namespace("team")).await;
    assert_eq!(made["spec"], json!({ "finalizers": ["kubernetes"] }));
    assert_eq!(made["status"], json!({ "phase": "Active" }));
    assert_eq!(made["metadata"]["labels"], json!({ "kubernetes.io/metadata.name": "team" }));
    let at = format!("{NAMESPACES}/team");
    let patch = json!({ "metadata": { "labels": { "kubernetes.io/metadata.name": null, "x": "y" } },
        "spec": { "finalizers": [] }, "status": { "phase": "Odd" } });
    let patched = site.merge(&at, &patch).await.expect(200).json();
    assert_eq!(patched["metadata"]["labels"], json!({ "kubernetes.io/metadata.name": "team", "x": "y" }));
    assert_eq!((&patched["spec"], &patched["status"]), (&made["spec"], &made["status"]));
    for path in ["configmaps", "secrets"] {
        let object =
            if path == "secrets" { super::lifecycle::secret("s") } else { config_map("m", json!({})) };
        site.made(&format!("/api/v1/namespaces/team/{path}"), &object).await;
    }
    let lease = super::lifecycle::lease("l");
    site.made("/apis/coordination.k8s.io/v1/namespaces/team/leases", &lease).await;
    site.made("/apis/example.io/v1/namespaces/team/things", &thing("t", json!({}))).await;
    let asked = site.delete(&at).await.expect(200).json();
    assert_eq!(asked["status"]["phase"], "Terminating");
    assert!(asked["metadata"].get("deletionTimestamp").is_some());
    site.until_gone(&at).await;
    for path in [
        "/api/v1/namespaces/team/configmaps",
        "/api/v1/namespaces/team/secrets",
        "/apis/coordination.k8s.io/v1/namespaces/team/leases",
        "/apis/example.io/v1/namespaces/team/things",
    ] {
        assert_eq!(site.get(path).await.expect(200).json()["items"], json!([]), "{path}");
    }
    for name in ["default", "kube-system", "kube-public"] {
        let refusal = site.delete(&format!("{NAMESPACES}/{name}")).await.refused(403, "Forbidden");
        let expected = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        assert_eq!(refusal.message(), expected);
    }
}

#[tokio::test]
async fn s076_finalizers_of_a_namespace_are_taken_away_by_finalize() {
    let site = Site::open().await;
    let mut space = namespace("team");
    space["spec"] = json!({ "finalizers": ["example.io/mine"] });
    let made = site.made(NAMESPACES, &space).await;
    assert_eq!(made["spec"]["finalizers"], json!(["example.io/mine", "kubernetes"]));
    let mut body = made.clone();
    body["spec"]["finalizers"] = json!(["kubernetes"]);
    body["metadata"]["labels"]["x"] = "y".into();
    let finalized = site.put(&format!("{NAMESPACES}/team/finalize"), &body).await.expect(200).json();
    assert_eq!(finalized["spec"]["finalizers"], json!(["kubernetes"]));
    assert!(finalized["metadata"]["labels"].get("x").is_none());
    site.delete(&format!("{NAMESPACES}/team")).await.expect(200);
    site.until_gone(&format!("{NAMESPACES}/team")).await;
}

#[tokio::test]
async fn s077_an_ending_namespace_says_what_is_left() {
    let site = Site::open().await;
    site.made(NAMESPACES, &namespace("team")).await;
    let inside = "/apis/example.io/v1/namespaces/team/things";
    for name in ["a", "b"] {
        site.made(inside, &held(name)).await;
    }
    site.made("/api/v1/namespaces/team/configmaps", &config_map("m", json!({}))).await;
    let at = format!("{NAMESPACES}/team");
    site.delete(&at).await.expect(200);
    let said = |space: &Value, type_: &str| {
        let conditions = space["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|c| c["type"] == type_).unwrap_or_default();
        ["status", "reason", "message"].map(|field| found[field].as_str().unwrap_or_default().to_owned())
    };
    let left = [
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: things.example.io has 2 resource instances",
    ];
    let space =
        site.until(&at, |answer| said(&answer.json(), "NamespaceContentRemaining") == left).await.json();
    assert_eq!(space["status"]["phase"], "Terminating");
    for (type_, expected) in [
        (
            "NamespaceFinalizersRemaining",
            [
                "True",
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: example.io/hold in 2 resource instances",
            ],
        ),
        (
            "NamespaceDeletionContentFailure",
            ["False", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"],
        ),
        (
            "NamespaceDeletionDiscoveryFailure",
            ["False", "ResourcesDiscovered", "All resources successfully discovered"],
        ),
    ] {
        assert_eq!(said(&space, type_), expected, "{type_}");
    }
    let release = json!({ "metadata": { "finalizers": null } });
    site.merge(&format!("{inside}/a"), &release).await.expect(200);
    let one = [
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: things.example.io has 1 resource instances",
    ];
    site.until(&at, |answer| said(&answer.json(), "NamespaceContentRemaining") == one).await;
    site.merge(&format!("{inside}/b"), &release).await.expect(200);
    site.until_gone(&at).await;
}
