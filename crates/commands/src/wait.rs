//! `capstan wait`: until an object reaches a state, by watch. Owns what can be waited for; must not
//! know how objects are watched.

use std::str::FromStr;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use serde_json::Value;
use tokio::sync::mpsc;

use super::exit_code::WrongUsage;
use super::live::LiveFleet;
use super::target::TargetArgs;
use crate::arguments::duration;
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_dashboard::fleet::watch::{self, ObjectNews, Scope};
use capstan_dashboard::fleet::{FeedState, Fleet, HEALTH_CHECK, SourceId, Target, Verdict, conditions_of};
use capstan_engine::client::Connection;

#[derive(Clone, Debug, Args)]
#[command(mut_arg("target", |arg| arg.required(true).num_args(1..=2).help("KIND/NAME, or KIND NAME")))]
pub struct WaitArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// `condition=TYPE[=STATUS]`, `verdict=ok`, or `delete`
    #[arg(long = "for", value_name = "WHAT")]
    pub until: Until,
    /// Such as 30s, 5m, 1h
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub timeout: Duration,
    /// When time runs out exit with the verdict's code instead of 1
    #[arg(long)]
    pub exit_status: bool,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// The condition has this status for the newest generation.
    Condition { type_: String, status: String },
    /// The cluster, with everything below it, has this verdict.
    Verdict(Verdict),
    /// The object is gone.
    Delete,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waited {
    /// With a remark about how it was reached.
    Reached { remark: Option<String> },
    /// Time ran out: what was last seen in a sentence, and the verdict of the object as far as it is known.
    TimedOut { last: String, verdict: Verdict },
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected condition=TYPE, condition=TYPE=STATUS, verdict=ok or delete".to_owned();
        if text == "delete" {
            return Ok(Self::Delete);
        }
        match text.split_once('=').ok_or_else(expected)? {
            ("condition", rest) => {
                let (type_, status) = rest.split_once('=').unwrap_or((rest, "True"));
                // kubectl takes them in any case, too.
                let known = ["True", "False", "Unknown"].into_iter().find(|s| s.eq_ignore_ascii_case(status));
                let status = known
                    .ok_or_else(|| format!("a condition is True, False or Unknown, never `{status}`"))?;
                if type_.is_empty() {
                    return Err(expected());
                }
                Ok(Self::Condition { type_: type_.to_owned(), status: status.to_owned() })
            }
            ("verdict", word) => {
                let words = Verdict::ALL.map(Verdict::word).join(", ");
                let verdict = Verdict::ALL.into_iter().find(|h| h.word() == word);
                verdict
                    .map(Self::Verdict)
                    .ok_or_else(|| format!("there is no verdict `{word}`; verdicts are {words}"))
            }
            _ => Err(expected()),
        }
    }
}

/// Waits. An object that does not exist yet is waited for as well, except for its deletion.
///
/// # Errors
/// An object without a verdict that one is waited for, or a server that does not have the kind, refuses it or does not answer.
pub async fn wait(
    connection: &Connection,
    args: &WaitArgs,
    namespace: &str,
    clock: Clock,
    rng: Rng,
) -> anyhow::Result<Waited> {
    let until = args.until.clone();
    let TargetArgs(Some(named)) = &args.target else {
        bail!(WrongUsage("what is waited for has no name: expected KIND/NAME".to_owned()))
    };
    let object = named.on(connection, namespace).await?;
    if matches!(until, Until::Verdict(_)) && object.gvk.kind != "Cluster" {
        bail!(WrongUsage(format!("only a cluster has a verdict: wait for a condition of {object} instead")));
    }
    let target = Target {
        source: SourceId(0),
        group: object.gvk.group,
        kind: object.gvk.kind,
        namespace: object.key.namespace,
        name: object.key.name,
    };
    match until {
        Until::Verdict(verdict) => {
            until_verdict(connection, &target, verdict, args.timeout, clock, rng).await
        }
        other => subject(connection, &target, &other, args.timeout, rng).await,
    }
}

async fn subject(
    connection: &Connection,
    target: &Target,
    until: &Until,
    timeout: Duration,
    rng: Rng,
) -> anyhow::Result<Waited> {
    let mut news = watch::follow_one(connection, target.clone(), rng);
    let mut seen = Seen::nothing_of(target);
    match tokio::time::timeout(timeout, seen.until(&mut news, target, until)).await {
        Ok(true) => Ok(Waited::Reached { remark: seen.remark }),
        Ok(false) => bail!(ended(&format!("{} {}", target.kind, target.name))),
        // A failure that lasts says more than what was seen before it.
        Err(_) => Ok(Waited::TimedOut { last: seen.failed.unwrap_or(seen.last), verdict: Verdict::Unknown }),
    }
}

/// A watch ends by itself only when the program does.
fn ended(what: &str) -> String {
    format!("the watch of {what} ended before what is waited for was seen; run it again")
}

/// What was seen of an object so far.
struct Seen {
    last: String,
    failed: Option<String>,
    remark: Option<String>,
}

impl Seen {
    fn nothing_of(target: &Target) -> Self {
        let last = format!("{} {} has not been seen", target.kind, target.name);
        Self { last, failed: None, remark: None }
    }

    /// True once it is as waited for; false when the news end before.
    async fn until(&mut self, news: &mut mpsc::Receiver<ObjectNews>, target: &Target, until: &Until) -> bool {
        while let Some(subject) = news.recv().await {
            // News after a failure show that it has passed.
            self.failed = None;
            if self.is_reached(subject, target, until) {
                return true;
            }
        }
        false
    }

    fn is_reached(&mut self, subject: ObjectNews, target: &Target, until: &Until) -> bool {
        match subject {
            ObjectNews::Object(object) => {
                let Until::Condition { type_, status } = until else {
                    self.last = format!("{} {} still exists", target.kind, target.name);
                    return false;
                };
                self.last = what_it_says(&object, type_);
                self.remark = is_deprecated(&object, type_).then(|| self.last.clone());
                return has_condition(&object, type_, status);
            }
            ObjectNews::Gone if *until == Until::Delete => return true,
            ObjectNews::Gone => self.last = format!("{} {} does not exist", target.kind, target.name),
            ObjectNews::Failed(text) => self.failed = Some(text),
            ObjectNews::Events(_) | ObjectNews::Writers(_) | ObjectNews::Unchanged => {}
        }
        false
    }
}

/// True when the condition has the status for the newest generation.
fn has_condition(object: &Value, type_: &str, status: &str) -> bool {
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
    find(object, type_).is_some_and(|(c, _)| {
        // Conditions of the older kind have no generation of their own, and count as they are.
        c["status"] == status && c["observedGeneration"].as_i64().is_none_or(|seen| seen >= generation)
    })
}

fn is_deprecated(object: &Value, type_: &str) -> bool {
    find(object, type_).is_some_and(|(_, legacy)| legacy)
}

fn what_it_says(object: &Value, type_: &str) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().replace('\n', " ");
    match find(object, type_) {
        None => format!("it has no condition {type_}"),
        Some((c, legacy)) => {
            let kind = if legacy { "deprecated v1beta1 condition " } else { "" };
            let (status, reason) = (text(&c["status"]), text(&c["reason"]));
            let said = format!("{kind}{type_} is {status} ({reason}) {}", text(&c["message"]));
            said.trim_end().to_owned()
        }
    }
}

/// The condition, and whether it is of the older kind.
fn find<'a>(object: &'a Value, type_: &str) -> Option<(&'a Value, bool)> {
    let (list, legacy) = conditions_of(object);
    list.iter().find(|c| c["type"] == type_).map(|c| (c, legacy))
}

async fn until_verdict(
    connection: &Connection,
    target: &Target,
    wanted: Verdict,
    timeout: Duration,
    clock: Clock,
    rng: Rng,
) -> anyhow::Result<Waited> {
    let scope = Scope { namespace: Some(target.namespace.clone()) };
    let mut live = LiveFleet::open(connection, scope, clock, rng);
    let waiting = async {
        while live.turn().await {
            if live.is_complete() && verdict(&live.fleet, target) == Some(wanted) {
                return true;
            }
        }
        false
    };
    match tokio::time::timeout(timeout, waiting).await {
        Ok(true) => return Ok(Waited::Reached { remark: None }),
        Ok(false) => bail!(ended("the management cluster")),
        Err(_) => {}
    }
    let verdict = verdict(&live.fleet, target).unwrap_or(Verdict::Unknown);
    Ok(Waited::TimedOut { last: last_seen(&live.fleet, target), verdict })
}

fn verdict(fleet: &Fleet, target: &Target) -> Option<Verdict> {
    find_cluster(fleet, target).map(|id| fleet.verdict(id))
}

fn find_cluster(fleet: &Fleet, target: &Target) -> Option<capstan_dashboard::fleet::RowId> {
    let is_it = |id: &&capstan_dashboard::fleet::RowId| {
        fleet
            .row(**id)
            .is_some_and(|r| r.name.as_ref() == target.name && r.namespace.as_ref() == target.namespace)
    };
    fleet.clusters().iter().find(is_it).copied()
}

fn last_seen(fleet: &Fleet, target: &Target) -> String {
    let trouble = fleet.feeds().find_map(|(key, feed)| match &feed.state {
        // Nothing waits for this feed, so that it is never the reason.
        FeedState::NoAccess { .. } if key.kind.as_ref() == HEALTH_CHECK => None,
        FeedState::Lost { error } | FeedState::Silent { error } | FeedState::NoAccess { error } => {
            Some(format!("{key}: {error}"))
        }
        _ => None,
    });
    match (trouble, find_cluster(fleet, target)) {
        (Some(trouble), _) => trouble,
        (None, None) => format!("Cluster {} does not exist", target.name),
        (None, Some(id)) => {
            let wrong = fleet.what_is_wrong(id);
            let verdict = fleet.verdict(id);
            if wrong.is_empty() { format!("it is {verdict}") } else { format!("it is {verdict}: {wrong}") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_waited_for() {
        let condition = |t: &str, s: &str| Until::Condition { type_: t.to_owned(), status: s.to_owned() };
        for (text, expected) in [
            ("delete", Until::Delete),
            ("condition=Available", condition("Available", "True")),
            ("condition=Available=false", condition("Available", "False")),
            ("verdict=ok", Until::Verdict(Verdict::Ok)),
        ] {
            assert_eq!(text.parse::<Until>().expect(text), expected);
        }
        for (text, said) in [
            ("create", "expected condition=TYPE"),
            ("condition=", "expected condition=TYPE"),
            ("condition=Ready=Maybe", "never `Maybe`"),
            ("verdict=fine", "verdicts are ok"),
        ] {
            let error = text.parse::<Until>().expect_err(text);
            assert!(error.contains(said), "{error}");
        }
    }

    #[tokio::test]
    async fn news_that_end_reach_nothing() {
        let target = Target {
            source: SourceId(0),
            group: "cluster.x-k8s.io".into(),
            kind: "Machine".into(),
            namespace: "n".into(),
            name: "m".into(),
        };
        for until in [Until::Delete, "condition=Ready".parse().expect("it parses")] {
            let (sender, mut news) = mpsc::channel(1);
            let object =
                serde_json::json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
            sender.send(ObjectNews::Object(object.into())).await.expect("it is taken");
            drop(sender);
            let mut seen = Seen::nothing_of(&target);
            assert!(!seen.until(&mut news, &target, &until).await);
            assert!(!seen.last.contains("not been seen"), "{}", seen.last);
        }
    }

    #[test]
    fn a_condition_counts_for_the_newest_generation_only() {
        let object = |seen: i64| {
            serde_json::json!({
                "metadata": {"generation": 2},
                "status": {"conditions": [{"type": "Available", "status": "True", "observedGeneration": seen}]},
            })
        };
        assert!(has_condition(&object(2), "Available", "True"));
        assert!(!has_condition(&object(1), "Available", "True"));
        assert!(!has_condition(&object(2), "Ready", "True"));
    }

    #[test]
    fn conditions_are_found_where_the_version_keeps_them() {
        let ready = |status: &str| serde_json::json!([{"type": "Ready", "status": status, "reason": "R", "severity": "Warning"}]);
        let object = |status| serde_json::json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "status": status});
        let both = object(serde_json::json!({
            "conditions": ready("False"),
            "v1beta2": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]},
        }));
        assert!(has_condition(&both, "Ready", "True") && !is_deprecated(&both, "Ready"));
        for old in [
            object(serde_json::json!({"conditions": ready("False")})),
            serde_json::json!({"apiVersion": "cluster.x-k8s.io/v1beta2",
                "status": {"deprecated": {"v1beta1": {"conditions": ready("False")}}}}),
        ] {
            assert!(has_condition(&old, "Ready", "False") && is_deprecated(&old, "Ready"));
            assert_eq!(what_it_says(&old, "Ready"), "deprecated v1beta1 condition Ready is False (R)");
        }
    }
}
