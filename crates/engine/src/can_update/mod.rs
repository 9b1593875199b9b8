//! Can a change be made in place? Extensions are asked one after the other, each with what those before it left over.
//! Owns that order, the dry runs that complete the objects of a question, and the registrations of a server for those
//! who only want to know. Must not decide what is asked about, nor what is done with the answer.
//! Source: cluster-api `inplace_canupdatemachine.go` (`canExtensionsUpdateMachine`, `createRequest`),
//! `machinedeployment_canupdatemachineset.go`, v1.14.2.

mod at_server;
#[cfg(test)]
mod tests;

pub use at_server::AtServer;

use serde_json::Value;

use crate::client::write::WriteError;
use crate::client::{Mode, Precondition, Writer};
use capi_rules::plan::control_plane::in_place::Question;
use capi_rules::plan::in_place::{Handlers, remaining};
use capi_rules::status::contract::reference_to;
use capi_rules::status::in_place::{Covered, Replace, Uncovered, Verdict};
use capi_types::hook::{
    CanUpdateMachineRequest, CanUpdateMachineSetRequest, Extensions, Hook, MachineObjects, MachineSetObjects,
};
use capi_types::names::manager;

/// The handlers that are asked; `None`: nobody is registered.
///
/// # Errors
/// They are not known, or there are more than may be asked.
pub async fn chosen(
    extensions: &dyn Extensions,
    handlers: Handlers,
    hook: Hook,
    namespace: &str,
) -> Result<Option<Vec<String>>, String> {
    let found = extensions.handlers(hook, namespace).await.map_err(|e| e.to_string())?;
    let chosen = handlers.choose(hook, found).map_err(|error| error.to_string())?;
    Ok(Some(chosen).filter(|chosen| !chosen.is_empty()))
}

/// The two sides of a question, with the objects as the server would store them.
///
/// # Errors
/// A dry run failed, or did not get through; a refused infrastructure machine is a verdict.
pub async fn completed(
    writer: &Writer,
    question: &Question,
) -> Result<Result<[MachineObjects; 2], Replace>, String> {
    let machine = dry_run(writer, &question.machine_intent).await;
    let machine = machine.map_err(|error| format!("the dry run of the Machine failed: {error}"))?;
    let mut infrastructure = Vec::new();
    for (intent, which) in question.infrastructure.iter().zip(["current", "desired"]) {
        match dry_run(writer, intent).await {
            Ok(completed) => infrastructure.push(completed),
            // Refused content is an answer: the change cannot
            // be made there. Other failures leave it open.
            Err(error) if error.is_refusal() => {
                let what = format!("{which} InfraMachine");
                return Ok(Err(Replace::Refused { what, answer: error.message() }));
            }
            Err(error) => return Err(format!("the dry run of the {which} InfraMachine failed: {error}")),
        }
    }
    let [current, desired]: [Value; 2] = infrastructure.try_into().unwrap_or_default();
    Ok(Ok(question.sides(&machine, &[current, desired])))
}

/// The object as the server would store it.
async fn dry_run(writer: &Writer, intent: &Value) -> Result<Value, WriteError> {
    let (target, any) = (reference_to(intent), Precondition::default());
    writer.apply_value(&target, intent, manager::KUBEADM_CONTROL_PLANE, &any, Mode::DryRun).await
}

/// What `handlers` can do about a Machine, together.
///
/// # Errors
/// One of them did not answer, or its answer cannot be used.
pub async fn machine(
    extensions: &dyn Extensions,
    handlers: &[String],
    [current, desired]: [MachineObjects; 2],
) -> Result<Verdict, String> {
    let mut request = CanUpdateMachineRequest::new(current, desired);
    let mut tally = Tally::new(remaining::of_machine(&request));
    for handler in handlers {
        let answer = extensions.can_update_machine(handler, &request).await;
        let answer = answer.map_err(|error| error.to_string())?;
        request.apply(&answer).map_err(|error| unusable(handler, &error.to_string()))?;
        // Nothing is left that another extension could take upon itself.
        if tally.is_covered(handler, remaining::of_machine(&request)) {
            break;
        }
    }
    Ok(tally.verdict())
}

/// The same for the Machines of a MachineSet that another one should take over.
///
/// # Errors
/// One of them did not answer, or its answer cannot be used.
pub async fn machine_set(
    extensions: &dyn Extensions,
    handlers: &[String],
    [current, desired]: [MachineSetObjects; 2],
) -> Result<Verdict, String> {
    let mut request = CanUpdateMachineSetRequest::new(current, desired);
    let mut tally = Tally::new(remaining::of_machine_set(&request));
    for handler in handlers {
        let answer = extensions.can_update_machine_set(handler, &request).await;
        let answer = answer.map_err(|error| error.to_string())?;
        request.apply(&answer).map_err(|error| unusable(handler, &error.to_string()))?;
        if tally.is_covered(handler, remaining::of_machine_set(&request)) {
            break;
        }
    }
    Ok(tally.verdict())
}

fn unusable(handler: &str, error: &str) -> String {
    format!("the answer of extension handler {handler} cannot be used: {error}")
}

/// Who covered what, and what is left.
struct Tally {
    left: Vec<Uncovered>,
    covered: Vec<Covered>,
}

impl Tally {
    fn new(left: Vec<Uncovered>) -> Self {
        Self { left, covered: Vec::new() }
    }

    /// After the answer of `handler`, which leaves `left`.
    fn is_covered(&mut self, handler: &str, left: Vec<Uncovered>) -> bool {
        let fields = remaining::covered(&self.left, &left);
        self.covered.push(Covered { handler: handler.to_owned(), fields });
        self.left = left;
        self.left.is_empty()
    }

    fn verdict(self) -> Verdict {
        if self.left.is_empty() && !self.covered.is_empty() {
            return Verdict::InPlace { covered: self.covered };
        }
        Verdict::Replace(Replace::Uncovered(self.left))
    }
}
