//! What is true of a Host: its conditions, and the one word for its state. Owns reasons and sentences; must not know how it was
//! looked at.

use std::collections::BTreeSet;

use capi_rules::status::conditions::setter::{Draft, condition};
use capi_types::condition::{Condition, Conditioned, Status, find, is_true};
use capi_types::host::condition as type_;
use capi_types::host::{Host, HostConsumer, HostStatus};
use capstan_base::time::Timestamp;
use capstan_hosts::check::check;
use capstan_hosts::clean::Proof;
use capstan_hosts::facts::{HostFacts, Privilege};
use capstan_hosts::finding::{Fitness, HostFinding, NodeRole, Purpose};
use capstan_hosts::owner::{HostOwner, OwnerAnswer};
use capstan_remote::trouble::SshTrouble;

use super::twins::NEVER_IGNORED;
use crate::access::Silence;

/// So long a machine that was reached may be silent before it counts as unreachable.
pub const SILENT_MAX_S: i64 = 120;
/// These look for what an earlier node left, which the proof of cleanness does better.
const OF_CLEANNESS: [&str; 4] = ["ports", "files", "etcd-data", "other-distribution"];
/// A condition names so many things, and says how many more there are.
const NAMED_MAX: usize = 6;

/// What a look at a machine found.
#[derive(Clone, Debug)]
pub struct SeenHost {
    pub facts: HostFacts,
    pub owner: Result<OwnerAnswer, Silence>,
    /// Not asked of a Host that somebody has.
    pub proof: Option<Result<Proof, Silence>>,
}

/// The last look.
#[derive(Clone, Debug)]
pub struct Look {
    pub answer: Result<SeenHost, Silence>,
    /// Since when it is silent.
    pub silent_since: Option<Timestamp>,
}

/// Everything a Host is judged by.
pub struct ObservedHost<'a> {
    pub host: &'a Host,
    /// By itself or its pool.
    pub ignored: BTreeSet<&'a str>,
    /// `None`: not yet since the start.
    pub look: Option<&'a Look>,
    /// What it has in common with others.
    pub twins: Vec<HostFinding>,
    pub installation: &'a str,
    pub now: Timestamp,
}

impl ObservedHost<'_> {
    fn seen(&self) -> Option<&SeenHost> {
        self.look.and_then(|look| look.answer.as_ref().ok())
    }

    fn consumer(&self) -> Option<&HostConsumer> {
        self.host.spec.consumer_ref.as_ref()
    }

    fn stored(&self) -> &[Condition] {
        self.host.conditions()
    }

    /// As it was, where nothing new is known.
    fn kept(&self, type_: &str, otherwise: impl FnOnce() -> Condition) -> Condition {
        find(self.stored(), type_).cloned().unwrap_or_else(otherwise)
    }
}

fn yes(type_: &str, reason: &str, message: impl Into<String>) -> Condition {
    condition(type_, Status::True, reason, message)
}

fn no(type_: &str, reason: &str, message: impl Into<String>) -> Condition {
    condition(type_, Status::False, reason, message)
}

fn unknown(type_: &str, reason: &str, message: impl Into<String>) -> Condition {
    condition(type_, Status::Unknown, reason, message)
}

fn not_asked(type_: &str) -> Condition {
    unknown(type_, "NotAskedYet", "the machine was not asked yet")
}

/// All conditions of a Host, the sum last.
pub fn conditions(observed: &ObservedHost<'_>) -> Vec<Condition> {
    let mut all = vec![
        reachable(observed),
        host_key_verified(observed),
        privileged(observed),
        suitable(observed),
        clean(observed),
        claimed(observed),
    ];
    all.push(available(observed, &all));
    all
}

fn reachable(observed: &ObservedHost<'_>) -> Condition {
    let Some(look) = observed.look else {
        return observed.kept(type_::REACHABLE, || not_asked(type_::REACHABLE));
    };
    let Err(silence) = &look.answer else { return yes(type_::REACHABLE, "Reachable", "") };
    let reason = match silence.trouble {
        Some(SshTrouble::UnknownHostKey | SshTrouble::ChangedHostKey) => "NotTrusted",
        Some(SshTrouble::Denied) => "Denied",
        Some(SshTrouble::Configuration) => "SshConfiguration",
        Some(SshTrouble::Unreachable) => "Unreachable",
        None => "NoAnswer",
    };
    let silent_s = look.silent_since.map_or(i64::MAX, |since| (observed.now - since).num_seconds());
    let was_reached = find(observed.stored(), type_::REACHABLE).is_some_and(|it| it.status != "False");
    // A connection that breaks now and then is not a machine that is gone.
    if silence.is_passing() && was_reached && silent_s < SILENT_MAX_S {
        return unknown(type_::REACHABLE, "ConnectionLost", silence.reason.clone());
    }
    no(type_::REACHABLE, reason, silence.reason.clone())
}

fn host_key_verified(observed: &ObservedHost<'_>) -> Condition {
    const TYPE: &str = type_::HOST_KEY_VERIFIED;
    let Some(look) = observed.look else { return observed.kept(TYPE, || not_asked(TYPE)) };
    match &look.answer {
        Ok(_) if observed.host.spec.host_keys.is_empty() => {
            yes(TYPE, "KnownHosts", "the operator's ssh knows the key")
        }
        Ok(_) => yes(TYPE, "Pinned", "the key is one of spec.hostKeys"),
        Err(silence) => match silence.trouble {
            Some(SshTrouble::UnknownHostKey) => no(TYPE, "UnknownHostKey", untrusted(silence, observed.host)),
            Some(SshTrouble::ChangedHostKey) => no(TYPE, "ChangedHostKey", untrusted(silence, observed.host)),
            // The key was verified before a user was refused.
            Some(SshTrouble::Denied) => yes(TYPE, "Verified", ""),
            _ => observed.kept(TYPE, || not_asked(TYPE)),
        },
    }
}

fn untrusted(silence: &Silence, host: &Host) -> String {
    let (reason, name) = (&silence.reason, host.metadata.name.as_deref().unwrap_or_default());
    if silence.offered.is_empty() {
        // A jump host is never pinned, and behind one no key can be asked for.
        return format!(
            "{reason}; no key was offered when asked. The key of a jump host is trusted once the known_hosts file of the operator's ssh \
             has it; that of the machine: capstan host trust {name}"
        );
    }
    let keys: Vec<String> =
        silence.offered.iter().map(|key| format!("{} {}", key.kind, key.fingerprint)).collect();
    format!(
        "{reason}; the machine offers: {}. Compare one with what the machine's own console says, then: capstan host trust {name} \
         --fingerprint SHA256:…",
        keys.join(", ")
    )
}

fn privileged(observed: &ObservedHost<'_>) -> Condition {
    const TYPE: &str = type_::PRIVILEGED;
    let Some(seen) = observed.seen() else { return observed.kept(TYPE, || not_asked(TYPE)) };
    match seen.facts.privilege {
        Privilege::Root => yes(TYPE, "Root", ""),
        Privilege::Sudo => yes(TYPE, "Sudo", ""),
        Privilege::None => no(
            TYPE,
            "NotPrivileged",
            "the user is not root and may not use sudo without a password; name root, or add NOPASSWD for the user",
        ),
    }
}

/// Sentences for a condition, the first ones in full.
pub fn listed<I: ExactSizeIterator<Item = String>>(sentences: I) -> String {
    let all = sentences.len();
    let mut text = sentences.take(NAMED_MAX).collect::<Vec<_>>().join("; ");
    if all > NAMED_MAX {
        text.push_str(&format!("; and {} more", all - NAMED_MAX));
    }
    text
}

/// What speaks against a machine as a node, and what it shares with another Host.
pub fn findings(observed: &ObservedHost<'_>, role: NodeRole) -> Vec<HostFinding> {
    let Some(seen) = observed.seen() else { return Vec::new() };
    let counts = |it: &HostFinding| !OF_CLEANNESS.contains(&it.rule) && !observed.ignored.contains(it.rule);
    let of_machine = check(&seen.facts, &Purpose { role, version: None }).into_iter().filter(counts);
    let is_held = |it: &HostFinding| NEVER_IGNORED.contains(&it.rule) || !observed.ignored.contains(it.rule);
    observed.twins.iter().filter(|it| is_held(it)).cloned().chain(of_machine).collect()
}

fn suitable(observed: &ObservedHost<'_>) -> Condition {
    const TYPE: &str = type_::SUITABLE;
    if observed.seen().is_none() {
        return observed.kept(TYPE, || not_asked(TYPE));
    }
    let all = findings(observed, NodeRole::Worker);
    let of = |outcome: Fitness| -> Vec<String> {
        all.iter().filter(|it| it.outcome == outcome).map(sentence).collect()
    };
    let (unfit, unread) = (of(Fitness::Unfit), of(Fitness::Unknown));
    if !unfit.is_empty() {
        return no(TYPE, "Unfit", listed(unfit.into_iter()));
    }
    if !unread.is_empty() {
        return unknown(TYPE, "NotReadable", listed(unread.into_iter()));
    }
    yes(TYPE, "Suitable", "")
}

fn sentence(finding: &HostFinding) -> String {
    let remedy = if finding.remedy.is_empty() { String::new() } else { format!(" ({})", finding.remedy) };
    format!("{}: {}{remedy}", finding.rule, finding.evidence)
}

/// Whose owner file is on the machine.
pub fn owner_of(answer: &OwnerAnswer) -> Option<&HostOwner> {
    match answer {
        OwnerAnswer::Ours { owner, .. } | OwnerAnswer::Other { owner, .. } => Some(owner),
        OwnerAnswer::Free | OwnerAnswer::Busy | OwnerAnswer::Unreadable => None,
    }
}

/// Another installation, or another Host, has the machine.
fn owned_elsewhere<'a>(observed: &'a ObservedHost<'_>) -> Option<&'a HostOwner> {
    let owner = observed.seen().and_then(|seen| seen.owner.as_ref().ok()).and_then(owner_of)?;
    // After a move the Host has another uid, and its claim still names the use.
    let is_of_host = Some(owner.host.as_str()) == observed.host.metadata.uid.as_deref()
        || observed.consumer().is_some_and(|consumer| consumer.uid == owner.machine);
    let is_ours = owner.installation == observed.installation && is_of_host;
    (!is_ours).then_some(owner)
}

fn clean(observed: &ObservedHost<'_>) -> Condition {
    const TYPE: &str = type_::CLEAN;
    if let Some(consumer) = observed.consumer() {
        return unknown(TYPE, "InUse", format!("HostMachine {} has it", consumer.name));
    }
    let Some(seen) = observed.seen() else {
        // What was clean when it was seen last may not be so now.
        return observed.look.map_or_else(
            || observed.kept(TYPE, || not_asked(TYPE)),
            |_| unknown(TYPE, "NotProved", "the machine does not answer"),
        );
    };
    let owner = seen.owner.as_ref().ok().filter(|_| owned_elsewhere(observed).is_none()).and_then(owner_of);
    let mut left: Vec<String> = match &seen.proof {
        None => return unknown(TYPE, "NotProved", "root is needed to look at what is left"),
        Some(Err(silence)) => return unknown(TYPE, "NotProved", silence.reason.clone()),
        Some(Ok(proof)) if !proof.unread.is_empty() && proof.left.is_empty() => {
            return unknown(TYPE, "NotProved", format!("cannot be read: {}", proof.unread.join(", ")));
        }
        Some(Ok(proof)) => proof.left.iter().map(ToString::to_string).collect(),
    };
    left.extend(owner.map(|owner| {
        format!("the owner file of HostMachine {}, which does not have it any more", owner.machine)
    }));
    if left.is_empty() {
        return yes(TYPE, "Clean", "");
    }
    let name = observed.host.metadata.name.as_deref().unwrap_or_default();
    let list = listed(left.into_iter());
    no(
        TYPE,
        "Leftovers",
        format!("left of an earlier node: {list}. To reset the machine: capstan host release {name}"),
    )
}

fn claimed(observed: &ObservedHost<'_>) -> Condition {
    const TYPE: &str = type_::CLAIMED;
    if let Some(owner) = owned_elsewhere(observed) {
        let name = observed.host.metadata.name.as_deref().unwrap_or_default();
        let how =
            format!("To take it over, and to reset it where nobody here has it: capstan host adopt {name}");
        return no(TYPE, "OwnedElsewhere", format!("the machine's owner file names {owner}. {how}"));
    }
    match observed.consumer() {
        Some(consumer) => yes(TYPE, "Claimed", format!("by HostMachine {}", consumer.name)),
        None => no(TYPE, "NotClaimed", ""),
    }
}

/// May a HostMachine claim it? The first of the others that says no is the reason.
fn available(observed: &ObservedHost<'_>, others: &[Condition]) -> Condition {
    const TYPE: &str = type_::AVAILABLE;
    if observed.host.metadata.deletion_timestamp.is_some() {
        return no(TYPE, "Deleting", "the Host is being deleted");
    }
    if let Some(consumer) = observed.consumer() {
        return no(TYPE, "Claimed", format!("HostMachine {} has it", consumer.name));
    }
    if let Some(maintenance) = &observed.host.spec.maintenance {
        return no(TYPE, "Maintenance", maintenance.reason.clone());
    }
    let needed =
        [type_::REACHABLE, type_::HOST_KEY_VERIFIED, type_::PRIVILEGED, type_::SUITABLE, type_::CLEAN];
    // A key that is not trusted is the cause of not being reached.
    let in_order = [1, 0, 2, 3, 4].map(|at| needed[at]);
    let blocking = if find(others, type_::CLAIMED).is_some_and(|it| it.reason == "OwnedElsewhere") {
        find(others, type_::CLAIMED)
    } else {
        in_order.iter().find(|it| !is_true(others, it)).and_then(|it| find(others, it))
    };
    let Some(blocking) = blocking else { return yes(TYPE, "Available", "") };
    let status = if blocking.status == "Unknown" { Status::Unknown } else { Status::False };
    condition(TYPE, status, &blocking.reason, blocking.message.clone())
}

/// The status of a Host whose words ssh must not be given.
pub fn not_valid(host: &Host, why: &str, now: Timestamp) -> HostStatus {
    let mut status = host.status.clone().unwrap_or_default();
    let mut draft = Draft::new(std::mem::take(&mut status.conditions), host.metadata.generation, now);
    draft.set(no(type_::REACHABLE, "NotValid", why));
    draft.set(no(type_::AVAILABLE, "NotValid", why));
    status.conditions = draft.finish();
    status.state = Some("NotValid".to_owned());
    status
}

/// One word for people, made from the conditions and from what runs.
pub fn state(host: &Host, conditions: &[Condition]) -> &'static str {
    let reason = |type_: &str| find(conditions, type_).map_or("", |it| it.reason.as_str());
    if find(conditions, type_::HOST_KEY_VERIFIED).is_some_and(|it| it.status == "False") {
        return "Untrusted";
    }
    match reason(type_::REACHABLE) {
        "NotAskedYet" => return "Unknown",
        "Reachable" | "ConnectionLost" => {}
        "Denied" => return "Denied",
        _ => return "Unreachable",
    }
    if reason(type_::CLAIMED) == "OwnedElsewhere" {
        return "OwnedElsewhere";
    }
    if host.spec.consumer_ref.is_some() {
        return of_run(host);
    }
    match reason(type_::AVAILABLE) {
        "Available" => "Available",
        "Maintenance" => "Maintenance",
        "Deleting" => "Deleting",
        "NotPrivileged" => "NotPrivileged",
        "Unfit" => "Unfit",
        "Leftovers" => "Quarantined",
        _ => "Unknown",
    }
}

fn of_run(host: &Host) -> &'static str {
    let run = host.status.as_ref().and_then(|status| status.run.as_ref());
    let is_own = run.is_some_and(|run| run.id.as_ref() == host.spec.consumer_ref.as_ref().map(|it| &it.uid));
    let word = |text: &Option<String>| text.clone().unwrap_or_default();
    let Some(run) = run.filter(|_| is_own) else { return "Claimed" };
    match (word(&run.kind).as_str(), word(&run.phase).as_str()) {
        ("Bootstrap", "Succeeded") => "InUse",
        ("Bootstrap", "Failed") => "BootstrapFailed",
        ("Bootstrap", _) => "Bootstrapping",
        ("Reset", "Failed") => "Quarantined",
        ("Reset", _) => "Resetting",
        _ => "Claimed",
    }
}

#[cfg(test)]
mod tests;
