//! Server, engine and simulated infrastructure wired up in one process. Owns which parts there are and how they
//! are joined; must not know a terminal or a socket.

pub mod engine;
pub mod extension;
pub mod load;
pub mod options;
pub mod past;
pub mod pending;
mod processes;
pub mod rehearsal;
pub mod stack;
