//! What commands that end by themselves read of a fleet: the kinds that verdicts rest on, one list each, as rows of the model that the
//! dashboard has. Owns which objects are asked for; must not judge them, nor know how they are printed.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use serde_json::Value;

use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::names::{CORE_GROUP, label};
use capstan_base::time::Timestamp;
use capstan_dashboard::fleet::decode::{ControlPlaneKinds, Slim};
use capstan_dashboard::fleet::watch::{JUDGED_KINDS, NAMED_KINDS_MAX, may_be_control_plane};
use capstan_dashboard::fleet::{
    Delta, Fleet, HEALTH_CHECK, PROVIDER_KIND, PROVIDERS_GROUP, Reference, Row, RowId, SourceId,
};
use capstan_engine::client::catalog::{Catalog, Missing};
use capstan_engine::client::read::{get_value, list_values};
use capstan_engine::client::{Connection, explain};

/// Objects of a server at one moment.
pub struct Read {
    pub objects: Vec<(Gvk, Value)>,
    /// Kinds and objects that could not be read, in sentences.
    pub gaps: Vec<String>,
}

/// Reads one namespace, or all where its name is empty.
pub struct Reader<'a> {
    connection: &'a Connection,
    namespace: &'a str,
    catalog: Catalog,
    objects: Vec<(Gvk, Value)>,
    gaps: Vec<String>,
}

impl<'a> Reader<'a> {
    pub fn new(connection: &'a Connection, namespace: &'a str) -> Self {
        let catalog = Catalog::new(connection.client.clone());
        Self { connection, namespace, catalog, objects: Vec::new(), gaps: Vec::new() }
    }

    /// One Cluster with everything that belongs to it, infrastructure and bootstrap objects included.
    ///
    /// # Errors
    /// No such Cluster, or the server does not answer, in a sentence.
    pub async fn cluster(mut self, name: &str, now: Timestamp) -> anyhow::Result<Read> {
        let gvk = self.resolve(CORE_GROUP, "Cluster").await.map_err(|why| anyhow!("{}", why.text()))?;
        let Some(cluster) = self.get(&gvk, name).await.map_err(|text| anyhow!("{text}"))? else {
            bail!(
                "there is no Cluster {name} in namespace {}: check the name, the namespace (-n) and the context",
                self.namespace
            );
        };
        self.objects.push((gvk, cluster));
        for (group, kind) in JUDGED_KINDS {
            match kind {
                "Cluster" => {}
                HEALTH_CHECK => self.health_checks(name).await,
                _ => self.list(group, kind, name).await,
            }
        }
        self.providers().await;
        // What the objects refer to is known only when they are decoded: two more rounds follow.
        let rows = rows_of(&self.objects, now);
        let first = rows.clusters().first().copied();
        for (group, kind, name) in first.map(|cluster| single_references(&rows, cluster)).unwrap_or_default()
        {
            self.one(&group, &kind, &name).await;
        }
        for (group, kind) in kinds_below_machines(&rows) {
            self.list(&group, &kind, name).await;
        }
        Ok(self.end())
    }

    /// Everything that verdicts rest on.
    pub async fn everything(mut self, now: Timestamp) -> Read {
        for (group, kind) in JUDGED_KINDS {
            self.list(group, kind, "").await;
        }
        for (group, kind) in named_control_planes(&rows_of(&self.objects, now)) {
            self.list(&group, &kind, "").await;
        }
        self.end()
    }

    fn end(self) -> Read {
        Read { objects: self.objects, gaps: self.gaps }
    }

    async fn resolve(&self, group: &str, kind: &str) -> Result<Gvk, Unresolved> {
        self.catalog.resolve(group, kind).await.map_err(|missing| match missing {
            Missing::NotServed(text) => Unresolved::NotServed(text),
            Missing::Unreachable(error) => Unresolved::Unreachable(explain(&error, &self.connection.server)),
        })
    }

    async fn get(&self, gvk: &Gvk, name: &str) -> Result<Option<Value>, String> {
        let target =
            ObjectRef { gvk: gvk.clone(), key: ObjectKey::new(self.namespace, name), uid: String::new() };
        get_value(&self.connection.client, &target).await.map_err(|e| explain(&e, &self.connection.server))
    }

    /// An object that a Cluster refers to, where a list has not brought it.
    async fn one(&mut self, group: &str, kind: &str, name: &str) {
        let is_it = |(gvk, object): &(Gvk, Value)| {
            gvk.group == group && gvk.kind == kind && object["metadata"]["name"] == name
        };
        if self.objects.iter().any(is_it) {
            return;
        }
        let found = match self.resolve(group, kind).await {
            Ok(gvk) => self.get(&gvk, name).await.map(|object| (gvk, object)),
            Err(why) => Err(why.text()),
        };
        match found {
            Ok((gvk, Some(object))) => self.objects.push((gvk, object)),
            Ok((_, None)) => {
                self.gaps.push(format!("{kind} {name} does not exist, though the Cluster refers to it"));
            }
            Err(text) => self.gaps.push(format!("{kind} {name} is not shown: {text}")),
        }
    }

    /// All objects of a kind; where a cluster is named those that carry its label.
    async fn list(&mut self, group: &str, kind: &str, cluster: &str) {
        let gvk = match self.resolve(group, kind).await {
            Ok(gvk) => gvk,
            // A server without these kinds has none; without the others it has no Cluster API.
            Err(Unresolved::NotServed(_)) if OPTIONAL.contains(&kind) => return,
            Err(why) => return self.gaps.push(format!("{kind} objects are not shown: {}", why.text())),
        };
        let selector = match cluster {
            "" => String::new(),
            cluster => format!("{}={cluster}", label::CLUSTER_NAME),
        };
        match self.chosen(&gvk, &selector).await {
            Ok(objects) => self.objects.extend(objects.into_iter().map(|object| (gvk.clone(), object))),
            Err(text) => self.gaps.push(format!("{kind} objects are not shown: {text}")),
        }
    }

    /// What the verdict of a Machine depends on besides. A MachineHealthCheck has the cluster's label only once a controller saw it.
    async fn health_checks(&mut self, cluster: &str) {
        let Ok(gvk) = self.resolve(CORE_GROUP, HEALTH_CHECK).await else { return };
        match self.chosen(&gvk, "").await {
            Ok(mut checks) => {
                checks.retain(|check| check["spec"]["clusterName"] == cluster);
                self.objects.extend(checks.into_iter().map(|check| (gvk.clone(), check)));
            }
            Err(text) => self.gaps.push(format!("{HEALTH_CHECK} objects are not judged by: {text}")),
        }
    }

    /// Which Cluster API runs there, where clusterctl installed it and that may be read; nothing is missing without it.
    async fn providers(&mut self) {
        let Ok(gvk) = self.resolve(PROVIDERS_GROUP, PROVIDER_KIND).await else { return };
        let listed = list_values(&self.connection.client, &gvk, "", "").await;
        let listed = listed.unwrap_or_default().into_iter();
        self.objects.extend(listed.map(|object| (gvk.clone(), named(&gvk, object))));
    }

    async fn chosen(&self, gvk: &Gvk, selector: &str) -> Result<Vec<Value>, String> {
        let listed = list_values(&self.connection.client, gvk, self.namespace, selector).await;
        let listed = listed.map_err(|error| explain(&error, &self.connection.server))?;
        Ok(listed.into_iter().map(|object| named(gvk, object)).collect())
    }
}

/// Kinds that a Cluster API may be without: pools were a gate once, and a control plane may be another provider's.
const OPTIONAL: [&str; 3] = ["MachinePool", HEALTH_CHECK, "KubeadmControlPlane"];

/// Why a kind is not known.
enum Unresolved {
    NotServed(String),
    Unreachable(String),
}

impl Unresolved {
    fn text(self) -> String {
        match self {
            Self::NotServed(text) | Self::Unreachable(text) => text,
        }
    }
}

/// Items of a list carry no kind, by which readers find them.
fn named(gvk: &Gvk, mut object: Value) -> Value {
    object["apiVersion"] = gvk.api_version().into();
    object["kind"] = gvk.kind.as_str().into();
    object
}

/// The objects as a fleet at one moment.
pub fn rows_of(objects: &[(Gvk, Value)], now: Timestamp) -> Fleet {
    let interner = Arc::default();
    let control_planes = ControlPlaneKinds::named_by(objects.iter().map(|(_, object)| object));
    let row = |(gvk, object): &(Gvk, Value)| {
        let slim: Slim = serde_json::from_value(object.clone()).ok()?;
        let decoder = control_planes.decoder(SourceId(0), gvk.clone(), Arc::clone(&interner));
        Some(Delta::Upsert(Arc::new(decoder.row(&slim))))
    };
    let mut fleet = Fleet::new();
    // The time before the objects: what they mean depends on it.
    fleet.advance(now);
    fleet.apply(objects.iter().filter_map(row).collect());
    fleet
}

/// Group, kind and name of the objects that the Cluster itself refers to.
pub fn single_references(fleet: &Fleet, cluster: RowId) -> Vec<(String, String, String)> {
    let cluster = fleet.row(cluster);
    let Some((row, facts)) = cluster.and_then(|row| Some((row, row.cluster_facts()?))) else {
        return Vec::new();
    };
    // By reference and not by group: providers have control planes in groups of their own.
    [&facts.infrastructure_ref, &facts.control_plane_ref]
        .into_iter()
        .flatten()
        .map(|r| (r.kind.group.to_string(), r.kind.kind.to_string(), name_of(r, row).to_owned()))
        .collect()
}

/// Kinds of control planes beside the known one that Clusters name, as many as the dashboard watches.
fn named_control_planes(fleet: &Fleet) -> BTreeSet<(String, String)> {
    let clusters = fleet.clusters().iter().filter_map(|id| fleet.row(*id)?.cluster_facts());
    let named = clusters.filter_map(|facts| facts.control_plane_ref.as_ref());
    let named = named.map(|r| (r.kind.group.to_string(), r.kind.kind.to_string()));
    let is_other = |(group, kind): &(String, String)| {
        may_be_control_plane(group) && !JUDGED_KINDS.contains(&(group.as_str(), kind.as_str()))
    };
    let others: BTreeSet<_> = named.filter(is_other).collect();
    others.into_iter().take(NAMED_KINDS_MAX).collect()
}

/// Kinds of infrastructure and bootstrap objects of Machines.
fn kinds_below_machines(fleet: &Fleet) -> BTreeSet<(String, String)> {
    let of = |row: &Row| {
        let machine = row.machine()?;
        Some([machine.infrastructure_ref.clone(), machine.bootstrap_ref.clone()])
    };
    fleet
        .rows()
        .filter_map(|(_, row)| of(row))
        .flatten()
        .flatten()
        .map(|r| (r.kind.group.to_string(), r.kind.kind.to_string()))
        .collect()
}

/// The name that is meant; a reference without one means an object of the same name.
pub fn name_of<'a>(reference: &'a Reference, row: &'a Row) -> &'a str {
    reference.name.as_deref().unwrap_or(&row.name)
}
