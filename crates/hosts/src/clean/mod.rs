//! The proof that a machine is clean: a list of what is left of a node on it. Owns what counts; must not know who left it, nor how
//! it is removed.

use std::fmt;

use serde::Serialize;

use capstan_base::command_line::CommandLine;

use super::request::{AnswerError, ShellRequest, answered};

const PROGRAM: &str = concat!(include_str!("../held.sh"), include_str!("clean.sh"));

/// Of what kind it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum LeftoverKind {
    File,
    Distribution,
    Unit,
    Port,
    Mount,
    Link,
    Rules,
    /// Of nftables.
    Table,
    /// What stood at paths before a run wrote there.
    Originals,
    Pod,
    /// The machine named a kind that is not known here.
    Other,
}

/// One thing that is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leftover {
    pub kind: LeftoverKind,
    pub what: String,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = &self.what;
        match self.kind {
            LeftoverKind::File => write!(f, "file {what} is there"),
            LeftoverKind::Distribution => write!(f, "{what} is installed"),
            LeftoverKind::Unit => write!(f, "unit {what} runs"),
            LeftoverKind::Port => write!(f, "something listens at port {what}"),
            LeftoverKind::Mount => write!(f, "{what} is mounted"),
            LeftoverKind::Link => write!(f, "network interface {what} is there"),
            LeftoverKind::Rules => write!(f, "{what} rules of iptables are Kubernetes'"),
            LeftoverKind::Table => write!(f, "table {what} of nftables is there"),
            LeftoverKind::Originals => {
                write!(f, "{what} holds what a run replaced: a reset has not given all of it back")
            }
            LeftoverKind::Pod => write!(f, "pod {what} is in the container runtime"),
            LeftoverKind::Other => write!(f, "{what}"),
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proof {
    pub left: Vec<Leftover>,
    /// What could not be looked at: with any of these nothing is proved.
    pub unread: Vec<String>,
}

impl Proof {
    pub fn is_clean(&self) -> bool {
        self.left.is_empty() && self.unread.is_empty()
    }
}

/// What is left of a node?
pub fn prove() -> ShellRequest {
    ShellRequest::reading(CommandLine::of("sh -c {} capstan", [PROGRAM]))
}

/// # Errors
/// There is no whole answer.
pub fn read(stdout: &str) -> Result<Proof, AnswerError> {
    let answer = answered(stdout)?;
    let left = answer.all("left").iter().map(|line| leftover(line)).collect();
    Ok(Proof { left, unread: answer.all("unread").to_vec() })
}

fn leftover(line: &str) -> Leftover {
    let (kind, what) = line.split_once(' ').unwrap_or((line, ""));
    let kinds = [
        ("file", LeftoverKind::File),
        ("distribution", LeftoverKind::Distribution),
        ("unit", LeftoverKind::Unit),
        ("port", LeftoverKind::Port),
        ("mount", LeftoverKind::Mount),
        ("link", LeftoverKind::Link),
        ("rules", LeftoverKind::Rules),
        ("table", LeftoverKind::Table),
        ("originals", LeftoverKind::Originals),
        ("pod", LeftoverKind::Pod),
    ];
    match kinds.into_iter().find(|(name, _)| *name == kind) {
        Some((_, kind)) => Leftover { kind, what: what.to_owned() },
        None => Leftover { kind: LeftoverKind::Other, what: line.to_owned() },
    }
}
