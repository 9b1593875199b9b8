//! The members of an etcd as rows: which member list counts, and each member joined with its Machine and its own
//! answer. Must not judge what that means.

use serde::Serialize;

use super::Member;
use super::facts::{Alarm, Asked, Class, Database, Facts, Host, Listed, MemberStatus, Raft, Trouble};

/// What etcd uses when no quota is configured.
/// Source: etcd `server/storage/quota.go` (`DefaultQuotaBytes`).
pub const QUOTA_DEFAULT_BYTES: u64 = 2 << 30;

/// What a member is to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// Others follow it.
    Leader,
    /// It has a vote, and follows.
    Voter,
    /// It gets the log and has no vote yet.
    Learner,
    /// Added as a voter, and not started yet: it counts for the quorum, and has no vote to give.
    Unstarted,
    /// Added as a learner, and not started yet.
    UnstartedLearner,
    /// It answers, but the others do not list it: it was removed.
    NotListed,
    /// It does not answer, and no list leads to it.
    Unknown,
}

impl Role {
    /// Does it count for the quorum? etcd counts every member that is not a learner from the moment it is added.
    /// Source: etcd `server/etcdserver/api/membership/cluster.go` (`VotingMembers`), v3.5.
    pub fn is_voter(self) -> bool {
        matches!(self, Self::Leader | Self::Voter | Self::Unstarted)
    }

    /// Added without a vote, started or not?
    pub fn is_learner(self) -> bool {
        matches!(self, Self::Learner | Self::UnstartedLearner)
    }

    /// Has it been seen to run under its name?
    pub fn is_started(self) -> bool {
        !matches!(self, Self::Unstarted | Self::UnstartedLearner)
    }

    /// For a column.
    pub fn word(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Voter => "voter",
            Self::Learner => "learner",
            Self::Unstarted => "voter, not started",
            Self::UnstartedLearner => "learner, not started",
            Self::NotListed => "not listed",
            Self::Unknown => "unknown",
        }
    }
}

/// A member, joined with its Machine and its own answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberRow {
    /// Hexadecimal; empty when it is not known.
    pub id: String,
    /// Empty until the member has started.
    pub name: String,
    /// Name of the control plane Machine that hosts it, if one does.
    pub machine: Option<String>,
    /// The address or Node that was asked; `None` when none leads to this member.
    pub asked: Option<String>,
    /// By the list that counts and its own answer.
    pub role: Role,
    /// It votes: it answers, and is a voter that sees a leader. An alarm stands beside that and takes no vote.
    pub is_healthy: bool,
    /// `None`: it answered, or was not asked.
    pub trouble: Option<Failed>,
    /// How long its answer took.
    pub took_ms: Option<u64>,
    /// Of its server.
    pub version: Option<String>,
    /// `None` where it does not state it.
    pub database: Option<Database>,
    /// The size that the database may reach, and whether it was only assumed.
    pub quota: Option<Quota>,
    /// `None` where it does not state it.
    pub raft: Option<Raft>,
    /// Entries of the leader that it does not have yet.
    pub behind: Option<u64>,
    /// Those that it raised, in etcd's words.
    pub alarms: Vec<String>,
    /// Does its own member list equal the one that is shown? `None` when it gave none.
    pub list_agrees: Option<bool>,
    /// What its own status complains about, in etcd's words.
    pub errors: Vec<String>,
}

impl MemberRow {
    /// Its name, else who was asked for it, else its id.
    pub fn shown_name(&self) -> &str {
        match (&self.name, &self.asked) {
            (name, _) if !name.is_empty() => name,
            (_, Some(asked)) => asked,
            _ => &self.id,
        }
    }

    /// How long its answer took, or why there is none.
    pub fn answer(&self) -> String {
        match (&self.trouble, self.took_ms) {
            (Some(failed), _) => failed.class.words().to_owned(),
            (None, Some(ms)) => format!("{ms} ms"),
            (None, None) if self.asked.is_none() => "not asked".to_owned(),
            (None, None) => "-".to_owned(),
        }
    }

    /// Size of the database, quota (`~`: assumed) and how much of it is used.
    pub fn space(&self) -> Option<String> {
        let (database, quota) = (self.database?, self.quota?);
        let used = database.size_bytes.saturating_mul(100) / quota.bytes.max(1);
        let about = if quota.is_assumed { "~" } else { "" };
        Some(format!("{} / {about}{} ({used} %)", size(database.size_bytes), size(quota.bytes)))
    }
}

/// In the largest unit that keeps it at one or more.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes >> 20),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

/// Why a member gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// What kind of failure it is.
    pub class: Class,
    /// In the words of the layer that failed.
    pub text: String,
}

/// How large a database may become before its server refuses writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// Of the database file.
    pub bytes: u64,
    /// The server does not state it, so that [`QUOTA_DEFAULT_BYTES`] is taken.
    pub is_assumed: bool,
}

impl Quota {
    /// The quota that the server states, or etcd's default.
    pub fn of(database: &Database) -> Self {
        match database.quota_bytes {
            Some(bytes) if bytes > 0 => Self { bytes, is_assumed: false },
            _ => Self { bytes: QUOTA_DEFAULT_BYTES, is_assumed: true },
        }
    }
}

/// The facts with the member list that counts.
pub struct View<'a> {
    /// What was answered, by whom.
    pub facts: &'a Facts,
    /// The leader's own list; without one, the list that most members give.
    pub list: Vec<Listed>,
    /// The leader that most members name.
    pub leader: Option<u64>,
}

impl<'a> View<'a> {
    /// Chooses the list and the leader that most answers support.
    pub fn of(facts: &'a Facts) -> Self {
        let statuses = || facts.answers.iter().filter_map(|asked| asked.outcome.as_ref().ok());
        // By majority: a member that was cut off still names the leader it knew.
        let leader = most_common(statuses().filter_map(|status| status.leader));
        let of_leader = statuses().find(|status| Some(status.member_id) == leader);
        let lists = || statuses().filter_map(|status| status.list.as_ref().ok());
        // The leader's list first: others may not have applied the last change yet.
        let list = of_leader.and_then(|status| status.list.as_ref().ok());
        let list = list.map(|list| sorted(list)).or_else(|| most_common(lists().map(|list| sorted(list))));
        Self { facts, list: list.unwrap_or_default(), leader }
    }

    /// The answers that came.
    pub fn statuses(&self) -> impl Iterator<Item = &'a MemberStatus> {
        self.facts.answers.iter().filter_map(|asked| asked.outcome.as_ref().ok())
    }

    /// The id that most members state.
    pub fn cluster_id(&self) -> Option<u64> {
        most_common(self.statuses().map(|status| status.cluster_id))
    }

    /// The alarms; none where they are not known.
    pub fn alarms(&self) -> &'a [Alarm] {
        match &self.facts.alarms {
            Some(Ok(alarms)) => alarms,
            _ => &[],
        }
    }

    /// The Machine that hosts a member.
    pub fn host(&self, name: &str) -> Option<&'a Host> {
        let hosts = self.facts.hosts.as_deref().unwrap_or_default();
        hosts.iter().find(|host| !name.is_empty() && host.node.as_deref() == Some(name))
    }

    /// Machines come and go: members may outnumber them for a while.
    pub fn is_changing(&self) -> bool {
        let hosts = self.facts.hosts.iter().flatten();
        hosts.into_iter().any(|host| host.node.is_none() || host.is_deleting || host.is_joining)
    }

    /// Its own answer; else the failure of the Node that should run it.
    fn asked(&self, member: &Listed) -> Option<&'a Asked> {
        let answers = &self.facts.answers;
        let own = answers.iter().find(|a| a.outcome.as_ref().is_ok_and(|s| s.member_id == member.id));
        own.or_else(|| {
            answers.iter().find(|asked| {
                asked.outcome.is_err()
                    && match &asked.node {
                        // An empty name would join every member that has not started.
                        Some(node) => !node.is_empty() && *node == member.name,
                        None => member.client_urls.iter().any(|url| same_address(url, &asked.from)),
                    }
            })
        })
    }

    /// Every member, the leader first, then by name; then who was asked and is not listed.
    pub fn rows(&self) -> Vec<MemberRow> {
        let leading = self.statuses().find(|status| Some(status.member_id) == self.leader);
        let leading = leading.and_then(|status| status.raft);
        let mut rows: Vec<MemberRow> =
            self.list.iter().map(|member| self.row(member, leading.as_ref())).collect();
        // `false` sorts first, so the leader leads the table.
        rows.sort_by(|a, b| (a.role != Role::Leader, &a.name).cmp(&(b.role != Role::Leader, &b.name)));
        let shown: Vec<String> = rows.iter().filter_map(|row| row.asked.clone()).collect();
        let is_listed = |asked: &Asked| {
            let id = asked.outcome.as_ref().ok().map(|status| status.member_id);
            shown.contains(&asked.from) || self.list.iter().any(|member| Some(member.id) == id)
        };
        let rest = self.facts.answers.iter().filter(|asked| !is_listed(asked));
        rows.extend(rest.map(|asked| self.unlisted(asked)));
        rows
    }

    fn row(&self, member: &Listed, leading: Option<&Raft>) -> MemberRow {
        let asked = self.asked(member);
        // In this order: a member without a name has not started, whatever else is said of it.
        let role = match () {
            () if member.name.is_empty() && member.is_learner => Role::UnstartedLearner,
            () if member.name.is_empty() => Role::Unstarted,
            () if member.is_learner => Role::Learner,
            () if self.leader == Some(member.id) => Role::Leader,
            () => Role::Voter,
        };
        let alarms = self.alarms().iter().filter(|alarm| alarm.member == member.id);
        let mut row = row_of(asked, role);
        row.id = format!("{:x}", member.id);
        row.name.clone_from(&member.name);
        row.machine = self.host(&member.name).map(|host| host.machine.clone());
        row.alarms = alarms.map(|alarm| alarm.kind.clone()).collect();
        if let Some(status) = asked.and_then(|asked| asked.outcome.as_ref().ok()) {
            let has_vote = role.is_voter() && role.is_started();
            // A member of another cluster may be well and still have no vote here.
            let is_same = self.cluster_id() == Some(status.cluster_id);
            row.is_healthy = has_vote && is_same && status.leader.is_some();
            row.behind =
                // Answers come at different moments, so a follower
                // may show a higher index than its leader.
                leading.zip(status.raft).map(|(leading, own)| leading.index.saturating_sub(own.index));
            row.list_agrees = status.list.as_ref().ok().map(|list| sorted(list) == self.list);
        }
        row
    }

    /// One that was asked and that the list does not lead to.
    fn unlisted(&self, asked: &Asked) -> MemberRow {
        let role = if asked.outcome.is_ok() { Role::NotListed } else { Role::Unknown };
        let mut row = row_of(Some(asked), role);
        if let Ok(status) = &asked.outcome {
            row.id = format!("{:x}", status.member_id);
            let own = status.list.iter().flatten().find(|member| member.id == status.member_id);
            row.name = own.map_or_else(String::new, |member| member.name.clone());
        }
        if row.name.is_empty() {
            row.name = asked.node.clone().unwrap_or_default();
        }
        row.machine = self.host(&row.name).map(|host| host.machine.clone());
        row
    }

    /// A listed member as the quorum arithmetic takes it.
    pub fn member(&self, listed: &Listed) -> Member {
        let alarms = self.alarms().iter().filter(|alarm| alarm.member == listed.id);
        Member {
            id: listed.id,
            name: listed.name.clone(),
            learner: listed.is_learner,
            alarms: alarms.map(|alarm| alarm.kind.clone()).collect(),
        }
    }
}

/// What an answer states of itself.
fn row_of(asked: Option<&Asked>, role: Role) -> MemberRow {
    let status = asked.and_then(|asked| asked.outcome.as_ref().ok());
    let trouble = asked.and_then(|asked| asked.outcome.as_ref().err());
    let failed = |trouble: &Trouble| Failed { class: trouble.class, text: trouble.text.clone() };
    let database = status.and_then(|status| status.database);
    MemberRow {
        id: String::new(),
        name: String::new(),
        machine: None,
        asked: asked.map(|asked| asked.from.clone()),
        role,
        is_healthy: false,
        trouble: trouble.map(failed),
        took_ms: status.and_then(|status| status.took_ms),
        version: status.map(|status| status.version.clone()).filter(|version| !version.is_empty()),
        database,
        quota: database.as_ref().map(Quota::of),
        raft: status.and_then(|status| status.raft),
        behind: None,
        alarms: Vec::new(),
        list_agrees: None,
        errors: status.map(|status| status.errors.clone()).unwrap_or_default(),
    }
}

/// Without the scheme and a slash at the end.
fn same_address(a: &str, b: &str) -> bool {
    let bare = |url: &str| url.rsplit("://").next().unwrap_or(url).trim_end_matches('/').to_owned();
    bare(a) == bare(b)
}

/// Members by id, each with its addresses in order.
pub fn sorted(list: &[Listed]) -> Vec<Listed> {
    let mut list = list.to_vec();
    // Lists are compared as a whole, and the order in them means nothing.
    list.iter_mut().for_each(|member| {
        member.peer_urls.sort();
        member.client_urls.sort();
    });
    list.sort();
    list
}

/// The value that occurs most; of several the first.
fn most_common<T: PartialEq>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: Vec<(T, usize)> = Vec::new();
    for value in values {
        match counts.iter_mut().find(|(known, _)| *known == value) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(value, _)| value)
}
