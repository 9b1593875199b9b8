//! The way to a simulated cluster's API for processes that are simulated in this process: it fails while no API server of
//! the cluster is up, as one over the network would. Owns in whose name they ask, and how; must not know what they are.

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower::ServiceExt as _;

use super::gate::{Down, Gate};
use capstan_apiserver::{Body, Identity};
use capstan_engine::client::{Client, Connection, in_process};
use k8s_machinery::merge;

#[derive(Clone)]
pub struct ApiAccess {
    gate: Gate,
    cluster: String,
}

impl ApiAccess {
    pub(super) fn new(gate: Gate, cluster: &str) -> Self {
        Self { gate, cluster: cluster.to_owned() }
    }

    pub fn administrator(&self) -> Connection {
        in_process(self.gate.clone(), &self.cluster, "default", false)
    }

    /// The connection of a process of Kubernetes' own: it may do what roles of the cluster allow. A merge patch is sent
    /// as an update of the whole object, for which such processes have the right.
    pub fn process(&self, user: String, groups: Vec<String>) -> Client {
        let server = self.gate.server.acting_as(Identity::of(user, groups));
        let gate = Gate { server, front: self.gate.front.clone() };
        let service = tower::service_fn(move |request| updating(gate.clone(), request));
        in_process(service, &self.cluster, "default", false).client
    }
}

async fn updating(gate: Gate, request: Request<kube::client::Body>) -> Result<Response<Body>, Down> {
    let (mut parts, body) = request.into_parts();
    // What a client made is there as a whole.
    let mut sent = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    if parts.method == Method::PATCH {
        // The path without its query: options of a patch say nothing to a read.
        let get = Request::builder().uri(parts.uri.path()).body(Full::<Bytes>::default());
        let Ok(get) = get else { return Err(Down) };
        let found = gate.clone().oneshot(get).await?;
        // A read that fails is the answer, since there is nothing to lay the patch on.
        if !found.status().is_success() {
            return Ok(found);
        }
        let text = found.into_body().collect().await.map_err(|_| Down)?.to_bytes();
        let mut object: Value = serde_json::from_slice(&text).map_err(|_| Down)?;
        let patch: Value = serde_json::from_slice(&sent).map_err(|_| Down)?;
        merge::apply(&mut object, &patch);
        sent = object.to_string().into();
        parts.method = Method::PUT;
        // The length was that of the patch.
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    }
    gate.oneshot(Request::from_parts(parts, Full::new(sent))).await
}
