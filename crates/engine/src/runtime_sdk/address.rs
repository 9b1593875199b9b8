//! From the client configuration of an ExtensionConfig to addresses of its hooks. Must not know how a call travels.
//! Source: cluster-api `internal/runtime/client/client.go` (`urlForExtension`), v1.14.2.

use http::Uri;

use capi_types::extension_config::{ClientConfig, ServiceReference};
use capi_types::hook::Hook;

/// The address of a hook, and of a handler where the hook has any; `timeout_s` is part of it, as upstream has it.
///
/// # Errors
/// What is wrong with the client configuration.
pub fn of(config: &ClientConfig, hook: Hook, handler: Option<&str>, timeout_s: u64) -> Result<Uri, String> {
    let (authority, path, query) = match (&config.service, &config.url) {
        (Some(service), _) if !service.name.is_empty() => of_service(service),
        (_, Some(url)) if !url.is_empty() => of_url(url)?,
        _ => return Err(problem("at least one of service and url should be defined in config")),
    };
    let path = joined(&path, &hook.path(handler));
    let query = query.map(|query| format!("{query}&")).unwrap_or_default();
    let text = format!("{path}?{query}timeout={timeout_s}s");
    let uri = Uri::builder().scheme("https").authority(authority).path_and_query(text).build();
    uri.map_err(|error| problem(&error.to_string()))
}

fn problem(why: &str) -> String {
    format!("failed to compute URL: {why}")
}

/// Authority, path, and query.
type Parts = (String, String, Option<String>);

fn of_service(service: &ServiceReference) -> Parts {
    let host = format!("{}.{}.svc", service.name, service.namespace);
    let authority = service.port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
    (authority, service.path.clone().unwrap_or_default(), None)
}

fn of_url(url: &str) -> Result<Parts, String> {
    let uri: Uri =
        url.parse().map_err(|error| problem(&format!("failed to parse url from clientConfig: {error}")))?;
    if uri.scheme_str() != Some("https") {
        let scheme = uri.scheme_str().unwrap_or_default();
        return Err(problem(&format!("expected https scheme, got {scheme}")));
    }
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    if authority.contains('@') {
        return Err(problem("a user name or password in the url is not accepted"));
    }
    Ok((authority, uri.path().to_owned(), uri.query().map(str::to_owned)))
}

/// Both paths as one, without empty, `.` and `..` elements. Source: Go `path.Join`.
fn joined(prefix: &str, path: &str) -> String {
    let mut elements = Vec::new();
    for element in prefix.split('/').chain(path.split('/')) {
        match element {
            "" | "." => {}
            ".." => drop(elements.pop()),
            other => elements.push(other),
        }
    }
    format!("/{}", elements.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_urls_and_services() {
        let hook = "hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/u?timeout=5s";
        let url = |url: &str| ClientConfig { url: Some(url.to_owned()), ..ClientConfig::default() };
        let service = |path: Option<&str>, port| ClientConfig {
            service: Some(ServiceReference {
                name: "ext".to_owned(),
                namespace: "ns".to_owned(),
                path: path.map(str::to_owned),
                port,
            }),
            ..ClientConfig::default()
        };
        let table: Vec<(ClientConfig, Result<String, &str>)> = vec![
            (url("https://host"), Ok(format!("https://host/{hook}"))),
            (url("https://host:9443/"), Ok(format!("https://host:9443/{hook}"))),
            (url("https://127.0.0.1:1/a//b/../c/"), Ok(format!("https://127.0.0.1:1/a/c/{hook}"))),
            (url("https://[::1]:9443/a"), Ok(format!("https://[::1]:9443/a/{hook}"))),
            (url("https://host/a?b=c"), Ok(format!("https://host/a/{}", hook.replace("?", "?b=c&")))),
            (service(None, None), Ok(format!("https://ext.ns.svc/{hook}"))),
            (service(Some("/a"), Some(443)), Ok(format!("https://ext.ns.svc:443/a/{hook}"))),
            (url("http://host"), Err("expected https scheme, got http")),
            (url("/path"), Err("expected https scheme, got ")),
            (url("https://user:secret@host"), Err("is not accepted")),
            (url("https://ho st"), Err("failed to parse url")),
            (ClientConfig::default(), Err("at least one of service and url")),
        ];
        for (config, expected) in table {
            match (of(&config, Hook::UpdateMachine, Some("u"), 5), expected) {
                (Ok(uri), Ok(text)) => assert_eq!(uri.to_string(), text),
                (Err(why), Err(words)) => assert!(why.contains(words), "{why} for {config:?}"),
                (outcome, expected) => panic!("{outcome:?} instead of {expected:?} for {config:?}"),
            }
        }
    }
}
