//! What is served, in the formats of classic and aggregated discovery, and the version. Owns
//! those documents; must not know objects.
//!
//! Source: apiserver `pkg/endpoints/discovery`, v0.35.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::resource::{Catalog, Resource};

/// `/api`.
pub fn core_versions(host: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": host }],
    })
}

/// `/apis`.
pub fn group_list(catalog: &Catalog) -> Value {
    let groups = catalog.groups();
    // The core group has no place in this list: clients find it below `/api`.
    let groups = groups.iter().filter(|(name, _)| !name.is_empty());
    let groups: Vec<Value> = groups.map(|(name, versions)| group_entry(name, versions)).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// `/apis/{group}`; `None` when it is not served.
pub fn group(catalog: &Catalog, name: &str) -> Option<Value> {
    let groups = catalog.groups();
    let mut group = group_entry(name, groups.get(name)?);
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

fn group_entry(name: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({ "groupVersion": format!("{name}/{version}"), "version": version }))
        .collect();
    json!({ "name": name, "preferredVersion": versions.first(), "versions": versions })
}

/// `/api/v1`, `/apis/{group}/{version}`; `None` when it is not served.
pub fn resource_list(catalog: &Catalog, group: &str, version: &str) -> Option<Value> {
    let mut entries = Vec::new();
    let mut group_version = String::new();
    for resource in catalog.all().filter(|r| r.group == group && r.version == version) {
        group_version = resource.api_version();
        entries.push(resource_entry(resource));
        for sub in resource.subresources() {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, sub.name), "singularName": "",
                "namespaced": resource.namespaced, "kind": sub.kind, "verbs": sub.verbs,
            });
            // Only where it is another group's kind, such as Scale of `autoscaling`.
            if sub.group != resource.group {
                entry["group"] = sub.group.into();
                entry["version"] = sub.version.into();
            }
            entries.push(entry);
        }
    }
    if entries.is_empty() {
        return None;
    }
    let mut list = json!({ "kind": "APIResourceList", "groupVersion": group_version, "resources": entries });
    // As upstream, the list of the core group has no `apiVersion`.
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Some(list)
}

fn resource_entry(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.verbs(),
    });
    add_names(&mut entry, resource);
    if !resource.prefix.is_empty() {
        entry["storageVersionHash"] = storage_hash(resource).into();
    }
    entry
}

fn add_names(entry: &mut Value, resource: &Resource) {
    if !resource.short_names.is_empty() {
        entry["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.clone().into();
    }
}

fn storage_hash(resource: &Resource) -> String {
    let name = format!("{}/{}/{}", resource.group, resource.storage_version, resource.kind);
    let digest = Sha256::digest(name);
    // As upstream's hash, eight bytes of the digest.
    BASE64.encode(digest.get(..8).unwrap_or_default())
}

/// The aggregated document of `/api` (`core`) or `/apis`.
pub fn aggregated(catalog: &Catalog, core: bool) -> Value {
    let items: Vec<Value> = catalog
        .groups()
        .iter()
        .filter(|(name, _)| name.is_empty() == core)
        .map(|(name, versions)| {
            let metadata = if core { json!({}) } else { json!({ "name": name }) };
            let versions: Vec<Value> =
                versions.iter().map(|version| aggregated_version(catalog, name, version)).collect();
            json!({ "metadata": metadata, "versions": versions })
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    })
}

fn aggregated_version(catalog: &Catalog, group: &str, version: &str) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({ "group": group, "version": version, "kind": kind });
    let resources: Vec<Value> = catalog
        .all()
        .filter(|r| r.group == group && r.version == version)
        .map(|resource| {
            let mut entry = json!({
                "resource": resource.plural,
                "responseKind": kind(&resource.group, &resource.version, &resource.kind),
                "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": resource.singular,
                "verbs": resource.verbs(),
            });
            add_names(&mut entry, resource);
            let subresources: Vec<Value> = resource
                .subresources()
                .iter()
                .map(|sub| {
                    json!({
                        "subresource": sub.name,
                        "responseKind": kind(sub.group, sub.version, sub.kind),
                        "verbs": sub.verbs,
                    })
                })
                .collect();
            if !subresources.is_empty() {
                entry["subresources"] = subresources.into();
            }
            entry
        })
        .collect();
    json!({ "version": version, "freshness": "Current", "resources": resources })
}

/// What `/version` answers: an API server of 1.35, with capstan's own version behind it.
pub fn version() -> Value {
    json!({
        "major": "1", "minor": "35", "gitVersion": concat!("v1.35.0+capstan.", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none",
        "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// `/`: every path that answers.
pub fn paths(catalog: &Catalog) -> Value {
    let mut paths: Vec<String> =
        ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v3", "/readyz", "/version"]
            .map(str::to_owned)
            .to_vec();
    for (group, versions) in catalog.groups().iter().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.sort();
    json!({ "paths": paths })
}

/// A quoted hash, for `ETag`.
pub fn etag(text: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(text).iter().take(16).fold(String::from("\""), |mut tag, byte| {
        let _ = write!(tag, "{byte:02X}");
        tag
    }) + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_kinds_are_discovered_both_ways() {
        let catalog = Catalog::built_in();
        let core = resource_list(&catalog, "", "v1").unwrap();
        let names: Vec<&str> =
            core["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"namespaces/finalize") && names.contains(&"secrets"), "{names:?}");
        let groups = group_list(&catalog);
        assert!(groups.to_string().contains("coordination.k8s.io"));
        assert_eq!(aggregated(&catalog, true)["items"][0]["versions"][0]["version"], "v1");
        assert!(resource_list(&catalog, "nope", "v1").is_none());
        assert!(
            semver::Version::parse(version()["gitVersion"].as_str().unwrap().trim_start_matches('v')).is_ok()
        );
    }

    #[test]
    fn storage_hashes_are_upstreams() {
        let catalog = Catalog::built_in();
        // base64 of the first 8 bytes of SHA-256 of "/v1/Namespace"; kube-apiserver prints the same.
        let namespaces = catalog.find("", "v1", "namespaces").unwrap();
        assert_eq!(storage_hash(namespaces), "Q3oi5N2YM8M=");
    }
}
