//! From what a server sends to a row of the fleet: one slim shape for all kinds that names only the fields the
//! model keeps. Owns leniency and sanitising: a field of an unexpected shape counts as absent, text is
//! made safe here and nowhere else. Must not know where the bytes came from.
//!
//! Works by contract, not by kind: every control plane, deployment, set, pool and Machine has its
//! counters and conditions in the same places (cluster-api `internal/contract`, v1.14.2), so that
//! control planes of other providers decode as well. Objects read through v1beta1 keep the new
//! conditions and counters under `status.v1beta2`.

mod build;
mod control_planes;
mod lax;
mod slim;

pub use build::Decoder;
pub use control_planes::{ControlPlaneKinds, named};
pub use slim::Slim;
