//! The etcd on the control plane Nodes of a workload cluster, reached through its API. Owns which member is asked
//! and in which order; must not judge, and must not decide which member goes or leads.
//! Source: cluster-api `controlplane/kubeadm/pkg/workload_cluster_etcd.go` and `etcd_client_generator.go`, v1.14.2.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, ListParams};

use super::client::{MemberClient, Tls};
use super::{Answered, ask, facts};
use crate::client::explain;
use crate::workload::{EtcdMember, EtcdView, WorkloadError};
use capi_rules::etcd::facts::{Facts, Listed, MemberStatus, Trouble};
use capi_types::names::label::NODE_ROLE_CONTROL_PLANE;

/// How long the Nodes of a workload cluster may take.
const NODES_TIMEOUT: Duration = Duration::from_secs(10);

/// The control plane Nodes of a workload cluster.
///
/// # Errors
/// It does not answer, or not in time, in a sentence.
pub async fn control_plane_nodes(workload: &Client) -> Result<Vec<Node>, String> {
    const SERVER: &str = "the workload cluster";
    let api: Api<Node> = Api::all(workload.clone());
    let params = ListParams::default().labels(NODE_ROLE_CONTROL_PLANE);
    match tokio::time::timeout(NODES_TIMEOUT, api.list(&params)).await {
        Ok(nodes) => nodes.map(|list| list.items).map_err(|error| explain(&error, SERVER)),
        Err(_) => Err(format!("{SERVER} did not answer within {} s", NODES_TIMEOUT.as_secs())),
    }
}

/// The members on `nodes`.
pub struct StackedEtcd {
    pub workload: Client,
    pub tls: Tls,
    /// Names of control plane Nodes.
    pub nodes: Vec<String>,
}

/// A member that answered.
struct Open {
    client: MemberClient,
    status: MemberStatus,
}

impl StackedEtcd {
    /// Asks every member at once.
    pub async fn look(&self) -> Facts {
        let ask = async |node: &String| {
            let client = MemberClient::forwarded(&self.workload, node, &self.tls).await;
            ask(node, Some(node), client).await
        };
        let answers: Vec<Answered> = join_all(self.nodes.iter().map(ask)).await;
        facts(answers).await
    }

    /// Members, leader and alarms as the first member has them that answers.
    ///
    /// # Errors
    /// No member answers, the members have no leader, or the leader does not give its member list or the alarms.
    pub async fn view(&self) -> Result<EtcdView, WorkloadError> {
        let open = self.first(None).await?;
        let leader = open.status.leader.ok_or(WorkloadError::NoEtcdLeader)?;
        let list = list(&open).await?;
        let alarms = open.client.alarms().await.map_err(|t| WorkloadError::EtcdAlarms(words(&t)))?;
        let member = |listed: Listed| EtcdMember {
            alarms: alarms.iter().filter(|a| a.member == listed.id).map(|a| a.kind.clone()).collect(),
            id: listed.id,
            name: listed.name,
            peer_urls: listed.peer_urls,
            learner: listed.is_learner,
        };
        let mut members: Vec<EtcdMember> = list.into_iter().map(member).collect();
        members.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        Ok(EtcdView { members, leader: Some(leader) })
    }

    /// Takes a member out, through another one. One that is not there is fine.
    ///
    /// # Errors
    /// No other member answers, it is the last one, or etcd refuses.
    pub async fn remove(&self, member: u64) -> Result<(), WorkloadError> {
        // A member that removes itself may stop before it has answered.
        let open = self.first(Some(member)).await?;
        let list = list(&open).await?;
        if !list.iter().any(|listed| listed.id == member) {
            return Ok(());
        }
        // Without a member all data of the cluster would be gone.
        if list.len() == 1 {
            return Err(WorkloadError::Refused("etcd: the last member cannot be removed".to_owned()));
        }
        open.client.remove(member).await.map_err(|t| refused(&t))
    }

    /// Hands leadership to another member, through the one that leads.
    ///
    /// # Errors
    /// There is no leader, it cannot be reached, or etcd refuses.
    pub async fn move_leader(&self, to: u64) -> Result<(), WorkloadError> {
        let open = self.first(None).await?;
        let leader = open.status.leader.ok_or(WorkloadError::NoEtcdLeader)?;
        if leader == to {
            return Ok(());
        }
        // etcd forwards many requests to the leader, but not this one.
        if open.status.member_id == leader {
            return open.client.move_leader(to).await.map_err(|t| refused(&t));
        }
        let list = list(&open).await?;
        // kubeadm names a member after its Node.
        let name = list.iter().find(|listed| listed.id == leader).map(|listed| listed.name.as_str());
        let name = name.ok_or_else(|| WorkloadError::NotFound(format!("etcd member {leader:x}")))?;
        let leading = self.open(name).await.map_err(|t| WorkloadError::Unreachable(words(&t)))?;
        leading.client.move_leader(to).await.map_err(|t| refused(&t))
    }

    async fn open(&self, node: &str) -> Result<Open, Trouble> {
        let client = MemberClient::forwarded(&self.workload, node, &self.tls).await?;
        let status = client.status().await?;
        Ok(Open { client, status })
    }

    /// The first member that answers and is not `except` and no learner.
    async fn first(&self, except: Option<u64>) -> Result<Open, WorkloadError> {
        let mut failures = Vec::new();
        for node in &self.nodes {
            match self.open(node).await {
                // A learner answers little more than a request for its status.
                Ok(open) if Some(open.status.member_id) == except || open.status.is_learner => {}
                Ok(open) => return Ok(open),
                Err(trouble) => failures.push(format!("{node}: {}", words(&trouble))),
            }
        }
        if failures.is_empty() {
            failures.push("there is no other member to ask".to_owned());
        }
        Err(WorkloadError::Unreachable(failures.join("; ")))
    }
}

async fn list(open: &Open) -> Result<Vec<Listed>, WorkloadError> {
    open.client.members().await.map_err(|trouble| WorkloadError::EtcdMembers(words(&trouble)))
}

fn words(trouble: &Trouble) -> String {
    format!("{}: {}", trouble.class.words(), trouble.text)
}

fn refused(trouble: &Trouble) -> WorkloadError {
    WorkloadError::Refused(format!("etcd: {}", words(trouble)))
}
