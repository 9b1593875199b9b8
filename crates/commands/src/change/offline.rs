//! `capstan change rollback --offline`: while no API server answers, hosts get back what stood there before a change. Owns this
//! conversation; what is put back is `kubeadm_change::way_back`'s.

use std::io::{BufRead, Write};

use async_trait::async_trait;

use super::args::{NodeAddress, RollbackArgs};
use super::hosts::ssh_of;
use super::{ChangeAnswer, Session};
use crate::confirmation::LinePrompt;
use crate::exit_code::ExitCode;
use capstan_base::text;
use capstan_dashboard::operations::Confirmation;
use capstan_dashboard::operations::guard::{Confirmed, Refusal};
use capstan_dashboard::operations::journal::About;
use capstan_engine::reconfigure::executor::{CommandTarget, NodeExecutor};
use kubeadm_change::change_id::ChangeId;
use kubeadm_change::record::ChangeRecord;
use kubeadm_change::running::Running;
use kubeadm_change::way_back;

/// What a rollback says that cannot read the cluster.
pub(super) const HINT: &str = "while no API server answers, `capstan change rollback --offline --node NAME=ADDRESS` puts back \
                               on hosts what stood there before the last change";

/// Asks, and puts back on one host after the other.
///
/// # Errors
/// It was not confirmed, or the journal cannot be written.
pub(super) async fn put_back(
    args: &RollbackArgs,
    session: &Session,
    out: &mut (impl Write + Send),
    answers: &mut (impl BufRead + Send),
) -> anyhow::Result<ChangeAnswer> {
    let guard = session.guard.over(session.reach.is_read_only());
    guard.check_writable()?;
    let names: Vec<&str> = args.nodes.iter().map(|node| node.name.as_str()).collect();
    let what = args.change.as_ref().map_or("the last change".to_owned(), |id| format!("change {id}"));
    let nodes = names.join(", ");
    if !args.carry_out.yes {
        let question = format!("Put back what stood on {nodes} before {what}?");
        // Without an API server there is not a context either, but a repair.
        let confirm_after_s = 0;
        let confirmation = Confirmation::Yes;
        LinePrompt {
            question,
            confirmation,
            name: &nodes,
            confirm_after_s,
            otherwise: "look at back.sh on the hosts",
        }
        .ask(out, answers)?;
    }
    let ssh = ssh_of(&args.carry_out.hosts);
    let executor = session.executor.as_deref().unwrap_or(&ssh);
    let mut way_back = WayBack { executor, nodes: &args.nodes, change: args.change.as_ref(), about: &nodes };
    let (text, exit_code) = match guard.write(&mut way_back, &[]).await {
        Ok(said) => (said, ExitCode::Success),
        Err(WayBackError::Hosts(said)) => (said, ExitCode::FailedCheck),
        Err(WayBackError::Refusal(refusal)) => return Err(refusal.into()),
    };
    let next = "when an API server answers: capstan change rollback takes back what is stored\n";
    Ok(ChangeAnswer::of(session.style.block(text + next), exit_code))
}

/// What was confirmed.
struct WayBack<'a> {
    executor: &'a dyn NodeExecutor,
    nodes: &'a [NodeAddress],
    change: Option<&'a ChangeId>,
    /// The names of the nodes.
    about: &'a str,
}

#[derive(Debug, thiserror::Error)]
enum WayBackError {
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// What was said of all hosts; some of them failed.
    #[error("{0}")]
    Hosts(String),
}

#[async_trait]
impl Confirmed for WayBack<'_> {
    type Written = String;
    type Error = WayBackError;

    fn about(&self) -> About<'_> {
        let seen = self.change.map_or("", ChangeId::as_str);
        About {
            action: "change rollback --offline",
            kind: "Host",
            name: self.about,
            seen,
            ..About::default()
        }
    }

    /// Every host is tried: one that cannot be reached does not keep the others down.
    async fn write(&mut self) -> Result<String, WayBackError> {
        let line = way_back::line(self.change.map(ChangeId::as_str));
        let (mut text, mut has_failed) = (String::new(), false);
        for node in self.nodes {
            let target = CommandTarget { node: node.name.clone(), host: node.address.clone() };
            let said = match self.executor.run(&target, &line, "").await {
                Ok(said) if said.trim().is_empty() => "everything is as it was before\n".to_owned(),
                Ok(said) => said,
                Err(error) => {
                    has_failed = true;
                    format!("{}\n", error.words())
                }
            };
            for line in said.lines() {
                text.push_str(&format!("{}: {}\n", node.name, text::sanitize_line(line)));
            }
        }
        if has_failed { Err(WayBackError::Hosts(text)) } else { Ok(text) }
    }
}

/// The command for a change, with the hosts as they were known.
pub(super) fn command(record: &ChangeRecord, running: &Running) -> String {
    // A change that takes another one back keeps nothing of its own on hosts.
    let kept = record.takes_back.as_ref().map_or(&record.id, |taken| &taken.id);
    let address = |name: &str| running.nodes.get(name).and_then(|node| node.address.clone());
    let names = running.control_plane.iter().map(|node| node.host.name.as_str());
    let nodes =
        // A name may be one that ssh knows, where no address was read.
        names.map(|name| format!(" --node {name}={}", address(name).unwrap_or_else(|| name.to_owned())));
    format!("capstan change rollback --offline --change {kept}{}", nodes.collect::<String>())
}
