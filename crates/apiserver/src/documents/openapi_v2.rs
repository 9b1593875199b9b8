//! OpenAPI's second version: a document without paths. kubectl reads it before it applies a list, or a kind that it does
//! not know, and gives up where it is missing; what kinds look like stands in the third version.
//! Must not describe anything.
//! Source: kube-openapi `pkg/handler/handler.go` (content types), `gnostic-models` `openapiv2/OpenAPIv2.proto` (numbers of
//! fields), v0.0.0-20250910181357.

use http::StatusCode;
use serde_json::{Value, json};

use crate::response::Reply;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// Older clients ask for this name, and are answered with the other.
const PROTOBUF_BEFORE: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

const SWAGGER: &str = "2.0";
const TITLE: &str = "Kubernetes";

/// The document in the form that `accept` names first: JSON unless it is protobuf.
pub fn reply(accept: &str) -> Reply {
    let version = concat!("capstan-", env!("CARGO_PKG_VERSION"));
    let is_protobuf = |entry: &str| {
        let media_type = entry.split(';').next().unwrap_or_default().trim();
        [PROTOBUF, PROTOBUF_BEFORE].contains(&media_type)
    };
    let is_known = |entry: &&str| is_protobuf(entry) || entry.contains("json") || entry.contains("*/*");
    match accept.split(',').find(is_known) {
        Some(entry) if is_protobuf(entry) => Reply::new(StatusCode::OK, PROTOBUF, in_protobuf(version)),
        _ => Reply::new(StatusCode::OK, JSON, in_json(version).to_string()),
    }
}

fn in_json(version: &str) -> Value {
    json!({ "swagger": SWAGGER, "info": { "title": TITLE, "version": version }, "paths": {} })
}

fn in_protobuf(version: &str) -> Vec<u8> {
    let info = [field(1, TITLE.as_bytes()), field(2, version.as_bytes())].concat();
    [field(1, SWAGGER.as_bytes()), field(2, &info), field(8, &[])].concat()
}

/// A field of protobuf whose value is shorter than 128 bytes.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    const LENGTH_DELIMITED: u8 = 2;
    let length = u8::try_from(value.len()).unwrap_or_default() & 0x7f;
    [&[number << 3 | LENGTH_DELIMITED, length], value].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_document_stands_in_both_forms() {
        assert_eq!(
            in_protobuf("v"),
            b"\x0a\x032.0\x12\x0f\x0a\x0aKubernetes\x12\x01v\x42\x00",
            "swagger, info, and no paths"
        );
        assert_eq!(
            in_json("v"),
            json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v"}, "paths": {}})
        );
    }

    #[test]
    fn what_is_accepted_first_decides() {
        for (accept, expected) in [
            ("", JSON),
            ("*/*", JSON),
            ("application/json", JSON),
            (PROTOBUF, PROTOBUF),
            (PROTOBUF_BEFORE, PROTOBUF),
            ("text/html, application/com.github.proto-openapi.spec.v2@v1.0+protobuf;q=1, */*", PROTOBUF),
            ("application/json, application/com.github.proto-openapi.spec.v2.v1.0+protobuf", JSON),
        ] {
            assert_eq!(reply(accept).headers[http::header::CONTENT_TYPE], expected, "{accept}");
        }
    }
}
