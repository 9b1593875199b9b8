//! Which kinds the server has, and in which version they are read. Owns discovery, one request per
//! group and version; must not know what the kinds mean beyond the version rule.
//!
//! The version rule: `v1beta2` where the group serves it, else the group's preferred version, else
//! any that has the kind. (Upstream reads the contract labels of the CRD; few operators have the right to
//! read CRDs, so discovery is used here.)

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResource};
use kube::Client;
use tokio::sync::Mutex;

use capi_types::key::Gvk;
use capi_types::names::VERSION;

/// Why a kind cannot be read.
#[derive(Debug)]
pub enum Missing {
    /// The server answered: it has no such kind.
    NotServed(String),
    Unreachable(kube::Error),
}

/// The answers of discovery so far. A second look-up costs nothing.
pub struct Catalog {
    client: Client,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    groups: Option<Arc<Vec<APIGroup>>>,
    resources: BTreeMap<String, Arc<Vec<APIResource>>>,
}

impl Catalog {
    pub fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// The kind in the version it is read in. What was found is remembered; what was not is forgotten,
    /// so that definitions installed later are found.
    ///
    /// # Errors
    /// [`Missing`].
    pub async fn resolve(&self, group: &str, kind: &str) -> Result<Gvk, Missing> {
        let mut known = self.known.lock().await;
        let found = self.look(&mut known, group, kind).await;
        if matches!(found, Err(Missing::NotServed(_))) {
            *known = Known::default();
        }
        found
    }

    async fn look(&self, known: &mut Known, group: &str, kind: &str) -> Result<Gvk, Missing> {
        if group.is_empty() {
            return self.look_in(known, "", "v1", kind).await?.ok_or_else(|| not_served(group, kind));
        }
        let groups = match &known.groups {
            Some(groups) => groups.clone(),
            None => {
                let list = self.client.list_api_groups().await.map_err(Missing::Unreachable)?;
                known.groups.insert(Arc::new(list.groups)).clone()
            }
        };
        let Some(served) = groups.iter().find(|g| g.name == group) else {
            return Err(not_served(group, kind));
        };
        for version in by_preference(served) {
            if let Some(gvk) = self.look_in(known, group, &version, kind).await? {
                return Ok(gvk);
            }
        }
        Err(not_served(group, kind))
    }

    async fn look_in(
        &self,
        known: &mut Known,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Result<Option<Gvk>, Missing> {
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let resources = match known.resources.get(&api_version) {
            Some(resources) => resources.clone(),
            None => {
                let list = if group.is_empty() {
                    self.client.list_core_api_resources(version).await
                } else {
                    self.client.list_api_group_resources(&api_version).await
                };
                let list = Arc::new(list.map_err(Missing::Unreachable)?.resources);
                known.resources.insert(api_version, list.clone());
                list
            }
        };
        let resource = resources.iter().find(|r| r.kind == kind && !r.name.contains('/'));
        Ok(resource.map(|r| Gvk {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: r.name.clone(),
            namespaced: r.namespaced,
        }))
    }
}

fn by_preference(group: &APIGroup) -> Vec<String> {
    let mut versions: Vec<String> = group.versions.iter().map(|v| v.version.clone()).collect();
    let preferred = group.preferred_version.as_ref().map(|v| v.version.as_str());
    versions.sort_by_key(|v| (v != VERSION, Some(v.as_str()) != preferred));
    versions
}

fn not_served(group: &str, kind: &str) -> Missing {
    let of = if group.is_empty() { String::new() } else { format!(" of {group}") };
    Missing::NotServed(format!(
        "the server has no kind {kind}{of}: check that Cluster API and the provider are installed there"
    ))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::GroupVersionForDiscovery as Version;

    use super::*;

    #[test]
    fn the_version_we_read_comes_first_then_the_preferred_one() {
        let version = |v: &str| Version { group_version: format!("x/{v}"), version: v.to_owned() };
        let group = APIGroup {
            name: "x".to_owned(),
            preferred_version: Some(version("v1beta1")),
            versions: vec![version("v1alpha1"), version("v1beta1"), version("v1beta2")],
            ..APIGroup::default()
        };
        assert_eq!(by_preference(&group), ["v1beta2", "v1beta1", "v1alpha1"]);
    }
}
