//! A Kubernetes-style API over a store, as a tower service first and a socket second.
//! Owns API semantics; must not know who calls it, nor any controller.
//!
//! The folders are strata: each knows only those above it in the list below, and `serve` knows this
//! file, which is the service itself. `tests/it/tidy.rs` holds the order, docs/architecture.md says
//! what each answers.

pub mod failure;

pub mod object;

pub mod schema;

mod managed;
mod protobuf;
pub mod table;

pub mod admission;

mod resource;

pub mod request;

pub mod patch;

pub mod registry;

mod response;

mod documents;

mod handler;

pub mod import;

pub mod serve;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::{Buf, Bytes};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt as _, Limited};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::rng::Rng;
use crate::store::{self, Key, Store, Write};
use crate::time::Clock;

pub use request::auth::{Identity, Tokens};
pub use response::Body;

use failure::Failure;
use object::Record;
use registry::{Draft, Registry, Subject, definitions, gc, housekeeping};
use request::options::WriteOptions;
use resource::{CRD_GROUP, CRD_PLURAL, Resource, crds};
use response::encoding;
use response::lines::Lines;

/// Largest request body, as kube-apiserver's.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// How long a client may take to send one.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Namespaces that exist from the start.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// What a server is made of.
pub struct Options {
    pub clock: Clock,
    pub rng: Rng,
    /// Served from the start, and kept at the version given here.
    pub definitions: Vec<CustomResourceDefinition>,
    /// For requests that come with a token: over a socket.
    pub tokens: Tokens,
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the store cannot be read: {0}")]
    Store(#[from] store::Error),
    #[error("the built-in definition {name} cannot be served: {reason}")]
    Definition { name: String, reason: String },
    #[error("the definitions in the store cannot be read: {0}")]
    Definitions(String),
    #[error("the namespace {name} cannot be made: {reason}")]
    Namespace { name: String, reason: String },
}

/// A handle to a server: clone it, give it to `kube::Client::new`, serve it on a socket.
#[derive(Clone)]
pub struct ApiServer {
    server: Arc<Server>,
    caller: Caller,
}

/// Whom requests through a handle come from.
#[derive(Clone, Debug)]
enum Caller {
    Known(Identity),
    /// Whoever the bearer token says, and this one without a token.
    ByToken(Identity),
}

struct Server {
    registry: Arc<Registry>,
    lines: Arc<Lines>,
    tokens: ArcSwap<Tokens>,
    /// Garbage collection and housekeeping; they end with the last handle.
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl ApiServer {
    /// Starts serving what the store holds plus the given definitions. The handle acts as the
    /// administrator; see [`ApiServer::guarded`] and [`ApiServer::acting_as`] for others.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(store: Arc<dyn Store>, options: Options) -> Result<Self, OpenError> {
        let Options { clock, rng, definitions: given, tokens } = options;
        let registry = Arc::new(Registry::new(store, clock, rng));
        let served = install(&registry, given).await?;
        let revision = registry.store.revision().await?;
        definitions::load(&registry, &served)
            .await
            .map_err(|failure| OpenError::Definitions(failure.to_string()))?;
        create_namespaces(&registry).await?;
        let tasks = vec![
            tokio::spawn(definitions::follow(registry.clone(), revision)),
            tokio::spawn(gc::run(registry.clone())),
            tokio::spawn(housekeeping::run(registry.clone())),
        ];
        let tokens = ArcSwap::from_pointee(tokens);
        let server = Server { registry, lines: Arc::default(), tokens, tasks };
        Ok(Self { server: Arc::new(server), caller: Caller::Known(Identity::ADMIN) })
    }

    /// A handle whose requests need a token: what a socket serves.
    #[must_use]
    pub fn guarded(&self) -> Self {
        self.known_as(Identity::ANONYMOUS)
    }

    /// A handle for a connection that proved who it is; a token that comes with a request decides for
    /// that request.
    #[must_use]
    pub fn known_as(&self, identity: Identity) -> Self {
        Self { server: self.server.clone(), caller: Caller::ByToken(identity) }
    }

    /// From now on only these tokens open the door.
    pub fn replace_tokens(&self, tokens: Tokens) {
        self.server.tokens.store(Arc::new(tokens));
    }

    /// A handle whose requests come from `identity`.
    #[must_use]
    pub fn acting_as(&self, identity: Identity) -> Self {
        Self { server: self.server.clone(), caller: Caller::Known(identity) }
    }

    async fn answer<B>(self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let mut reply = match self.who(&parts) {
            Err(failure) => failure.into(),
            Ok(who) => {
                let body = collect(body).await;
                handler::handle(&self.server.registry, &self.server.lines, who, &parts, body).await
            }
        };
        if let Ok(id) = HeaderValue::from_str(&self.server.registry.rng.uuid().to_string()) {
            reply.headers.insert("audit-id", id);
        }
        self.server.registry.metrics.count(&parts.method, reply.code);
        encoding::response(reply, &parts).await
    }

    /// Whom a request is from, or is made as.
    fn who(&self, parts: &Parts) -> Result<Identity, Failure> {
        let identity = match &self.caller {
            Caller::Known(identity) => identity.clone(),
            Caller::ByToken(otherwise) => {
                let given = parts.headers.get(header::AUTHORIZATION).map(|v| v.to_str().unwrap_or_default());
                self.server.tokens.load().authenticate(given)?.unwrap_or_else(|| otherwise.clone())
            }
        };
        identity.impersonating(&parts.headers)
    }
}

/// The whole body, if it is not too large or too slow.
async fn collect<B>(body: B) -> Result<Bytes, Failure>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let collected = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_BYTES_MAX).collect());
    let Ok(collected) = collected.await else {
        return Err(Failure::timeout("the request body did not arrive in time"));
    };
    match collected {
        Ok(collected) => {
            let mut body = collected.aggregate();
            Ok(body.copy_to_bytes(body.remaining()))
        }
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Failure::too_large(BODY_BYTES_MAX))
        }
        Err(error) => Err(Failure::bad_request(format!("the request body cannot be read: {error}"))),
    }
}

impl<B> tower::Service<Request<B>> for ApiServer
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.clone().answer(request).map(Ok).boxed()
    }
}

/// Writes the given definitions where the store has none or another spec, and
/// serves them. Answers with their keys.
async fn install(
    registry: &Registry,
    definitions: Vec<CustomResourceDefinition>,
) -> Result<BTreeSet<Key>, OpenError> {
    let catalog = registry.catalog.load_full();
    let mut keys = BTreeSet::new();
    let Some(resource) = catalog.find(CRD_GROUP, "v1", CRD_PLURAL) else { return Ok(keys) };
    let (mut writes, mut serve) = (Vec::new(), Vec::new());
    for definition in definitions {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let failed = |reason: String| OpenError::Definition { name: name.clone(), reason };
        let key = resource.key("", &name);
        let old = match registry.store.get(&key).await? {
            Some(entry) => {
                Some(Record::read(&entry).and_then(|r| r.value()).map_err(|e| failed(e.to_string()))?)
            }
            None => None,
        };
        let definition = serde_json::to_value(definition).map_err(|e| failed(e.to_string()))?;
        let renewed = renewed(registry, resource, definition, old.as_ref());
        if let Some(definition) = &renewed {
            let encoded = object::encode(definition, b"", 0).map_err(|e| failed(e.to_string()))?;
            writes.push(Write::Put(key.clone(), encoded));
        }
        serve.extend(renewed.or(old));
        keys.insert(key);
    }
    store::write_all(&*registry.store, writes).await?;
    serve.iter().for_each(|definition| registry.serve_definition(definition));
    Ok(keys)
}

/// What to store for a given definition; `None` when the stored one says the same already.
fn renewed(
    registry: &Registry,
    resource: &Resource,
    mut definition: Value,
    old: Option<&Value>,
) -> Option<Value> {
    let now = registry.now();
    match old {
        None => {
            object::set(&mut definition, "creationTimestamp", now.as_str().into());
            object::set(&mut definition, "uid", registry.rng.uuid().to_string().into());
            resource.prepare_create(&mut definition);
        }
        Some(old) => {
            let labels = definition["metadata"]["labels"].clone();
            let annotations = definition["metadata"]["annotations"].clone();
            definition["metadata"] = old["metadata"].clone();
            for (field, value) in [("labels", labels), ("annotations", annotations)] {
                if !value.is_null() {
                    object::set(&mut definition, field, value);
                }
            }
            resource.prepare_update(&mut definition, old);
            object::unset(&mut definition, "resourceVersion");
            if definition["spec"] != old["spec"] {
                let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
                object::set(&mut definition, "generation", generation.into());
            }
            let mut same = old.clone();
            object::unset(&mut same, "resourceVersion");
            if same == definition {
                return None;
            }
        }
    }
    crds::establish(&mut definition, &registry.catalog.load(), &now);
    Some(definition)
}

async fn create_namespaces(registry: &Registry) -> Result<(), OpenError> {
    let catalog = registry.catalog.load_full();
    let Some(resource) = catalog.find("", "v1", "namespaces") else { return Ok(()) };
    for name in NAMESPACES {
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        let draft = Draft { object, duplicates: Vec::new(), is_patch: false };
        let subject = Subject { resource, namespace: "", name };
        match registry.create(subject, draft, WriteOptions::by("kube-apiserver")).await {
            Err(failure) if failure.reason != failure::Reason::AlreadyExists => {
                return Err(OpenError::Namespace { name: name.to_owned(), reason: failure.to_string() });
            }
            _ => {}
        }
    }
    Ok(())
}
