//! Request bodies to JSON by their media type. Must not know kinds.

use serde_json::Value;

use super::failure::Failure;
use super::protobuf;
use super::schema::decode;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The object in a body, with the paths of keys that occurred twice.
///
/// # Errors
/// 415 for another media type, 400 for a malformed body.
pub fn decode(content_type: &str, body: &[u8]) -> Result<(Value, Vec<String>), Failure> {
    match content_type.split(';').next().unwrap_or_default().trim() {
        "" | JSON => decode::json(body),
        PROTOBUF => Ok((protobuf::decode(body)?, Vec::new())),
        YAML => yaml(body).map(|object| (object, Vec::new())),
        _ => Err(Failure::unsupported_media_type(&[JSON, YAML, PROTOBUF])),
    }
}

fn yaml(body: &[u8]) -> Result<Value, Failure> {
    let bad = |why: String| Failure::bad_request(format!("error decoding yaml: {why}"));
    let text = std::str::from_utf8(body).map_err(|e| bad(e.to_string()))?;
    serde_saphyr::from_str(text).map_err(|e| bad(e.to_string()))
}
