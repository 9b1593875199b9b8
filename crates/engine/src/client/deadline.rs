//! A client whose requests end: with an answer, or with an error when its time is over. For servers that nobody here
//! runs, such as those of workload clusters. Must not know what is asked.

use std::time::Duration;

use http::{Request, Response, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use tower::BoxError;

use super::Client;

/// The server took the request and said nothing, or not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no whole answer within {} s", .0.as_secs())]
pub struct TimedOut(pub Duration);

/// The same client with `limit` for each request and its whole answer. Watches, logs that are followed, and connections that are taken over
/// (port-forwards) have none: they are meant to stay.
pub fn within(client: Client, limit: Duration) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request| answer(client.clone(), request, limit));
    Client::new(service, namespace)
}

async fn answer(client: Client, request: Request<Body>, limit: Duration) -> Result<Response<Body>, BoxError> {
    // A watch has no end that could be waited for, nor has a log that is followed, nor has a connection that is upgraded.
    if stays_open(&request) {
        return Ok(client.send(request).await?);
    }
    let whole = async {
        let (head, body) = client.send(request).await?.into_parts();
        // The body is part of the time: a server may fall silent in the middle of it.
        let bytes = body.collect().await?.to_bytes();
        Ok(Response::from_parts(head, Body::from(bytes.to_vec())))
    };
    tokio::time::timeout(limit, whole).await.unwrap_or_else(|_| Err(TimedOut(limit).into()))
}

fn stays_open(request: &Request<Body>) -> bool {
    is_watch(request) || is_followed_log(request) || request.headers().contains_key(header::UPGRADE)
}

fn is_followed_log(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.uri().path().ends_with("/log") && query.split('&').any(|part| part == "follow=true")
}

pub(super) fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|part| matches!(part, "watch=true" | "watch=1" | "watch"))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http_body::Frame;
    use http_body_util::{Full, StreamBody, combinators::UnsyncBoxBody};

    use super::*;
    use crate::client::in_process;

    const LIMIT: Duration = Duration::from_secs(30);

    type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

    /// Answers by path: at once, never, or without an end.
    async fn server(request: Request<Body>) -> Result<Answer, Infallible> {
        let begun = futures::stream::once(async { Ok::<_, Infallible>(Frame::data(Bytes::from("{"))) });
        match request.uri().path() {
            "/whole" => Ok(Response::new(Full::new(Bytes::from("whole")).boxed_unsync())),
            "/half" => {
                let body = futures::StreamExt::chain(begun, futures::stream::pending());
                Ok(Response::new(StreamBody::new(body).boxed_unsync()))
            }
            _ => std::future::pending().await,
        }
    }

    async fn ask(path: &str) -> Result<String, kube::Error> {
        let client = within(in_process(tower::service_fn(server), "odd", "default", false).client, LIMIT);
        client.request_text(Request::get(path).body(Vec::new()).expect("a request")).await
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_come_or_does_not_end_is_an_error() {
        assert_eq!(ask("/whole").await.expect("an answer"), "whole");
        for path in ["/half", "/never"] {
            let begun = tokio::time::Instant::now();
            let error = ask(path).await.expect_err("no answer");
            assert!(
                crate::client::errors::chain(&error).contains("no whole answer within 30 s"),
                "{error:?}"
            );
            assert_eq!(begun.elapsed(), LIMIT, "{path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_and_a_followed_log_stay() {
        for path in ["/never?watch=true&resourceVersion=1", "/never/log?container=a&follow=true"] {
            let watch = tokio::time::timeout(10 * LIMIT, ask(path)).await;
            assert!(watch.is_err(), "{path} ended");
        }
    }
}
