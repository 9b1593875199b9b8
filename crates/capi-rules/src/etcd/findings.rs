//! What is worth a person's attention in an etcd: one function per rule. Must not decide what is done about it.
//! The comparison of the members' own lists is a rule of this project; upstream's condition does not have it.

use serde::Serialize;

use super::facts::{Class, Host};
use super::members::{MemberRow, Quota, Role, View, sorted};
use super::quorum;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Grade {
    /// Worth knowing.
    Low,
    /// Something works less well than it should.
    Medium,
    /// One more failure would cost the service.
    High,
    /// It does not serve, or will not for long.
    Critical,
}

impl Grade {
    /// For a column and for JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// Something worth attention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// A stable name, such as [`QUORUM_LOST`].
    pub rule: &'static str,
    /// How much it matters.
    pub grade: Grade,
    /// A sentence with the members and numbers that show it.
    pub text: String,
}

/// More voters are lost than the quorum bears.
pub const QUORUM_LOST: &str = "quorum-lost";
/// What passes by itself: reported when two looks in a row show it.
pub const PASSING: [&str; 3] = ["leader-split", "term-mismatch", "member-list-mismatch"];

/// Entries that a member has received and not applied. At the second number the server refuses writes.
/// Source: etcd `server/etcdserver/v3_server.go` (`maxGapBetweenApplyAndCommitIndex`).
const APPLY_LAG_MAX: [u64; 2] = [100, 5000];
/// Entries that a member may be behind the leader: answers are some milliseconds apart.
const BEHIND_MAX: u64 = 1000;
/// Parts of a hundred of the quota.
const QUOTA_USED_MAX: [u64; 2] = [80, 95];
/// A smaller database is not worth a defragmentation.
const FRAGMENTED_MIN_BYTES: u64 = 100 << 20;

/// Every finding, the gravest first.
pub fn findings(view: &View<'_>, rows: &[MemberRow], previous: Option<&View<'_>>) -> Vec<Finding> {
    let mut found = now(view, rows);
    if let Some(previous) = previous {
        let before = now(previous, &[]);
        // An election takes a moment: what one look shows may be over with the next.
        found.retain(|f| !PASSING.contains(&f.rule) || before.iter().any(|b| b.rule == f.rule));
    }
    found.sort_by_key(|f| std::cmp::Reverse(f.grade));
    found
}

fn now(view: &View<'_>, rows: &[MemberRow]) -> Vec<Finding> {
    // Without one answer all other rules would speak about nothing that is known.
    if view.statuses().next().is_none() {
        return unreachable(rows);
    }
    [
        leadership(view, rows),
        identity(view, rows),
        lists(view),
        machines(view, rows),
        alarms(view, rows),
        rows.iter().flat_map(amounts).collect(),
        unreachable(rows),
        versions(view),
    ]
    .concat()
}

fn finding(rule: &'static str, grade: Grade, text: impl Into<String>) -> Finding {
    Finding { rule, grade, text: text.into() }
}

/// Leader and quorum.
fn leadership(view: &View<'_>, rows: &[MemberRow]) -> Vec<Finding> {
    let mut found = Vec::new();
    let voters = rows.iter().filter(|row| row.role.is_voter()).count();
    let healthy = rows.iter().filter(|row| row.is_healthy).count();
    let needed = quorum(voters);
    if view.leader.is_none() {
        found.push(finding("no-leader", Grade::Critical, "no member that answers sees a leader"));
    }
    // An answer about alarms goes through raft: it proves a quorum, whichever members could be asked.
    let is_proven = matches!(view.facts.alarms, Some(Ok(_)));
    if view.leader.is_none() || (healthy < needed && !is_proven) {
        let text =
            format!("{healthy} of {voters} voters are healthy, {needed} are needed: nothing is written");
        found.push(finding(QUORUM_LOST, Grade::Critical, text));
    } else if healthy <= needed && voters > 1 {
        let text =
            format!("{healthy} of {voters} voters are healthy, {needed} are needed: none more may be lost");
        found.push(finding("no-tolerance", Grade::High, text));
    }
    // During a rollout the number is even for a while.
    if voters > 0 && voters.is_multiple_of(2) && !view.is_changing() {
        let text = format!("{voters} voters survive the loss of as many as {} do", voters - 1);
        found.push(finding("even-voters", Grade::Low, text));
    }
    let mut leaders: Vec<u64> = view.statuses().filter_map(|status| status.leader).collect();
    leaders.sort_unstable();
    leaders.dedup();
    if leaders.len() > 1 {
        found.push(finding("leader-split", Grade::High, "members name different leaders"));
    }
    let mut terms: Vec<u64> =
        view.statuses().filter_map(|status| status.raft).map(|raft| raft.term).collect();
    terms.sort_unstable();
    terms.dedup();
    if terms.len() > 1 {
        found.push(finding("term-mismatch", Grade::Medium, "members are in different raft terms"));
    }
    found
}

/// Is everybody who answers the one that was meant?
fn identity(view: &View<'_>, rows: &[MemberRow]) -> Vec<Finding> {
    let mut found = Vec::new();
    let cluster = view.cluster_id();
    if view.statuses().any(|status| Some(status.cluster_id) != cluster) {
        found.push(finding(
            "cluster-id-mismatch",
            Grade::Critical,
            "members belong to different etcd clusters",
        ));
    }
    for asked in &view.facts.answers {
        let (Some(node), Ok(status)) = (&asked.node, &asked.outcome) else { continue };
        let listed = view.list.iter().find(|member| member.id == status.member_id);
        if let Some(listed) = listed.filter(|listed| !listed.name.is_empty() && listed.name != *node) {
            let text = format!("member {} answers on Node {node}", listed.name);
            found.push(finding("wrong-member", Grade::High, text));
        }
    }
    for row in rows.iter().filter(|row| row.role == Role::NotListed) {
        let text = format!("{} answers, but the others do not list it: it was removed", row.shown_name());
        found.push(finding("not-listed", Grade::Medium, text));
    }
    for row in rows {
        match row.role {
            Role::Unstarted => {
                let text = format!(
                    "member {} was added as a voter and has not started: it counts for the quorum without a vote \
                     to give; start it, or remove it",
                    row.id
                );
                found.push(finding("member-unstarted", Grade::High, text));
            }
            Role::UnstartedLearner => {
                let text = format!("member {} was added as a learner and has not started", row.id);
                found.push(finding("member-unstarted", Grade::High, text));
            }
            Role::Learner => {
                let text = format!("{} is a learner: it has no vote until it is promoted", row.shown_name());
                found.push(finding("learner", Grade::Medium, text));
            }
            _ => {}
        }
    }
    found
}

/// Every voter's own list against the one that counts. A learner gives none.
fn lists(view: &View<'_>) -> Vec<Finding> {
    let differs = view.statuses().any(|s| s.list.as_ref().is_ok_and(|list| sorted(list) != view.list));
    let text = "members list different members: one of them is behind, or was cut off";
    differs.then(|| finding("member-list-mismatch", Grade::High, text)).into_iter().collect()
}

/// Members against Machines, both ways.
fn machines(view: &View<'_>, rows: &[MemberRow]) -> Vec<Finding> {
    let Some(hosts) = &view.facts.hosts else { return Vec::new() };
    let is_provisioning = hosts.iter().any(|host| host.node.is_none());
    let mut found = Vec::new();
    // A member without a Node's name may be that of a
    // Machine on its way, so only others are orphans.
    let listed = rows.iter().filter(|row| !matches!(row.role, Role::NotListed | Role::Unknown));
    for row in listed.filter(|row| row.machine.is_none() && !row.name.is_empty() && !is_provisioning) {
        let text = format!("member {} has no Machine", row.name);
        found.push(finding("member-without-machine", Grade::High, text));
    }
    let without = |host: &&Host| {
        let node = host.node.as_deref();
        node.is_some_and(|node| view.list.iter().all(|member| member.name != node))
            && !host.is_deleting
            && !host.is_joining
    };
    for host in hosts.iter().filter(without).filter(|_| !view.list.is_empty()) {
        let text = format!("Machine {} has no member", host.machine);
        found.push(finding("machine-without-member", Grade::High, text));
    }
    found
}

fn alarms(view: &View<'_>, rows: &[MemberRow]) -> Vec<Finding> {
    let mut found = Vec::new();
    for row in rows {
        for alarm in &row.alarms {
            let (rule, what) = match alarm.as_str() {
                "NOSPACE" if has_room(row) => (
                    "alarm-nospace",
                    "its database has room again, and nothing is written until the alarm is disarmed \
                     (`etcdctl alarm disarm`)",
                ),
                "NOSPACE" => (
                    "alarm-nospace",
                    "its database is full: nothing is written until there is room and the alarm is disarmed",
                ),
                "CORRUPT" => ("alarm-corrupt", "its data differs from the others'"),
                _ => ("alarm", "an alarm that is not known here"),
            };
            found.push(finding(
                rule,
                Grade::Critical,
                format!("{} raised {alarm}: {what}", row.shown_name()),
            ));
        }
    }
    // Without quorum no answer can come, and that has a finding of its own.
    if let Some(Err(trouble)) = &view.facts.alarms
        && trouble.class != Class::NoQuorum
    {
        let text = format!("alarms are not known: {}: {}", trouble.class.words(), trouble.text);
        found.push(finding("alarms-unknown", Grade::High, text));
    }
    found
}

/// Compacted and defragmented, or given a larger quota: etcd keeps the alarm all the same. Of a quota that is only assumed
/// nothing follows.
/// Source: etcd `server/etcdserver/apply/apply_backend.go` (`Alarm`), `server/etcdserver/server.go` (`applyAlarms`), v3.6.
fn has_room(row: &MemberRow) -> bool {
    let Some((database, quota)) = row.database.zip(row.quota) else { return false };
    !quota.is_assumed && database.size_bytes.saturating_mul(100) / quota.bytes.max(1) <= QUOTA_USED_MAX[0]
}

/// Lag and space of one member.
fn amounts(row: &MemberRow) -> Vec<Finding> {
    let mut found = Vec::new();
    let name = row.shown_name();
    if let Some(raft) = row.raft {
        // The numbers are read one after the other, so the second may be ahead.
        let lag = raft.index.saturating_sub(raft.applied);
        if let Some(grade) = graded(lag, APPLY_LAG_MAX, [Grade::Medium, Grade::High]) {
            found.push(finding("apply-lag", grade, format!("{name} has {lag} entries not applied yet")));
        }
    }
    if let Some(behind) = row.behind.filter(|behind| *behind > BEHIND_MAX) {
        let text = format!("{name} is {behind} entries behind the leader");
        found.push(finding("replication-lag", Grade::Medium, text));
    }
    let Some(database) = row.database else { return found };
    let quota = row.quota.unwrap_or_else(|| Quota::of(&database));
    let used = database.size_bytes.saturating_mul(100) / quota.bytes.max(1);
    if let Some(grade) = graded(used, QUOTA_USED_MAX, [Grade::High, Grade::Critical]) {
        let assumed = if quota.is_assumed { " (the default; the server does not state it)" } else { "" };
        found.push(finding("quota-high", grade, format!("{name} uses {used} % of its quota{assumed}")));
    }
    let free = database.size_bytes.saturating_sub(database.in_use_bytes);
    if database.size_bytes > FRAGMENTED_MIN_BYTES && free > database.size_bytes / 2 {
        let text = format!("{name} would give back {} MiB when it is defragmented", free >> 20);
        found.push(finding("fragmented", Grade::Low, text));
    }
    found
}

fn graded(amount: u64, limits: [u64; 2], grades: [Grade; 2]) -> Option<Grade> {
    // From the highest limit down: the gravest grade that applies.
    limits.into_iter().zip(grades).rfind(|(limit, _)| amount > *limit).map(|(_, grade)| grade)
}

fn unreachable(rows: &[MemberRow]) -> Vec<Finding> {
    let trouble = |row: &MemberRow| {
        let failed = row.trouble.as_ref()?;
        let text = format!("{}: {}: {}", row.shown_name(), failed.class.words(), failed.text);
        Some(finding("unreachable", Grade::High, text))
    };
    let unasked = |row: &MemberRow| {
        (row.asked.is_none() && row.role.is_started())
            .then(|| finding("not-asked", Grade::High, format!("{}: nothing leads to it", row.shown_name())))
    };
    rows.iter().filter_map(|row| trouble(row).or_else(|| unasked(row))).collect()
}

fn versions(view: &View<'_>) -> Vec<Finding> {
    let mut versions: Vec<&str> = view.statuses().map(|status| status.version.as_str()).collect();
    versions.retain(|version| !version.is_empty());
    versions.sort_unstable();
    versions.dedup();
    if versions.len() < 2 {
        return Vec::new();
    }
    let minors: Vec<(u64, u64)> =
        versions.iter().filter_map(|v| semver::Version::parse(v).ok()).map(|v| (v.major, v.minor)).collect();
    let span = minors.iter().map(|(_, minor)| *minor).max().zip(minors.iter().map(|(_, minor)| *minor).min());
    let text = format!("members run versions {}", versions.join(", "));
    if span.is_some_and(|(max, min)| max - min > 1) {
        return vec![finding("version-skew", Grade::High, text)];
    }
    // A rollout to another version passes through this; more than one minor is wrong at any time.
    if view.is_changing() { Vec::new() } else { vec![finding("version-skew", Grade::Medium, text)] }
}
