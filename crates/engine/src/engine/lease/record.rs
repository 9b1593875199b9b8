//! What a Lease says, as client-go's elections read and write it. Owns the fields and their meaning; must not know
//! who asks.
//! Source: client-go `tools/leaderelection/resourcelock/leaselock.go`.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use tokio::time::Instant;

use capstan_base::time::{Timestamp, from_k8s_micro, to_k8s_micro};

/// The record of an election, with times in microseconds of the writer's wall clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Empty: nobody holds it.
    pub holder: String,
    /// For how long the record is good without a renewal.
    pub duration_s: u32,
    pub acquired_us: Option<i64>,
    pub renewed_us: Option<i64>,
    pub transitions: i32,
}

impl Record {
    pub fn is_free(&self) -> bool {
        self.holder.is_empty()
    }

    pub fn duration(&self) -> Duration {
        Duration::from_secs(u64::from(self.duration_s))
    }

    /// The fields that every renewal changes, and who holds it.
    pub(super) fn is_same_writing(&self, other: &Self) -> bool {
        let key = |record: &Self| (record.acquired_us, record.renewed_us, record.transitions);
        self.holder == other.holder && key(self) == key(other)
    }
}

/// A Lease as the server showed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub uid: String,
    pub resource_version: String,
    pub record: Record,
    /// A server elects for it (`spec.strategy`): nobody else may write it.
    pub is_coordinated: bool,
}

impl Seen {
    pub fn of(lease: &Lease) -> Self {
        let spec = lease.spec.as_ref();
        Self {
            uid: lease.metadata.uid.clone().unwrap_or_default(),
            resource_version: lease.metadata.resource_version.clone().unwrap_or_default(),
            record: spec.map(record_of).unwrap_or_default(),
            is_coordinated: spec.is_some_and(|spec| spec.strategy.is_some()),
        }
    }
}

fn record_of(spec: &LeaseSpec) -> Record {
    let us = |at: Timestamp| at.timestamp_micros();
    Record {
        holder: spec.holder_identity.clone().unwrap_or_default(),
        // As in client-go a Lease without a duration is
        // vacant with the second look at the same record.
        duration_s: u32::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0),
        acquired_us: spec.acquire_time.as_ref().map(|time| us(from_k8s_micro(time))),
        renewed_us: spec.renew_time.as_ref().map(|time| us(from_k8s_micro(time))),
        transitions: spec.lease_transitions.unwrap_or(0),
    }
}

/// The fields of `record`, over what else `spec` has.
pub fn spec_with(spec: Option<&LeaseSpec>, record: &Record) -> LeaseSpec {
    let time = |us: Option<i64>| us.and_then(Timestamp::from_timestamp_micros).map(to_k8s_micro);
    LeaseSpec {
        holder_identity: Some(record.holder.clone()),
        lease_duration_seconds: i32::try_from(record.duration_s).ok(),
        acquire_time: time(record.acquired_us),
        renew_time: time(record.renewed_us),
        lease_transitions: Some(record.transitions),
        ..spec.cloned().unwrap_or_default()
    }
}

/// A record, and since when it is the same by our clock.
#[derive(Clone, Debug, Default)]
pub struct LastRecord(Option<(Record, Instant)>);

impl LastRecord {
    /// Notes what a Lease says now. Has nobody renewed it for as long as it says, or does nobody hold it?
    pub fn is_vacant(&mut self, record: &Record, now: Instant) -> bool {
        match &self.0 {
            Some((same, _)) if same == record => {}
            _ => self.0 = Some((record.clone(), now)),
        }
        record.is_free() || self.runs_out().is_none_or(|end| now > end)
    }

    /// When the last record runs out without a renewal. `None`: nobody holds it.
    pub fn runs_out(&self) -> Option<Instant> {
        let (record, since) = self.0.as_ref()?;
        (!record.is_free()).then(|| *since + record.duration())
    }
}
