//! What a condition says, in the words of an operator: without the names of condition types in front, the sentence
//! before the object that it is about, a code spelled out. Must not know objects, verdicts nor how words are drawn.

use super::explanation::Explanations;
use super::row::Condition;
use capi_types::condition_types::condition_type;

/// Ends of the names of condition types that providers have beside those of Cluster API.
const TYPE_ENDS: [&str; 8] =
    ["Ready", "Healthy", "Available", "Provisioned", "Running", "UpToDate", "Succeeded", "Completed"];
/// What stands where a provider gave no reason.
const NO_REASONS: [&str; 2] = ["", "NoReasonReported"];
/// Words that say no more than the status of the condition does.
const EMPTY_WORDS: [&str; 3] = ["Condition is Unknown", "Condition is False", "Condition is True"];

/// The evidence of `condition` in plain words: short words for what its message has in it, else the message, else
/// short words for its reason, else the reason spelled out, else the status.
pub(super) fn plain_words(condition: &Condition, explanations: &Explanations) -> String {
    let message = first_words(&condition.message);
    if let Some(short) = explanations.find_in(message).and_then(|words| words.short()) {
        return object_last(message)
            .map_or_else(|| short.to_owned(), |(object, _)| format!("{short}: {object}"));
    }
    let said = without_types(message);
    // What is said of all other reasons of the type would hide a reason of the provider's.
    let short = explanations.find_reason(&condition.type_, &condition.reason).and_then(|words| words.short());
    match (said, short) {
        _ if is_sentence(said) => match object_last(said) {
            Some((object, sentence)) => format!("{sentence}: {object}"),
            None => match name_last(said) {
                Some((name, sentence)) => format!("{sentence}: {name}"),
                None => said.to_owned(),
            },
        },
        (code, _) if !code.is_empty() && !EMPTY_WORDS.contains(&code) => spelled_out(code),
        _ if NO_REASONS.contains(&condition.reason.as_ref()) => {
            format!("{} is {}", condition.type_, condition.status.as_str())
        }
        (_, Some(short)) => short.to_owned(),
        _ => spelled_out(&condition.reason),
    }
}

/// The first line of a message that is not only a heading, without its bullet.
pub(super) fn first_words(message: &str) -> &str {
    let lines =
        || message.lines().map(|l| l.trim_start_matches([' ', '*']).trim_end()).filter(|l| !l.is_empty());
    lines().find(|l| !l.ends_with(':')).or_else(|| lines().next()).unwrap_or_default()
}

/// Does it say something in words, not only a code or the status?
fn is_sentence(text: &str) -> bool {
    text.contains(' ') && !EMPTY_WORDS.contains(&text)
}

/// A message without the condition types that summaries and mirrors put before it: `Node.Ready: `, `NodeProvisioned: `.
fn without_types(message: &str) -> &str {
    let mut rest = message;
    while let Some((_, tail)) = rest.split_once(": ").filter(|(head, _)| is_type(head)) {
        rest = tail.trim_start();
    }
    rest
}

fn is_type(head: &str) -> bool {
    let is_name = head.starts_with(|c: char| c.is_ascii_uppercase())
        && head.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
    let is_of_node = head.strip_prefix("Node.").is_some();
    let is_known = condition_type(head).is_some() || TYPE_ENDS.iter().any(|end| head.ends_with(end));
    is_name && (is_of_node || is_known)
}

/// `Pod web/shop-1: cannot evict` as what it is about and what is said of it. Only of a kind with one name.
fn object_last(text: &str) -> Option<(&str, &str)> {
    let (object, sentence) = text.split_once(": ")?;
    is_object(object).then_some((object, sentence)).filter(|(_, sentence)| sentence.contains(' '))
}

/// `DevMachine a-1x7tq is being deleted` as `DevMachine is being deleted` and the name that stands behind its kind.
fn name_last(text: &str) -> Option<(&str, String)> {
    let (kind, rest) = text.split_once(' ')?;
    let (name, sentence) = rest.split_once(' ')?;
    // A word that is no name has no number and no dash: `Control plane is not initialized`.
    let is_generated = name.contains(|c: char| c.is_ascii_digit() || c == '-');
    let says =
        ["is ", "are ", "has ", "does ", "was ", "cannot "].iter().any(|verb| sentence.starts_with(verb));
    let is_it = is_generated && says && is_object(&text[..kind.len() + 1 + name.len()]);
    is_it.then(|| (name, format!("{kind} {sentence}")))
}

/// A kind and a name.
fn is_object(text: &str) -> bool {
    let Some((kind, name)) = text.split_once(' ') else { return false };
    let is_kind =
        kind.starts_with(|c: char| c.is_ascii_uppercase()) && kind.chars().all(char::is_alphanumeric);
    let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-./".contains(c));
    is_kind && is_name && !name.is_empty()
}

/// `WaitingForStartupTimeout` as words: `waiting for startup timeout`. Capitals that stand together stay: `VM`, `API`.
pub(super) fn spelled_out(code: &str) -> String {
    let letters: Vec<char> = code.chars().collect();
    let is_upper = |at: usize| letters.get(at).is_some_and(char::is_ascii_uppercase);
    let is_lower = |at: usize| letters.get(at).is_some_and(char::is_ascii_lowercase);
    let mut words = String::with_capacity(code.len() + 8);
    for (at, letter) in letters.iter().enumerate() {
        let begins = is_upper(at) && at > 0 && (is_lower(at - 1) || is_lower(at + 1));
        if begins {
            words.push(' ');
        }
        // One capital begins a word of English; several are a name of letters.
        let is_alone =
            is_upper(at) && !is_upper(at + 1) && (at == 0 || !is_upper(at - 1) || is_lower(at + 1));
        words.push(if is_alone { letter.to_ascii_lowercase() } else { *letter });
    }
    words
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fleet::row::{ConditionText, Severity};
    use capi_types::condition::Status;

    #[test]
    fn the_name_stands_behind_what_is_said_of_it() {
        for (text, expected) in [
            ("DevMachine a-1x7tq is being deleted", Some("DevMachine is being deleted: a-1x7tq")),
            (
                "Node a-1 has been deleted while the Machine still exists",
                Some("Node has been deleted while the Machine still exists: a-1"),
            ),
            ("Control plane is not initialized", None),
            ("DevMachineTemplate does not exist", None),
            ("Waiting for a-1 is over", None),
            ("Pod a-1", None),
        ] {
            let said = name_last(text).map(|(name, sentence)| format!("{sentence}: {name}"));
            assert_eq!(said.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn types_in_front_are_left_out() {
        for (message, expected) in [
            ("Node.Ready: Kubelet stopped posting node status.", "Kubelet stopped posting node status."),
            ("NodeProvisioned: WaitingForStartupTimeout", "WaitingForStartupTimeout"),
            ("InfrastructureReady: VMProvisioned: VM is starting", "VM is starting"),
            // What went wrong is not a type.
            ("VcpuLimitExceeded: You have requested more", "VcpuLimitExceeded: You have requested more"),
            ("Pod a/b: cannot evict", "Pod a/b: cannot evict"),
            ("http: server gave an answer", "http: server gave an answer"),
            ("", ""),
        ] {
            assert_eq!(without_types(message), expected);
        }
    }

    #[test]
    fn the_words_of_a_condition() {
        let known = Explanations::built_in();
        for (type_, reason, message, expected) in [
            ("NodeHealthy", "NodeNotHealthy", "* Node.Ready: PLEG is not healthy", "PLEG is not healthy"),
            (
                "NodeHealthy",
                "NodeHealthyUnknown",
                "* Node.Ready: Condition is Unknown",
                "kubelet has stopped reporting",
            ),
            ("InfrastructureReady", "NotReady", "* VMProvisioned: QuotaExceeded", "quota exceeded"),
            ("InfrastructureReady", "NotReady", "", "infrastructure is being made"),
            (
                "Ready",
                "NotReady",
                "* BootstrapConfigReady: KubeadmConfig status.initialization.dataSecretCreated is false",
                "no bootstrap data yet",
            ),
            (
                "ControlPlaneAvailable",
                "NotAvailable",
                "* KThreesControlPlane status.initialization.controlPlaneInitialized is false",
                "the control plane is not initialized yet",
            ),
            ("InfrastructureReady", "InstanceTerminated", "", "instance terminated"),
            ("Synced", "NoReasonReported", "", "Synced is False"),
            (
                "Deleting",
                "DrainingNode",
                "* Pod web/a: cannot evict pod as it would violate the pod's disruption budget. b needs 1",
                "a disruption budget stops its drain: Pod web/a",
            ),
            (
                "Deleting",
                "DrainingNode",
                "* Pod web/a: deletionTimestamp set, waiting",
                "deletionTimestamp set, waiting: Pod web/a",
            ),
        ] {
            let condition = Condition {
                text: Arc::new(ConditionText {
                    type_: type_.into(),
                    status: Status::False,
                    reason: reason.into(),
                    severity: Severity::None,
                    message: message.into(),
                }),
                since_s: 0,
            };
            assert_eq!(plain_words(&condition, known), expected);
        }
    }

    #[test]
    fn codes_are_spelled_out() {
        for (code, expected) in [
            ("WaitingForStartupTimeout", "waiting for startup timeout"),
            ("VMProvisioned", "VM provisioned"),
            ("EtcdMemberHealthy", "etcd member healthy"),
            ("APIServerPodHealthy", "API server pod healthy"),
            ("InvalidAMI", "invalid AMI"),
            ("quotaExceeded", "quota exceeded"),
            ("Failed", "failed"),
            ("", ""),
        ] {
            assert_eq!(spelled_out(code), expected);
        }
    }

    #[test]
    fn the_object_stands_behind_what_is_said_of_it() {
        assert_eq!(
            object_last("Pod web/shop-1: cannot evict pod"),
            Some(("Pod web/shop-1", "cannot evict pod"))
        );
        for text in
            ["Pods a, b: cannot evict", "failed to create: no quota", "Pod web/shop: NotFound", "no colon"]
        {
            assert_eq!(object_last(text), None, "{text}");
        }
    }

    #[test]
    fn the_first_line_that_says_something() {
        for (message, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("* Machine a:\n  * EtcdMemberHealthy: no member", "EtcdMemberHealthy: no member"),
            ("* Machine a:", "Machine a:"),
        ] {
            assert_eq!(first_words(message), expected);
        }
    }
}
