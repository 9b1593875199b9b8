//! A body that holds something until it has been sent, or given up. Must not know what it holds.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;

use super::Body;

struct Held<T> {
    body: Body,
    _held: T,
}

impl<T: Unpin> http_body::Body for Held<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The response, with `held` dropped at its end.
pub fn hold<T: Send + Unpin + 'static>(response: Response<Body>, held: T) -> Response<Body> {
    response.map(|body| Held { body, _held: held }.boxed_unsync())
}
