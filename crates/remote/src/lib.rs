//! How a shell on another machine is reached: through the operator's own OpenSSH, with its configuration, agent, jump hosts and
//! known hosts. Owns how ssh is called, what it may be given, and what its failures mean. Must not know what is run, on which
//! kind of machine, or why.

pub mod destination;
pub mod host_key;
pub mod openssh;
mod program;
pub mod sockets;
pub mod sudo;
pub mod trouble;
