//! What hostile input is fed to, and what must hold whatever it is. One function per fuzz target; the
//! normal test suite calls the same ones with random input.

use capstan_apiserver::internals::content::{self, DEPTH_MAX};
use capstan_apiserver::internals::{
    FieldSelector, JSON_PATCH, LabelSelector, MERGE_PATCH, Patch, STRATEGIC_PATCH, decode_token,
};
use capstan_dashboard::tui::terminal::{Decoder, Input};
use serde_json::{Value, json};

const KINDS: [(&str, &str); 6] = [
    ("v1", "Secret"),
    ("v1", "Node"),
    ("v1", "DeleteOptions"),
    ("events.k8s.io/v1", "Event"),
    ("coordination.k8s.io/v1", "Lease"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];

/// A refusal is a client's mistake, and says what it was.
fn refused(failure: &capstan_apiserver::internals::Failure) {
    assert!((400..500).contains(&failure.code()), "{failure:?}");
    assert!(!failure.message.is_empty());
}

/// What was accepted can be stored and read again.
fn storable(object: &Value) {
    assert!(content::depth(object) <= DEPTH_MAX);
    let text = serde_json::to_vec(object).expect("an object is JSON");
    serde_json::from_slice::<Value>(&text).expect("what was accepted can be given back");
}

/// Request bodies in each media type, and as each kind in protobuf.
pub fn bodies(data: &[u8]) {
    let decode = |kind: &str, body: &[u8]| match content::decode(kind, body) {
        Ok((object, _)) => storable(&object),
        Err(failure) => refused(&failure),
    };
    for kind in ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"] {
        decode(kind, data);
    }
    let field = |number: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).expect("short");
        [&[number << 3 | 2, length][..], content].concat()
    };
    for (api_version, kind) in KINDS {
        let type_ = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        let content = &data[..data.len().min(100)];
        let body = [b"k8s\0".to_vec(), field(1, &type_), field(2, content)].concat();
        decode("application/vnd.kubernetes.protobuf", &body);
    }
}

/// Label and field selectors.
pub fn selectors(text: &str) {
    match LabelSelector::parse(text) {
        Ok(selector) => {
            selector.matches(|key| (key.len() % 2 == 0).then_some("value"));
        }
        Err(failure) => refused(&failure),
    }
    match FieldSelector::parse(text, |field| field.starts_with("metadata.")) {
        Ok(selector) => {
            selector.matches(|field| field.to_owned().into());
        }
        Err(failure) => refused(&failure),
    }
}

/// Patches of each type, on an object with lists that merge.
pub fn patches(data: &[u8]) {
    let object = json!({
        "metadata": { "name": "n", "labels": { "a": "b" }, "finalizers": ["x"], "ownerReferences": [{ "uid": "u" }] },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }], "addresses": [{ "address": "::1" }] },
        "spec": { "taints": [{ "key": "k" }], "deep": { "deep": { "deep": {} } } },
    });
    for kind in [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH] {
        match Patch::parse(kind, data, true).and_then(|patch| patch.apply("Node", object.clone())) {
            // A merge patch alone may be as deep as JSON is read.
            Ok(patched) => assert!(content::depth(&patched) <= 128),
            Err(failure) => refused(&failure),
        }
    }
}

/// Tokens of lists that go on: they lead below the prefix of the list, or nowhere.
pub fn continue_tokens(text: &str) {
    const PREFIX: &str = "/registry/secrets/default/";
    match decode_token(text, PREFIX) {
        Ok((_, after)) => assert!(after.starts_with(PREFIX)),
        Err(failure) => refused(&failure),
    }
}

/// What a terminal may send: in one piece or byte by byte it means the same, and after a silence a key is a key again.
pub fn terminal_input(data: &[u8]) {
    let read = |pieces: std::slice::Chunks<'_, u8>| {
        let (mut decoder, mut inputs) = (Decoder::default(), Vec::new());
        pieces.for_each(|piece| decoder.feed(piece, &mut inputs));
        if decoder.patience().is_some() {
            decoder.silence(&mut inputs);
        }
        assert_eq!(decoder.patience(), None, "a silence ends whatever has begun");
        decoder.feed(b"j", &mut inputs);
        inputs
    };
    let inputs = read(data.chunks(data.len().max(1)));
    assert_eq!(inputs, read(data.chunks(1)));
    assert!(matches!(inputs.last(), Some(Input::Key(_))), "{inputs:?}");
    assert!(inputs.len() <= 2 * data.len() + 1);
}
