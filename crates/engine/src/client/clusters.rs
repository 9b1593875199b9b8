//! The objects of one cluster, or of all clusters of a namespace, as they are now, and the extensions that may have a say:
//! one list per kind, however many Machines there are. Owns which kinds are listed, and how many at most; must not know what the objects
//! mean.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::catalog::{Catalog, Missing};
use super::read::{get_value, list_values};
use super::{Connection, explain};
use capi_types::key::{Gvk, ObjectKey, ObjectRef, group_of};
use capi_types::names::{
    BOOTSTRAP_GROUP, CONTROL_PLANE_GROUP, CORE_GROUP, OLDER_VERSION, RUNTIME_GROUP, VERSION, label,
};

/// Lists for one cluster at most.
const LISTS_MAX: usize = 14;

/// Kinds that are always read; `true`: its objects carry the label of their cluster.
const ALWAYS: [(&str, &str, bool); 8] = [
    (CORE_GROUP, "Cluster", false),
    (CONTROL_PLANE_GROUP, "KubeadmControlPlane", false),
    (CORE_GROUP, "MachineDeployment", true),
    (CORE_GROUP, "MachineSet", true),
    (CORE_GROUP, "MachinePool", true),
    (CORE_GROUP, "Machine", true),
    (CORE_GROUP, "MachineHealthCheck", true),
    (BOOTSTRAP_GROUP, "KubeadmConfig", true),
];

/// Kinds that say what stands around an object.
const AROUND: [&str; 4] = ["Cluster", "KubeadmControlPlane", "Machine", "MachineHealthCheck"];

const EXTENSION_CONFIG: &str = "ExtensionConfig";

/// Why objects of another version are not read.
const NEEDED: &str = "plans need v1beta2 or v1beta1";

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// Every kind that was read whole, also when there are no objects of it. Each object has its `apiVersion`
    /// and `kind`, and the form of the version that is served: `v1beta2`, or `v1beta1` where there is nothing newer.
    pub kinds: Vec<(Gvk, Vec<Value>)>,
    /// What could not be read, in sentences.
    pub gaps: Vec<String>,
}

/// Why nothing was read: sentences for an operator.
#[derive(Debug, thiserror::Error)]
pub enum ListsError {
    /// Without Clusters the other objects cannot be assigned to one.
    #[error("{0}")]
    Clusters(String),
    #[error("{0}")]
    NotServed(String),
    #[error("cannot read {target}: {reason}")]
    Unreadable { target: String, reason: String },
    #[error("there is no {kind} {name} in namespace {namespace}: check the name, -n and the context")]
    NotFound { kind: String, name: String, namespace: String },
    #[error("{kind} {name} does not say which Cluster it belongs to")]
    NoCluster { kind: String, name: String },
}

/// Everything in `namespace` (all when empty), or only what belongs to one Cluster of it.
///
/// # Errors
/// [`ListsError::Clusters`].
pub async fn list_clusters(
    connection: &Connection,
    namespace: &str,
    cluster: Option<&str>,
) -> Result<Lists, ListsError> {
    let mut reader = Reader::of(connection, namespace, cluster);
    // Before anything is listed: with Clusters of an old
    // version only, every other list would be in vain.
    if let Ok(gvk) = reader.catalog.resolve(CORE_GROUP, "Cluster").await
        && reader.is_too_old(&gvk)
    {
        let why = format!("the server offers Clusters only as {}; {NEEDED}", gvk.version);
        return Err(ListsError::Clusters(why));
    }
    for (group, kind, labelled) in ALWAYS {
        reader.list(group, kind, labelled).await;
    }
    let Some(clusters) = reader.lists.kinds.iter().find(|(gvk, _)| gvk.kind == "Cluster") else {
        return Err(ListsError::Clusters(reader.lists.gaps.join("\n")));
    };
    // The bound counts for each Cluster, since each may name provider kinds of its own.
    let clusters = if cluster.is_some() { 1 } else { clusters.1.len().max(1) };
    reader.list_extensions().await;
    let lists_max = LISTS_MAX * clusters;
    for (at, ((group, kind), labelled)) in referred(&reader.lists, cluster).into_iter().enumerate() {
        // One is that of the ExtensionConfigs.
        if ALWAYS.len() + 1 + at < lists_max {
            reader.list(&group, &kind, labelled).await;
        } else {
            let gap = format!("{kind} objects were not read: {lists_max} lists are the limit");
            reader.lists.gaps.push(gap);
        }
    }
    Ok(reader.lists)
}

/// The objects of one Cluster that say what an action on one of them may cost, in whatever version they are served.
pub async fn list_around(connection: &Connection, cluster: &ObjectKey) -> Lists {
    let reader = Reader::of(connection, &cluster.namespace, Some(&cluster.name));
    let mut reader = Reader { takes_any_version: true, ..reader };
    for (group, kind, labelled) in ALWAYS.into_iter().filter(|(_, kind, _)| AROUND.contains(kind)) {
        reader.list(group, kind, labelled).await;
    }
    reader.lists
}

/// The name of the Cluster that an object names as its own; of a Cluster its own name.
pub fn cluster_named_by(object: &Value) -> Option<&str> {
    let metadata = &object["metadata"];
    if object["kind"] == "Cluster" {
        return metadata["name"].as_str();
    }
    let owners = metadata["ownerReferences"].as_array();
    let owner = owners.and_then(|all| all.iter().find(|owner| owner["kind"] == "Cluster"));
    let named = [&object["spec"]["clusterName"], &metadata["labels"][label::CLUSTER_NAME]];
    named.into_iter().chain(owner.map(|owner| &owner["name"])).find_map(Value::as_str)
}

/// The name of the Cluster that an object on the server belongs to. Its version need not be the served one.
///
/// # Errors
/// The object cannot be read, does not exist, or names no Cluster.
pub async fn cluster_of(connection: &Connection, wanted: &ObjectRef) -> Result<String, ListsError> {
    let ObjectKey { namespace, name } = &wanted.key;
    let kind = &wanted.gvk.kind;
    if kind == "Cluster" {
        return Ok(name.clone());
    }
    let unreadable = |target: &ObjectRef, error: &kube::Error| ListsError::Unreadable {
        target: target.to_string(),
        reason: explain(error, &connection.server),
    };
    let gvk = match Catalog::new(connection.client.clone()).resolve(&wanted.gvk.group, kind).await {
        Ok(gvk) => gvk,
        Err(Missing::NotServed(why)) => return Err(ListsError::NotServed(why)),
        Err(Missing::Unreachable(error)) => return Err(unreadable(wanted, &error)),
    };
    let target = ObjectRef { gvk, ..wanted.clone() };
    let found = get_value(&connection.client, &target).await.map_err(|error| unreadable(&target, &error))?;
    let Some(object) = found else {
        let (kind, name, namespace) = (kind.clone(), name.clone(), namespace.clone());
        return Err(ListsError::NotFound { kind, name, namespace });
    };
    let no_cluster = || ListsError::NoCluster { kind: kind.clone(), name: name.clone() };
    cluster_named_by(&object).map(str::to_owned).ok_or_else(no_cluster)
}

struct Reader<'a> {
    connection: &'a Connection,
    catalog: Catalog,
    namespace: &'a str,
    /// The label of one cluster; empty for all clusters.
    selector: String,
    takes_any_version: bool,
    lists: Lists,
}

impl<'a> Reader<'a> {
    fn of(connection: &'a Connection, namespace: &'a str, cluster: Option<&str>) -> Self {
        Self {
            connection,
            catalog: Catalog::new(connection.client.clone()),
            namespace,
            selector: cluster.map(|name| format!("{}={name}", label::CLUSTER_NAME)).unwrap_or_default(),
            takes_any_version: false,
            lists: Lists::default(),
        }
    }

    async fn list(&mut self, group: &str, kind: &str, labelled: bool) {
        let gvk = match self.catalog.resolve(group, kind).await {
            Ok(gvk) if self.is_too_old(&gvk) => {
                let why = format!("the server offers them only as {}; {NEEDED}", gvk.version);
                return self.failed(kind, &why);
            }
            Ok(gvk) => gvk,
            // A server that does not have the kind has no such objects.
            Err(Missing::NotServed(_)) if ["MachinePool", "MachineHealthCheck"].contains(&kind) => return,
            Err(Missing::NotServed(why)) => return self.failed(kind, &why),
            Err(Missing::Unreachable(error)) => {
                return self.failed(kind, &explain(&error, &self.connection.server));
            }
        };
        let selector = if labelled { self.selector.clone() } else { String::new() };
        self.take(gvk, self.namespace, &selector).await;
    }

    /// ExtensionConfigs have no namespace. A server without the kind has no extensions.
    async fn list_extensions(&mut self) {
        match self.catalog.resolve(RUNTIME_GROUP, EXTENSION_CONFIG).await {
            // Their releases have none that answers for updates in place.
            Ok(gvk) if gvk.version != VERSION => {}
            Ok(gvk) => self.take(gvk, "", "").await,
            Err(Missing::NotServed(_)) => {}
            Err(Missing::Unreachable(error)) => {
                self.failed(EXTENSION_CONFIG, &explain(&error, &self.connection.server));
            }
        }
    }

    async fn take(&mut self, gvk: Gvk, namespace: &str, selector: &str) {
        let kind = gvk.kind.clone();
        match list_values(&self.connection.client, &gvk, namespace, selector).await {
            Ok(mut objects) => {
                for object in &mut objects {
                    // Items of a list come without both.
                    object["apiVersion"] = gvk.api_version().into();
                    object["kind"] = kind.clone().into();
                }
                self.lists.kinds.push((gvk, objects));
            }
            Err(error) => self.failed(&kind, &explain(&error, &self.connection.server)),
        }
    }

    /// Provider kinds are read through their contract, in whatever version.
    fn is_too_old(&self, gvk: &Gvk) -> bool {
        let is_ours = ALWAYS.iter().any(|(group, kind, _)| *group == gvk.group && *kind == gvk.kind);
        let is_known = [VERSION, OLDER_VERSION].contains(&gvk.version.as_str());
        is_ours && !is_known && !self.takes_any_version
    }

    fn failed(&mut self, kind: &str, why: &str) {
        self.lists.gaps.push(format!("{kind} objects were not read: {why}"));
    }
}

/// Provider kinds that the objects read so far refer to, control planes first: the limit leaves out the last ones. Those
/// of templates and Clusters carry no label that can be relied on. With a `cluster` only
/// its own objects count: kinds of other Clusters would use up the limit.
fn referred(lists: &Lists, cluster: Option<&str>) -> Vec<((String, String), bool)> {
    const CONTROL_PLANE: &str = "/spec/controlPlaneRef";
    const REFERENCES: [(&str, bool); 7] = [
        ("/spec/infrastructureRef", true),
        ("/spec/bootstrap/configRef", true),
        (CONTROL_PLANE, false),
        ("/spec/machineTemplate/spec/infrastructureRef", false),
        // Where v1beta1 has it.
        ("/spec/machineTemplate/infrastructureRef", false),
        ("/spec/template/spec/infrastructureRef", false),
        ("/spec/template/spec/bootstrap/configRef", false),
    ];
    let (mut found, mut control_planes) = (BTreeMap::new(), BTreeSet::new());
    let is_its = |object: &&Value| cluster.is_none_or(|cluster| cluster_named_by(object) == Some(cluster));
    for object in lists.kinds.iter().flat_map(|(_, objects)| objects).filter(is_its) {
        for (path, labelled) in REFERENCES {
            let Some(reference) = object.pointer(path) else { continue };
            let (group, kind) = group_and_kind(reference);
            let known = ALWAYS.iter().any(|(g, k, _)| *g == group && *k == kind);
            if !known && !kind.is_empty() {
                if path == CONTROL_PLANE {
                    control_planes.insert((group.clone(), kind.clone()));
                }
                // A Cluster refers to its infrastructure by
                // the same path, and that carries no label.
                let labelled = labelled && object["kind"] == "Machine";
                // One reference to an object without the label is enough to list the kind whole.
                found.entry((group, kind)).and_modify(|all| *all &= labelled).or_insert(labelled);
            }
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(kind, _)| !control_planes.contains(kind));
    found
}

/// By `apiGroup` (v1beta2) or by `apiVersion` (v1beta1).
fn group_and_kind(reference: &Value) -> (String, String) {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let group = reference["apiGroup"].as_str().unwrap_or_else(|| group_of(text("apiVersion")));
    (group.to_owned(), text("kind").to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Kinds were read in the order of their names: a control plane behind fourteen others was left out, and nothing was
    /// known of it.
    #[test]
    fn control_planes_are_read_before_other_kinds() {
        let reference = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": "x"});
        let machine =
            |kind: &str| json!({"kind": "Machine", "spec": {"infrastructureRef": reference("a.io", kind)}});
        let cluster =
            json!({"kind": "Cluster", "spec": {"controlPlaneRef": reference("z.io", "ZControlPlane")}});
        let gvk = |kind: &str| Gvk {
            group: CORE_GROUP.to_owned(),
            version: VERSION.to_owned(),
            kind: kind.to_owned(),
            plural: String::new(),
            namespaced: true,
        };
        let lists = Lists {
            kinds: vec![(gvk("Machine"), vec![machine("A"), machine("B")]), (gvk("Cluster"), vec![cluster])],
            gaps: Vec::new(),
        };
        let found: Vec<_> =
            referred(&lists, None).into_iter().map(|((_, kind), labelled)| (kind, labelled)).collect();
        let expected = [("ZControlPlane", false), ("A", true), ("B", true)];
        assert_eq!(found, expected.map(|(kind, labelled)| (kind.to_owned(), labelled)));
    }

    /// Objects of v1beta1 name the version, too, and a control plane has its template elsewhere.
    #[test]
    fn kinds_are_read_that_objects_of_the_older_version_refer_to() {
        let gvk = Gvk {
            group: CONTROL_PLANE_GROUP.to_owned(),
            version: OLDER_VERSION.to_owned(),
            kind: "KubeadmControlPlane".to_owned(),
            plural: String::new(),
            namespaced: true,
        };
        let reference = json!({"apiVersion": "a.io/v1beta1", "kind": "ATemplate", "name": "x"});
        let plane = json!({"kind": "KubeadmControlPlane", "spec": {"machineTemplate": {"infrastructureRef": reference}}});
        let lists = Lists { kinds: vec![(gvk, vec![plane])], gaps: Vec::new() };
        let expected = (("a.io".to_owned(), "ATemplate".to_owned()), false);
        assert_eq!(referred(&lists, None), [expected]);
    }

    /// Three providers share a namespace: the kinds of the others used up the lists of the Cluster that was asked for.
    #[test]
    fn kinds_of_other_clusters_are_not_read() {
        let gvk = |kind: &str| Gvk {
            group: CORE_GROUP.to_owned(),
            version: VERSION.to_owned(),
            kind: kind.to_owned(),
            plural: String::new(),
            namespaced: true,
        };
        let reference = |group: &str, kind: String| json!({"apiGroup": group, "kind": kind, "name": "x"});
        let cluster = |name: &str| {
            json!({"kind": "Cluster", "metadata": {"name": name}, "spec": {
                "controlPlaneRef": reference("controlplane.cluster.x-k8s.io", format!("{name}ControlPlane")),
                "infrastructureRef": reference("infrastructure.cluster.x-k8s.io", format!("{name}Cluster"))}})
        };
        let machine = |name: &str| {
            json!({"kind": "Machine", "spec": {"clusterName": name,
                "infrastructureRef": reference("infrastructure.cluster.x-k8s.io", format!("{name}Machine"))}})
        };
        let names = ["A", "B", "C"];
        let lists = Lists {
            kinds: vec![
                (gvk("Cluster"), names.map(cluster).to_vec()),
                (gvk("Machine"), names.map(machine).to_vec()),
            ],
            gaps: Vec::new(),
        };
        let kinds = |cluster: Option<&str>| -> Vec<String> {
            let mut kinds: Vec<_> =
                referred(&lists, cluster).into_iter().map(|((_, kind), _)| kind).collect();
            kinds.sort();
            kinds
        };
        assert_eq!(kinds(Some("B")), ["BCluster", "BControlPlane", "BMachine"]);
        assert_eq!(kinds(None).len(), 9);
    }
}
