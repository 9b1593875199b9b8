//! Method, path and query to one route. Owns the URL grammar; must not know which resources exist.
//!
//! Source: apiserver `pkg/endpoints/request/requestinfo.go`, v0.35.

use http::{Method, Uri};
use percent_encoding::percent_decode_str;

use super::options::Query;
use crate::failure::Failure;

/// What is to be done, in the words of authorisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// Which resource, and what of it. Empty text: not in the path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub plural: String,
    pub name: String,
    pub subresource: String,
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    Resource(Verb, Target),
    /// Anything that is not a resource: discovery, OpenAPI, health. The path without slashes at its ends.
    Other(String),
}

/// Sends a request on its way.
///
/// # Errors
/// 405 for a method that no resource knows.
pub fn route(method: &Method, uri: &Uri, query: &Query) -> Result<Route, Failure> {
    let decode = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
    let path = uri.path().trim_matches('/');
    // Splitting comes before decoding: an encoded slash is part of a name.
    let parts: Vec<String> = path.split('/').map(decode).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return Ok(Route::Other(path.to_owned())),
    };
    // A watch was part of the path before it was a parameter, and upstream still takes that.
    let (rest, watched) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (rest, true),
        _ => (rest, false),
    };
    let mut target = Target { group: group.into(), version: version.into(), ..Target::default() };
    let rest = match rest {
        // The namespace itself, or one of its subresources.
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => rest,
        ["namespaces", namespace, rest @ ..] => {
            target.namespace = (*namespace).to_owned();
            rest
        }
        _ => rest,
    };
    let mut rest = rest.iter().map(|part| (*part).to_owned());
    target.plural = rest.next().unwrap_or_default();
    target.name = rest.next().unwrap_or_default();
    target.subresource = rest.collect::<Vec<_>>().join("/");
    let verb = verb(method, &target, watched || query.truthy("watch"))?;
    Ok(Route::Resource(verb, target))
}

fn verb(method: &Method, target: &Target, watched: bool) -> Result<Verb, Failure> {
    let named = !target.name.is_empty();
    Ok(match (method, named) {
        // A name wins over `watch`: the one object is answered.
        (&Method::GET | &Method::HEAD, true) => Verb::Get,
        (&Method::GET | &Method::HEAD, false) if watched => Verb::Watch,
        (&Method::GET | &Method::HEAD, false) => Verb::List,
        (&Method::POST, _) => Verb::Create,
        (&Method::PUT, _) => Verb::Update,
        (&Method::PATCH, _) => Verb::Patch,
        (&Method::DELETE, true) => Verb::Delete,
        (&Method::DELETE, false) => Verb::DeleteCollection,
        _ => return Err(Failure::method_not_allowed(&target.group, &target.plural, method.as_str())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(method: &Method, uri: &str) -> String {
        let uri: Uri = uri.parse().unwrap();
        match route(method, &uri, &Query::parse(&uri)) {
            Ok(Route::Other(path)) => format!("other {path}"),
            Ok(Route::Resource(verb, t)) => format!(
                "{} {}|{}|{}|{}|{}|{}",
                verb.word(),
                t.group,
                t.version,
                t.namespace,
                t.plural,
                t.name,
                t.subresource
            ),
            Err(failure) => failure.code().to_string(),
        }
    }

    #[test]
    fn paths_become_requests() {
        for (method, uri, expected) in [
            (Method::GET, "/", "other "),
            (Method::GET, "/healthz/", "other healthz"),
            (Method::GET, "/api/v1", "other api/v1"),
            (Method::GET, "/apis/g.io/v1", "other apis/g.io/v1"),
            (Method::GET, "/api/v1/secrets", "list |v1||secrets||"),
            (Method::GET, "/api/v1/namespaces", "list |v1||namespaces||"),
            (Method::GET, "/api/v1/namespaces/a", "get |v1||namespaces|a|"),
            (Method::PUT, "/api/v1/namespaces/a/finalize", "update |v1||namespaces|a|finalize"),
            (Method::GET, "/api/v1/namespaces/a/secrets?watch", "watch |v1|a|secrets||"),
            (Method::GET, "/api/v1/namespaces/a/secrets/b?watch=1", "get |v1|a|secrets|b|"),
            (Method::GET, "/api/v1/watch/namespaces/a/secrets", "watch |v1|a|secrets||"),
            (Method::GET, "/apis/g.io/v1/things?watch=False", "list g.io|v1||things||"),
            (Method::PATCH, "/apis/g.io/v1/namespaces/n/things/x/scale", "patch g.io|v1|n|things|x|scale"),
            (Method::DELETE, "/apis/g.io/v1/namespaces/n/things", "deletecollection g.io|v1|n|things||"),
            (Method::POST, "/apis/g.io/v1/things/a%2Fb", "create g.io|v1||things|a/b|"),
            (Method::OPTIONS, "/api/v1/secrets", "405"),
        ] {
            assert_eq!(routed(&method, uri), expected, "{method} {uri}");
        }
    }
}
