//! Conditions as data: lookup and three-valued status. Setting, merging and judging them is `status`.

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The condition of type `type_`, if the list has one.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// `True`. A missing condition is not true.
#[must_use]
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|c| c.status == "True")
}

/// `False`. A missing condition is not false either.
#[must_use]
pub fn is_false(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|c| c.status == "False")
}

/// `Unknown`, or anything that is neither `True` nor `False`.
#[must_use]
pub fn is_unknown(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|c| c.status != "True" && c.status != "False")
}
