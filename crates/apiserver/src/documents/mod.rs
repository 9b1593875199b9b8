//! Paths that are not resources: discovery, OpenAPI, version, health. Owns their headers and caching;
//! the documents themselves are made in `discovery` and `openapi`.

mod discovery;
mod openapi;

use std::sync::atomic::Ordering;

use chrono::TimeDelta;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::Value;

use self::openapi::Served;
use crate::failure::Failure;
use crate::object::Record;
use crate::registry::Registry;
use crate::request::negotiate;
use crate::request::options::Query;
use crate::resource::strategy::Strategy;
use crate::resource::{CRD_GROUP, CRD_PLURAL, Catalog, Resource};
use crate::response::Reply;

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

/// # Errors
/// 405 for anything but reading.
pub async fn answer(registry: &Registry, path: &str, parts: &Parts, query: &Query) -> Result<Reply, Failure> {
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(Failure::method_not_allowed("", "", parts.method.as_str()));
    }
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let aggregated = negotiate::wants_aggregated(header(header::ACCEPT));
    let known = header(header::IF_NONE_MATCH);
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
        ["api"] if aggregated => return Ok(tagged(discovery::aggregated(catalog, true), AGGREGATED, known)),
        ["apis"] if aggregated => {
            return Ok(tagged(discovery::aggregated(catalog, false), AGGREGATED, known));
        }
        ["api" | "apis"] => {
            vary = true;
            let host = header(header::HOST);
            Some(if path == "api" { discovery::core_versions(host) } else { discovery::group_list(catalog) })
        }
        ["api", version] => discovery::resource_list(catalog, "", version),
        ["apis", group] => discovery::group(catalog, group),
        ["apis", group, version] => discovery::resource_list(catalog, group, version),
        ["openapi", "v3"] => return Ok(openapi_index(catalog)),
        ["openapi", "v3", "api", version] => {
            return openapi_document(registry, "", version, query, known).await;
        }
        ["openapi", "v3", "apis", group, version] => {
            return openapi_document(registry, group, version, query, known).await;
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
    let excluded = query.text("exclude");
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
        let line = match (check == excluded, fine) {
            (true, _) => format!("[+]{check} excluded: ok\n"),
            (_, true) => format!("[+]{check} ok\n"),
            (_, false) => format!("[-]{check} failed: reason withheld\n"),
        };
        healthy &= fine || check == excluded;
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

/// A document that clients keep until its tag changes.
fn tagged(document: Value, content_type: &'static str, known: &str) -> Reply {
    let text = document.to_string();
    tagged_text(text.into(), content_type, known)
}

fn tagged_text(text: bytes::Bytes, content_type: &'static str, known: &str) -> Reply {
    let tag = discovery::etag(&text);
    let mut reply = if known == tag {
        Reply::new(StatusCode::NOT_MODIFIED, content_type, bytes::Bytes::new())
    } else {
        Reply::new(StatusCode::OK, content_type, text)
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        reply.headers.insert(header::ETAG, tag);
    }
    reply.headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    reply.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    reply
}

fn openapi_index(catalog: &Catalog) -> Reply {
    let mut documents = Vec::new();
    for (group, versions) in catalog.groups() {
        for version in versions {
            documents.push((openapi::path(group, version), openapi_hash(catalog, group, version)));
        }
    }
    Reply::new(StatusCode::OK, "text/plain; charset=utf-8", openapi::index(&documents).to_string())
}

/// Changes whenever the document does.
fn openapi_hash(catalog: &Catalog, group: &str, version: &str) -> String {
    let tags: Vec<String> = shown(catalog, group, version)
        .map(|r| match &r.strategy {
            Strategy::Custom(custom) => format!("{} {:x}", r.kind, custom.schema_tag),
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

/// The published schemas are read from the stored definitions: they are large and rarely asked for.
async fn openapi_document(
    registry: &Registry,
    group: &str,
    version: &str,
    query: &Query,
    known: &str,
) -> Result<Reply, Failure> {
    let catalog = registry.catalog.load_full();
    let hash = openapi_hash(&catalog, group, version);
    let asked = query.text("hash");
    if !asked.is_empty() && asked != hash {
        let mut reply = Reply::new(StatusCode::MOVED_PERMANENTLY, "application/json", bytes::Bytes::new());
        let location = format!("/openapi/v3/{}?hash={hash}", openapi::path(group, version));
        if let Ok(location) = HeaderValue::from_str(&location) {
            reply.headers.insert(header::LOCATION, location);
        }
        return Ok(reply);
    }
    let resources: Vec<_> = shown(&catalog, group, version).collect();
    if resources.is_empty() {
        return Ok(not_found());
    }
    let mut schemas = Vec::new();
    for resource in &resources {
        schemas.push(published_schema(registry, resource).await?);
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
    let mut reply = tagged(openapi::document(&served), "application/json", known);
    if asked == hash {
        reply.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        let end = registry.clock.now() + TimeDelta::days(IMMUTABLE_DAYS);
        if let Ok(end) = HeaderValue::from_str(&end.format("%a, %d %b %Y %H:%M:%S GMT").to_string()) {
            reply.headers.insert(header::EXPIRES, end);
        }
    }
    Ok(reply)
}

async fn published_schema(registry: &Registry, resource: &Resource) -> Result<Option<Value>, Failure> {
    let Strategy::Custom(custom) = &resource.strategy else { return Ok(None) };
    let key = format!("/registry/{CRD_GROUP}/{CRD_PLURAL}/{}", custom.definition);
    let Some(entry) = registry.store.get(&key).await? else { return Ok(None) };
    let mut definition = Record::read(&entry)?.value()?;
    let versions = definition.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    let version = versions.into_iter().flatten().find(|v| v["name"] == resource.version.as_str());
    Ok(version.map(|version| version["schema"]["openAPIV3Schema"].take()))
}
