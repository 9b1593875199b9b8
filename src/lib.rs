//! capstan: a terminal dashboard and lifecycle engine for Cluster API. The crates below `crates/` hold what it is made of;
//! this one puts them together: arguments, commands, output.

pub mod cli;
