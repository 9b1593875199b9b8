//! What a row has under one of upstream's columns, as a typed value borrowed from the row. Which columns there are, and
//! which are wide, is [`capi_types::columns`]' business; must not know how a cell is drawn.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::row::{Condition, Counters, Kind, Row};
use capi_types::columns::{CLUSTER_LABEL_PATH, Column, Path, of};
use capi_types::names::label;
use capstan_base::time::{Timestamp, age};

/// What an object has for a column, before it is text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// The object does not say.
    Nothing,
    Text(&'a str),
    Number(u32),
    Flag(bool),
    /// Shown as an age.
    Moment(Timestamp),
    /// Shown as its status.
    Condition(&'a Condition),
}

impl<'a> Cell<'a> {
    fn text(text: &'a str) -> Self {
        if text.is_empty() { Self::Nothing } else { Self::Text(text) }
    }

    fn number(number: Option<u32>) -> Self {
        number.map_or(Self::Nothing, Self::Number)
    }

    /// As kubectl prints it, byte for byte; text from a cluster is sanitised.
    pub fn print(self, now: Timestamp) -> Cow<'a, str> {
        match self {
            Self::Nothing => "".into(),
            Self::Text(text) => text.into(),
            Self::Number(number) => number.to_string().into(),
            Self::Flag(flag) => if flag { "true" } else { "false" }.into(),
            Self::Moment(then) => age(then, now).into(),
            Self::Condition(condition) => condition.status.as_str().into(),
        }
    }

    /// The place of a cell among those of its column: missing ones first, moments newest first, texts by `rank_of`.
    pub(super) fn rank(self, rank_of: impl Fn(&str) -> u32) -> u64 {
        let place = match self {
            Self::Nothing => return 0,
            Self::Text(text) => u64::from(rank_of(text)),
            Self::Number(number) => u64::from(number),
            Self::Flag(flag) => u64::from(flag),
            Self::Moment(then) => u64::from(u32::MAX).saturating_sub(then.timestamp().max(0).unsigned_abs()),
            Self::Condition(condition) => u64::from(u8::MAX - condition.status as u8),
        };
        place + 1
    }

    /// Texts in the order of this key are in the order of their versions; what is not a version stands first.
    pub(super) fn version_of(text: &str) -> (Option<semver::Version>, String) {
        (semver::Version::parse(text.strip_prefix('v').unwrap_or(text)).ok(), text.to_owned())
    }
}

/// `v1.9.3` before `v1.10.0`; what is not a version by its text, first.
pub(super) fn by_version(a: &str, b: &str) -> Ordering {
    let parse = |text: &str| semver::Version::parse(text.strip_prefix('v').unwrap_or(text)).ok();
    parse(a).cmp(&parse(b)).then_with(|| a.cmp(b))
}

/// How a column is read from rows: found once, used for every row.
#[derive(Clone, Copy, Debug)]
pub enum Reader {
    /// The condition of a type.
    Condition(&'static str),
    Fact(for<'a> fn(&'a Row) -> Cell<'a>),
}

impl Reader {
    /// `None` for a column of kinds that are not kept as rows.
    pub fn of(column: &Column) -> Option<Self> {
        match column.path {
            Path::Condition(type_) => Some(Self::Condition(type_)),
            Path::Json(path) => fact(path).map(Self::Fact),
            Path::Address("InternalIP") => Some(Self::Fact(|row| host(row, |h| h.internal_ip.as_deref()))),
            Path::Address("ExternalIP") => Some(Self::Fact(|row| host(row, |h| h.external_ip.as_deref()))),
            Path::Address(_) | Path::OwnedBy(_) => None,
        }
    }

    pub fn read(self, row: &Row) -> Cell<'_> {
        match self {
            Self::Condition(type_) => row.condition(type_).map_or(Cell::Nothing, Cell::Condition),
            Self::Fact(read) => read(row),
        }
    }
}

impl Kind {
    /// The columns of objects of this kind. Control planes of all providers have those of the kubeadm one: they keep the
    /// contract's fields in the same places.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Cluster => of("Cluster"),
            Self::ControlPlane => of("KubeadmControlPlane"),
            Self::MachineDeployment => of("MachineDeployment"),
            Self::MachineSet => of("MachineSet"),
            Self::MachinePool => of("MachinePool"),
            Self::Machine => of("Machine"),
            Self::Other => &[],
        }
    }
}

/// The reader of what stands at a path, wherever the version of the object had it.
fn fact(path: &str) -> Option<for<'a> fn(&'a Row) -> Cell<'a>> {
    Some(match path {
        ".metadata.creationTimestamp" => |row| row.created().map_or(Cell::Nothing, Cell::Moment),
        CLUSTER_LABEL_PATH => |row| Cell::text(row.labels.get(label::CLUSTER_NAME).unwrap_or_default()),
        ".spec.clusterName" => |row| Cell::text(&row.cluster),
        ".spec.topology.classRef.name" => {
            |row| Cell::text(row.cluster_facts().map_or("", |facts| &facts.class))
        }
        ".spec.topology.version" | ".spec.version" | ".spec.template.spec.version" => {
            |row| Cell::text(&row.version)
        }
        ".status.phase" => |row| Cell::text(&row.phase),
        ".spec.replicas" => |row| counter(row, |c| c.desired),
        ".status.replicas" => |row| counter(row, |c| c.current),
        ".status.readyReplicas" => |row| counter(row, |c| c.ready),
        ".status.availableReplicas" => |row| counter(row, |c| c.available),
        ".status.upToDateReplicas" => |row| counter(row, |c| c.up_to_date),
        ".status.controlPlane.desiredReplicas" => |row| control_plane(row, |c| c.desired),
        ".status.controlPlane.replicas" => |row| control_plane(row, |c| c.current),
        ".status.controlPlane.readyReplicas" => |row| control_plane(row, |c| c.ready),
        ".status.controlPlane.availableReplicas" => |row| control_plane(row, |c| c.available),
        ".status.controlPlane.upToDateReplicas" => |row| control_plane(row, |c| c.up_to_date),
        ".status.workers.desiredReplicas" => |row| workers(row, |c| c.desired),
        ".status.workers.replicas" => |row| workers(row, |c| c.current),
        ".status.workers.readyReplicas" => |row| workers(row, |c| c.ready),
        ".status.workers.availableReplicas" => |row| workers(row, |c| c.available),
        ".status.workers.upToDateReplicas" => |row| workers(row, |c| c.up_to_date),
        ".status.initialization.controlPlaneInitialized" => |row| {
            let initialized = row.replica_facts().and_then(|facts| facts.initialized);
            initialized.map_or(Cell::Nothing, Cell::Flag)
        },
        ".status.nodeRef.name" => {
            |row| Cell::text(row.machine().and_then(|m| m.node.as_deref()).unwrap_or_default())
        }
        ".status.failureDomain" => {
            |row| Cell::text(row.machine().and_then(|m| m.failure_domain.as_deref()).unwrap_or_default())
        }
        ".spec.providerID" => |row| host(row, |h| h.provider_id.as_deref()),
        ".status.nodeInfo.osImage" => |row| host(row, |h| h.os_image.as_deref()),
        _ => return None,
    })
}

fn counter(row: &Row, pick: fn(&Counters) -> Option<u32>) -> Cell<'_> {
    Cell::number(row.replica_facts().and_then(|facts| pick(&facts.counters)))
}

fn control_plane(row: &Row, pick: fn(&Counters) -> Option<u32>) -> Cell<'_> {
    Cell::number(row.cluster_facts().and_then(|facts| pick(&facts.control_plane)))
}

fn workers(row: &Row, pick: fn(&Counters) -> Option<u32>) -> Cell<'_> {
    Cell::number(row.cluster_facts().and_then(|facts| pick(&facts.workers)))
}

fn host(row: &Row, pick: for<'a> fn(&'a super::row::Host) -> Option<&'a str>) -> Cell<'_> {
    Cell::text(row.machine().and_then(|m| m.host.as_deref()).and_then(pick).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_of_every_kind_can_be_read() {
        for kind in Kind::ALL {
            for column in kind.columns() {
                assert!(Reader::of(column).is_some(), "{kind:?} {}", column.name);
            }
        }
    }

    #[test]
    fn cells_have_an_order() {
        let mut texts = ["v1.10.0", "Provisioned", "v1.9.3", "Pending"];
        texts.sort_by_cached_key(|text| Cell::version_of(text));
        assert_eq!(texts, ["Pending", "Provisioned", "v1.9.3", "v1.10.0"]);
        let rank = |cell: Cell<'_>| cell.rank(|_| 0);
        assert!(rank(Cell::Nothing) < rank(Cell::Number(0)));
        assert!(rank(Cell::Number(2)) < rank(Cell::Number(10)));
        let at = |text| Cell::Moment(capstan_base::time::parse_rfc3339(text).expect("a moment"));
        assert!(rank(at("2026-11-20T10:00:00Z")) < rank(at("2026-11-20T09:00:00Z")));
    }
}
