//! Drawing that several screens share. Stateless; must not know messages, screens or the fleet's
//! relations.

pub mod columns_chart;
pub mod counters;
pub mod scrubber;
pub mod sparkline;
pub mod table;
pub mod tree;
