//! What is true of Hosts, and what is to happen with them: pure, from what was read. Must not know a client, a machine, nor what
//! time it is.

pub mod choice;
pub mod host;
pub mod initialized;
pub mod node;
pub mod twins;
