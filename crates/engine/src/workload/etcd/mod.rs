//! The etcd of a workload cluster, or any other, asked member by member: one connection each, a deadline for
//! each call, everybody at once. Owns what is asked of whom; must not judge the answers (`etcd` does).
//!
//! A read sends `Status` and `MemberList` to every member, which each answers alone, and one `Alarm` (get) to
//! the leader, which goes through raft: its answer is also the proof of a quorum.

mod authority;
mod client;
mod credentials;
mod failure;
mod stacked;

use futures::future::join_all;

pub use authority::{CredentialError, client_certificate};
pub use client::{DEADLINE, MemberClient, Tls};
pub use credentials::{Access, access};
pub use stacked::{StackedEtcd, control_plane_nodes};

use capi_rules::etcd::facts::{Alarm, Asked, Class, Facts, Listed, MemberStatus, Trouble};

/// Asks every member at `addresses`, and the members that they list, at the addresses that these advertise.
pub async fn look(addresses: &[String], tls: Option<&Tls>) -> Facts {
    let mut asked = ask_all(addresses, tls).await;
    let more = unasked(&asked);
    asked.extend(ask_all(&more, tls).await);
    facts(asked).await
}

/// An answer, and the connection that it came by.
pub struct Answered {
    pub asked: Asked,
    pub client: Option<MemberClient>,
}

async fn ask_all(addresses: &[String], tls: Option<&Tls>) -> Vec<Answered> {
    let ask = async |address: &String| ask(address, None, MemberClient::direct(address, tls).await).await;
    join_all(addresses.iter().map(ask)).await
}

/// One member's status and its own member list. `node`: whose member it must be.
pub async fn ask(from: &str, node: Option<&str>, client: Result<MemberClient, Trouble>) -> Answered {
    let (outcome, client) = match client {
        Ok(client) => (status(&client).await, Some(client)),
        Err(trouble) => (Err(trouble), None),
    };
    let asked = Asked { from: from.to_owned(), node: node.map(str::to_owned), outcome };
    Answered { asked, client }
}

async fn status(client: &MemberClient) -> Result<MemberStatus, Trouble> {
    let mut status = client.status().await?;
    if !status.is_learner {
        status.list = client.members().await;
    }
    Ok(status)
}

/// Addresses of listed members that were not asked: the first of each.
fn unasked(answers: &[Answered]) -> Vec<String> {
    let statuses = || answers.iter().filter_map(|a| a.asked.outcome.as_ref().ok());
    let is_known = |member: &Listed| {
        statuses().any(|status| status.member_id == member.id)
            || answers.iter().any(|a| member.client_urls.contains(&a.asked.from))
    };
    let listed = statuses().filter_map(|status| status.list.as_ref().ok()).flatten();
    let mut more: Vec<String> = listed
        .filter(|member| !is_known(member))
        .filter_map(|member| member.client_urls.first().cloned())
        .collect();
    // Every member lists all others: without this one would be asked once for each list.
    more.sort();
    more.dedup();
    more
}

/// The answers, with alarms as the leader gives them.
pub async fn facts(answers: Vec<Answered>) -> Facts {
    let alarms = alarms(&answers).await;
    Facts { answers: answers.into_iter().map(|a| a.asked).collect(), alarms, hosts: None }
}

async fn alarms(answers: &[Answered]) -> Option<Result<Vec<Alarm>, Trouble>> {
    let voters = answers.iter().filter_map(|a| Some((a.asked.outcome.as_ref().ok()?, a.client.as_ref()?)));
    let mut voters: Vec<_> = voters.filter(|(status, _)| !status.is_learner).collect();
    // A proposal of another member would have to reach the leader first.
    voters.sort_by_key(|(status, _)| status.leader != Some(status.member_id));
    let with_leader = voters.iter().find(|(status, _)| status.leader.is_some());
    Some(match with_leader {
        Some((_, client)) => client.alarms().await,
        None if voters.is_empty() => return None,
        // Without a leader the question would only run into its deadline.
        None => Err(Trouble { class: Class::NoQuorum, text: "no member sees a leader".to_owned() }),
    })
}
