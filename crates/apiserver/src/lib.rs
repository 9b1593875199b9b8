//! A Kubernetes-style API over a store, as a tower service first and a socket second.
//! Owns API semantics; must not know who calls it, nor any controller.
//!
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

// The folders are strata: each knows only those above it in the list below, and `serve` knows this file, which is the
// service itself. `tests/it/tidy_layers.rs` holds the order, docs/architecture.md says what each answers.
mod failure;

mod object;

mod schema;

mod managed;
mod protobuf;
mod table;

mod resource;

mod request;

mod patch;

mod registry;

mod response;

mod documents;

mod handler;

pub mod audit;
mod flow;

pub mod import;

mod newcomers;

pub mod serve;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::{Buf, Bytes};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use capstan_store::{self as store, Key, Write};

pub use capstan_base::rng::Rng;
pub use capstan_base::time::Clock;
pub use capstan_store::{MemoryStore, Store};
pub use k8s_machinery::admission::{self, Admission, AdmitAll};
pub use object::{PlainForm, is_whole, plain_form};
pub use registry::kubelets::{Kubelets, PodConnection, PortStream};
pub use registry::metrics::MoreMetrics;
pub use request::auth::{Identity, Tokens};
pub use response::Body;

use audit::{AuditLog, Auditing, Source};
use documents::Documents;
use failure::Failure;
use flow::{Class, Flow, Permit};
use handler::Asked;
use newcomers::Newcomer;
use object::Record;
use registry::offload::Lane;
use registry::{Draft, Registry, Subject, definitions, gc, housekeeping};
use request::auth::Role;
use request::options::WriteOptions;
use resource::{CRD_GROUP, CRD_PLURAL, Catalog, Resource, crds};
use response::held::hold;
use response::lines::Lines;
use response::{Reply, encoding};

/// What fuzz targets feed, and what tests hold against upstream's files. For them only: nothing is promised about it.
#[doc(hidden)]
pub mod internals {
    pub use crate::failure::Failure;
    pub use crate::object::encode;
    pub use crate::object::field_selector::FieldSelector;
    pub use crate::object::label_selector::LabelSelector;
    pub use crate::patch::{JSON_PATCH, MERGE_PATCH, Patch, STRATEGIC_PATCH, strategic};
    pub use crate::registry::list::decode_token;
    pub use crate::request::content;
    pub use crate::schema::{Schema, crd};
    pub use crate::table::{Budget, Columns, Include};
}

/// Largest request body, as kube-apiserver's.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// How long a request may take, its body included, as kube-apiserver's `--request-timeout`. What a watch sends
/// once it has begun does not count.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// In upstream's words, `pkg/server/filters/maxinflight.go`.
const TOO_MANY_REQUESTS: &str = "Too many requests, please try again later.\n";
/// Namespaces that exist from the start.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// What a server is made of.
pub struct Options {
    /// For creation times, Leases and the end of Events.
    pub clock: Clock,
    /// For uids and the ends of generated names: the same seed makes the same ones in the same order.
    pub rng: Rng,
    /// Served from the start, and kept at the version given here.
    pub definitions: Vec<CustomResourceDefinition>,
    /// For requests that come with a token: over a socket.
    pub tokens: Tokens,
    /// What is demanded of objects beyond their schema; the server itself knows no such rule.
    pub admission: Arc<dyn Admission>,
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store does not answer, or not with what was asked.
    #[error("the store cannot be read: {0}")]
    Store(#[from] store::Error),
    /// A definition of [`Options::definitions`] is not one, or the one that is stored under its name is damaged.
    #[error("the built-in definition {name} cannot be served: {reason}")]
    Definition {
        /// `PLURAL.GROUP`.
        name: String,
        /// A sentence for a person.
        reason: String,
    },
    /// Stored definitions beyond the given ones; a sentence for a person.
    #[error("the definitions in the store cannot be read: {0}")]
    Definitions(String),
    /// One of the four namespaces that every cluster has.
    #[error("the namespace {name} cannot be made: {reason}")]
    Namespace {
        /// `default`, `kube-system`, `kube-public` or `kube-node-lease`.
        name: String,
        /// A sentence for a person.
        reason: String,
    },
}

/// A handle to a server: clone it, give it to `kube::Client::new`, serve it on a socket.
#[derive(Clone)]
pub struct ApiServer {
    server: Arc<Server>,
    caller: Caller,
    source: Source,
}

/// Whom requests through a handle come from.
#[derive(Clone, Debug)]
enum Caller {
    Known(Identity),
    /// The one whom the request's bearer token names; this one when the request has no token.
    ByToken(Identity),
}

struct Server {
    registry: Arc<Registry>,
    lines: Arc<Lines>,
    documents: Arc<Documents>,
    tokens: ArcSwap<Tokens>,
    flow: Flow,
    audit: ArcSwapOption<AuditLog>,
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
        Self::start(store, options, None).await
    }

    /// The same for a cluster that has nodes: pods and what controls them are served as well, and what only a node
    /// knows is asked of `kubelets`.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open_with_nodes(
        store: Arc<dyn Store>,
        options: Options,
        kubelets: Arc<dyn Kubelets>,
    ) -> Result<Self, OpenError> {
        Self::start(store, options, Some(kubelets)).await
    }

    async fn start(
        store: Arc<dyn Store>,
        options: Options,
        kubelets: Option<Arc<dyn Kubelets>>,
    ) -> Result<Self, OpenError> {
        let Options { clock, rng, definitions: given, tokens, admission } = options;
        let catalog = if kubelets.is_some() { Catalog::of_nodes() } else { Catalog::built_in() };
        let catalog = ArcSwap::from_pointee(catalog);
        let registry =
            Arc::new(Registry { admission, kubelets, catalog, ..Registry::new(store, clock, rng) });
        let served = install(&registry, given).await?;
        // The revision is read before the definitions: `follow` repeats what may change between the
        // two.
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
        let (flow, audit) = (Flow::default(), ArcSwapOption::empty());
        let (lines, documents) = (Arc::default(), Arc::default());
        let server = Arc::new(Server { registry, lines, documents, tokens, flow, audit, tasks });
        Ok(Self { server, caller: Caller::Known(Identity::ADMIN), source: Source::InProcess })
    }

    /// A handle whose requests need a token: what a socket serves.
    pub fn guarded(&self) -> Self {
        self.known_as(Identity::ANONYMOUS)
    }

    /// A handle for a connection that proved who it is; a token that comes with a request decides for
    /// that request.
    pub fn known_as(&self, identity: Identity) -> Self {
        Self { caller: Caller::ByToken(identity), ..self.clone() }
    }

    /// Replaces the tokens: a request with an earlier one is answered 401 from now on.
    pub fn replace_tokens(&self, tokens: Tokens) {
        self.server.tokens.store(Arc::new(tokens));
    }

    /// Adds lines of another part of the process to `/metrics`. Only the first call counts.
    pub fn append_metrics(&self, more: MoreMetrics) {
        self.server.registry.metrics.append(more);
    }

    /// A handle whose requests come from `identity`.
    pub fn acting_as(&self, identity: Identity) -> Self {
        Self { caller: Caller::Known(identity), ..self.clone() }
    }

    /// A handle for requests that come from there.
    pub fn reached_from(&self, source: Source) -> Self {
        Self { source, ..self.clone() }
    }

    /// From now on every request is written down.
    pub fn audit_to(&self, log: Arc<AuditLog>) {
        self.server.audit.store(Some(log));
    }

    /// Whether everything is written that a client needs to find this server; until then it is not ready.
    pub fn set_announced(&self, announced: bool) {
        self.server.registry.announced.store(announced, Ordering::Release);
    }

    /// True for requests of this process itself: they do not wait behind requests from outside.
    fn in_process(&self) -> bool {
        matches!(self.caller, Caller::Known(_))
    }

    fn reading_lane(&self) -> Lane {
        if self.in_process() { Lane::InProcess } else { Lane::Reading }
    }

    async fn answer<B>(self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let parts = Arc::new(parts);
        let Server { registry, audit, .. } = &*self.server;
        let mut audited =
            audit.load_full().map(|log| Auditing::begin(log, registry.clock.clone(), &parts, self.source));
        let (mut reply, place) = self.reply(&parts, body, audited.as_mut()).await;
        let id = registry.rng.uuid().to_string();
        if let Some(audited) = &mut audited {
            audited.answered(&id, &reply);
        }
        if let Ok(id) = HeaderValue::from_str(&id) {
            reply.headers.insert("audit-id", id);
        }
        registry.metrics.count(&parts.method, reply.code);
        let response = encoding::response(reply, &parts, &registry.offload, self.reading_lane()).await;
        if place.is_none() && audited.is_none() { response } else { hold(response, (place, audited)) }
    }

    /// The answer, and the place that the request takes until it is sent.
    async fn reply<B>(
        &self,
        parts: &Arc<Parts>,
        body: B,
        audited: Option<&mut Auditing>,
    ) -> (Reply, Option<Permit>)
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let who = match self.who(parts, audited) {
            Ok(who) => who,
            Err(failure) => return (failure.into(), None),
        };
        if let (Some(newcomer), false) = (parts.extensions.get::<Newcomer>(), who.role == Role::Anonymous) {
            newcomer.is_known();
        }
        // Requests of this process have no limit: load from outside must not hold up its own parts.
        let place = match self.in_process() {
            true => None,
            false => match self.server.flow.enter(Class::of(parts, &who), &who) {
                None => return (too_many_requests(), None),
                place => place,
            },
        };
        let in_process = self.in_process();
        let Server { registry, lines, documents, .. } = &*self.server;
        let (registry, lines, documents) = (registry.clone(), lines.clone(), documents.clone());
        let work = async {
            // The body is read within the time limit, so that a slow sender keeps no place.
            let (body, parts) = (collect(body).await, parts.clone());
            handler::handle(Asked { registry, lines, documents, who, parts, body, in_process }).await
        };
        // What was handed to the store by then may still be written, as with kube-apiserver.
        let reply = tokio::time::timeout(REQUEST_TIMEOUT, work).await.unwrap_or_else(|_| {
            Failure::timeout("request did not complete within the allotted timeout").into()
        });
        (reply, place)
    }

    /// Whom a request is from, or is made as.
    fn who(&self, parts: &Parts, audited: Option<&mut Auditing>) -> Result<Identity, Failure> {
        let identity = match &self.caller {
            Caller::Known(identity) => identity.clone(),
            Caller::ByToken(otherwise) => {
                // A header that is not text is a wrong token, and not a missing one.
                let given = parts.headers.get(header::AUTHORIZATION).map(|v| v.to_str().unwrap_or_default());
                self.server.tokens.load().authenticate(given)?.unwrap_or_else(|| otherwise.clone())
            }
        };
        let acting_as = identity.clone().impersonating(&parts.headers);
        // Who asked is noted also of an impersonation that is refused.
        if let Some(audited) = audited {
            audited.asked_by(&identity, acting_as.as_ref().unwrap_or(&identity));
        }
        acting_as
    }

    /// The answer to a client that is not authenticated.
    async fn refuse(&self, failure: Failure, parts: &Parts) -> Response<Body> {
        encoding::response(failure.into(), parts, &self.server.registry.offload, Lane::Reading).await
    }
}

fn too_many_requests() -> Reply {
    let mut reply = Reply::new(StatusCode::TOO_MANY_REQUESTS, "text/plain; charset=utf-8", TOO_MANY_REQUESTS);
    reply.headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    reply.reason = Some(failure::Reason::TooManyRequests);
    reply
}

/// The whole body, if it is not too large.
async fn collect<B>(body: B) -> Result<Bytes, Failure>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
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
    // At the lowest revision: whatever is read of them later is newer.
    serve.iter().for_each(|definition| registry.serve_definition(definition, 0));
    Ok(keys)
}

/// What to store for a given definition; `None` when the stored one is the same.
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
            // Of its name alone: one definition more leaves the uids of all other objects as they are.
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let uid = registry.rng.stream(name).uuid().to_string();
            object::set(&mut definition, "uid", uid.into());
            resource.prepare_create(&mut definition);
        }
        Some(old) => {
            let labels = definition["metadata"]["labels"].clone();
            let annotations = definition["metadata"]["annotations"].clone();
            // Finalizers, uid and times are the cluster's; labels and annotations are the
            // program's.
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
