//! Drawing that several screens share. Stateless; must not know messages, screens or the fleet's
//! relations.

pub mod counters;
pub mod table;
pub mod tree;
