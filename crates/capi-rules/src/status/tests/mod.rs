//! Tests over every kind: order of input, coverage of reasons, and what their tables are made with.

pub(in crate::status) mod machine_sums;
mod order;
mod reasons;
pub(crate) mod witness;
