//! Everything that an API server holds, as it was at one revision. Owns the lists that this takes; must not
//! know what the objects mean, nor where they go.

use std::collections::BTreeSet;

use kube::Client;
use kube::core::Request;
use kube::core::params::{ListParams, VersionMatch};
use serde_json::Value;

/// Objects in one page.
const PAGE: u32 = 500;
/// A second group with the same objects as core events.
const OTHER_EVENTS: &str = "events.k8s.io";
/// First the definitions that others need, then the namespaces that hold them.
const FIRST: [&str; 2] = ["customresourcedefinitions", "namespaces"];

/// One resource: where it is listed, and the kind of its items, which a list does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    plural: String,
    path: String,
    api_version: String,
    kind: String,
}

/// The state of a server at one revision, read page by page.
pub struct Snapshot {
    client: Client,
    resources: Vec<Listed>,
    /// As the server writes it.
    pub revision: String,
}

impl Snapshot {
    /// Finds out what there is, and chooses the current revision.
    ///
    /// # Errors
    /// Every error of the server or the connection.
    pub async fn open(client: &Client) -> Result<Self, kube::Error> {
        let mut resources = discover(client).await?;
        let rank = |plural: &str| FIRST.iter().position(|first| *first == plural).unwrap_or(FIRST.len());
        resources.sort_by_key(|listed| rank(&listed.plural));
        // Only the list's own revision is wanted, of a kind that every server has.
        let one = ListParams::default().limit(1);
        let request = Request::new("/api/v1/namespaces").list(&one).map_err(kube::Error::BuildRequest)?;
        let page: Value = client.request(request).await?;
        let revision = page["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        Ok(Self { client: client.clone(), resources, revision })
    }

    /// The next objects; none when all have been read. Definitions come first.
    ///
    /// # Errors
    /// Every error of the server or the connection; 410 when reading took longer than history is kept.
    pub async fn next(&mut self, token: &mut Option<String>) -> Result<Vec<Value>, kube::Error> {
        while let Some(listed) = self.resources.first() {
            let mut params = ListParams::default().limit(PAGE);
            params = match token.take() {
                // The token names its revision; a server refuses both together.
                Some(token) => params.continue_token(&token),
                None => params.at(&self.revision).matching(VersionMatch::Exact),
            };
            let request = Request::new(&listed.path).list(&params).map_err(kube::Error::BuildRequest)?;
            let mut page: Value = self.client.request(request).await?;
            let mut items = match page["items"].take() {
                Value::Array(items) => items,
                _ => Vec::new(),
            };
            // Servers send the items of a list without version and kind.
            for item in &mut items {
                item["apiVersion"] = listed.api_version.as_str().into();
                item["kind"] = listed.kind.as_str().into();
            }
            *token = page["metadata"]["continue"].as_str().filter(|t| !t.is_empty()).map(str::to_owned);
            if token.is_none() {
                self.resources.remove(0);
            }
            if !items.is_empty() {
                return Ok(items);
            }
        }
        Ok(Vec::new())
    }
}

/// Every resource that can be listed and created, once, in its preferred version.
async fn discover(client: &Client) -> Result<Vec<Listed>, kube::Error> {
    let mut found = Vec::new();
    let core = client.list_core_api_resources("v1").await?;
    found.extend(core.resources.iter().filter_map(|resource| listed("/api/v1", "v1", resource)));
    for group in client.list_api_groups().await?.groups {
        if group.name == OTHER_EVENTS {
            continue;
        }
        let mut seen = BTreeSet::new();
        let best = group.preferred_version.iter();
        for version in best.chain(&group.versions).map(|version| &version.group_version) {
            let base = format!("/apis/{version}");
            let served = client.list_api_group_resources(version).await?;
            let listed = served.resources.iter().filter_map(|resource| listed(&base, version, resource));
            // Other versions of a group may have resources that the preferred one lacks.
            found.extend(listed.filter(|listed| seen.insert(listed.plural.clone())));
        }
    }
    Ok(found)
}

fn listed(
    base: &str,
    api_version: &str,
    resource: &k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource,
) -> Option<Listed> {
    let can = |verb: &str| resource.verbs.iter().any(|known| known == verb);
    // What cannot be created could not be restored, such as componentstatuses or metrics.
    let whole = !resource.name.contains('/') && can("list") && can("create");
    whole.then(|| Listed {
        plural: resource.name.clone(),
        path: format!("{base}/{}", resource.name),
        api_version: api_version.to_owned(),
        kind: resource.kind.clone(),
    })
}
