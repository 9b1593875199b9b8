//! What may stand in fields that every kind has, and how a finding about a field is worded. Owns spelling and
//! words; must not know kinds, nor what becomes of a finding.

pub mod address;
pub mod cause;
pub mod labels;
pub mod naming;
