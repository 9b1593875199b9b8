//! Objects whose parts are not all here: a dump that was cut, or a list that was refused. Owns the words; must not
//! plan.

use super::ObjectPlan;
use capi_rules::observe::dump::Dump;
use capi_types::names::CORE_GROUP;
use capstan_base::text::counted;

/// What an object is made of.
pub(super) struct Parts {
    /// `Machine` or `MachineSet`.
    pub kind: &'static str,
    /// The number in its status; `None` without one.
    pub reported: Option<i32>,
    /// The number of objects that are here.
    pub here: usize,
}

impl Parts {
    /// Why no plan can be made: none of the kind was read, and there are some.
    pub fn unread(&self, dump: &Dump) -> Option<String> {
        let reported = self.reported.filter(|count| *count > 0)?;
        let is_unread = self.here == 0 && !dump.has_kind(CORE_GROUP, self.kind);
        let (kind, replicas) = (self.kind, counted(reported, "replica"));
        is_unread.then(|| format!("its status reports {replicas}, and {kind} objects were not read"))
    }

    /// Fewer are in a dump than the status reports: the status may be behind, or the rest was left out. The lists of
    /// a server are whole.
    pub fn assume(&self, dump: &Dump, plan: &mut ObjectPlan) {
        let Self { kind, reported: Some(reported), here } = self else { return };
        let is_more = usize::try_from(*reported).is_ok_and(|reported| reported > *here);
        if is_more && !dump.is_listed() {
            let (replicas, verb) = (counted(*reported, "replica"), if *here == 1 { "is" } else { "are" });
            let found = counted(*here, &format!("{kind} object"));
            plan.assumptions
                .push(format!("its status reports {replicas}, {found} {verb} here: the others are gone"));
        }
    }
}
