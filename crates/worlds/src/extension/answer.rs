//! What the reference extension answers: from a path and a body to a status and a body. Owns its hooks and what it does
//! wrong on demand; must not know sockets, nor how a host is changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cover::{Covered, patch};
use super::hosts::{HostUpdate, Hosts};
use super::options::{Behaviour, HOOKS, Misbehaviour, Wrong};
use capi_types::hook::{
    CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSetRequest,
    CanUpdateMachineSetResponse, DiscoveredHandler, DiscoveryResponse, Hook, Patch, SUCCESS,
    UpdateMachineRequest, UpdateMachineResponse,
};

/// More than the callers read.
const OVERSIZE_BYTES: usize = 21 << 20;

/// The reference extension. One value serves all connections.
pub struct Extension {
    options: Behaviour,
    hosts: Arc<dyn Hosts>,
    /// Calls so far, per entry of `options.wrong`.
    calls: Vec<AtomicU32>,
}

/// What goes back.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Document {
        status: u16,
        body: Vec<u8>,
    },
    /// To another path of the same server.
    Redirect(String),
    /// Nothing, ever.
    Hang,
    /// The connection ends.
    Crash,
}

impl Reply {
    fn of(document: &impl Serialize) -> Self {
        match serde_json::to_vec(document) {
            Ok(body) => Self::Document { status: 200, body },
            Err(error) => Self::error(500, &error.to_string()),
        }
    }

    fn error(status: u16, why: &str) -> Self {
        Self::Document { status, body: format!("{why}\n").into_bytes() }
    }
}

/// The name of a handler: `can-update-machine`.
fn handler_name(hook: Hook) -> &'static str {
    match hook {
        Hook::CanUpdateMachine => "can-update-machine",
        Hook::CanUpdateMachineSet => "can-update-machine-set",
        _ => "update-machine",
    }
}

fn asked(path: &str) -> Option<Hook> {
    if path == Hook::Discovery.path(None) {
        return Some(Hook::Discovery);
    }
    HOOKS.into_iter().find(|hook| path == hook.path(Some(handler_name(*hook))))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Reply> {
    serde_json::from_slice(body)
        .map_err(|error| Reply::error(400, &format!("the request cannot be read: {error}")))
}

impl Extension {
    pub fn new(options: Behaviour, hosts: Arc<dyn Hosts>) -> Self {
        // A count for each mistake, since each has its own beginning and end.
        let calls = options.wrong.iter().map(|_| AtomicU32::new(0)).collect();
        Self { options, hosts, calls }
    }

    /// Answers one POST. `path` is without query.
    pub async fn answer(&self, path: &str, body: &[u8]) -> Reply {
        let Some(hook) = asked(path) else {
            return Reply::error(404, &format!("nothing is served at {path}"));
        };
        // A mistake that the hook cannot make falls through to the right answer.
        if let Some(does) = self.wrong(hook)
            && let Some(answer) = self.misbehaved(hook, does, body)
        {
            return answer;
        }
        let answer = match hook {
            Hook::CanUpdateMachine => read(body).map(|request| Reply::of(&self.can_update(&request))),
            Hook::CanUpdateMachineSet => read(body).map(|request| Reply::of(&self.can_update_set(&request))),
            Hook::UpdateMachine => match read(body) {
                Ok(request) => Ok(Reply::of(&self.update(&request).await)),
                Err(answer) => Err(answer),
            },
            _ => Ok(Reply::of(&self.discovered())),
        };
        answer.unwrap_or_else(|refused| refused)
    }

    fn discovered(&self) -> DiscoveryResponse {
        let handler = |hook| DiscoveredHandler {
            timeout_seconds: self.options.timeout_seconds,
            failure_policy: self.options.failure_policy.clone(),
            ..DiscoveredHandler::of(hook, handler_name(hook))
        };
        DiscoveryResponse {
            status: SUCCESS.to_owned(),
            handlers: HOOKS.map(handler).into(),
            ..DiscoveryResponse::default()
        }
    }

    /// Does it update Machines of this Machine's or MachineSet's Cluster?
    fn serves(&self, object: &Value) -> bool {
        let only = &self.options.only_clusters;
        only.is_empty() || only.iter().any(|name| object["spec"]["clusterName"] == name.as_str())
    }

    fn patch(&self, part: Covered, current: &Value, desired: &Value, in_template: bool) -> Patch {
        patch(&self.options.covers, part, (current, desired), in_template, self.options.json_patch)
    }

    fn can_update(&self, request: &CanUpdateMachineRequest) -> CanUpdateMachineResponse {
        let (current, desired) = (&request.current, &request.desired);
        // A success without patches, which is how an extension says that it can do nothing.
        if !self.serves(&desired.machine) {
            return CanUpdateMachineResponse::success();
        }
        CanUpdateMachineResponse {
            machine_patch: self.patch(Covered::Machine, &current.machine, &desired.machine, false),
            infrastructure_machine_patch: self.patch(
                Covered::Infrastructure,
                &current.infrastructure_machine,
                &desired.infrastructure_machine,
                false,
            ),
            bootstrap_config_patch: self.patch(
                Covered::Bootstrap,
                &current.bootstrap_config,
                &desired.bootstrap_config,
                false,
            ),
            ..CanUpdateMachineResponse::success()
        }
    }

    fn can_update_set(&self, request: &CanUpdateMachineSetRequest) -> CanUpdateMachineSetResponse {
        let (current, desired) = (&request.current, &request.desired);
        if !self.serves(&desired.machine_set) {
            return CanUpdateMachineSetResponse::success();
        }
        CanUpdateMachineSetResponse {
            machine_set_patch: self.patch(Covered::Machine, &current.machine_set, &desired.machine_set, true),
            infrastructure_machine_template_patch: self.patch(
                Covered::Infrastructure,
                &current.infrastructure_machine_template,
                &desired.infrastructure_machine_template,
                true,
            ),
            bootstrap_config_template_patch: self.patch(
                Covered::Bootstrap,
                &current.bootstrap_config_template,
                &desired.bootstrap_config_template,
                true,
            ),
            ..CanUpdateMachineSetResponse::success()
        }
    }

    async fn update(&self, request: &UpdateMachineRequest) -> UpdateMachineResponse {
        let name = request.desired.machine["metadata"]["name"].as_str().unwrap_or_default();
        // Asked first: a host that fails must not be changed on the way.
        if self.options.failing_machines.iter().any(|failing| failing == name) {
            return UpdateMachineResponse::failure(format!(
                "the update of Machine {name} fails, as it is asked to"
            ));
        }
        let takes = self.options.update_seconds;
        match self.hosts.update(&request.desired, takes).await {
            Err(why) => UpdateMachineResponse::failure(why),
            Ok(HostUpdate::Done) => {
                let message = "Extension completed updating Machine".to_owned();
                UpdateMachineResponse { message, ..UpdateMachineResponse::success() }
            }
            Ok(HostUpdate::Running { left_s }) => UpdateMachineResponse {
                message: format!("Extension is updating Machine: about {left_s} s left"),
                // It need not be asked before there can be news.
                retry_after_seconds: i32::try_from(self.options.retry_after_seconds).unwrap_or(i32::MAX),
                ..UpdateMachineResponse::success()
            },
        }
    }

    /// What goes wrong with this call, if anything does.
    fn wrong(&self, hook: Hook) -> Option<Misbehaviour> {
        let is_due = |wrong: &Wrong, calls: &AtomicU32| {
            // Counted by itself: nothing else is ordered by it.
            let before = calls.fetch_add(1, Ordering::Relaxed);
            let end = wrong.times.map(|times| wrong.after.saturating_add(times));
            before >= wrong.after && end.is_none_or(|end| before < end)
        };
        let mut entries = self.options.wrong.iter().zip(&self.calls).filter(|(wrong, _)| wrong.hook == hook);
        // Entries behind the first that is due do not count this call.
        entries.find(|(wrong, calls)| is_due(wrong, calls)).map(|(wrong, _)| wrong.does)
    }

    /// `None`: the hook cannot do this wrong.
    fn misbehaved(&self, hook: Hook, does: Misbehaviour, body: &[u8]) -> Option<Reply> {
        let document = |body: Value| Reply::of(&body);
        let failure = json!({"status": "Failure", "message": "the extension was asked to fail"});
        Some(match does {
            Misbehaviour::Error500 => Reply::error(500, "the extension was asked to fail"),
            Misbehaviour::Redirect => Reply::Redirect("/elsewhere".to_owned()),
            Misbehaviour::Hang => Reply::Hang,
            Misbehaviour::Crash => Reply::Crash,
            Misbehaviour::Malformed => Reply::Document { status: 200, body: br#"{"status": "Succ"#.to_vec() },
            Misbehaviour::WrongShape => document(json!({"status": ["Success"]})),
            Misbehaviour::Oversize => {
                let body = json!({"status": SUCCESS, "message": "x".repeat(OVERSIZE_BYTES)});
                document(body)
            }
            Misbehaviour::Failure => document(failure),
            Misbehaviour::WrongStatus => document(json!({"status": "Fine"})),
            Misbehaviour::Unknown if hook == Hook::Discovery => {
                let mut answer = json!(self.discovered());
                answer["handlers"][0]["requestHook"]["hook"] = json!("DrainMachine");
                document(answer)
            }
            // Two handlers of one name, which callers refuse.
            Misbehaviour::Unfitting if hook == Hook::Discovery => {
                let mut answer = json!(self.discovered());
                answer["handlers"][1] = answer["handlers"][0].clone();
                document(answer)
            }
            Misbehaviour::Unknown => document(with_patch(hook, "StrategicMergePatch", "{}")?),
            Misbehaviour::Unfitting => {
                let operations = json!([{"op": "remove", "path": "/spec/nothing/is/here"}]);
                document(with_patch(hook, "JSONPatch", &operations.to_string())?)
            }
            Misbehaviour::Lie => return lie(hook, body),
            // Without handlers nothing is offered.
            Misbehaviour::Refuse if hook == Hook::Discovery => document(json!({"status": SUCCESS})),
            Misbehaviour::Refuse if hook == Hook::UpdateMachine => document(failure),
            Misbehaviour::Refuse => {
                document(json!({"status": SUCCESS, "message": "nothing can be done in place"}))
            }
        })
    }
}

fn with_patch(hook: Hook, type_: &str, document: &str) -> Option<Value> {
    let patch = Patch { patch_type: type_.to_owned(), patch: document.as_bytes().to_vec() };
    let field = match hook {
        Hook::CanUpdateMachine => "machinePatch",
        Hook::CanUpdateMachineSet => "machineSetPatch",
        _ => return None,
    };
    Some(json!({"status": SUCCESS, field: patch}))
}

/// Everything can be done, or is done.
fn lie(hook: Hook, body: &[u8]) -> Option<Reply> {
    let fields: &[(&str, &str)] = match hook {
        Hook::CanUpdateMachine => &[
            ("machine", "machinePatch"),
            ("infrastructureMachine", "infrastructureMachinePatch"),
            ("bootstrapConfig", "bootstrapConfigPatch"),
        ],
        Hook::CanUpdateMachineSet => &[
            ("machineSet", "machineSetPatch"),
            ("infrastructureMachineTemplate", "infrastructureMachineTemplatePatch"),
            ("bootstrapConfigTemplate", "bootstrapConfigTemplatePatch"),
        ],
        Hook::UpdateMachine => &[],
        _ => return None,
    };
    let request: Value = serde_json::from_slice(body).ok()?;
    let mut answer = json!({"status": SUCCESS, "retryAfterSeconds": 0});
    for (object, field) in fields {
        // The whole difference, covered or not: that is the lie.
        if let Some(difference) =
            k8s_machinery::merge::merge_diff(&request["current"][object], &request["desired"][object])
        {
            answer[field] = json!(Patch::merge(difference.to_string().as_bytes()));
        }
    }
    Some(Reply::of(&answer))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use parking_lot::Mutex;

    use super::*;
    use capi_types::hook::MachineObjects;
    use capstan_base::toml_file::Source;

    /// Updates that take a number of questions.
    struct Counted(Mutex<u32>);

    #[async_trait]
    impl Hosts for Counted {
        async fn update(&self, _: &MachineObjects, takes_s: u32) -> Result<HostUpdate, String> {
            let mut left = self.0.lock();
            if *left == 0 {
                return Ok(HostUpdate::Done);
            }
            *left -= 1;
            Ok(HostUpdate::Running { left_s: i64::from(takes_s) })
        }
    }

    fn extension(options: &str) -> Extension {
        let options = Behaviour::read(&Source::new("e.toml", options)).expect("options");
        Extension::new(options, Arc::new(Counted(Mutex::new(1))))
    }

    async fn ask(extension: &Extension, hook: Hook, body: &Value) -> Reply {
        let handler = (hook != Hook::Discovery).then(|| handler_name(hook));
        extension.answer(&hook.path(handler), body.to_string().as_bytes()).await
    }

    async fn document(extension: &Extension, hook: Hook, body: &Value) -> Value {
        match ask(extension, hook, body).await {
            Reply::Document { status: 200, body } => serde_json::from_slice(&body).expect("JSON"),
            other => panic!("{other:?}"),
        }
    }

    fn machine(version: &str) -> Value {
        json!({"machine": {"metadata": {"name": "m"}, "spec": {"version": version}}, "infrastructureMachine": {"spec": {"a": 1}}})
    }

    #[tokio::test]
    async fn the_hooks_are_discovered_and_answered() {
        let extension = extension("");
        let found = document(&extension, Hook::Discovery, &json!({})).await;
        let names: Vec<&str> = found["handlers"]
            .as_array()
            .expect("handlers")
            .iter()
            .filter_map(|h| h["name"].as_str())
            .collect();
        assert_eq!(names, ["can-update-machine", "can-update-machine-set", "update-machine"]);

        let request = json!({"current": machine("v1"), "desired": machine("v2")});
        let answer = document(&extension, Hook::CanUpdateMachine, &request).await;
        let answer: CanUpdateMachineResponse = serde_json::from_value(answer).expect("an answer");
        assert_eq!(answer.machine_patch, Patch::merge(br#"{"spec":{"version":"v2"}}"#));
        assert!(answer.infrastructure_machine_patch.is_unset());

        let update = json!({"desired": machine("v2")});
        let first = document(&extension, Hook::UpdateMachine, &update).await;
        assert_eq!((&first["retryAfterSeconds"], &first["status"]), (&json!(5), &json!("Success")));
        let second = document(&extension, Hook::UpdateMachine, &update).await;
        assert_eq!(second["retryAfterSeconds"], 0);
        let other = extension.answer("/other", b"{}").await;
        assert!(matches!(other, Reply::Document { status: 404, .. }));
        let unread = extension.answer(&Hook::UpdateMachine.path(Some("update-machine")), b"{").await;
        assert!(matches!(unread, Reply::Document { status: 400, .. }));
    }

    #[tokio::test]
    async fn it_goes_wrong_as_often_as_asked() {
        let extension = extension(
            "[[wrong]]\nhook = \"UpdateMachine\"\ndoes = \"error500\"\nafter = 1\ntimes = 2\n\
             [[wrong]]\nhook = \"CanUpdateMachine\"\ndoes = \"lie\"\n",
        );
        let update = json!({"desired": machine("v2")});
        let mut statuses = Vec::new();
        for _ in 0..4 {
            let Reply::Document { status, .. } = ask(&extension, Hook::UpdateMachine, &update).await else {
                panic!("a document");
            };
            statuses.push(status);
        }
        assert_eq!(statuses, [200, 500, 500, 200]);
        let request =
            json!({"current": machine("v1"), "desired": {"infrastructureMachine": {"spec": {"a": 2}}}});
        let answer = document(&extension, Hook::CanUpdateMachine, &request).await;
        let answer: CanUpdateMachineResponse = serde_json::from_value(answer).expect("an answer");
        assert_eq!(answer.infrastructure_machine_patch, Patch::merge(br#"{"spec":{"a":2}}"#));
    }

    #[tokio::test]
    async fn only_some_clusters_are_served() {
        let extension = extension("onlyClusters = [\"harbor\"]");
        for (cluster, covered) in [("harbor", true), ("fjord", false)] {
            let machine =
                |version| json!({"machine": {"spec": {"clusterName": cluster, "version": version}}});
            let request = json!({"current": machine("v1"), "desired": machine("v2")});
            let answer = document(&extension, Hook::CanUpdateMachine, &request).await;
            assert_eq!(answer["machinePatch"].is_object(), covered, "{cluster}");
        }
    }

    #[tokio::test]
    async fn a_machine_that_shall_fail_fails() {
        let extension = extension("failingMachines = [\"m\"]");
        let answer = document(&extension, Hook::UpdateMachine, &json!({"desired": machine("v2")})).await;
        assert_eq!(answer["status"], "Failure");
    }
}
