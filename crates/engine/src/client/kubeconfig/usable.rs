//! What kubectl refuses of a chosen context before it connects, and what it makes of its server's address. Owns these rules;
//! must not know where the parts came from.
//!
//! Source: client-go `tools/clientcmd/validation.go` (`validateClusterInfo`, `validateAuthInfo`), `tools/clientcmd/client_config.go`
//! (`ClientConfig`, `getUserIdentificationPartialConfig`), `rest/url_utils.go` (`DefaultServerURL`), v0.32.

use std::path::Path;

use kube::config::{AuthInfo, Cluster, ExecConfig, ExecInteractiveMode};

/// Interfaces of plugins whose mode may be left out.
const MODELESS: [&str; 2] = ["client.authentication.k8s.io/v1beta1", "client.authentication.k8s.io/v1alpha1"];

/// # Errors
/// Why the cluster cannot be used.
pub(super) fn cluster(name: &str, cluster: &mut Cluster) -> Result<(), String> {
    let has_authority =
        cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
    let is_insecure = cluster.insecure_skip_tls_verify == Some(true);
    if cluster.certificate_authority.is_some() && cluster.certificate_authority_data.is_some() {
        return Err(format!(
            "cluster {name:?} has a certificate-authority and certificate-authority-data: one is allowed"
        ));
    }
    if is_insecure && has_authority {
        return Err(format!(
            "cluster {name:?} has an authority and insecure-skip-tls-verify: one is allowed"
        ));
    }
    // Opened here already, so that the message names the field and not only a path.
    if let Some(file) = &cluster.certificate_authority {
        readable(file, "certificate-authority")?;
    }
    if let Some(proxy) = &cluster.proxy_url {
        is_proxy(proxy).map_err(|reason| format!("proxy-url of cluster {name:?} {reason}"))?;
    }
    let server = cluster.server.as_deref().ok_or_else(|| format!("cluster {name:?} has no server"))?;
    cluster.server = Some(address(server)?);
    Ok(())
}

fn is_proxy(text: &str) -> Result<(), &'static str> {
    match text.split_once("://") {
        Some(("http" | "https" | "socks5", rest)) if !rest.is_empty() => Ok(()),
        Some(_) => Err("is neither http, https nor socks5"),
        None => Err("does not begin with http://, https:// or socks5://"),
    }
}

/// A host with or without a port stands for plain http, whatever says how to trust it.
fn address(server: &str) -> Result<String, String> {
    let wrong = || format!("server {server:?} is neither an address such as https://HOST:PORT nor HOST:PORT");
    let text = if server.contains("://") {
        server.to_owned()
    } else if server.trim_end_matches('/').contains('/') {
        return Err(wrong());
    } else {
        format!("http://{server}")
    };
    let parsed: http::Uri = text.parse().map_err(|_| wrong())?;
    match (parsed.scheme_str(), parsed.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(text),
        _ => Err(wrong()),
    }
}

/// Credentials go over TLS alone.
pub(super) fn is_encrypted(cluster: &Cluster) -> bool {
    let scheme =
        cluster.server.as_deref().and_then(|server| server.split_once("://")).map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))
}

/// Whom a user speaks for is not a secret: that stays, as a proxy may have more rights than its user wants.
/// Source: client-go `tools/clientcmd/client_config.go` (`ClientConfig`), v0.36.3.
pub(super) fn without_credentials(user: &AuthInfo) -> AuthInfo {
    AuthInfo {
        impersonate: user.impersonate.clone(),
        impersonate_groups: user.impersonate_groups.clone(),
        impersonate_uid: user.impersonate_uid.clone(),
        impersonate_user_extra: user.impersonate_user_extra.clone(),
        ..AuthInfo::default()
    }
}

/// # Errors
/// Why the user cannot be used.
pub(super) fn user(name: &str, user: &mut AuthInfo) -> Result<(), String> {
    let is_basic = user.username.is_some() || user.password.is_some();
    if is_basic && user.token.is_some() {
        return Err(format!("user {name:?} has a token and a password: one is allowed"));
    }
    if is_basic {
        // kube sends a name and a password only where both are set, client-go also one alone.
        user.username.get_or_insert_default();
        user.password.get_or_insert_with(|| String::new().into());
    }
    certificate(name, user)?;
    if let Some(exec) = &mut user.exec {
        if user.auth_provider.is_some() {
            return Err(format!("user {name:?} has an exec plugin and an auth-provider: one is allowed"));
        }
        plugin(name, exec)?;
    }
    let has_more = user.impersonate_groups.as_ref().is_some_and(|groups| !groups.is_empty())
        || user.impersonate_uid.is_some()
        || user.impersonate_user_extra.as_ref().is_some_and(|extra| !extra.is_empty());
    if has_more && user.impersonate.is_none() {
        return Err(format!("user {name:?} has as-groups, as-uid or as-user-extra without `as`"));
    }
    Ok(())
}

fn certificate(name: &str, user: &mut AuthInfo) -> Result<(), String> {
    if user.client_certificate.is_none() && user.client_certificate_data.is_none() {
        // A key alone is not a way to log in.
        (user.client_key, user.client_key_data) = (None, None);
        return Ok(());
    }
    if user.client_certificate.is_some() && user.client_certificate_data.is_some() {
        return Err(format!(
            "user {name:?} has a client-certificate and client-certificate-data: one is allowed"
        ));
    }
    if user.client_key.is_some() && user.client_key_data.is_some() {
        return Err(format!("user {name:?} has a client-key and client-key-data: one is allowed"));
    }
    if user.client_key.is_none() && user.client_key_data.is_none() {
        return Err(format!("user {name:?} has a client certificate without its key"));
    }
    for (file, field) in [(&user.client_certificate, "client-certificate"), (&user.client_key, "client-key")]
    {
        if let Some(file) = file {
            readable(file, field)?;
        }
    }
    Ok(())
}

fn plugin(name: &str, exec: &mut ExecConfig) -> Result<(), String> {
    let is_set = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    if !is_set(&exec.command) {
        return Err(format!("the exec plugin of user {name:?} has no command"));
    }
    if !is_set(&exec.api_version) {
        return Err(format!("the exec plugin of user {name:?} has no apiVersion"));
    }
    let is_named =
        |pair: &std::collections::HashMap<String, String>| pair.get("name").is_some_and(|n| !n.is_empty());
    if !exec.env.iter().flatten().all(is_named) {
        return Err(format!("the exec plugin of user {name:?} has a variable without a name"));
    }
    if exec.interactive_mode.is_none() {
        let version = exec.api_version.as_deref().unwrap_or_default();
        if !MODELESS.contains(&version) {
            return Err(format!("the exec plugin of user {name:?} has no interactiveMode"));
        }
        // client-go's default for the versions that came before the field.
        exec.interactive_mode = Some(ExecInteractiveMode::IfAvailable);
    }
    Ok(())
}

fn readable(file: &str, field: &str) -> Result<(), String> {
    std::fs::File::open(Path::new(file))
        .map(drop)
        .map_err(|error| format!("{field} {file} cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_kubectl() {
        for (server, expected) in [
            ("https://a:6443", Some("https://a:6443")),
            ("https://a/k8s/clusters/c", Some("https://a/k8s/clusters/c")),
            ("http://a:8080/", Some("http://a:8080/")),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080")),
            ("a", Some("http://a")),
            ("a/", Some("http://a/")),
            ("[::1]:8080", Some("http://[::1]:8080")),
            ("a:8080/path", None),
            ("ftp://a", None),
            ("https://", None),
            ("a b", None),
        ] {
            assert_eq!(address(server).ok().as_deref(), expected, "{server}");
        }
    }
}
