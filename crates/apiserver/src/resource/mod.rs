//! The served kinds as data: names, scope, subresources, where they are kept. Owns the catalog and
//! the table of built-in kinds; must not know requests.

mod cluster_kinds;
mod config_data;
pub mod crds;
pub mod custom;
mod events;
pub mod scale;
pub mod strategy;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::cluster_kinds::RBAC_GROUP;
use self::strategy::{Review, Strategy};
use crate::table::Columns;

pub const CRD_GROUP: &str = "apiextensions.k8s.io";
pub const CRD_PLURAL: &str = "customresourcedefinitions";

/// One resource in one served version.
#[derive(Debug)]
pub struct Resource {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// The version objects are stored as; equal for all versions of a resource.
    pub storage_version: String,
    /// Keys start with this; ends in `/`.
    pub prefix: String,
    pub has_status: bool,
    pub scale: Option<ScalePaths>,
    pub strategy: Strategy,
    pub columns: Columns,
    /// Said in a warning header with every request.
    pub deprecation: Option<String>,
    /// Its definition is being deleted: nothing may be created.
    pub terminating: bool,
}

/// Where a custom resource keeps what `autoscaling/v1` Scale shows, as JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub selector: Option<String>,
}

impl Resource {
    /// `group/version`, or the version alone in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The key of one object. `namespace` is ignored for cluster-scoped resources.
    pub fn key(&self, namespace: &str, name: &str) -> capstan_store::Key {
        if self.namespaced {
            format!("{}{namespace}/{name}", self.prefix)
        } else {
            format!("{}{name}", self.prefix)
        }
        .into()
    }

    /// Keys of a namespace, or of all when it is empty.
    pub fn range_prefix(&self, namespace: &str) -> String {
        if self.namespaced && !namespace.is_empty() {
            format!("{}{namespace}/", self.prefix)
        } else {
            self.prefix.clone()
        }
    }

    pub fn is_custom(&self) -> bool {
        matches!(self.strategy, Strategy::Custom(_))
    }

    pub fn verbs(&self) -> &'static [&'static str] {
        match self.strategy {
            Strategy::Review(_) => &["create"],
            // Upstream's storage of namespaces deletes no collections.
            Strategy::Namespace => &["create", "delete", "get", "list", "patch", "update", "watch"],
            _ if self.terminating => &["delete", "deletecollection", "get", "list", "watch"],
            _ => &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        }
    }

    /// Subresources with the kind they speak.
    pub fn subresources(&self) -> Vec<Subresource<'_>> {
        let own = |name, verbs| Subresource {
            name,
            group: &self.group,
            version: &self.version,
            kind: &self.kind,
            verbs,
        };
        let mut all = Vec::new();
        if matches!(self.strategy, Strategy::Namespace) {
            all.push(own("finalize", &["update"]));
        }
        if self.scale.is_some() {
            let (group, version, kind) = ("autoscaling", "v1", "Scale");
            all.push(Subresource { name: "scale", group, version, kind, verbs: &["get", "patch", "update"] });
        }
        if self.has_status {
            all.push(own("status", &["get", "patch", "update"]));
        }
        all
    }
}

/// One subresource as discovery lists it.
#[derive(Clone, Copy, Debug)]
pub struct Subresource<'a> {
    pub name: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub verbs: &'static [&'static str],
}

/// Everything served at one moment. Replaced as a whole when a definition changes.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Group and plural to the served versions, best first.
    resources: BTreeMap<(String, String), Vec<Arc<Resource>>>,
    /// Storage prefix to the resource in its storage version (or best served one).
    prefixes: BTreeMap<String, Arc<Resource>>,
    /// Names that definitions hold in their group, by definition; also of those that are not served.
    held: BTreeMap<String, HeldNames>,
}

/// See [`Catalog::hold`].
#[derive(Clone, Debug)]
struct HeldNames {
    group: String,
    /// Plurals, singulars and short names share one space.
    resources: Vec<String>,
    kinds: Vec<String>,
}

impl Catalog {
    /// The built-in kinds.
    pub fn built_in() -> Self {
        let mut catalog = Self::default();
        for resource in built_in() {
            catalog.insert(vec![Arc::new(resource)]);
        }
        catalog
    }

    /// The built-in kinds, and those of a cluster that has nodes.
    pub fn of_nodes() -> Self {
        let mut catalog = Self::built_in();
        for resource in cluster_kinds::of_nodes() {
            catalog.insert(vec![Arc::new(resource)]);
        }
        catalog
    }

    /// Adds or replaces one resource in all its served versions.
    pub fn insert(&mut self, mut versions: Vec<Arc<Resource>>) {
        versions.sort_by(|a, b| compare_versions(&a.version, &b.version));
        let Some(first) = versions.first() else { return };
        // The storage version need not be served; the best one that is stands for it then.
        let stored = versions.iter().find(|r| r.version == r.storage_version).unwrap_or(first).clone();
        let key = (first.group.clone(), first.plural.clone());
        // Events are one storage under two groups, named by the first. Reviews are stored nowhere.
        let taken = self.prefixes.get(&stored.prefix).is_some_and(|other| other.group != stored.group);
        if !taken && !stored.prefix.is_empty() {
            self.prefixes.insert(stored.prefix.clone(), stored);
        }
        self.resources.insert(key, versions);
    }

    /// Removes what the definition of this name made served.
    pub fn remove(&mut self, group: &str, plural: &str, definition: &str) {
        let key = (group.to_owned(), plural.to_owned());
        let defined = |r: &Arc<Resource>| matches!(&r.strategy, Strategy::Custom(custom) if custom.definition == definition);
        if !self.resources.get(&key).is_some_and(|versions| versions.iter().all(defined)) {
            // Another definition may have these names by now.
            return;
        }
        for resource in self.resources.remove(&key).into_iter().flatten() {
            self.prefixes.remove(&resource.prefix);
        }
    }

    /// Notes the names that a definition holds in `group`: of resources, and of kinds.
    pub fn hold(&mut self, definition: &str, group: &str, (resources, kinds): (Vec<String>, Vec<String>)) {
        let names = HeldNames { group: group.to_owned(), resources, kinds };
        self.held.insert(definition.to_owned(), names);
    }

    /// Frees the names of a definition.
    pub fn free(&mut self, definition: &str) {
        self.held.remove(definition);
    }

    /// Has another definition in the group a resource, singular or short name of this name?
    pub fn has_name(&self, group: &str, name: &str, definition: &str) -> bool {
        self.held_by_others(group, definition).any(|held| held.resources.iter().any(|n| n == name))
    }

    /// Has another definition in the group this kind or list kind?
    pub fn has_kind(&self, group: &str, name: &str, definition: &str) -> bool {
        self.held_by_others(group, definition).any(|held| held.kinds.iter().any(|n| n == name))
    }

    /// A definition is not in its own way: an earlier one of the same name is gone when this one is made.
    fn held_by_others(&self, group: &str, definition: &str) -> impl Iterator<Item = &HeldNames> {
        let others = self.held.iter().filter(move |(name, _)| *name != definition);
        others.map(|(_, held)| held).filter(move |held| held.group == group)
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let versions = self.resources.get(&(group.to_owned(), plural.to_owned()))?;
        versions.iter().find(|resource| resource.version == version)
    }

    /// In how many versions a resource is served.
    pub fn versions(&self, group: &str, plural: &str) -> usize {
        self.resources.get(&(group.to_owned(), plural.to_owned())).map_or(0, Vec::len)
    }

    /// The resource whose objects have this key.
    pub fn of_key(&self, key: &str) -> Option<&Arc<Resource>> {
        // A built-in kind has one part behind `/registry/`, a custom one has group and plural.
        let mut slashes = key.match_indices('/').map(|(at, _)| at + 1).skip(2);
        let ends = [slashes.next()?, slashes.next().unwrap_or(0)];
        ends.iter().find_map(|end| self.prefixes.get(&key[..*end]))
    }

    /// Is this kind served in any version? Owner references name kinds, not resources.
    pub fn serves_kind(&self, group: &str, kind: &str) -> bool {
        self.all().any(|resource| resource.group == group && resource.kind == kind)
    }

    /// Every resource in every served version, ordered by group, plural, best version first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values().flatten()
    }

    /// Each stored resource once.
    pub fn stored(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.prefixes.values()
    }

    /// Groups with their versions, best first. The core group is the empty one.
    pub fn groups(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for resource in self.all() {
            let versions = groups.entry(&resource.group).or_default();
            if !versions.contains(&resource.version.as_str()) {
                versions.push(&resource.version);
            }
        }
        // Kinds of one group may have different versions, so the order in which they came means
        // nothing.
        groups.values_mut().for_each(|versions| versions.sort_by(|a, b| compare_versions(a, b)));
        groups
    }
}

/// Kube-aware order, best first: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then anything else
/// by text. Source: apimachinery `pkg/version/helpers.go`, `CompareKubeAwareVersionStrings`, v0.35.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (version_rank(a), version_rank(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability (2 stable, 1 beta, 0 alpha), major, minor.
fn version_rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    for (word, stability) in [("alpha", 0), ("beta", 1)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stability, major.parse().ok()?, minor.parse().ok()?));
        }
    }
    Some((2, rest.parse().ok()?, 0))
}

fn built_in() -> Vec<Resource> {
    let plain = |kind: &str, strategy| kind_of("", kind, strategy);
    let cluster = |resource: Resource| Resource { namespaced: false, ..resource };
    let with_status = |resource: Resource| Resource { has_status: true, ..resource };
    let short = |names: &[&str], resource: Resource| Resource {
        short_names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..resource
    };
    let at =
        |prefix: &str, resource: Resource| Resource { prefix: format!("/registry/{prefix}/"), ..resource };
    vec![
        short(&["ns"], cluster(with_status(plain("Namespace", Strategy::Namespace)))),
        // Nodes were called so before v1, and kube-apiserver keeps them under this word still.
        short(&["no"], at("minions", cluster(with_status(plain("Node", Strategy::Node))))),
        plain("Secret", Strategy::Secret),
        short(&["cm"], plain("ConfigMap", Strategy::ConfigMap)),
        short(&["ev"], plain("Event", Strategy::Event)),
        short(&["ev"], kind_of("events.k8s.io", "Event", Strategy::Event)),
        kind_of("coordination.k8s.io", "Lease", Strategy::Lease),
        Resource {
            categories: vec!["api-extensions".to_owned()],
            prefix: format!("/registry/{CRD_GROUP}/{CRD_PLURAL}/"),
            ..short(
                &["crd", "crds"],
                cluster(with_status(kind_of(CRD_GROUP, "CustomResourceDefinition", Strategy::Definition))),
            )
        },
        review("authorization.k8s.io", "SelfSubjectAccessReview", Review::Access),
        review("authorization.k8s.io", "SelfSubjectRulesReview", Review::Rules),
        review("authentication.k8s.io", "SelfSubjectReview", Review::Identity),
    ]
}

/// A question that is answered and not stored.
fn review(group: &str, kind: &str, review: Review) -> Resource {
    Resource { namespaced: false, prefix: String::new(), ..kind_of(group, kind, Strategy::Review(review)) }
}

/// A namespaced kind of version `v1` with regular names, kept as kube-apiserver keeps built-in kinds:
/// without the group in the key.
fn kind_of(group: &str, kind: &str, strategy: Strategy) -> Resource {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    Resource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        storage_version: "v1".to_owned(),
        prefix: format!("/registry/{plural}/"),
        has_status: false,
        scale: None,
        columns: Columns::native(group, kind),
        strategy,
        deprecation: None,
        terminating: false,
        singular,
        plural,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_as_kubernetes_sorts_them() {
        let mut versions =
            ["foo10", "v1alpha3", "v1beta1", "v2", "v1beta2", "v1", "foo1", "v11alpha2", "v10"];
        versions.sort_by(|a, b| compare_versions(a, b));
        let best_first = ["v10", "v2", "v1", "v1beta2", "v1beta1", "v11alpha2", "v1alpha3", "foo1", "foo10"];
        assert_eq!(versions, best_first);
    }

    #[test]
    fn keys_lead_back_to_their_resource() {
        let catalog = Catalog::built_in();
        for (key, kind) in [
            ("/registry/secrets/ns/a", Some("Secret")),
            ("/registry/namespaces/a", Some("Namespace")),
            ("/registry/minions/a", Some("Node")),
            (
                "/registry/apiextensions.k8s.io/customresourcedefinitions/a.b",
                Some("CustomResourceDefinition"),
            ),
            ("/registry/g.io/things/ns/a", None),
        ] {
            assert_eq!(catalog.of_key(key).map(|r| r.kind.as_str()), kind, "{key}");
        }
        assert_eq!(catalog.of_key("/registry/events/ns/a").map(|r| r.group.as_str()), Some(""));
    }
}
