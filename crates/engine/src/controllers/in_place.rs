//! Asks extensions about updates in place: what they can do about a Machine or a MachineSet, and to go on with a Machine.
//! Owns what is asked when, and what is remembered between two questions; how a question is asked says `can_update`, and
//! what an answer amounts to `plan::in_place`. Must not decide who is asked about.
//! Source: cluster-api `inplace_canupdatemachine.go` (`canExtensionsUpdateMachine`, `createRequest`),
//! `machinedeployment_canupdatemachineset.go`, `machine_controller_inplace_update.go` (`callUpdateMachineHook`),
//! `internal/util/cache`, v1.14.2.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::external::Reader;
use super::{Context, workers};
use crate::can_update;
use capi_rules::observe::{Templates, namespace};
use capi_rules::plan::control_plane as planned_control_plane;
use capi_rules::plan::in_place::Handlers;
use capi_rules::plan::machine::update::{self, Due};
use capi_rules::plan::machine_deployment as planned_deployment;
use capi_rules::status::in_place::{InPlace, Replace, Verdict};
use capi_rules::status::machine::{self as machine, Update};
use capi_types::hook::{Extensions, Hook, MachineSetObjects, NoExtensions, UpdateMachineResponse, aggregate};
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::machine_set::MachineSet;
use capstan_base::time::Timestamp;
use chrono::TimeDelta;
use parking_lot::Mutex;

/// How long an answer about a pair of MachineSets holds, both ways.
const SET_ANSWER_HOLDS: TimeDelta = TimeDelta::hours(24);
/// Answers and times that are remembered at most; what is forgotten is asked again.
const REMEMBERED_MAX: usize = 10_000;
/// An extension that asks to be left alone for longer is asked all the same: its host may be gone by then, and nothing else
/// would end the update.
const AGAIN_MAX: Duration = Duration::from_secs(600);

/// What the controllers are told about updates in place.
#[derive(Clone, Default)]
pub struct Settings {
    /// Upstream's gate `InPlaceUpdates`; closed by default there and here.
    pub on: bool,
    pub handlers: Handlers,
    /// `None`: nobody is registered.
    pub extensions: Option<Arc<dyn Extensions>>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("on", &self.on)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}

/// The settings, and what is remembered between two calls. Cheap to clone.
#[derive(Clone, Default)]
pub struct Asking {
    settings: Settings,
    sets: Arc<Mutex<HashMap<String, (Timestamp, Verdict)>>>,
    /// By the uid of the Machine: when its extension wants to be asked again, and its words.
    updates: Arc<Mutex<HashMap<String, (Timestamp, String)>>>,
}

impl Asking {
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    pub fn is_on(&self) -> bool {
        self.settings.on
    }

    /// Before any question.
    pub fn nothing_asked(&self) -> InPlace {
        if self.settings.on { InPlace::On(BTreeMap::new()) } else { InPlace::Off }
    }

    fn extensions(&self) -> &dyn Extensions {
        self.settings.extensions.as_deref().unwrap_or(&NoExtensions)
    }

    async fn handlers(&self, hook: Hook, namespace: &str) -> Result<Option<Vec<String>>, String> {
        can_update::chosen(self.extensions(), self.settings.handlers, hook, namespace).await
    }
}

/// What is known of the updates of a control plane's Machines, when the plan depends on one.
pub(super) async fn of_control_plane(
    context: &Context,
    observed: &planned_control_plane::Observed,
) -> InPlace {
    let asked = planned_control_plane::in_place::asks(observed, context.clock.now());
    let Some(name) = asked else { return context.asking.nothing_asked() };
    let answer = of_machine(context, observed, &name).await;
    log_answer("Machine", &name, &answer);
    InPlace::On(BTreeMap::from([(name, answer)]))
}

fn log_answer(kind: &str, name: &str, answer: &Result<Verdict, String>) {
    match answer {
        Ok(verdict) => tracing::info!("{kind} {name} is updated {verdict}"),
        Err(error) => tracing::warn!("whether {kind} {name} can be updated in place is not known: {error}"),
    }
}

async fn of_machine(
    context: &Context,
    observed: &planned_control_plane::Observed,
    name: &str,
) -> Result<Verdict, String> {
    let question = match planned_control_plane::in_place::question(observed, name) {
        Ok(question) => question,
        Err(replace) => return Ok(Verdict::Replace(replace)),
    };
    let asking = &context.asking;
    let namespace = observed.control_plane.metadata.namespace.as_deref().unwrap_or_default();
    let Some(handlers) = asking.handlers(Hook::CanUpdateMachine, namespace).await? else {
        return Ok(Verdict::Replace(Replace::NoExtension));
    };
    match can_update::completed(&context.writer, &question).await? {
        Ok(sides) => can_update::machine(asking.extensions(), &handlers, sides).await,
        Err(replace) => Ok(Verdict::Replace(replace)),
    }
}

/// What is known of moving Machines between the MachineSets of a MachineDeployment.
pub(super) async fn of_deployment(context: &Context, observed: &planned_deployment::Observed) -> InPlace {
    let mut answers = BTreeMap::new();
    for question in planned_deployment::in_place::questions(observed, context.clock.now()) {
        let name = question.old.metadata.name.clone().unwrap_or_default();
        let answer = of_sets(context, &question.old, &question.new).await;
        answers.insert(name, answer);
    }
    if context.asking.is_on() { InPlace::On(answers) } else { InPlace::Off }
}

async fn of_sets(context: &Context, old: &MachineSet, new: &MachineSet) -> Result<Verdict, String> {
    let objects = [set_objects(context, old).await?, set_objects(context, new).await?];
    if let Some(replace) = planned_deployment::in_place::not_comparable(&objects) {
        return Ok(Verdict::Replace(replace));
    }
    let (asking, namespace) = (&context.asking, namespace(old));
    // Before what is remembered: an extension may have been unregistered since.
    let Some(handlers) = asking.handlers(Hook::CanUpdateMachineSet, namespace).await? else {
        return Ok(Verdict::Replace(Replace::NoExtension));
    };
    let key = format!("{} => {}", ObjectKey::of(old), ObjectKey::of(new));
    let now = context.clock.now();
    if let Some((until, verdict)) = asking.sets.lock().get(&key)
        && now < *until
    {
        return Ok(verdict.clone());
    }
    let verdict = can_update::machine_set(asking.extensions(), &handlers, objects).await;
    log_answer("MachineSet", old.metadata.name.as_deref().unwrap_or_default(), &verdict);
    // Only answers are kept: a question without one is asked again.
    let verdict = verdict?;
    let mut known = asking.sets.lock();
    // All of them go: an answer that is forgotten costs a call, and nothing else.
    if known.len() >= REMEMBERED_MAX {
        known.clear();
    }
    known.insert(key, (now + SET_ANSWER_HOLDS, verdict.clone()));
    Ok(verdict)
}

/// A MachineSet with its templates. Null: it refers to none.
async fn set_objects(context: &Context, set: &MachineSet) -> Result<MachineSetObjects, String> {
    let caches = &context.caches;
    caches.externals.prepare(Reader::MachineDeployment, workers::templates(set)).await;
    let templates = Templates::of(caches, namespace(set), &set.spec.template.spec);
    let name = set.metadata.name.as_deref().unwrap_or_default();
    if let Some(kind) = templates.missing.first() {
        return Err(format!("failed to get {kind} from MachineSet {name}: it does not exist"));
    }
    if let Some(error) = &templates.unreadable {
        return Err(format!("failed to get a template from MachineSet {name}: {error}"));
    }
    Ok(planned_deployment::in_place::sent(
        set,
        templates.infrastructure.as_deref(),
        templates.bootstrap.as_deref(),
    ))
}

/// Goes on with the update of a Machine, when that is due; what came of it stands in `observed`.
pub(super) async fn go_on(context: &Context, observed: &mut machine::Observed) {
    observed.updates_in_place = context.asking.is_on();
    match update::due(observed) {
        Due::Nothing | Due::Prepared | Due::CleanUp => {}
        Due::InfrastructureMissing => observed.update = Some(Update::InfrastructureMissing),
        Due::Call => match call(context, observed).await {
            Ok(Progress::Running { again, words }) => {
                observed.update = Some(Update::Running(words));
                observed.update_again = Some(again);
            }
            Ok(Progress::Done) => observed.update = Some(Update::Done),
            Err(error) => {
                tracing::warn!("{}: in-place update failed: {error}", ObjectRef::of(&observed.machine));
                observed.update = Some(Update::Failed);
                observed.update_error = Some(error);
            }
        },
    }
}

enum Progress {
    Running { again: Duration, words: String },
    Done,
}

async fn call(context: &Context, observed: &machine::Observed) -> Result<Progress, String> {
    let asking = &context.asking;
    let namespace = namespace(&observed.machine);
    let Some(handlers) = asking.handlers(Hook::UpdateMachine, namespace).await? else {
        return Err("no extensions registered for UpdateMachine hook".to_owned());
    };
    let uid = observed.machine.metadata.uid.clone().unwrap_or_default();
    let now = context.clock.now();
    // Whatever woke this run, the extension is not asked before the time that it named.
    if let Some((until, words)) = asking.updates.lock().get(&uid)
        && let Ok(again) = (*until - now).to_std()
        && !again.is_zero()
    {
        return Ok(Progress::Running { again, words: words.clone() });
    }
    let request = update::request(observed);
    let mut answers: Vec<UpdateMachineResponse> = Vec::new();
    for handler in &handlers {
        let answer = asking.extensions().update_machine(handler, &request).await;
        let answer = answer.map_err(|error| error.to_string())?;
        // Below zero it would count as done.
        if answer.retry_after_seconds < 0 {
            let seconds = answer.retry_after_seconds;
            return Err(format!("extension handler {handler} answered retryAfterSeconds {seconds}"));
        }
        answers.push(answer);
    }
    let answer = aggregate(&answers);
    let mut known = asking.updates.lock();
    match again_after(answer.retry_after_seconds) {
        None => {
            known.remove(&uid);
            Ok(Progress::Done)
        }
        Some(again) => {
            if known.len() >= REMEMBERED_MAX {
                // Updates that are over or due are asked about anyway.
                known.retain(|_, (until, _)| *until > now);
            }
            // Counted from the answer: the calls themselves may have taken long.
            known.insert(uid, (context.clock.now() + again, answer.message.clone()));
            Ok(Progress::Running { again, words: answer.message })
        }
    }
}

/// When the next call is due; `None`: the update is done.
fn again_after(seconds: i32) -> Option<Duration> {
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(seconds).min(AGAIN_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_is_asked_again_within_minutes_whatever_it_says() {
        for (said, expected_s) in [(1, 1), (600, 600), (601, 600), (i32::MAX, 600)] {
            assert_eq!(again_after(said), Some(Duration::from_secs(expected_s)), "{said}");
        }
        assert_eq!(again_after(0), None);
    }
}
