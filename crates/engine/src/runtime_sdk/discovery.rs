//! Which answers to discovery are acceptable, and the handlers that they amount to. Must not know how a call travels.
//! Source: cluster-api `internal/runtime/client/client.go` (`Discover`, `defaultAndValidateDiscoveryResponse`), v1.14.2.

use std::collections::BTreeSet;

use capi_types::extension_config::ExtensionHandler;
use capi_types::hook::{DiscoveredHandler, DiscoveryResponse, Hook, HookResponse as _, SUCCESS};
use k8s_machinery::validation::naming;

/// Seconds for a call when neither handler nor registration says how long.
pub const DEFAULT_TIMEOUT_S: i32 = 10;
const TIMEOUT_MAX_S: i32 = 30;
/// What is done about a call that fails.
pub const FAIL: &str = "Fail";
pub const IGNORE: &str = "Ignore";

/// More would not fit the status in which they are listed.
const HANDLERS_MAX: usize = 1_000;

/// The handlers of an extension as its ExtensionConfig lists them, with defaults filled in.
///
/// # Errors
/// Everything that is wrong with the answer.
pub fn handlers(extension: &str, answer: &DiscoveryResponse) -> Result<Vec<ExtensionHandler>, String> {
    if answer.status() != SUCCESS {
        let what = refusal(answer.status(), answer.message());
        return Err(format!("failed to discover extension \"{extension}\": {what}"));
    }
    let count = answer.handlers.len();
    if count > HANDLERS_MAX {
        return Err(format!(
            "failed to discover extension \"{extension}\": it has {count} handlers, and {HANDLERS_MAX} are the most"
        ));
    }
    let mut names = BTreeSet::new();
    let mut problems = Vec::new();
    for handler in &answer.handlers {
        if !names.insert(&handler.name) {
            problems.push(format!("duplicate name for handler {} found", handler.name));
        }
        problems.extend(problems_of(handler));
    }
    if !problems.is_empty() {
        let problems = summed(&problems);
        return Err(format!(
            "failed to discover extension \"{extension}\": failed to validate discovery response: {problems}"
        ));
    }
    Ok(answer.handlers.iter().map(|handler| registered(extension, handler)).collect())
}

/// Why an answer is not a success, in words. Source: `validateResponseStatus`.
pub fn refusal(status: &str, message: &str) -> String {
    match status {
        capi_types::hook::FAILURE => format!("got failure response with message: {message}"),
        other => format!("got unknown response status \"{other}\" with message: {message}"),
    }
}

fn problems_of(handler: &DiscoveredHandler) -> Vec<String> {
    let DiscoveredHandler { name, request_hook, timeout_seconds, failure_policy } = handler;
    let mut problems = Vec::new();
    let complaints = naming::dns_label(name);
    if !complaints.is_empty() {
        problems.push(format!("handler name {name} is not valid: [{}]", complaints.join(" ")));
    }
    let timeout_s = timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_S);
    if !(0..=TIMEOUT_MAX_S).contains(&timeout_s) {
        problems
            .push(format!("handler {name} timeoutSeconds {timeout_s} must be between 0 and {TIMEOUT_MAX_S}"));
    }
    if let Some(policy) = failure_policy.as_deref().filter(|policy| ![FAIL, IGNORE].contains(policy)) {
        problems.push(format!("handler {name} failurePolicy {policy} must equal \"Ignore\" or \"Fail\""));
    }
    let (version, hook) = (&request_hook.api_version, &request_hook.hook);
    if version.matches('/').count() > 1 {
        problems.push(format!(
            "handler {name} requestHook APIVersion {version} is not valid: unexpected GroupVersion string: {version}"
        ));
    } else if Hook::find(version, hook).is_none() {
        problems
            .push(format!("handler {name} requestHook {version}/{hook} is not in the Runtime SDK catalog"));
    }
    problems
}

/// One as it is, several in brackets. Source: apimachinery `util/errors` (`NewAggregate`).
fn summed(problems: &[String]) -> String {
    let mut seen = BTreeSet::new();
    let once: Vec<&str> =
        problems.iter().map(String::as_str).filter(|problem| seen.insert(*problem)).collect();
    match once.as_slice() {
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// `timeoutSeconds: 0` stands for the default, and a status cannot hold it.
fn registered(extension: &str, handler: &DiscoveredHandler) -> ExtensionHandler {
    ExtensionHandler {
        name: format!("{}.{extension}", handler.name),
        request_hook: handler.request_hook.clone(),
        timeout_seconds: Some(handler.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_S))
            .filter(|after| *after != 0),
        failure_policy: Some(handler.failure_policy.clone().unwrap_or_else(|| FAIL.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use capi_types::hook::API_VERSION;

    fn of(handlers_: Value) -> Result<Vec<ExtensionHandler>, String> {
        let answer = json!({"status": "Success", "handlers": handlers_});
        handlers("ext", &serde_json::from_value(answer).expect("an answer"))
    }

    fn hook(name: &str) -> Value {
        json!({"apiVersion": API_VERSION, "hook": name})
    }

    #[test]
    fn so_many_handlers_that_their_list_cannot_be_stored_are_refused() {
        let many = |count: usize| {
            let handler = |n| json!({"name": format!("h{n}"), "requestHook": hook("UpdateMachine")});
            of((0..count).map(handler).collect())
        };
        assert_eq!(many(1_000).map(|handlers| handlers.len()), Ok(1_000));
        let refused = "failed to discover extension \"ext\": it has 1001 handlers, and 1000 are the most";
        assert_eq!(many(1_001).err().as_deref(), Some(refused));
    }

    #[test]
    fn handlers_get_their_name_and_defaults() {
        let found = of(json!([
            {"name": "can-update", "requestHook": hook("CanUpdateMachine")},
            {"name": "update", "requestHook": hook("UpdateMachine"), "timeoutSeconds": 0, "failurePolicy": "Ignore"},
        ]));
        let expected = json!([
            {"name": "can-update.ext", "requestHook": hook("CanUpdateMachine"), "timeoutSeconds": 10, "failurePolicy": "Fail"},
            {"name": "update.ext", "requestHook": hook("UpdateMachine"), "failurePolicy": "Ignore"},
        ]);
        assert_eq!(json!(found.expect("handlers")), expected);
        assert_eq!(of(json!(null)), Ok(Vec::new()));
    }

    #[test]
    fn wrong_answers_are_named() {
        let table = [
            (
                json!([{"requestHook": hook("UpdateMachine")}]),
                "handler name  is not valid: [a lowercase RFC 1123 label",
            ),
            (json!([{"name": "A.b", "requestHook": hook("UpdateMachine")}]), "handler name A.b is not valid"),
            (
                json!([{"name": "a", "requestHook": hook("UpdateMachine"), "timeoutSeconds": 31}]),
                "handler a timeoutSeconds 31 must be between 0 and 30",
            ),
            (
                json!([{"name": "a", "requestHook": hook("UpdateMachine"), "timeoutSeconds": -1}]),
                "handler a timeoutSeconds -1 must be between 0 and 30",
            ),
            (
                json!([{"name": "a", "requestHook": hook("UpdateMachine"), "failurePolicy": "Retry"}]),
                "handler a failurePolicy Retry must equal \"Ignore\" or \"Fail\"",
            ),
            (
                json!([{"name": "a", "requestHook": hook("DrainMachine")}]),
                "handler a requestHook hooks.runtime.cluster.x-k8s.io/v1alpha1/DrainMachine is not in the Runtime SDK catalog",
            ),
            (
                json!([{"name": "a", "requestHook": {"apiVersion": "a/b/c", "hook": "UpdateMachine"}}]),
                "handler a requestHook APIVersion a/b/c is not valid: unexpected GroupVersion string: a/b/c",
            ),
            (
                json!([{"name": "a", "requestHook": hook("UpdateMachine")}, {"name": "a", "requestHook": hook("X")}]),
                "failed to validate discovery response: [duplicate name for handler a found, handler a requestHook",
            ),
        ];
        for (handlers, expected) in table {
            let why = of(handlers).expect_err(expected);
            assert!(
                why.starts_with("failed to discover extension \"ext\": failed to validate discovery"),
                "{why}"
            );
            assert!(why.contains(expected), "{why}\n{expected}");
        }
        for (answer, expected) in [
            (json!({"status": "Failure", "message": "no"}), "got failure response with message: no"),
            (json!({"status": "Fine"}), "got unknown response status \"Fine\" with message: "),
            (json!({}), "got unknown response status \"\" with message: "),
        ] {
            let why =
                handlers("ext", &serde_json::from_value(answer).expect("an answer")).expect_err(expected);
            assert_eq!(why, format!("failed to discover extension \"ext\": {expected}"));
        }
    }
}
