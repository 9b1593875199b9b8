//! What will happen to the objects of Cluster API: plans with their evidence and simulated
//! rollouts. Pure; must not know how objects are read or shown.

pub mod forecast;
pub mod simulate;
