//! What comes next of a plan that is being carried out, and what has to hold before. Owns the order of doing, waiting and
//! stopping; must not know how a step is done.

use super::plan::{ChangePlan, PlannedStep};
use super::progress::{ItemState, ProgressItem, state_of};
use super::render::{API_SERVER, ETCD};
use super::running::Running;
use super::steps::StepId;

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextMove {
    /// Everything is done, as far as it can be seen.
    Finished,
    /// Carry out the step at this place of the plan.
    Do(usize),
    /// Look again later.
    Wait(String),
    /// Something failed: no further step is begun.
    Stop(String),
}

/// The items that belong to a step.
pub fn items_of<'i>(
    step: &'i PlannedStep,
    items: &'i [ProgressItem],
) -> impl Iterator<Item = &'i ProgressItem> {
    items.iter().filter(move |item| {
        item.step == step.id && (step.nodes.is_empty() || step.nodes.contains(&item.node))
    })
}

/// What was done since this program began, and what it cannot do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doing {
    /// The places of steps that were carried out: their effect may not show yet, and those that no API shows are over.
    pub performed: Vec<usize>,
    /// People do what is done on nodes: steps that no API shows are passed over.
    pub by_people: bool,
}

/// What comes next.
#[must_use]
pub fn next(plan: &ChangePlan, items: &[ProgressItem], running: &Running, doing: &Doing) -> NextMove {
    for (at, step) in plan.steps.iter().enumerate() {
        let is_performed = doing.performed.contains(&at);
        let (state, item) = state_of(items_of(step, items));
        let words = item.map_or_else(|| step.title.clone(), sentence);
        // A component that has just restarted may fail some times before its neighbours are back.
        let is_settling = is_performed && item.is_some_and(|item| item.component.is_some());
        return match state {
            ItemState::Done => continue,
            ItemState::Manual if is_performed || doing.by_people || is_for_people(step.id) => continue,
            ItemState::Failed | ItemState::Unknown if !is_settling => NextMove::Stop(words),
            ItemState::Failed | ItemState::Unknown | ItemState::InProgress => NextMove::Wait(words),
            ItemState::Pending if step.id == StepId::X || is_performed => NextMove::Wait(words),
            ItemState::Manual | ItemState::Pending => match held(step, running) {
                Some(why) => NextMove::Wait(why),
                None => NextMove::Do(at),
            },
        };
    }
    NextMove::Finished
}

/// What is kept by the record itself, and what only a person may do.
fn is_for_people(id: StepId) -> bool {
    matches!(id, StepId::B0 | StepId::R1)
}

fn sentence(item: &ProgressItem) -> String {
    let what =
        item.component.map_or_else(|| item.step.title().to_owned(), |component| component.name().to_owned());
    if item.node.is_empty() {
        format!("{what}: {}", item.evidence)
    } else {
        format!("{what} on {}: {}", item.node, item.evidence)
    }
}

/// Why the step may not begin yet.
fn held(step: &PlannedStep, running: &Running) -> Option<String> {
    let node = step.nodes.first().map(String::as_str).unwrap_or_default();
    let on = |component: &str| {
        let other = running.waits_for(component, node)?;
        Some(format!("{component} on {other} is not Ready: one at a time"))
    };
    match step.id {
        StepId::C1 | StepId::M1 | StepId::F1 => {
            let endpoint = (running.is_endpoint_ready == Some(false))
                .then(|| "/readyz of the endpoint does not answer ok".to_owned());
            on(API_SERVER).or(endpoint)
        }
        StepId::C2 | StepId::E1 => on(ETCD).or_else(|| on(API_SERVER)),
        _ => None,
    }
}
