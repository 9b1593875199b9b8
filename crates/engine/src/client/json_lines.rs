//! Puts each event of a watch on a line of its own, however the server laid it out: JSON allows line breaks between its
//! tokens, and kube reads an event from one line. Must not know what the events are.

use std::convert::identity;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use http_body_util::combinators::MapFrame;
use kube::client::Body;
use tower::{BoxError, Layer, Service};

use super::deadline::is_watch;

/// Where a stream of JSON values stands.
#[derive(Debug, Default)]
struct Lines {
    /// How many braces and brackets are open.
    depth: usize,
    is_in_text: bool,
    is_escaped: bool,
}

impl Lines {
    /// The same values: no line break within one, and one after each.
    fn lay_out(&mut self, bytes: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(bytes.len() + 1);
        let mut rest = bytes;
        loop {
            let (plain, after) = rest.split_at(self.plain(rest));
            out.extend_from_slice(plain);
            let Some((byte, after)) = after.split_first() else { return out.into() };
            rest = after;
            // Within a text a line break is not valid JSON: it is passed on, and the reader refuses it.
            if self.is_in_text || !matches!(byte, b'\n' | b'\r') {
                out.push(*byte);
            }
            if self.closes(*byte) {
                out.push(b'\n');
            }
        }
    }

    /// How many bytes ahead are text in which nothing ends: most bytes of an object are.
    fn plain(&self, ahead: &[u8]) -> usize {
        if !self.is_in_text || self.is_escaped {
            return 0;
        }
        memchr::memchr2(b'"', b'\\', ahead).unwrap_or(ahead.len())
    }

    /// Does a value end with this byte?
    fn closes(&mut self, byte: u8) -> bool {
        if self.is_in_text {
            let ends = byte == b'"' && !self.is_escaped;
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            self.is_in_text = !ends;
            return false;
        }
        match byte {
            b'"' => self.is_in_text = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                // A value ends only here: events of a watch
                // are objects, never bare texts or numbers.
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}

/// Puts the layout around a service.
#[derive(Clone, Copy, Debug)]
pub struct JsonLinesLayer;

impl<S> Layer<S> for JsonLinesLayer {
    type Service = JsonLines<S>;

    fn layer(&self, inner: S) -> JsonLines<S> {
        JsonLines(inner)
    }
}

/// A service whose watches have a line for each event.
#[derive(Clone, Debug)]
pub struct JsonLines<S>(S);

type LayOut = Box<dyn FnMut(Frame<Bytes>) -> Frame<Bytes> + Send>;

impl<S, B> Service<Request<Body>> for JsonLines<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError> + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<MapFrame<B, LayOut>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // Other answers are read as a whole, and may have line breaks anywhere.
        let lay_out: LayOut = if is_watch(&request) {
            let mut lines = Lines::default();
            Box::new(move |frame| frame.map_data(|bytes| lines.lay_out(&bytes)))
        } else {
            Box::new(identity)
        };
        let answer = self.0.call(request);
        Box::pin(async move {
            let answer: Result<_, BoxError> = answer.await.map_err(Into::into);
            Ok(answer?.map(|body| body.map_frame(lay_out)))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::StreamExt as _;
    use k8s_openapi::api::core::v1::Node;
    use kube::api::{Api, WatchEvent, WatchParams};
    use serde_json::{Value, json};

    use super::*;
    use crate::client::in_process;

    /// In pieces of any size.
    fn laid_out(text: &str, size: usize) -> String {
        let mut lines = Lines::default();
        let pieces = text.as_bytes().chunks(size).flat_map(|piece| lines.lay_out(piece));
        String::from_utf8(pieces.collect()).expect("text")
    }

    #[test]
    fn each_value_gets_a_line_whatever_stood_between_them() {
        let odd = json!({"a": ["\n\"}{\\", {"b\\": "]"}], "c": "\\\\"});
        let compact = odd.to_string();
        let indented = serde_json::to_string_pretty(&odd).expect("JSON");
        let stream = format!("{compact}\n{indented}\r\n\n{compact}{indented}");
        for size in 1..40 {
            let out = laid_out(&stream, size);
            let read: Vec<Value> =
                out.lines().map(|line| serde_json::from_str(line).expect("one value a line")).collect();
            assert_eq!(read, vec![odd.clone(); 4], "{size}: {out}");
        }
        assert_eq!(laid_out(&format!("{compact}\n"), 7), format!("{compact}\n"), "nothing to do");
    }

    /// Upstream's in-memory API server answers so, and its Nodes were taken for deleted.
    #[tokio::test]
    async fn a_watch_of_indented_events_is_read() {
        let node = |version: &str| json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n", "resourceVersion": version}});
        let events =
            [("ADDED", "1"), ("MODIFIED", "2")].map(|(kind, v)| json!({"type": kind, "object": node(v)}));
        let text: String =
            events.iter().map(|event| serde_json::to_string_pretty(event).expect("JSON")).collect();
        let service = tower::service_fn(move |_: Request<Body>| {
            let body = Body::from(text.clone().into_bytes());
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        let nodes: Api<Node> = Api::all(in_process(service, "indented", "default", false).client);
        let watch = nodes.watch(&WatchParams::default(), "0").await.expect("a watch");
        let versions: Vec<String> = watch
            .map(|event| match event.expect("an event") {
                WatchEvent::Added(node) | WatchEvent::Modified(node) => {
                    node.metadata.resource_version.unwrap_or_default()
                }
                other => panic!("{other:?}"),
            })
            .collect()
            .await;
        assert_eq!(versions, ["1", "2"]);
    }
}
