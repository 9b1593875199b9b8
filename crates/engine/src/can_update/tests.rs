//! Several extensions for one change: who is asked what, with a transcript as documentation.

use std::fmt::Write as _;
use std::sync::Mutex;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::*;
use capi_types::hook::{
    CanUpdateMachineResponse, CanUpdateMachineSetResponse, HookError, Patch, UpdateMachineRequest,
    UpdateMachineResponse,
};
use capstan_testing::golden::golden;

/// `objects.ext` takes what stands behind a Machine, `version.ext` its version, `nothing.ext` nothing.
#[derive(Default)]
struct Two {
    log: Mutex<String>,
}

impl Two {
    fn asked(&self, handler: &str, left: &[Uncovered]) {
        let left: Vec<String> = left.iter().map(ToString::to_string).collect();
        let mut log = self.log.lock().expect("no panic while held");
        let _ = writeln!(log, "{handler} is asked, with this to cover:\n  {}", left.join("\n  "));
    }
}

#[async_trait]
impl Extensions for Two {
    async fn handlers(&self, _: Hook, _: &str) -> Result<Vec<String>, HookError> {
        Ok(vec!["version.ext".to_owned(), "objects.ext".to_owned()])
    }

    async fn can_update_machine(
        &self,
        handler: &str,
        request: &CanUpdateMachineRequest,
    ) -> Result<CanUpdateMachineResponse, HookError> {
        self.asked(handler, &remaining::of_machine(request));
        let spec = |value: &Value| Patch::merge(json!({ "spec": value["spec"] }).to_string().as_bytes());
        let mut answer = CanUpdateMachineResponse::success();
        match handler {
            "objects.ext" => {
                answer.infrastructure_machine_patch = spec(&request.desired.infrastructure_machine);
                answer.bootstrap_config_patch = spec(&request.desired.bootstrap_config);
            }
            "version.ext" => answer.machine_patch = spec(&request.desired.machine),
            _ => {}
        }
        Ok(answer)
    }

    async fn can_update_machine_set(
        &self,
        handler: &str,
        _: &CanUpdateMachineSetRequest,
    ) -> Result<CanUpdateMachineSetResponse, HookError> {
        Err(HookError::NotRegistered { handler: handler.to_owned() })
    }

    async fn update_machine(
        &self,
        handler: &str,
        _: &UpdateMachineRequest,
    ) -> Result<UpdateMachineResponse, HookError> {
        Err(HookError::NotRegistered { handler: handler.to_owned() })
    }
}

fn side(version: &str, memory: i32, verbosity: i32) -> MachineObjects {
    let object = |kind: &str, spec: Value| json!({"kind": kind, "metadata": {"name": "m"}, "spec": spec});
    MachineObjects {
        machine: object("Machine", json!({ "version": version })),
        infrastructure_machine: object("DevMachine", json!({ "memory": memory })),
        bootstrap_config: object("KubeadmConfig", json!({ "verbosity": verbosity })),
    }
}

fn sides() -> [MachineObjects; 2] {
    [side("v1.34.1", 4, 1), side("v1.34.2", 8, 2)]
}

#[tokio::test]
async fn a_union_covers_a_change_that_none_covers_alone() {
    let two = Two::default();
    let handlers =
        chosen(&two, Handlers::Union, Hook::CanUpdateMachine, "ns").await.expect("two are allowed");
    let handlers = handlers.expect("two are registered");
    assert_eq!(handlers, ["objects.ext", "version.ext"], "by their names");
    let verdict = machine(&two, &handlers, sides()).await.expect("answers");
    let Verdict::InPlace { covered } = &verdict else { panic!("{verdict}") };
    let mut log = two.log.lock().expect("no panic while held").clone();
    for Covered { handler, fields } in covered {
        let _ = writeln!(log, "{handler} covers {}", fields.join(", "));
    }
    let _ = writeln!(log, "updated {verdict}");
    golden("in_place_union", &log);
    let alone = machine(&two, &handlers[..1], sides()).await.expect("an answer");
    assert_eq!(
        alone.to_string(),
        "by replacement: Machine cannot be updated in-place: spec.version: \"v1.34.1\" → \"v1.34.2\""
    );
}

#[tokio::test]
async fn two_extensions_are_an_error_unless_a_union_is_wanted_and_who_covers_all_is_the_last_asked() {
    let two = Two::default();
    let error =
        chosen(&two, Handlers::One, Hook::CanUpdateMachine, "ns").await.expect_err("two are too many");
    assert!(error.contains("only one hook is supported"), "{error}");
    let only_version = [side("v1.34.1", 4, 1), side("v1.34.2", 4, 1)];
    let handlers = ["version.ext", "objects.ext"].map(str::to_owned);
    let verdict = machine(&two, &handlers, only_version).await.expect("an answer");
    assert_eq!(verdict.to_string(), "in place, by version.ext");
    assert_eq!(two.log.lock().expect("no panic while held").matches("is asked").count(), 1);
}
