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
use capstan_base::text::did_you_mean;

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

impl Known {
    /// By which kinds are called, as far as they were read.
    fn names(&self) -> impl Iterator<Item = &str> {
        let resources = self.resources.values().flat_map(|resources| resources.iter());
        let whole = resources.filter(|resource| !resource.name.contains('/'));
        whole.flat_map(|resource| {
            let short = resource.short_names.iter().flatten();
            [&resource.name, &resource.singular_name]
                .into_iter()
                .chain(short)
                .map(String::as_str)
                .filter(|name| !name.is_empty())
        })
    }
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
        // Held over the requests: of many look-ups at once one sends them.
        let mut known = self.known.lock().await;
        let found = self.look(&mut known, group, kind).await;
        if matches!(found, Err(Missing::NotServed(_))) {
            *known = Known::default();
        }
        found
    }

    /// Does the server have anything of the group? Nothing that was found before is forgotten for it.
    ///
    /// # Errors
    /// The server does not say.
    pub async fn has_group(&self, group: &str) -> Result<bool, kube::Error> {
        let mut known = self.known.lock().await;
        match self.groups(&mut known).await {
            Ok(groups) => Ok(groups.iter().any(|served| served.name == group)),
            Err(Missing::Unreachable(error)) => Err(error),
            Err(Missing::NotServed(_)) => Ok(false),
        }
    }

    /// The kind that a person names by plural, singular, short name or kind, with the group or its beginning behind a dot. Of
    /// several the one whose group comes first in discovery counts, as kubectl has it.
    ///
    /// # Errors
    /// [`Missing`].
    pub async fn named(&self, typed: &str) -> Result<Gvk, Missing> {
        let wanted = typed.to_ascii_lowercase();
        let (word, group) = wanted.split_once('.').unwrap_or((&wanted, ""));
        let mut known = self.known.lock().await;
        // Discovery lists the core group apart from the others, and kubectl looks there first.
        if group.is_empty() {
            let resources = self.resources(&mut known, "", "v1").await?;
            if let Some(resource) = resources.iter().find(|resource| is_called(resource, word)) {
                return Ok(gvk_of("", "v1", resource));
            }
        }
        let groups = self.groups(&mut known).await?;
        let is_wanted =
            |name: &str| group.is_empty() || name == group || name.starts_with(&format!("{group}."));
        // One group whose own server is away keeps no other kind away, as with kubectl.
        let mut unread = None;
        for served in groups.iter().filter(|served| is_wanted(&served.name)) {
            for version in by_preference(served) {
                let resources = match self.resources(&mut known, &served.name, &version).await {
                    Ok(resources) => resources,
                    Err(why) => {
                        unread.get_or_insert(why);
                        continue;
                    }
                };
                if let Some(resource) = resources.iter().find(|resource| is_called(resource, word)) {
                    return Ok(gvk_of(&served.name, &version, resource));
                }
            }
        }
        let hint = did_you_mean(word, known.names());
        // A kind that is missing may be installed later: the next look reads discovery anew.
        *known = Known::default();
        let nowhere = || Missing::NotServed(format!("the server has no kind that is called `{typed}`{hint}"));
        Err(unread.unwrap_or_else(nowhere))
    }

    async fn groups(&self, known: &mut Known) -> Result<Arc<Vec<APIGroup>>, Missing> {
        if let Some(groups) = &known.groups {
            return Ok(groups.clone());
        }
        let list = self.client.list_api_groups().await.map_err(Missing::Unreachable)?;
        Ok(known.groups.insert(Arc::new(list.groups)).clone())
    }

    async fn look(&self, known: &mut Known, group: &str, kind: &str) -> Result<Gvk, Missing> {
        // The core group is not among those that discovery lists by name.
        if group.is_empty() {
            return self.look_in(known, "", "v1", kind).await?.ok_or_else(|| not_served(group, kind));
        }
        let groups = self.groups(known).await?;
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
        let resources = self.resources(known, group, version).await?;
        // Subresources carry the kind of their resource, too.
        let resource = resources.iter().find(|r| r.kind == kind && !r.name.contains('/'));
        Ok(resource.map(|resource| gvk_of(group, version, resource)))
    }

    async fn resources(
        &self,
        known: &mut Known,
        group: &str,
        version: &str,
    ) -> Result<Arc<Vec<APIResource>>, Missing> {
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        if let Some(resources) = known.resources.get(&api_version) {
            return Ok(resources.clone());
        }
        let list = if group.is_empty() {
            self.client.list_core_api_resources(version).await
        } else {
            self.client.list_api_group_resources(&api_version).await
        };
        let list = Arc::new(list.map_err(Missing::Unreachable)?.resources);
        known.resources.insert(api_version, list.clone());
        Ok(list)
    }
}

fn gvk_of(group: &str, version: &str, resource: &APIResource) -> Gvk {
    Gvk {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: resource.kind.clone(),
        plural: resource.name.clone(),
        namespaced: resource.namespaced,
    }
}

/// Does a person mean this resource by `word`, in small letters? Subresources have no names of their own.
fn is_called(resource: &APIResource, word: &str) -> bool {
    let short = resource.short_names.iter().flatten();
    let names = [&resource.name, &resource.singular_name].into_iter().chain(short);
    !resource.name.contains('/')
        && (names.into_iter().any(|name| name == word) || resource.kind.eq_ignore_ascii_case(word))
}

fn by_preference(group: &APIGroup) -> Vec<String> {
    let mut versions: Vec<String> = group.versions.iter().map(|v| v.version.clone()).collect();
    let preferred = group.preferred_version.as_ref().map(|v| v.version.as_str());
    // The sort is stable: the rest stays in the order in which the server lists it.
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

    #[test]
    fn a_resource_is_called_by_each_of_its_names() {
        let resource = |name: &str| APIResource {
            name: name.to_owned(),
            singular_name: "rke2controlplane".to_owned(),
            short_names: Some(vec!["rke2cp".to_owned()]),
            kind: "RKE2ControlPlane".to_owned(),
            ..APIResource::default()
        };
        let whole = resource("rke2controlplanes");
        for word in ["rke2controlplanes", "rke2controlplane", "rke2cp"] {
            assert!(is_called(&whole, word), "{word}");
            assert!(!is_called(&resource("rke2controlplanes/status"), word), "{word}");
        }
        assert!(!is_called(&whole, "rke2"));
    }
}
