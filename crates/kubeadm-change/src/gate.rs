//! What comes next of a plan that is being carried out, and what has to hold before. Owns the order of doing, waiting and
//! stopping; must not know how a step is done.

use super::plan::{ChangePlan, PlannedStep};
use super::progress::{ItemState, ProgressItem, state_of};
use super::record::ChangeRecord;
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
    /// Everything else is done: only a person can do the step at this place, and has to say so.
    Confirm(usize),
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
    /// The steps that were carried out, with their nodes: their effect may not show yet, and those that no API shows are
    /// over. Not by their places, which move: a plan is made anew at each look, in the order of the leaders of then.
    pub performed: Vec<(StepId, Vec<String>)>,
    /// People do what is done on nodes: steps that no API shows are passed over.
    pub by_people: bool,
    /// Steps that only people do, and that somebody said are done.
    pub confirmed: Vec<StepId>,
    /// Another change is taken back: what does not answer may be its doing, and is mended before what works.
    pub mends: bool,
    /// That one was half done: what runs may not be what stands on the host, so manifests are written once in any case.
    pub rewrites: bool,
}

impl Doing {
    /// What carrying out the change of a record begins with.
    pub fn begin(record: &ChangeRecord, by_people: bool) -> Self {
        let taken = record.takes_back.as_ref();
        // The manifest of a half-done change may be on disk though its pod never came up: what runs
        // proves nothing, and each is written once. People would get the same lines at every call.
        let rewrites = !by_people && taken.is_some_and(|taken| taken.was_open);
        Self { by_people, mends: taken.is_some(), rewrites, ..Self::default() }
    }

    /// The step was carried out.
    pub fn note(&mut self, step: &PlannedStep) {
        self.performed.push((step.id, step.nodes.clone()));
    }

    fn has_performed(&self, step: &PlannedStep) -> bool {
        // By nodes and not by place: the plan is made anew at each look, and its order follows
        // leaders and lock holders, which the steps themselves move.
        self.performed.iter().any(|(id, nodes)| *id == step.id && *nodes == step.nodes)
    }
}

/// What comes next.
pub fn next(plan: &ChangePlan, items: &[ProgressItem], running: &Running, doing: &Doing) -> NextMove {
    let (performed, others): (Vec<_>, Vec<_>) =
        plan.steps.iter().enumerate().partition(|(_, step)| doing.has_performed(step));
    let mut unconfirmed = None;
    // What was carried out comes first, wherever its step is in the plan of now: one at a time.
    for (at, step) in performed.into_iter().chain(others) {
        let is_performed = doing.has_performed(step);
        let (state, item) = state_of(items_of(step, items));
        let words = item.map_or_else(|| step.title.clone(), sentence);
        // A component that has just restarted may fail some times before its neighbours are back.
        let is_settling = is_performed && item.is_some_and(|item| item.component.is_some());
        let is_rewritten = doing.rewrites && matches!(step.id, StepId::M1 | StepId::E1) && !is_performed;
        let is_unseen = state == ItemState::Unknown && item.is_some_and(is_of_node);
        return match state {
            ItemState::Done if is_rewritten => begin(plan, items, running, (doing, at)),
            ItemState::Done => continue,
            // The node may be silent because of what is taken back: waiting for it would not end.
            ItemState::Unknown if is_unseen && doing.mends && !is_performed => {
                begin(plan, items, running, (doing, at))
            }
            ItemState::Unknown if is_unseen => NextMove::Wait(words),
            ItemState::Manual if step.id.is_for_people() => {
                if !doing.confirmed.contains(&step.id) {
                    unconfirmed.get_or_insert(at);
                }
                continue;
            }
            // Nothing will ever show that it is done: this run has done it, or it is left to people.
            ItemState::Manual if is_performed || doing.by_people => continue,
            ItemState::Failed | ItemState::Unknown if !is_settling => NextMove::Stop(words),
            ItemState::Failed | ItemState::Unknown | ItemState::InProgress => NextMove::Wait(words),
            // X writes nothing, and what was carried out is not done twice: both show by
            // themselves.
            ItemState::Pending if step.id == StepId::X || is_performed => NextMove::Wait(words),
            ItemState::Manual | ItemState::Pending => begin(plan, items, running, (doing, at)),
        };
    }
    unconfirmed.map_or(NextMove::Finished, NextMove::Confirm)
}

/// Does the step, unless another node has to be well before. When a change is taken back that broke that one, its turn
/// comes first.
fn begin(
    plan: &ChangePlan,
    items: &[ProgressItem],
    running: &Running,
    (doing, at): (&Doing, usize),
) -> NextMove {
    let step = &plan.steps[at];
    let Some(held) = held(step, running) else { return NextMove::Do(at) };
    let is_its_own = |(_, of): &(usize, &PlannedStep)| {
        let state = state_of(items_of(of, items)).0;
        let is_left = matches!(state, ItemState::Pending | ItemState::Unknown) || doing.rewrites;
        of.id == step.id
            && held.by.as_ref().is_some_and(|node| of.nodes.contains(node))
            && is_left
            && !doing.has_performed(of)
    };
    let first = plan.steps.iter().enumerate().find(is_its_own).filter(|_| doing.mends);
    first.map_or(NextMove::Wait(held.why), |(other, _)| NextMove::Do(other))
}

/// Is it about one component of one node? It may come back by itself.
fn is_of_node(item: &ProgressItem) -> bool {
    item.component.is_some() && !item.node.is_empty()
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

/// Why a step may not begin yet, and the node that it waits for.
struct Held {
    why: String,
    by: Option<String>,
}

fn held(step: &PlannedStep, running: &Running) -> Option<Held> {
    let node = step.nodes.first().map(String::as_str).unwrap_or_default();
    let on = |component: &str| {
        let other = running.waits_for(component, node)?;
        let why = format!("{component} on {other} is not Ready: one at a time");
        Some(Held { why, by: Some(other.to_owned()) })
    };
    match step.id {
        StepId::C1 | StepId::M1 | StepId::F1 => {
            let why = "/readyz of the endpoint does not answer ok".to_owned();
            let endpoint = (running.is_endpoint_ready == Some(false)).then_some(Held { why, by: None });
            on(API_SERVER).or(endpoint)
        }
        StepId::C2 | StepId::E1 => {
            let member = running.member_to_wait_for(node).map(|(other, why)| Held {
                why: format!("etcd on {other} has to be well first: {why}"),
                by: Some(other.to_owned()),
            });
            // The API server beside a member is away with it, so that all others have to answer.
            on(ETCD).or(member).or_else(|| on(API_SERVER))
        }
        _ => None,
    }
}
