//! Conditions as such: how one is stated, set, ordered, merged with others and worded. Owns the rules that
//! every kind shares, a file for each file of upstream's `util/conditions`; must not know any kind.

pub mod merge;
pub mod new_condition;
pub mod patch;
pub mod setter;
pub mod wording;
