//! Sets from before the schema changed. Source: structured-merge-diff v6 `typed/reconcile_schema.go`.

use crate::managed::path_set::{Branch, PathSet};
use crate::managed::topology::{Form, Shape};

/// What became one unit is owned as one unit by each manager that owned a part of it. Nothing is done for
/// units that became granular: they are taken as if they had always been.
pub fn reconcile(shape: Shape<'_>, set: &PathSet) -> PathSet {
    let branches = set.branches().iter().map(|branch| match shape.at(&branch.step) {
        Some(shape) => reconciled(shape, branch),
        None => branch.clone(),
    });
    PathSet::from_branches(branches.collect())
}

fn reconciled(shape: Shape<'_>, branch: &Branch) -> Branch {
    let below = match shape.form(None) {
        Form::Atomic(_) if !branch.below.is_empty() => {
            return Branch { step: branch.step.clone(), member: true, below: PathSet::default() };
        }
        Form::Map(_) | Form::List(_) => reconcile(shape, &branch.below),
        _ => branch.below.clone(),
    };
    Branch { step: branch.step.clone(), member: branch.member, below }
}
