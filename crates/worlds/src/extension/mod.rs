//! The reference extension: a server that updates simulated machines in place, for demos, tests and people who write
//! their own. Owns what it covers, how long an update takes, what it does wrong on demand, and its HTTPS listener; must not
//! know who asks, nor any rule of the planners.

mod answer;
mod cover;
mod hosts;
mod options;
mod registration;
mod serve;

pub use answer::{Extension, Reply};
pub use cover::Cover;
pub use hosts::{DevHosts, HostUpdate, Hosts};
pub use options::{Behaviour, Misbehaviour, Wrong};
pub use registration::extension_config;
pub use serve::{Identity, ServeError, Serving, serve};
