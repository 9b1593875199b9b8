//! What a machine must be before kubeadm makes a node of it: how its facts are asked for, and what speaks against it. Pure: it
//! must not know how a machine is reached, nor what time it is.

mod answer;
pub mod check;
pub mod facts;
pub mod finding;
pub mod identity;
pub mod probe;
mod rules;
