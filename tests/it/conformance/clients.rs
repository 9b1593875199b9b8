//! Statements 157-165: programs that were not written for this server. Here is kube-rs, in process and
//! over TLS; kubectl and programs in Go have modules of their own.

use std::sync::Arc;

use capstan_apiserver::Tokens;
use capstan_apiserver::serve::{self, tls};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, PartialObjectMeta};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Client, Resource as _, ResourceExt as _};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::*;

/// The same server by both ways in.
struct Doors {
    clients: [(&'static str, Client); 2],
    _listening: serve::Listening,
}

impl Doors {
    async fn open() -> Self {
        let tokens = Tokens { admin: "admin-token".to_owned(), read_only: "viewer-token".to_owned() };
        let site = Site::open().await;
        let authority = tls::Authority::generate(Clock::system().now()).expect("an authority");
        let address = "127.0.0.1:0".parse().expect("an address");
        let listening = serve::listen(site.server.guarded(), address, &authority).await.expect("a port");
        let text = serve::kubeconfig(listening.address(), &authority, &tokens.admin);
        let config = kube::config::Kubeconfig::from_yaml(&text).expect("a kubeconfig");
        let whole = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(config, &whole).await.expect("a config");
        let over_tls = Client::try_from(config).expect("a client");
        let in_process = Client::new(site.server, "default");
        Self { clients: [("process", in_process), ("tls", over_tls)], _listening: listening }
    }
}

/// Every way in with every way to begin a watch, each with a word for names.
fn ways(doors: &Doors) -> impl Iterator<Item = (String, Client, Config)> {
    let configs = [
        ("pages", Config::default().page_size(2)),
        ("any", Config::default().any_semantic()),
        ("streaming", Config::default().streaming_lists()),
    ];
    doors.clients.iter().flat_map(move |(door, client)| {
        configs.clone().map(|(way, config)| (format!("{door}-{way}"), client.clone(), config))
    })
}

fn map(name: &str, way: &str, note: &str) -> ConfigMap {
    let labels = [("way".to_owned(), way.to_owned())].into();
    let metadata = ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    let data = Some([("note".to_owned(), note.to_owned())].into());
    ConfigMap { metadata, data, ..ConfigMap::default() }
}

fn merged(note: &str) -> Patch<Value> {
    Patch::Merge(json!({ "data": { "note": note } }))
}

/// Waits for one thing of a stream.
async fn soon<T>(next: impl Future<Output = Option<T>>) -> T {
    timeout(SOON, next).await.expect("in time").expect("one more")
}

#[tokio::test]
async fn s163_watchers_tell_every_change_once_and_in_order() {
    let doors = Doors::open().await;
    for (way, client, config) in ways(&doors) {
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        let post = PostParams::default();
        for name in ["one", "two", "three"] {
            maps.create(&post, &map(&format!("{way}-{name}"), &way, "old")).await.expect("created");
        }
        let words = watcher(maps.clone(), config.labels(&format!("way={way}"))).map_ok(|event| match event {
            Event::Init => "init".to_owned(),
            Event::InitDone => "ready".to_owned(),
            Event::InitApply(map) => format!("there {}", map.name_any()),
            Event::Apply(map) => format!("now {} {}", map.name_any(), map.data.unwrap_or_default()["note"]),
            Event::Delete(map) => format!("gone {}", map.name_any()),
        });
        let mut words = std::pin::pin!(words);
        let mut seen = Vec::new();
        while seen.last().is_none_or(|word| word != "ready") {
            seen.push(soon(words.next()).await.expect("an event"));
        }
        seen[1..4].sort();
        let there = ["one", "three", "two"].map(|name| format!("there {way}-{name}"));
        assert_eq!(seen, [vec!["init".to_owned()], there.to_vec(), vec!["ready".to_owned()]].concat());

        let name = format!("{way}-four");
        maps.create(&post, &map(&name, &way, "new")).await.expect("created");
        maps.patch(&name, &PatchParams::default(), &merged("newer")).await.expect("patched");
        maps.patch(&name, &PatchParams::default(), &merged("newer")).await.expect("nothing to do");
        maps.delete(&name, &DeleteParams::default()).await.expect("deleted");
        for word in ["now {} new", "now {} newer", "gone {}"] {
            let told = soon(words.next()).await.expect("an event");
            assert_eq!(told, word.replace("{}", &name));
        }
    }
}

#[tokio::test]
async fn s163_reflectors_hold_what_the_server_holds() {
    let doors = Doors::open().await;
    for (way, client, config) in ways(&doors) {
        let metas: Api<PartialObjectMeta<ConfigMap>> = Api::default_namespaced(client.clone());
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        maps.create(&PostParams::default(), &map(&way, &way, "old")).await.expect("created");
        let config = config.labels(&format!("way={way}"));
        let (store, writer) = reflector::store();
        let whole = watcher(maps.clone(), config.clone()).reflect(writer).default_backoff();
        let (named, writer) = reflector::store();
        let names = watcher(metas, config).reflect(writer).default_backoff();
        let mut both = futures::stream::select(whole.map_ok(drop), names.map_ok(drop)).boxed();
        let key = ObjectRef::new(&way).within("default");
        let wholly = |note: &str| {
            let note = Some(&note.to_owned());
            store.get(&key).is_some_and(|map| map.data.as_ref().and_then(|data| data.get("note")) == note)
        };
        let nominal = |version: &str| {
            let key = ObjectRef::new(&way).within("default");
            named.get(&key).is_some_and(|meta| meta.metadata.resource_version.as_deref() == Some(version))
        };
        while !(wholly("old") && named.len() == 1) {
            soon(both.next()).await.expect("an event");
        }
        let newer = maps.patch(&way, &PatchParams::default(), &merged("new")).await.expect("patched");
        while !(wholly("new") && nominal(&newer.resource_version().expect("a version"))) {
            soon(both.next()).await.expect("an event");
        }
        maps.delete(&way, &DeleteParams::default()).await.expect("deleted");
        while !(store.is_empty() && named.is_empty()) {
            soon(both.next()).await.expect("an event");
        }
    }
}

/// What the reconciler of [`s163_controllers_see_their_own_owned_and_watched_objects`] needs.
struct Context {
    client: Client,
    /// Name, note of the owned Secret, note of the watched ConfigMap.
    seen: UnboundedSender<(String, String, String)>,
}

fn thing_resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.io", "v1", "Thing"), "things")
}

/// Makes the Secret a Thing owns and says what it sees. The Secret's note is whoever wrote it last's.
async fn reconcile(thing: Arc<DynamicObject>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let name = thing.name_any();
    let secrets: Api<Secret> = Api::default_namespaced(context.client.clone());
    let secret = match secrets.get_opt(&name).await? {
        Some(secret) => secret,
        None => {
            let owner = thing.controller_owner_ref(&thing_resource());
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "stringData": { "note": "made" },
                "metadata": { "name": name, "ownerReferences": [owner] },
            });
            secrets.create(&PostParams::default(), &serde_json::from_value(secret).expect("a secret")).await?
        }
    };
    let note = secret.data.and_then(|mut data| data.remove("note")).unwrap_or_default();
    let maps: Api<ConfigMap> = Api::default_namespaced(context.client.clone());
    let map = maps.get_opt(&name).await?.and_then(|map| map.data).unwrap_or_default();
    let notes = (String::from_utf8(note.0).expect("text"), map.get("note").cloned().unwrap_or_default());
    let _ = context.seen.send((name, notes.0, notes.1));
    Ok(Action::await_change())
}

async fn until(seen: &mut UnboundedReceiver<(String, String, String)>, wanted: (&str, &str, &str)) {
    loop {
        let (name, secret, map) = soon(seen.recv()).await;
        if (name.as_str(), secret.as_str(), map.as_str()) == wanted {
            return;
        }
    }
}

#[tokio::test]
async fn s163_controllers_see_their_own_owned_and_watched_objects() {
    let doors = Doors::open().await;
    for (way, client, config) in ways(&doors) {
        let resource = thing_resource();
        let things: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
        let secrets: Api<Secret> = Api::default_namespaced(client.clone());
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let (sender, mut seen) = unbounded_channel();
        let context = Arc::new(Context { client, seen: sender });
        let of_map = {
            let resource = resource.clone();
            move |map: ConfigMap| [ObjectRef::new_with(&map.name_any(), resource.clone()).within("default")]
        };
        let controller = Controller::new_with(things.clone(), config.clone(), resource.clone())
            .owns(secrets.clone(), config.clone())
            .watches(maps.clone(), config, of_map)
            .run(reconcile, |_, _, _| Action::await_change(), context);
        let running = tokio::spawn(controller.for_each(|_| async {}));

        let post = PostParams::default();
        let thing = DynamicObject::new(&way, &resource).data(json!({ "spec": { "replicas": 1 } }));
        things.create(&post, &thing).await.expect("created");
        until(&mut seen, (&way, "made", "")).await;
        let edited = Patch::Merge(json!({ "stringData": { "note": "edited" } }));
        secrets.patch(&way, &PatchParams::default(), &edited).await.expect("patched");
        until(&mut seen, (&way, "edited", "")).await;
        maps.create(&post, &map(&way, &way, "told")).await.expect("created");
        until(&mut seen, (&way, "edited", "told")).await;
        secrets.delete(&way, &DeleteParams::default()).await.expect("deleted");
        until(&mut seen, (&way, "made", "told")).await;
        running.abort();
    }
}

#[tokio::test]
async fn s163_apply_conflicts_until_forced() {
    let doors = Doors::open().await;
    for (door, client) in &doors.clients {
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let noted = |note: &str| {
            let metadata = json!({ "name": door });
            let data = json!({ "note": note });
            Patch::Apply(
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data }),
            )
        };
        let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
        maps.patch(door, &one, &noted("first")).await.expect("applied");
        match maps.patch(door, &two, &noted("second")).await.expect_err("a conflict") {
            kube::Error::Api(status) => {
                assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
                assert!(status.message.contains(r#"conflict with "one": .data.note"#), "{}", status.message);
            }
            other => panic!("not an answer of the server: {other}"),
        }
        let forced = maps.patch(door, &two.force(), &noted("second")).await.expect("forced");
        let managers: Vec<_> = forced.managed_fields().iter().filter_map(|e| e.manager.clone()).collect();
        assert_eq!(
            (forced.data.expect("data")["note"].as_str(), managers),
            ("second", vec!["two".to_owned()])
        );
    }
}
