//! What only a store that others share promises: their writes are seen in order, it comes back when
//! etcd does, and it says what is wrong.

use std::time::Duration;

use bytes::Bytes;
use etcd_client::Client;
use tokio::time::timeout;

mod exactly_once;
mod faults;
mod model;
mod restore;
#[allow(dead_code, reason = "the integration tests use it too")]
pub(crate) mod server;

use self::server::{Etcd, is_installed};
use super::layout::{Content, Layout};
use super::wire::Item;
use super::{EtcdOptions, EtcdStore, Plain, TlsFiles};
use crate::{Error, Outcome, Range, Revision, Store, Txn, Write};
use capstan_base::rng::Rng;

const PATIENCE: Duration = Duration::from_secs(20);

async fn put(store: &EtcdStore, key: &str, value: &str) -> Revision {
    let writes = vec![Write::Put(key.into(), value.to_owned().into())];
    match store.txn(Txn { expect: vec![], writes }).await.unwrap() {
        Outcome::Committed(revision) => revision,
        Outcome::Conflict { .. } => panic!("nothing was expected"),
    }
}

pub(crate) fn options(etcd: &Etcd) -> EtcdOptions {
    EtcdOptions {
        endpoints: vec![etcd.endpoint()],
        prefix: "/test".to_owned(),
        within: String::new(),
        tls: None,
        plain: Plain::same(),
        sealed: &[],
        rng: Rng::from_entropy(),
    }
}

async fn connect(etcd: &Etcd) -> EtcdStore {
    EtcdStore::connect(options(etcd)).await.unwrap()
}

#[tokio::test]
async fn s154_keys_and_values_lie_where_a_kube_apiserver_has_them() {
    if !is_installed() {
        return;
    }
    let etcd = Etcd::start();
    let options = EtcdOptions {
        prefix: "/other".to_owned(),
        within: "/registry".to_owned(),
        plain: Plain { write: |value| value.slice(1..), read: |plain| Some([b"#", plain].concat().into()) },
        ..options(&etcd)
    };
    let store = EtcdStore::connect(options).await.unwrap();
    let revision = put(&store, "/registry/g.io/things/ns/a", "#{\"a\":1}").await;
    let mut client = Client::connect([etcd.endpoint()], None).await.unwrap();
    let there = client.get("/other/g.io/things/ns/a", None).await.unwrap();
    let kv = there.kvs().first().unwrap();
    assert_eq!((kv.value_str().unwrap(), kv.mod_revision()), ("{\"a\":1}", i64::try_from(revision).unwrap()));
    // Writes of other clients are read the same way; keys outside the prefix are ignored.
    client.put("/other/g.io/things/ns/b", "{}", None).await.unwrap();
    client.put("/otherwise/x", "{}", None).await.unwrap();
    let page = store.range(Range { prefix: "/registry/", ..Range::default() }).await.unwrap();
    let found: Vec<_> = page.entries.iter().map(|e| (&*e.key, e.value.unpack().unwrap())).collect();
    assert_eq!(
        found,
        [("/registry/g.io/things/ns/a", "#{\"a\":1}".into()), ("/registry/g.io/things/ns/b", "#{}".into())]
    );
    assert_eq!(page.revision, revision + 2);
}

#[tokio::test]
async fn s154_two_stores_on_one_etcd_see_each_others_writes_in_order() {
    if !is_installed() {
        return;
    }
    let etcd = Etcd::start();
    let (one, two) = (connect(&etcd).await, connect(&etcd).await);
    let start = one.revision().await.unwrap();
    let mut watches = [one.watch("/a/", start).await.unwrap(), two.watch("/a/", start).await.unwrap()];
    let writers = (0..4).map(|n| {
        let store = if n % 2 == 0 { one.clone() } else { two.clone() };
        tokio::spawn(async move {
            for turn in 0..50 {
                put(&store, &format!("/a/{n}"), &turn.to_string()).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let mut told = Vec::new();
    for watch in &mut watches {
        let mut seen = Vec::new();
        while seen.len() < 200 {
            seen.extend(timeout(PATIENCE, watch.next()).await.unwrap().unwrap());
        }
        assert!(seen.windows(2).all(|pair| pair[0].revision < pair[1].revision));
        told.push(seen);
    }
    assert_eq!(told[0], told[1]);
    // A write of one is read by the other at once.
    let revision = put(&one, "/a/x", "1").await;
    assert_eq!(two.get("/a/x").await.unwrap().unwrap().modified, revision);
    let Outcome::Conflict { current, .. } =
        two.txn(Txn::update("/a/x".into(), revision - 1, "2".into())).await.unwrap()
    else {
        panic!("a stale write got through");
    };
    assert_eq!(current.unwrap().modified, revision);
}

#[tokio::test]
async fn a_restart_of_etcd_is_survived_and_a_dead_one_is_named() {
    if !is_installed() {
        return;
    }
    let mut etcd = Etcd::start();
    let store = connect(&etcd).await;
    let one = put(&store, "/a/1", "1").await;
    let mut watch = store.watch("/a/", one).await.unwrap();
    etcd.kill();
    let error = store.get("/a/1").await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.starts_with(&format!("etcd at {} does not answer: ", etcd.endpoint())), "{said}");
    assert!(said.contains("efused"), "{said}");
    etcd.restart();
    let two = loop {
        let txn = Txn::create("/a/2".into(), "2".into());
        match store.txn(txn).await {
            Ok(Outcome::Committed(revision)) => break revision,
            Ok(Outcome::Conflict { current, .. }) => break current.unwrap().modified,
            Err(error) => assert!(matches!(error, Error::Unavailable { .. }), "{error:?}"),
        }
    };
    let changes = timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
    assert_eq!(changes.iter().map(|c| c.revision).collect::<Vec<_>>(), [two]);
    assert_eq!(store.get("/a/1").await.unwrap().unwrap().modified, one);
}

#[tokio::test]
async fn an_etcd_that_was_set_back_is_read_again_and_watches_lose_their_place() {
    if !is_installed() {
        return;
    }
    let mut etcd = Etcd::start();
    let store = connect(&etcd).await;
    let one = put(&store, "/a/1", "kept").await;
    etcd.kill();
    let copy = etcd.copy();
    etcd.restart();
    while store.txn(Txn::create("/a/2".into(), "lost".into())).await.is_err() {}
    let watched = store.get("/a/2").await.unwrap().unwrap().modified;
    let mut watch = store.watch("/a/", watched).await.unwrap();
    etcd.kill();
    etcd.set_back(copy);
    etcd.restart();
    let lost = timeout(PATIENCE, watch.next()).await.unwrap().unwrap_err();
    assert!(matches!(lost, Error::Compacted { .. }), "{lost:?}");
    assert_eq!(store.get("/a/1").await.unwrap().unwrap().modified, one);
    assert!(store.get("/a/2").await.unwrap().is_none());
    assert_eq!(watch.next().await.unwrap_err().to_string(), lost.to_string());
    let two = put(&store, "/a/3", "new").await;
    assert_eq!(store.get("/a/3").await.unwrap().unwrap().modified, two);
}

/// Sealed values are not objects, so the plain form must not touch them; elsewhere they are garbage as anything else.
#[test]
fn a_sealed_value_is_kept_as_it_is_where_values_are_sealed() {
    let plain = Plain { write: |_| "plain".into(), read: |_| None };
    let options = EtcdOptions {
        prefix: "/other".to_owned(),
        within: "/registry".to_owned(),
        plain,
        sealed: &["/registry/secrets/"],
        ..faults::options()
    };
    let layout = Layout::new(&options);
    let sealed: Bytes = "capstan:sealed:1:...".into();
    assert_eq!(layout.value("/registry/secrets/a/b", &sealed), sealed);
    assert_eq!(layout.value("/registry/secrets/a/b", &"{}".into()), "plain");
    assert_eq!(layout.value("/registry/configmaps/a/b", &sealed), "plain");
    let item = |key: &str, value: &Bytes| Item {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: value.clone(),
        created: 1,
        modified: 2,
    };
    let is_object =
        |key: &str, value: &Bytes| matches!(layout.content(&item(key, value)), Some(Content::Object(_)));
    assert!(is_object("/other/secrets/a/b", &sealed));
    assert!(!is_object("/other/secrets/a/b", &"{}".into()));
    assert!(!is_object("/other/configmaps/a/b", &sealed));
}

#[tokio::test]
async fn nobody_there_is_said_at_once() {
    let options = EtcdOptions {
        endpoints: vec!["127.0.0.1:1".to_owned()],
        prefix: "/registry".to_owned(),
        within: "/registry".to_owned(),
        tls: None,
        plain: Plain::same(),
        sealed: &[],
        rng: Rng::from_entropy(),
    };
    let Err(error) = EtcdStore::connect(options).await else { panic!("connected to nobody") };
    let said = error.to_string();
    assert!(said.starts_with("etcd at 127.0.0.1:1 does not answer: "), "{said}");
    assert!(said.contains("efused") && said.ends_with("check that it runs and can be reached"), "{said}");
}

#[tokio::test]
async fn two_etcds_are_not_taken_for_one() {
    if !is_installed() {
        return;
    }
    let (one, two) = (Etcd::start(), Etcd::start());
    let endpoints = vec![one.endpoint(), "127.0.0.1:1".to_owned(), two.endpoint()];
    let error = EtcdStore::connect(EtcdOptions { endpoints, ..options(&one) }).await.err().unwrap();
    let said = format!("{} and {} are not members of one etcd", one.endpoint(), two.endpoint());
    assert!(error.to_string().contains(&said), "{error}");
}

#[tokio::test]
async fn history_is_there_again_after_a_restart_of_ours() {
    if !is_installed() {
        return;
    }
    let etcd = Etcd::start();
    let store = connect(&etcd).await;
    let one = put(&store, "/a/1", "1").await;
    store.txn(Txn::delete("/a/1".into(), one)).await.unwrap();
    put(&store, "/a/2", "2").await;
    let before = store.watch("/a/", one - 1).await.unwrap().next().await.unwrap();
    drop(store);
    let store = connect(&etcd).await;
    let mut after = Vec::new();
    let mut watch = store.watch("/a/", one - 1).await.unwrap();
    while after.len() < before.len() {
        after.extend(timeout(PATIENCE, watch.next()).await.unwrap().unwrap());
    }
    assert_eq!(after, before);
    let past = store.range(Range { prefix: "/", at: Some(one), ..Range::default() }).await.unwrap();
    assert_eq!(past.entries.len(), 1);
    store.compact(one + 1).await.unwrap();
    drop((watch, store));
    let store = connect(&etcd).await;
    assert!(matches!(store.watch("/a/", one - 1).await, Err(Error::Compacted { .. })));
}

#[tokio::test]
async fn one_of_two_servers_compacts() {
    if !is_installed() {
        return;
    }
    let etcd = Etcd::start();
    let (one, two) = (connect(&etcd).await, connect(&etcd).await);
    let mut last = 0;
    for n in 0..10 {
        last = put(&one, "/a/x", &n.to_string()).await;
    }
    one.compact(last).await.unwrap();
    let after = one.revision().await.unwrap();
    assert_eq!(after, last + 2, "the claim takes one revision, and so do the slots that it removes");
    // Nothing is left to do for the other, nor for anybody who asks for less.
    two.compact(last).await.unwrap();
    one.compact(last - 5).await.unwrap();
    assert_eq!(two.revision().await.unwrap(), after);
    let mut client = Client::connect([etcd.endpoint()], None).await.unwrap();
    let key = client.get("compact_rev_key", None).await.unwrap();
    assert_eq!(key.kvs().first().unwrap().value_str().unwrap(), last.to_string());
    let old = etcd_client::GetOptions::new().with_revision(i64::try_from(last - 1).unwrap());
    let error = client.get("/test/a/x", Some(old)).await.unwrap_err().to_string();
    assert!(error.contains("required revision has been compacted"), "{error}");
}

#[tokio::test]
async fn what_etcd_refuses_is_said_in_a_sentence() {
    if !is_installed() {
        return;
    }
    let etcd = Etcd::start_with(&["--quota-backend-bytes", "16777216"]);
    let store = connect(&etcd).await;
    let big = "x".repeat(2 << 20);
    let error = store.txn(Txn::create("/a/big".into(), big.into())).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: "1.5 MiB", .. }), "{error:?}");
    let mut failed = None;
    for n in 0..100 {
        let value = capstan_base::rng::Rng::seeded(n).suffix(1 << 20);
        if let Err(error) = store.txn(Txn::create(format!("/a/{n}").into(), value.into())).await {
            failed = Some(error);
            break;
        }
    }
    let said = failed.unwrap().to_string();
    assert!(said.contains("database space exceeded") && said.contains("alarm disarm"), "{said}");
    assert!(store.get("/a/0").await.unwrap().is_some(), "reads go on");
}

#[tokio::test]
async fn revisions_can_be_raised() {
    if !is_installed() {
        return;
    }
    let etcd = Etcd::start();
    let store = connect(&etcd).await;
    store.raise(500).await.unwrap();
    assert!(put(&store, "/a", "1").await > 500);
}

type Authority = rcgen::CertifiedIssuer<'static, rcgen::KeyPair>;

fn authority() -> Authority {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    Authority::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap()
}

/// Certificate and key for 127.0.0.1, as PEM.
fn certificate(authority: &Authority) -> (Vec<u8>, Vec<u8>) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    (certificate.pem().into_bytes(), key.serialize_pem().into_bytes())
}

#[tokio::test]
async fn a_certificate_that_is_not_accepted_is_named_by_either_side() {
    if !is_installed() {
        return;
    }
    let (ours, theirs) = (authority(), authority());
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = files.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let (server, key) = certificate(&ours);
    let etcd = Etcd::start_with(&[
        "--client-cert-auth",
        "--trusted-ca-file",
        &file("ca", ours.pem().as_bytes()),
        "--cert-file",
        &file("cert", &server),
        "--key-file",
        &file("key", &key),
    ]);
    let connect = async |ca: &Authority, identity| {
        let tls = Some(TlsFiles { ca: ca.pem().into_bytes(), identity });
        EtcdStore::connect(EtcdOptions { tls, ..options(&etcd) }).await.err()
    };
    assert!(connect(&ours, Some(certificate(&ours))).await.is_none());
    for (ca, identity) in
        [(&theirs, Some(certificate(&ours))), (&ours, Some(certificate(&theirs))), (&ours, None)]
    {
        let error = connect(ca, identity).await.unwrap();
        assert!(matches!(error, Error::Untrusted { .. }), "{error:?}");
        let said = error.to_string();
        assert!(
            said.contains("do not accept each other's certificates") && said.contains("--etcd-cert"),
            "{said}"
        );
        assert!(!said.contains("check that it runs"), "{said}");
    }
}
