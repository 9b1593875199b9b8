//! One etcd member over gRPC. Owns the words of the client crate, TLS and deadlines; must not know other members.
//! Source of the calls: etcd `api/etcdserverpb/rpc.proto`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use etcd_client::{AlarmAction, AlarmType, Certificate, Channel, Client, Identity, TlsOptions};
use http::Uri;
use hyper_util::rt::TokioIo;
use tonic::transport::Endpoint;
use tower::Service;

use super::failure;
use crate::workload::forward::{self, ForwardError, Forwarded};
use capi_rules::etcd::facts::{Alarm, Class, Database, Listed, MemberStatus, Raft, Trouble};

/// Where etcd listens for clients.
const CLIENT_PORT: u16 = 2379;
/// How long one call may take. etcd itself gives up what needs a quorum after some 7 s.
pub const DEADLINE: Duration = Duration::from_secs(5);
/// A connection that is half dead looks like a hung member otherwise.
const PING_EVERY: Duration = Duration::from_secs(10);

/// Opens a stream to the static pod of the Node's member each time it is asked for a connection.
fn connector(
    workload: kube::Client,
    node: &str,
) -> impl Service<Uri, Response = TokioIo<Forwarded>, Error = ForwardError, Future: Send> + Send + 'static {
    let pod = format!("etcd-{node}");
    tower::service_fn(move |_: Uri| {
        let open = forward::open(workload.clone(), pod.clone(), CLIENT_PORT);
        async move { open.await.map(TokioIo::new) }
    })
}

/// Whom to trust, and who we are. Text is PEM.
#[derive(Clone)]
pub struct Tls {
    pub authority: Vec<u8>,
    /// Client certificate and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// A connection to one member; it is made by the first call.
pub struct MemberClient {
    client: Client,
    is_by_tls: bool,
    /// It has answered: what goes wrong from now on is not about certificates.
    has_answered: AtomicBool,
}

impl MemberClient {
    /// To an address such as `https://127.0.0.1:2379`; without a scheme TLS decides which it is.
    ///
    /// # Errors
    /// An address or certificate that cannot be used.
    pub async fn direct(address: &str, tls: Option<&Tls>) -> Result<Self, Trouble> {
        let endpoint = endpoint(address, None, tls)?;
        Self::over(endpoint.connect_lazy(), tls.is_some()).await
    }

    /// To the member on a control plane Node, through the workload cluster's API. The member's certificate must be
    /// for the Node: that proves that the way led there.
    ///
    /// # Errors
    /// A Node name or certificate that cannot be used.
    pub async fn forwarded(workload: &kube::Client, node: &str, tls: &Tls) -> Result<Self, Trouble> {
        let endpoint = endpoint(&format!("https://{node}:{CLIENT_PORT}"), Some(node), Some(tls))?;
        let channel = endpoint.connect_with_connector_lazy(connector(workload.clone(), node));
        Self::over(channel, true).await
    }

    async fn over(channel: tonic::transport::Channel, is_by_tls: bool) -> Result<Self, Trouble> {
        let client = Client::from_channel(Channel::Tonic(channel), None).await;
        let client = client.map_err(|error| failure::trouble(&error, is_by_tls, true))?;
        Ok(Self { client, is_by_tls, has_answered: AtomicBool::new(false) })
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T, etcd_client::Error>>) -> Result<T, Trouble> {
        let Ok(result) = tokio::time::timeout(DEADLINE, call).await else {
            let text = format!("nothing came within {} s", DEADLINE.as_secs());
            return Err(Trouble { class: Class::TimedOut, text });
        };
        match result {
            Ok(answer) => {
                self.has_answered.store(true, Ordering::Relaxed);
                Ok(answer)
            }
            Err(error) => {
                let is_known = !self.is_by_tls || self.has_answered.load(Ordering::Relaxed);
                Err(failure::trouble(&error, self.is_by_tls, is_known))
            }
        }
    }

    /// What it states of itself. The list is not asked for yet.
    ///
    /// # Errors
    /// It does not answer, or not in time.
    pub async fn status(&self) -> Result<MemberStatus, Trouble> {
        let (mut client, began) = (self.client.clone(), Instant::now());
        let status = self.call(client.status()).await?;
        let head = status.header();
        let text = "a learner does not list members".to_owned();
        Ok(MemberStatus {
            cluster_id: head.map_or(0, etcd_client::ResponseHeader::cluster_id),
            member_id: head.map_or(0, etcd_client::ResponseHeader::member_id),
            version: status.version().to_owned(),
            // raft writes 0 where a member sees no leader.
            leader: Some(status.leader()).filter(|id| *id != 0),
            is_learner: status.is_learner(),
            raft: Some(Raft {
                term: status.raft_term(),
                index: status.raft_index(),
                applied: status.raft_applied_index(),
            }),
            database: Some(Database {
                size_bytes: bytes(status.db_size()),
                in_use_bytes: bytes(status.raft_used_db_size()),
                // Members before 3.6 do not state it.
                quota_bytes: Some(bytes(status.db_size_quota())).filter(|quota| *quota > 0),
            }),
            errors: status.errors().to_vec(),
            took_ms: u64::try_from(began.elapsed().as_millis()).ok(),
            // The list of a voter is asked for next and takes the place of this.
            list: Err(Trouble { class: Class::Learner, text }),
        })
    }

    /// The members as this one sees them, without asking the others.
    ///
    /// # Errors
    /// It does not answer, or not in time; a learner never does.
    pub async fn members(&self) -> Result<Vec<Listed>, Trouble> {
        let mut client = self.client.clone();
        let list = self.call(client.member_list()).await?;
        let listed = |member: &etcd_client::Member| Listed {
            id: member.id(),
            name: member.name().to_owned(),
            is_learner: member.is_learner(),
            peer_urls: member.peer_urls().to_vec(),
            client_urls: member.client_urls().to_vec(),
        };
        Ok(list.members().iter().map(listed).collect())
    }

    /// The alarms of the whole etcd. Each call is a raft proposal: it needs a quorum.
    ///
    /// # Errors
    /// It does not answer, or not in time.
    pub async fn alarms(&self) -> Result<Vec<Alarm>, Trouble> {
        let mut client = self.client.clone();
        let answer = self.call(client.alarm(AlarmAction::Get, AlarmType::None, None)).await?;
        let alarm = |alarm: &etcd_client::AlarmMember| {
            let kind = match alarm.alarm() {
                AlarmType::None => return None,
                AlarmType::Nospace => "NOSPACE",
                AlarmType::Corrupt => "CORRUPT",
            };
            Some(Alarm { member: alarm.member_id(), kind: kind.to_owned() })
        };
        Ok(answer.alarms().iter().filter_map(alarm).collect())
    }

    /// Hands leadership to another voter; only the leader can.
    ///
    /// # Errors
    /// It does not lead, the other one cannot, or no answer in time.
    pub async fn move_leader(&self, to: u64) -> Result<(), Trouble> {
        let mut client = self.client.clone();
        self.call(client.move_leader(to)).await.map(drop)
    }

    /// Takes a member out. One that is not there is fine.
    ///
    /// # Errors
    /// It is refused, or no answer in time.
    pub async fn remove(&self, member: u64) -> Result<(), Trouble> {
        let mut client = self.client.clone();
        match self.call(client.member_remove(member)).await {
            Err(trouble) if trouble.text.contains("member not found") => Ok(()),
            other => other.map(drop),
        }
    }
}

/// etcd counts in signed numbers.
fn bytes(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

/// `name`: what the server's certificate must be for, where it is not the address.
fn endpoint(address: &str, name: Option<&str>, tls: Option<&Tls>) -> Result<Endpoint, Trouble> {
    let url = match (address.contains("://"), tls) {
        (true, _) => address.to_owned(),
        (false, Some(_)) => format!("https://{address}"),
        (false, None) => format!("http://{address}"),
    };
    let unusable = |error: tonic::transport::Error| failure::unusable(&error);
    let endpoint = Endpoint::from_shared(url)
        .map_err(unusable)?
        .connect_timeout(DEADLINE)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(DEADLINE);
    let Some(tls) = tls else { return Ok(endpoint) };
    let mut options = TlsOptions::new().ca_certificate(Certificate::from_pem(&tls.authority));
    if let Some((certificate, key)) = &tls.identity {
        options = options.identity(Identity::from_pem(certificate, key));
    }
    if let Some(name) = name {
        options = options.domain_name(name);
    }
    endpoint.tls_config(options).map_err(unusable)
}
