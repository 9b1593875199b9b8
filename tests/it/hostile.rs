//! Random and twisted input to everything that reads what a client or a terminal sends: the entry points of the fuzz
//! targets (`fuzz/`), with fewer cases (`PROPTEST_CASES` sets how many).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use proptest::prelude::*;

#[path = "../../fuzz/entry.rs"]
mod entry;

/// Text that is nearly JSON or YAML.
fn nearly_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("-0".to_owned()),
        Just("1e999".to_owned()),
        Just("18446744073709551616".to_owned()),
        Just("\"\\ud800\"".to_owned()),
        "\"[a-z/~.$]{0,6}\"",
        "[&*!|>%@` \t-]{1,3}",
        "[0-9.eE+-]{1,5}",
    ];
    let key = prop_oneof![
        "\"[a-z]{0,3}\"",
        Just("\"$patch\"".to_owned()),
        Just("\"$retainKeys\"".to_owned()),
        Just("\"$setElementOrder/conditions\"".to_owned()),
        Just("\"$deleteFromPrimitiveList/finalizers\"".to_owned()),
        Just("\"metadata\"".to_owned()),
        Just("\"conditions\"".to_owned()),
        Just("<<".to_owned()),
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|entries| {
                let entries: Vec<String> = entries.into_iter().map(|(k, v)| format!("{k}: {v}")).collect();
                format!("{{{}}}", entries.join(","))
            }),
        ]
    })
}

/// Operations of a JSON patch that fit an object now and then.
fn operations() -> impl Strategy<Value = String> {
    let path = prop_oneof![
        Just("/spec/deep".to_owned()),
        Just("/spec/deep/deep".to_owned()),
        Just("/metadata/finalizers/-".to_owned()),
        Just("/metadata/finalizers/0".to_owned()),
        Just(String::new()),
        "(/(spec|deep|a|0|-|~1|~2)){0,6}",
    ];
    let name = prop::sample::select(vec!["add", "copy", "move", "remove", "replace", "test", "fly"]);
    let operation = (name, path.clone(), path).prop_map(|(op, from, path)| {
        format!("{{\"op\":\"{op}\",\"from\":\"{from}\",\"path\":\"{path}\",\"value\":{{}}}}")
    });
    prop::collection::vec(operation, 0..30).prop_map(|all| format!("[{}]", all.join(",")))
}

proptest! {
    #[test]
    fn bodies_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200), text in nearly_json()) {
        entry::bodies(&bytes);
        entry::bodies(text.as_bytes());
        entry::bodies(format!("---\n{text}\n").as_bytes());
    }

    #[test]
    fn patches_are_refused_or_applied(
        bytes in prop::collection::vec(any::<u8>(), 0..100), text in nearly_json(), operations in operations(),
    ) {
        entry::patches(&bytes);
        entry::patches(text.as_bytes());
        entry::patches(operations.as_bytes());
    }

    #[test]
    fn selectors_are_refused_or_read(text in any::<String>(), nearly in "[a-c/., =!()<>0-9-]{0,30}( (in|notin|exists)? ?\\([a-c,]*\\))?") {
        entry::selectors(&text);
        entry::selectors(&nearly);
    }

    #[test]
    fn continue_tokens_lead_nowhere_else(
        text in any::<String>(), start in ".{0,30}", rv in any::<i64>(), nearly in nearly_json(),
    ) {
        entry::continue_tokens(&text);
        entry::continue_tokens(&BASE64.encode(&nearly));
        let token = serde_json::json!({ "v": "meta.k8s.io/v1", "rv": rv, "start": format!("{start}\0") });
        entry::continue_tokens(&BASE64.encode(token.to_string()));
    }

    #[test]
    fn terminal_input_is_keys_or_nothing(
        bytes in prop::collection::vec(any::<u8>(), 0..200), nearly in "(\x1b[\\[\\]OP_^X]?[0-9;?<>]{0,6}[a-zA-Z~\x07\\\\]?){0,20}",
    ) {
        entry::terminal_input(&bytes);
        entry::terminal_input(nearly.as_bytes());
    }
}
