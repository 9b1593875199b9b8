//! What a machine must be before kubeadm makes a node of it, and what is done on one: how its facts are asked for, whose it is, how
//! bootstrap data is carried out once, why it failed, and how a machine becomes clean again. Pure: it makes requests and reads
//! answers, and must not know how a machine is reached, nor what time it is.

mod answer;
pub mod bootstrap;
pub mod check;
pub mod clean;
pub mod facts;
pub mod finding;
pub mod identity;
pub mod owner;
pub mod probe;
pub mod reasons;
pub mod request;
mod rules;
pub mod run;
#[cfg(test)]
mod shell_machine;
