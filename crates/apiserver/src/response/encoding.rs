//! The last step of an answer: YAML or indented JSON for those who asked, compressed when it is
//! large, without a body for HEAD. Must not know what an answer contains.
//!
//! Source: apiserver `pkg/endpoints/handlers/{negotiation/negotiate,responsewriters/writers}.go`, v0.35.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use serde_json::Value;

use super::Body;
use super::kept::{BodyForm, FormedBody};
use crate::registry::offload::{LIGHT_BYTES_MAX, Lane, Offload};
use crate::request::negotiate;
use crate::request::options::Query;
use crate::response::{Payload, Reply, Turnover};

/// As upstream, smaller bodies are sent as they are.
const GZIP_BYTES_MIN: usize = 128 * 1024;
/// As upstream: the fastest.
const GZIP_LEVEL: u32 = 1;
const INDENT: &str = "  ";
/// Programs that show an answer to a person.
const FOR_PEOPLE: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// The response to a request. Long bodies are made ready beside the threads that serve everybody.
pub async fn response(mut reply: Reply, request: &Parts, offload: &Offload, lane: Lane) -> Response<Body> {
    let mut turnover = None;
    let body = match reply.body {
        Payload::Switch(port) => {
            // Extensions have to be `Clone`, which a connection is not.
            turnover = Some(Turnover(Arc::new(Mutex::new(Some(port)))));
            empty()
        }
        Payload::Events(_) if request.method == Method::HEAD => empty(),
        Payload::Events(events) => events,
        Payload::Whole(bytes) => {
            let form = form_of(&reply.headers, request);
            whole(formed_apart(bytes, form, offload, lane).await, request, reply.code, &mut reply.headers)
        }
        Payload::Kept(kept) => {
            let form = form_of(&reply.headers, request);
            let made = kept.formed(form, |bytes| formed_apart(bytes, form, offload, lane)).await;
            whole(made, request, reply.code, &mut reply.headers)
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = reply.code;
    *response.headers_mut() = reply.headers;
    // Only whoever serves the connection can turn it over, once the head is sent.
    turnover.map(|turnover| response.extensions_mut().insert(turnover));
    response
}

/// A body that is all there, announced by its headers.
fn whole(formed: FormedBody, request: &Parts, code: StatusCode, headers: &mut http::HeaderMap) -> Body {
    let bytes = formed.announced_in(headers);
    headers.insert(header::CONTENT_LENGTH, bytes.len().into());
    // Such an answer has no body, and must not announce one.
    if matches!(code, StatusCode::NOT_MODIFIED) {
        headers.remove(header::CONTENT_LENGTH);
    }
    // To HEAD the length is announced that GET would send.
    if request.method == Method::HEAD { empty() } else { Full::new(bytes).boxed_unsync() }
}

fn empty() -> Body {
    Full::new(Bytes::new()).boxed_unsync()
}

fn text(request: &Parts, name: HeaderName) -> &str {
    request.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// How the client of this request likes to get a body with these headers.
fn form_of(headers: &http::HeaderMap, request: &Parts) -> BodyForm {
    let is_json = headers.get(header::CONTENT_TYPE).is_some_and(|value| value == "application/json");
    let accept = text(request, header::ACCEPT);
    BodyForm {
        yaml: is_json && negotiate::wants_yaml(accept),
        indent: is_json && wants_indent(request, accept),
        gzip: accepts_gzip(text(request, header::ACCEPT_ENCODING)),
    }
}

fn formed(bytes: Bytes, form: BodyForm) -> FormedBody {
    FormedBody { bytes, yaml: false, packed: false, large: false }.shown(form).packed(form)
}

/// The same beside the threads that serve everybody, when it is long.
async fn formed_apart(bytes: Bytes, form: BodyForm, offload: &Offload, lane: Lane) -> FormedBody {
    if bytes.len() <= LIGHT_BYTES_MAX {
        return formed(bytes, form);
    }
    let plain = bytes.clone();
    let made = offload.run(lane, move || formed(bytes, form)).await;
    // Every client reads the plain body, so it stands in when the work could not be done.
    made.unwrap_or(FormedBody { bytes: plain, yaml: false, packed: false, large: false })
}

impl FormedBody {
    /// JSON as the client likes to read it.
    fn shown(self, form: BodyForm) -> Self {
        if self.bytes.is_empty() {
            return self;
        }
        let value = || serde_json::from_slice::<Value>(&self.bytes).ok();
        let yaml = if form.yaml { value().and_then(|v| serde_saphyr::to_string(&v).ok()) } else { None };
        match yaml {
            Some(yaml) => Self { bytes: yaml.into(), yaml: true, ..self },
            None if form.indent => Self { bytes: indented(&self.bytes).into(), ..self },
            None => self,
        }
    }

    fn packed(self, form: BodyForm) -> Self {
        let large = self.bytes.len() > GZIP_BYTES_MIN;
        match if large && form.gzip { gzip(&self.bytes) } else { None } {
            Some(bytes) => Self { bytes, packed: true, large, ..self },
            None => Self { large, ..self },
        }
    }

    fn announced_in(self, headers: &mut http::HeaderMap) -> Bytes {
        if self.yaml {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
        }
        // Others get the same address packed or not, which a cache has to know.
        if self.large {
            headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        if self.packed {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        self.bytes
    }
}

fn wants_indent(request: &Parts, accept: &str) -> bool {
    match Query::parse(&request.uri).text("pretty") {
        "" => {
            let agent = text(request, header::USER_AGENT);
            negotiate::wants_indent(accept) || FOR_PEOPLE.iter().any(|program| agent.starts_with(program))
        }
        // Go's `ParseBool` takes exactly these for true.
        flag => matches!(flag, "1" | "t" | "T" | "true" | "TRUE" | "True"),
    }
}

/// Adds line ends and indentation to JSON text without touching the order of its keys.
fn indented(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        (0..depth).for_each(|_| out.extend_from_slice(INDENT.as_bytes()));
    };
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for (at, &byte) in json.iter().enumerate() {
        if in_text {
            out.push(byte);
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'{' | b'[' => {
                out.push(byte);
                depth += 1;
                if !matches!(json.get(at + 1), Some(b'}' | b']')) {
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                // At the start the index wraps beyond the end, where there is nothing.
                if !matches!(json.get(at.wrapping_sub(1)), Some(b'{' | b'[')) {
                    line(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b' ' | b'\n' | b'\t' | b'\r' => {}
            _ => {
                in_text = byte == b'"';
                out.push(byte);
            }
        }
    }
    out
}

fn gzip(bytes: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::new(GZIP_LEVEL));
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

fn accepts_gzip(accepted: &str) -> bool {
    accepted.split(',').any(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let refused = |part: &str| part.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()) == Some(0.0);
        parts.next() == Some("gzip") && !parts.any(refused)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indentation_keeps_order_and_content() {
        for (json, expected) in [
            ("{}", "{}"),
            ("[]", "[]"),
            ("{\"b\":1,\"a\":[]}", "{\n  \"b\": 1,\n  \"a\": []\n}"),
            ("{\"t\":\"a,{\\\"b\\\":[\\\\\"}", "{\n  \"t\": \"a,{\\\"b\\\":[\\\\\"\n}"),
            ("[{\"a\":null},-1.5e3]", "[\n  {\n    \"a\": null\n  },\n  -1.5e3\n]"),
        ] {
            assert_eq!(String::from_utf8(indented(json.as_bytes())).expect("text"), expected);
        }
    }

    #[test]
    fn encodings_are_chosen_by_the_client() {
        for (accepted, expected) in [
            ("gzip", true),
            ("deflate, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("identity", false),
            ("", false),
        ] {
            assert_eq!(accepts_gzip(accepted), expected, "{accepted}");
        }
    }
}
