//! Paths that are not resources: discovery, OpenAPI, version, health. Owns their headers and caching;
//! the documents themselves are made in `discovery`, `openapi` and `openapi_v2`.

mod discovery;
mod kept;
mod openapi;
mod openapi_v2;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chrono::TimeDelta;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::Value;

pub use self::kept::Documents;

use self::kept::Document;
use self::openapi::Served;
use crate::failure::Failure;
use crate::object::Record;
use crate::registry::Registry;
use crate::registry::offload::Lane;
use crate::request::negotiate;
use crate::request::options::Query;
use crate::resource::strategy::Strategy;
use crate::resource::{CRD_GROUP, CRD_PLURAL, Catalog, Resource};
use crate::response::{Payload, Reply};

/// How long a document may be kept whose URL changes with it.
const IMMUTABLE_DAYS: i64 = 365;
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The verb of authorisation for a path that is not a resource.
pub fn verb(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "options",
    }
}

/// kube-apiserver's answer for an unknown path.
pub fn not_found() -> Reply {
    Reply::new(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n")
}

/// Where documents come from.
pub struct Site<'a> {
    pub registry: &'a Arc<Registry>,
    pub kept: &'a Documents,
    /// Where a long one is made.
    pub lane: Lane,
}

/// # Errors
/// 405 for anything but reading.
pub async fn answer(site: Site<'_>, path: &str, parts: &Parts, query: &Query) -> Result<Reply, Failure> {
    let registry = site.registry;
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(Failure::method_not_allowed("", "", parts.method.as_str()));
    }
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let aggregated = negotiate::wants_aggregated(header(header::ACCEPT));
    let known = header(header::IF_NONE_MATCH);
    // One catalogue serves the whole answer, also over awaits.
    let catalog = &registry.catalog.load_full();
    let steps: Vec<&str> = path.split('/').collect();
    let mut vary = false;
    let document = match steps.as_slice() {
        [""] => Some(discovery::paths(catalog)),
        ["version"] => Some(discovery::version()),
        [probe @ ("healthz" | "livez" | "readyz")] => return Ok(health(registry, probe, "", query).await),
        [probe @ ("healthz" | "livez" | "readyz"), check] if CHECKS.contains(check) => {
            return Ok(health(registry, probe, check, query).await);
        }
        ["metrics"] => {
            let text = registry.metrics.text(registry.store.revision().await?, catalog.all().count());
            return Ok(Reply::new(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text));
        }
        ["api" | "apis"] if aggregated => {
            let (core, of) = (path == "api", catalog.clone());
            let make = move || discovery::aggregated(&of, core);
            let made = site.made(catalog, &format!("{path} aggregated"), make).await?;
            return Ok(made.map_or_else(not_found, |document| tagged(document, AGGREGATED, known)));
        }
        ["api" | "apis"] => {
            // The aggregated form has the same address, so a cache has to look at `Accept`.
            vary = true;
            let host = header(header::HOST);
            Some(if path == "api" { discovery::core_versions(host) } else { discovery::group_list(catalog) })
        }
        ["api", version] => discovery::resource_list(catalog, "", version),
        ["apis", group] => discovery::group(catalog, group),
        ["apis", group, version] => discovery::resource_list(catalog, group, version),
        ["openapi", "v2"] => return Ok(openapi_v2::reply(header(header::ACCEPT))),
        ["openapi", "v3"] => {
            let of = catalog.clone();
            let made = site.made(catalog, path, move || openapi_index(&of)).await?;
            // Upstream announces the index as text, too.
            return Ok(made.map_or_else(not_found, |document| kept(document, "text/plain; charset=utf-8")));
        }
        ["openapi", "v3", "api", version] => {
            return site.openapi_document(catalog, ("", version), query, known).await;
        }
        ["openapi", "v3", "apis", group, version] => {
            return site.openapi_document(catalog, (group, version), query, known).await;
        }
        _ => None,
    };
    let mut reply = document.map_or_else(not_found, |document| Reply::json(document.to_string()));
    if vary {
        reply.headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    }
    Ok(reply)
}

/// What health is made of.
const CHECKS: [&str; 3] = ["ping", "store", KUBECONFIGS];
/// Are the files written that a client was promised? Asked of a server that is to be ready, not of one that is
/// to be alive.
const KUBECONFIGS: &str = "kubeconfigs";

/// The answer of a probe: of one check, or of all that are not excluded.
async fn health(registry: &Registry, probe: &str, only: &str, query: &Query) -> Reply {
    let store_works = registry.store.revision().await.is_ok();
    let announced = registry.announced.load(Ordering::Acquire);
    let is_excluded = |check: &str| query.texts("exclude").iter().any(|name| name == check);
    let (mut lines, mut healthy) = (String::new(), true);
    let asked = |check: &&str| {
        if only.is_empty() { *check != KUBECONFIGS || probe == "readyz" } else { *check == only }
    };
    for check in CHECKS.into_iter().filter(asked) {
        let fine = match check {
            "store" => store_works,
            KUBECONFIGS => announced,
            _ => true,
        };
        let line = match (is_excluded(check), fine) {
            (true, _) => format!("[+]{check} excluded: ok\n"),
            (_, true) => format!("[+]{check} ok\n"),
            // As upstream: probes need no credentials, so the reason is not for them.
            (_, false) => format!("[-]{check} failed: reason withheld\n"),
        };
        healthy &= fine || is_excluded(check);
        lines.push_str(&line);
    }
    let (code, end) =
        if healthy { (StatusCode::OK, "passed") } else { (StatusCode::INTERNAL_SERVER_ERROR, "failed") };
    let text = if healthy && !query.has("verbose") {
        "ok".to_owned()
    } else {
        format!("{lines}{probe} check {end}\n")
    };
    Reply::new(code, "text/plain; charset=utf-8", text)
}

fn kept(document: Document, content_type: &'static str) -> Reply {
    let mut reply = Reply::new(StatusCode::OK, content_type, bytes::Bytes::new());
    reply.body = Payload::Kept(document.body);
    reply
}

/// A document that clients keep until its tag changes.
fn tagged(document: Document, content_type: &'static str, known: &str) -> Reply {
    let tag = HeaderValue::from_str(&document.tag);
    let mut reply = if known == document.tag {
        Reply::new(StatusCode::NOT_MODIFIED, content_type, bytes::Bytes::new())
    } else {
        kept(document, content_type)
    };
    if let Ok(tag) = tag {
        reply.headers.insert(header::ETAG, tag);
    }
    reply.headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    reply.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    reply
}

fn openapi_index(catalog: &Catalog) -> Value {
    let mut documents = Vec::new();
    for (group, versions) in catalog.groups() {
        for version in versions {
            documents.push((openapi::path(group, version), openapi_hash(catalog, group, version)));
        }
    }
    openapi::index(&documents)
}

/// Changes whenever the document does.
fn openapi_hash(catalog: &Catalog, group: &str, version: &str) -> String {
    let tags: Vec<String> = shown(catalog, group, version)
        .map(|r| match &r.strategy {
            Strategy::Custom(custom) => format!("{} {:x}", r.kind, custom.schema_tag),
            // Built-in schemas change only with the program.
            _ => format!("{} {}", r.kind, env!("CARGO_PKG_VERSION")),
        })
        .collect();
    openapi::hash(tags.join(",").as_bytes())
}

fn shown<'a>(
    catalog: &'a Catalog,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a std::sync::Arc<Resource>> {
    catalog.all().filter(move |r| r.group == group && r.version == version)
}

impl Site<'_> {
    /// A document that needs nothing but the catalogue.
    async fn made(
        &self,
        catalog: &Arc<Catalog>,
        name: &str,
        make: impl FnOnce() -> Value + Send + 'static,
    ) -> Result<Option<Document>, Failure> {
        let written = move || Document::from(bytes::Bytes::from(make().to_string()));
        let make = || async { self.registry.offload.run(self.lane, written).await.map(Some) };
        self.kept.get(catalog, name, make).await
    }

    async fn openapi_document(
        &self,
        catalog: &Arc<Catalog>,
        (group, version): (&str, &str),
        query: &Query,
        known: &str,
    ) -> Result<Reply, Failure> {
        let hash = openapi_hash(catalog, group, version);
        let (path, asked) = (openapi::path(group, version), query.text("hash"));
        // The hash in an address promises that its document never changes, so an old one is led on.
        if !asked.is_empty() && asked != hash {
            return Ok(moved(&format!("/openapi/v3/{path}?hash={hash}")));
        }
        if shown(catalog, group, version).next().is_none() {
            return Ok(not_found());
        }
        // A future does nothing before it is driven, so a document that is kept costs no reading.
        let work = openapi_of(self.registry.clone(), catalog.clone(), (group.to_owned(), version.to_owned()));
        let make = || async { self.registry.offload.drive(self.lane, work).await? };
        let made = self.kept.get(catalog, &format!("openapi {path}"), make).await?;
        let Some(document) = made else { return Ok(not_found()) };
        let mut reply = tagged(document, "application/json", known);
        if asked == hash {
            reply.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
            let end = self.registry.clock.now() + TimeDelta::days(IMMUTABLE_DAYS);
            if let Ok(end) = HeaderValue::from_str(&end.format("%a, %d %b %Y %H:%M:%S GMT").to_string()) {
                reply.headers.insert(header::EXPIRES, end);
            }
        }
        Ok(reply)
    }
}

fn moved(to: &str) -> Reply {
    let mut reply = Reply::new(StatusCode::MOVED_PERMANENTLY, "application/json", bytes::Bytes::new());
    if let Ok(location) = HeaderValue::from_str(to) {
        reply.headers.insert(header::LOCATION, location);
    }
    reply
}

/// The published schemas are read from the stored definitions: they are large, and the document is kept.
async fn openapi_of(
    registry: Arc<Registry>,
    catalog: Arc<Catalog>,
    (group, version): (String, String),
) -> Result<Option<Document>, Failure> {
    let resources: Vec<_> = shown(&catalog, &group, &version).collect();
    let mut schemas = Vec::new();
    for resource in &resources {
        schemas.push(published_schema(&registry, resource).await?);
    }
    let served: Vec<Served<'_>> = resources
        .iter()
        .zip(&schemas)
        .map(|(resource, schema)| Served {
            group: &resource.group,
            version: &resource.version,
            kind: &resource.kind,
            plural: &resource.plural,
            namespaced: resource.namespaced,
            schema: schema.as_ref(),
        })
        .collect();
    Ok(Some(bytes::Bytes::from(openapi::document(&served).to_string()).into()))
}

async fn published_schema(registry: &Registry, resource: &Resource) -> Result<Option<Value>, Failure> {
    let Strategy::Custom(custom) = &resource.strategy else { return Ok(None) };
    let key = format!("/registry/{CRD_GROUP}/{CRD_PLURAL}/{}", custom.definition);
    // The definition can be deleted while this catalogue is still in use.
    let Some(entry) = registry.store.get(&key).await? else { return Ok(None) };
    let mut definition = Record::read(&entry)?.value()?;
    let versions = definition.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    let version = versions.into_iter().flatten().find(|v| v["name"] == resource.version.as_str());
    // Taken and not copied: schemas are by far the largest part of a definition.
    Ok(version.map(|version| version["schema"]["openAPIV3Schema"].take()))
}
