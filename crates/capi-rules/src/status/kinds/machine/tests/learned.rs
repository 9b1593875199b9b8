//! What a Machine's status takes over from others, and when a pass over it counts as complete.

use super::*;
use crate::status::conditions::setter::condition;
use capi_types::names::label;

#[test]
fn providers_may_take_back_what_they_reported() {
    let learned = |reported: Value| {
        let mut o = running();
        o.machine.status = Some(object(json!({"failureDomain": "old",
            "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}]})));
        o.infrastructure = external("DevMachine", reported, json!({"providerID": "in-memory://m"}));
        let status = status(&o, now());
        (status.addresses.len(), status.failure_domain)
    };
    let provisioned = |more: Value| {
        let mut status = json!({"initialization": {"provisioned": true}});
        k8s_machinery::merge::apply(&mut status, &more);
        status
    };
    let old = || Some("old".to_owned());
    assert_eq!(learned(provisioned(json!({}))), (1, old()), "what is not said stays");
    assert_eq!(learned(provisioned(json!({"addresses": []}))), (0, old()));
    assert_eq!(learned(provisioned(json!({"failureDomain": ""}))), (1, None));
    assert_eq!(learned(json!({"addresses": [], "failureDomain": "z"})), (1, old()), "not provisioned");

    let mut o = running();
    o.machine.status = Some(object(json!({"initialization": {"infrastructureProvisioned": true}})));
    let odd = json!({"initialization": {"provisioned": "yes"}, "failureDomain": "z"});
    o.infrastructure = external("DevMachine", odd, json!({"providerID": "in-memory://m"}));
    assert_eq!(status(&o, now()).failure_domain, None, "it says neither yes nor no");
}

#[test]
fn certificates_expire_when_an_annotation_says_so() {
    let key = annotation::CERTIFICATES_EXPIRY;
    let expiry = |control_plane: bool, own: Option<&str>, theirs: Option<&str>| {
        let mut o = running();
        o.machine.status = Some(object(json!({"certificatesExpiryDate": "2026-06-01T00:00:00Z"})));
        if control_plane {
            o.machine.metadata.labels = Some([(label::CONTROL_PLANE.to_owned(), String::new())].into());
        }
        o.machine.metadata.annotations = own.map(|text| [(key.to_owned(), text.to_owned())].into());
        o.bootstrap = External::Found(Provided::new(json!({"kind": "KubeadmConfig",
            "metadata": {"annotations": theirs.map(|text| json!({key: text}))}})));
        status(&o, now()).certificates_expiry_date.map(|at| capstan_base::time::rfc3339(from_k8s(&at)))
    };
    let (stored, a, b) = ("2026-06-01T00:00:00Z", "2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z");
    for (control_plane, own, theirs, expected) in [
        (true, Some(a), Some(b), Some(a)),
        (true, None, Some(b), Some(b)),
        (true, None, None, None),
        (true, Some("soon"), Some(b), Some(stored)),
        (false, Some(a), Some(b), Some(stored)),
    ] {
        assert_eq!(expiry(control_plane, own, theirs).as_deref(), expected, "{own:?} {theirs:?}");
    }
}

#[test]
fn a_node_without_system_information_empties_what_was_known() {
    let mut o = running();
    o.machine.status = Some(status(&o, now()));
    if let NodeReading::Found(node) = &mut o.node {
        Arc::make_mut(node).status.as_mut().expect("a status").node_info = None;
    }
    assert_eq!(status(&o, now()).node_info, Some(NodeInfo::default()));
}

#[test]
fn a_told_deletion_is_repeated_with_the_starts_that_are_stored() {
    let mut o = deleting();
    o.told_deletion = Some(condition("Deleting", Status::True, "DrainingNode", "a pod is left"));
    let status = status(&o, now());
    assert_eq!(said(&status, "Deleting").1, "DrainingNode");
    assert_eq!(status.deletion, None);
}

#[test]
fn only_a_deletion_borrows_a_provider_id() {
    let borrows = |change: &dyn Fn(&mut Observed)| {
        let mut o = deleting();
        (o.machine.spec.provider_id, o.node) = (None, NodeReading::NotAsked);
        change(&mut o);
        deletion::borrowed_id(&o).is_some()
    };
    assert!(borrows(&|_| {}));
    assert!(!borrows(&|o| o.machine.spec.provider_id = Some("x".to_owned())));
    assert!(!borrows(&|o| o.machine.metadata.deletion_timestamp = None));
    assert!(!borrows(&|o| Arc::make_mut(&mut o.cluster).metadata.deletion_timestamp = Some(to_k8s(now()))));
    assert!(!borrows(&|o| o.machine.status = Some(object(json!({"nodeRef": {"name": "m"}})))));
    assert!(!borrows(&|o| o.infrastructure = external("DevMachine", json!({}), json!({"providerID": ""}))));
}

#[test]
fn a_pass_is_complete_when_nothing_it_needed_was_missing() {
    let after = |change: &dyn Fn(&mut Observed)| {
        let mut o = running();
        change(&mut o);
        o.machine.metadata.generation = Some(7);
        status(&o, now()).observed_generation == Some(7)
    };
    let gone = || External::NotFound { kind: "DevMachine".to_owned() };
    let unread = || External::Unreadable { kind: "DevMachine".to_owned(), error: "refused".to_owned() };
    let with_status = |o: &mut Observed, value: Value| o.machine.status = Some(object(value));
    let provisioned = json!({"initialization": {"infrastructureProvisioned": true}});
    let seen = json!({"nodeRef": {"name": "m"}});
    let created = |status: Value| {
        let mut status = status;
        status["initialization"] = json!({"dataSecretCreated": true});
        external("KubeadmConfig", status, json!({}))
    };
    let waiting = |o: &mut Observed| {
        Arc::make_mut(&mut o.cluster).status = None;
        o.machine.spec.provider_id = None;
    };
    let delete = |o: &mut Observed| o.machine.metadata.deletion_timestamp = Some(to_k8s(now()));
    let nameless = |o: &mut Observed| {
        o.machine.spec.bootstrap.data_secret_name = None;
        o.bootstrap = created(json!({}));
    };
    type Change<'a> = &'a dyn Fn(&mut Observed);
    let odd = |kind: &str, flag: &str| external(kind, json!({"initialization": {flag: "yes"}}), json!({}));
    let table: [(&str, bool, Change<'_>); 18] = [
        ("all is well", true, &|_| {}),
        ("infrastructure that says neither yes nor no", false, &|o| {
            o.infrastructure = odd("DevMachine", "provisioned");
        }),
        ("bootstrap that says neither yes nor no", false, &|o| {
            o.machine.spec.bootstrap.data_secret_name = None;
            o.bootstrap = odd("KubeadmConfig", "dataSecretCreated");
        }),
        ("infrastructure cannot be read", false, &|o| o.infrastructure = unread()),
        ("infrastructure is not there yet", true, &|o| o.infrastructure = gone()),
        ("infrastructure vanished", false, &|o| {
            o.infrastructure = gone();
            with_status(o, provisioned.clone());
        }),
        ("infrastructure vanished in a deletion", true, &|o| {
            o.infrastructure = gone();
            with_status(o, provisioned.clone());
            delete(o);
        }),
        ("bootstrap cannot be read", false, &|o| o.bootstrap = unread()),
        ("bootstrap is gone", true, &|o| o.bootstrap = gone()),
        ("a data secret without a name", false, &nameless),
        ("not connected", false, &|o| o.node = NodeReading::NotConnected),
        ("not connected, and nothing to ask", true, &|o| {
            waiting(o);
            o.node = NodeReading::NotConnected;
        }),
        ("no Node yet", true, &|o| o.node = NodeReading::NotFound),
        ("the Node vanished", false, &|o| {
            with_status(o, seen.clone());
            o.node = NodeReading::NotFound;
        }),
        ("a Node that cannot be read", false, &|o| o.node = NodeReading::Failed("two of them".to_owned())),
        ("volumes that cannot be read", false, &|o| {
            delete(o);
            o.machine.spec.provider_id = None;
            annotate(o, annotation::EXCLUDE_NODE_DRAINING);
            with_status(o, seen.clone());
            (o.node, o.named_node) = (NodeReading::NotAsked, NodeReading::NotConnected);
        }),
        ("a Node that cannot be deleted", false, &|o| {
            delete(o);
            o.machine.spec.provider_id = None;
            with_status(o, seen.clone());
            (o.bootstrap, o.infrastructure) = (gone(), gone());
            (o.node, o.named_node) = (NodeReading::NotAsked, NodeReading::NotConnected);
        }),
        ("a deletion that cannot be told", false, &|o| {
            delete(o);
            o.control_plane = unread();
        }),
    ];
    for (why, complete, change) in table {
        assert_eq!(after(change), complete, "{why}");
    }
}
