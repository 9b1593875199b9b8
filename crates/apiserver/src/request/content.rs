//! Request bodies to JSON by their media type, no deeper than the store can give back. Must not know
//! kinds.

use serde_json::Value;

use crate::failure::Failure;
use crate::protobuf::{self, MEDIA_TYPE as PROTOBUF};
use crate::schema::decode;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// How deep an object may be nested. Readers of JSON give up at 128 levels, and lists, watch events
/// and managed fields put some around an object. Upstream allows 10,000.
pub const DEPTH_MAX: usize = 100;

/// The object in a body, with the paths of keys that occurred twice.
///
/// # Errors
/// 415 for another media type, 400 for a malformed body or one that is nested too deeply.
pub fn decode(content_type: &str, body: &[u8]) -> Result<(Value, Vec<String>), Failure> {
    let (object, duplicates) = match content_type.split(';').next().unwrap_or_default().trim() {
        // As upstream, a body without a media type is JSON.
        "" | JSON => decode::json(body)?,
        PROTOBUF => (protobuf::decode(body)?, Vec::new()),
        YAML => yaml(body)?,
        _ => return Err(Failure::unsupported_media_type(&[JSON, YAML, PROTOBUF])),
    };
    check_depth(&object)?;
    Ok((object, duplicates))
}

/// YAML, or the JSON that most clients send under that name.
///
/// # Errors
/// 400 when it is neither.
pub fn yaml(body: &[u8]) -> Result<(Value, Vec<String>), Failure> {
    // JSON comes first: its reader notes keys that occur twice, which the one of YAML does not.
    if body.trim_ascii_start().starts_with(b"{")
        && let Ok(json) = decode::json(body)
    {
        return Ok(json);
    }
    let bad = |why: String| Failure::bad_request(format!("error decoding yaml: {why}"));
    let text = std::str::from_utf8(body).map_err(|e| bad(e.to_string()))?;
    let object = serde_saphyr::from_str(text).map_err(|e| bad(e.to_string()))?;
    Ok((object, Vec::new()))
}

/// # Errors
/// 400 for a value nested more than [`DEPTH_MAX`] levels.
pub fn check_depth(value: &Value) -> Result<(), Failure> {
    if depth(value) > DEPTH_MAX {
        return Err(Failure::bad_request(format!("the object is nested more than {DEPTH_MAX} levels deep")));
    }
    Ok(())
}

/// Levels of maps and lists.
pub fn depth(value: &Value) -> usize {
    extent(value).0
}

/// Levels of maps and lists, and how many values there are. Counted without recursion: what is counted may
/// be too deep for it.
pub fn extent(value: &Value) -> (usize, usize) {
    let (mut deepest, mut count) = (0, 1);
    let mut rest = vec![(value, 0)];
    while let Some((value, above)) = rest.pop() {
        deepest = deepest.max(above);
        match value {
            Value::Object(map) => {
                count += map.len();
                deepest = deepest.max(above + 1);
                rest.extend(map.values().filter(|v| v.is_object() || v.is_array()).map(|v| (v, above + 1)));
            }
            Value::Array(items) => {
                count += items.len();
                deepest = deepest.max(above + 1);
                rest.extend(items.iter().filter(|v| v.is_object() || v.is_array()).map(|v| (v, above + 1)));
            }
            _ => {}
        }
    }
    (deepest, count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Of the parser: it needs more stack for each level than the one for JSON.
    const YAML_DEPTH_MAX: usize = 64;

    fn nested(depth: usize) -> String {
        format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth))
    }

    #[test]
    fn depth_is_bounded_in_every_media_type() {
        assert_eq!((depth(&json!(1)), depth(&json!({})), depth(&json!([[{}], 1]))), (0, 1, 3));
        let blocks =
            |depth: usize| -> String { (0..depth).map(|n| format!("{}a:\n", " ".repeat(n))).collect() };
        let flow = |depth: usize| format!("a: {}{}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(decode(JSON, nested(DEPTH_MAX).as_bytes()).is_ok());
        assert!(decode(YAML, blocks(YAML_DEPTH_MAX).as_bytes()).is_ok());
        assert!(decode(YAML, flow(YAML_DEPTH_MAX).as_bytes()).is_ok());
        assert!(decode(YAML, blocks(YAML_DEPTH_MAX + 1).as_bytes()).is_err());
        for depth in [DEPTH_MAX + 1, 127, 129, 5_000, 500_000] {
            for kind in [JSON, YAML, ""] {
                let refused = decode(kind, nested(depth).as_bytes()).map_err(|failure| failure.code());
                assert_eq!(refused.map(|_| ()), Err(400), "{kind} {depth}");
            }
            let sequences = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            assert!(decode(YAML, sequences.as_bytes()).is_err());
            assert!(decode(YAML, blocks(depth.min(2_000)).as_bytes()).is_err());
            assert!(decode(YAML, flow(depth).as_bytes()).is_err());
        }
    }

    #[test]
    fn yaml_is_read_and_cannot_explode() {
        let (object, _) = decode(YAML, b"a: 1\nb: [x, 'y']\nc: {d: null}\n").expect("yaml");
        assert_eq!(object, json!({ "a": 1, "b": ["x", "y"], "c": { "d": null } }));
        let (_, duplicates) = decode(YAML, b" {\"a\":1,\"a\":2}").expect("json");
        assert_eq!(duplicates, ["a"]);
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
        for n in 1..12 {
            let previous = format!("*a{},", n - 1).repeat(9);
            bomb.push_str(&format!("a{n}: &a{n} [{previous}]\n"));
        }
        assert!(decode(YAML, bomb.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn garbage_is_refused_or_read(
            body in prop::collection::vec(any::<u8>(), 0..96), text in "[\\[\\]{}:,\"'&*!|>a-c0-9 \\n-]{0,60}",
        ) {
            for kind in [JSON, YAML, PROTOBUF] {
                for body in [body.as_slice(), text.as_bytes()] {
                    if let Ok((object, _)) = decode(kind, body) {
                        prop_assert!(depth(&object) <= DEPTH_MAX);
                    }
                }
            }
        }
    }
}
