//! Everything about one object that does not need the object itself: conditions with what they mean,
//! counters, and where to go from here. Must not know how it is laid out.

use rustc_hash::FxHashSet;
use serde_json::Value;

use super::conditions::conditions_of;
use super::mention::mentions;
use super::row::{Condition, Counters, FAILURE, Kind, Row, RowId, Severity};
use super::tree::{Item, Relative};
use super::{Fleet, Hop};
use crate::fleet::Verdict;
use capi_types::condition::Status;
use capi_types::condition_types::{Polarity, polarity};
use capstan_base::time::{Timestamp, parse_rfc3339};

/// How a condition is meant, by its polarity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// In its normal state.
    Good,
    /// A negative condition that is true: something is going on.
    Active,
    /// A positive condition that is false.
    Bad,
    /// Neither: not known.
    Unknown,
}

impl Tone {
    pub fn of(type_: &str, status: Status) -> Self {
        // A type that is in no table counts as positive, which a failure is not.
        if type_ == FAILURE && status == Status::True {
            return Self::Bad;
        }
        match (polarity(type_), status) {
            (_, Status::Unknown) => Self::Unknown,
            (Polarity::Positive, Status::True) | (Polarity::Negative, Status::False) => Self::Good,
            (Polarity::Positive, Status::False) => Self::Bad,
            (Polarity::Negative, Status::True) => Self::Active,
        }
    }
}

/// One condition of an object, whether the object is in the fleet or was read by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionLine {
    pub tone: Tone,
    pub type_: String,
    pub status: Status,
    pub severity: Severity,
    pub reason: String,
    /// When the status last changed.
    pub since: Option<Timestamp>,
    pub message: String,
}

impl ConditionLine {
    fn of_row(condition: &Condition) -> Self {
        Self {
            tone: Tone::of(&condition.type_, condition.status),
            type_: condition.type_.to_string(),
            status: condition.status,
            severity: condition.severity,
            reason: condition.reason.to_string(),
            since: condition.since(),
            message: condition.message.to_string(),
        }
    }

    fn of_json(condition: &Value) -> Self {
        let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        let status = Status::parse(&text("status")).unwrap_or(Status::Unknown);
        let type_ = text("type");
        Self {
            tone: Tone::of(&type_, status),
            type_,
            status,
            severity: Severity::parse(&text("severity")),
            reason: text("reason"),
            since: parse_rfc3339(&text("lastTransitionTime")),
            message: text("message"),
        }
    }
}

/// The conditions of an object as it was served, and whether they are of the older kind (v1beta1). The text
/// of a followed object is sanitised already.
pub fn condition_lines(object: &Value) -> (Vec<ConditionLine>, bool) {
    let (list, legacy) = conditions_of(object);
    (list.iter().map(ConditionLine::of_json).collect(), legacy)
}

/// What another object is to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Cluster,
    Owner,
    ControlPlane,
    Infrastructure,
    Bootstrap,
    Node,
    /// A condition names it.
    Mentioned,
}

/// Another object, in the fleet or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Link<'a> {
    pub relation: Relation,
    pub group: &'a str,
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// Where it is, when it is in the fleet.
    pub row: Option<RowId>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Details<'a> {
    pub row: &'a Row,
    /// The object with everything under it.
    pub verdict: Verdict,
    /// The object alone, and why in a few words (empty when it is well).
    pub own_verdict: Verdict,
    pub why: String,
    /// From the object down to the cause.
    pub cause: Vec<Hop>,
    pub counters: Option<Counters>,
    /// In the object's order.
    pub conditions: Vec<ConditionLine>,
    pub links: Vec<Link<'a>>,
}

/// Owners above an object; a circle ends here.
const OWNERS_MAX: usize = 8;

impl Fleet {
    /// Details of one object; `None` when it is no longer there.
    pub fn details(&self, id: RowId) -> Option<Details<'_>> {
        let row = self.row(id)?;
        Some(Details {
            row,
            verdict: self.verdict(id),
            own_verdict: self.own_verdict(id),
            why: self.own_words(id),
            cause: self.cause(id),
            counters: row.counters(),
            conditions: row.conditions.iter().map(ConditionLine::of_row).collect(),
            links: self.links(id, row),
        })
    }

    fn links<'a>(&'a self, id: RowId, row: &'a Row) -> Vec<Link<'a>> {
        let mut links = Vec::new();
        if let Some((at, cluster)) = self.cluster_of(id).and_then(|c| Some((c, self.row(c)?)))
            && at != id
        {
            links.push(Link {
                row: Some(at),
                ..link(Relation::Cluster, &cluster.gvk.group, &cluster.gvk.kind, row, &cluster.name)
            });
        }
        if let Some(owner) = &row.owner {
            let at = self.owner_of(id);
            // The cluster is already there.
            if at.is_none() || at != self.cluster_of(id) {
                links.push(Link {
                    row: at,
                    ..link(Relation::Owner, &owner.group, &owner.kind, row, &owner.name)
                });
            }
        }
        for (relation, which) in [
            (Relation::ControlPlane, Relative::ControlPlane),
            (Relation::Infrastructure, Relative::Infrastructure),
            (Relation::Bootstrap, Relative::Bootstrap),
        ] {
            if let Some(reference) = self.reference(id, which) {
                let name = reference.name.as_deref().unwrap_or(&row.name);
                let at = if which == Relative::ControlPlane {
                    self.members(id, Kind::ControlPlane).first().copied()
                } else {
                    None
                };
                links.push(Link {
                    row: at,
                    ..link(relation, &reference.kind.group, &reference.kind.kind, row, name)
                });
            }
        }
        if let Some(node) = row.machine().and_then(|m| m.node.as_deref()) {
            links.push(Link { namespace: "", ..link(Relation::Node, "", "Node", row, node) });
        }
        for at in self.mentioned(id) {
            if let Some(other) = self.row(at).filter(|_| !links.iter().any(|link| link.row == Some(at))) {
                let (group, kind) = (other.gvk.group.as_str(), other.gvk.kind.as_str());
                links.push(Link {
                    row: Some(at),
                    ..link(Relation::Mentioned, group, kind, other, &other.name)
                });
            }
        }
        links
    }

    /// The objects below that conditions which are not in their normal state name, in the order of the
    /// conditions, each once.
    pub fn mentioned(&self, id: RowId) -> Vec<RowId> {
        let Some((row, cluster)) = self.row(id).zip(self.cluster_of(id)) else { return Vec::new() };
        let mut found = Vec::new();
        let troubled = row.conditions.iter().filter(|c| Tone::of(&c.type_, c.status) != Tone::Good);
        for mention in troubled.flat_map(|c| mentions(&c.message)) {
            for name in &mention.names {
                let named = Kind::ALL.into_iter().flat_map(|kind| self.members_named(cluster, kind, name));
                let of_kind = |at: &RowId| self.row(*at).is_some_and(|row| mention.is_of(&row.gvk.kind));
                found.extend(named.filter(of_kind).filter(|at| *at != id));
            }
        }
        let mut known = FxHashSet::default();
        found.retain(|at| known.insert(*at));
        found
    }

    /// Is an object called `name` below this one, or is it made for one that is: infrastructure and bootstrap objects are
    /// called like their Machines?
    pub fn has_below(&self, id: RowId, name: &str) -> bool {
        let Some(cluster) = self.cluster_of(id) else { return false };
        let named = Kind::ALL.into_iter().flat_map(|kind| self.members_named(cluster, kind, name));
        let is_below = |at: RowId| {
            let mut above = std::iter::successors(Some(at), |at| self.owner_of(*at)).take(OWNERS_MAX);
            id == cluster || above.any(|at| at == id)
        };
        named.into_iter().any(is_below)
    }

    fn members_named<'a>(
        &'a self,
        cluster: RowId,
        kind: Kind,
        name: &'a str,
    ) -> impl Iterator<Item = RowId> + 'a {
        let members = self.members(cluster, kind);
        let name_of = |at: &RowId| self.row(*at).map_or("", |row| &row.name);
        // Members of one kind and cluster are kept in the order of their names.
        let first = members.partition_point(|at| name_of(at) < name);
        members[first..].iter().copied().take_while(move |at| name_of(at) == name)
    }

    /// Group, kind, namespace and name of what an item stands for, with its version where the item is
    /// a row: what [`crate::fleet::watch::Source::follow`] needs to show the object itself.
    pub fn target(&self, item: Item) -> Option<Target> {
        let row = self.row(item.row())?;
        let target = match item {
            Item::Row(_) => Target {
                source: row.source,
                group: row.gvk.group.clone(),
                kind: row.gvk.kind.clone(),
                namespace: row.namespace.to_string(),
                name: row.name.to_string(),
            },
            Item::Group { .. } => return None,
            Item::Reference { of, which } => {
                let reference = self.reference(of, which)?;
                Target {
                    source: row.source,
                    group: reference.kind.group.to_string(),
                    kind: reference.kind.kind.to_string(),
                    namespace: row.namespace.to_string(),
                    name: reference.name.as_deref().unwrap_or(&row.name).to_owned(),
                }
            }
        };
        Some(target)
    }
}

/// An object by contract: the served version is looked up when it is fetched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    pub source: super::SourceId,
    pub group: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

fn link<'a>(relation: Relation, group: &'a str, kind: &'a str, row: &'a Row, name: &'a str) -> Link<'a> {
    Link { relation, group, kind, namespace: &row.namespace, name, row: None }
}
