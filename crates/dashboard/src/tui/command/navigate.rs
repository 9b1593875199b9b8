//! Commands that move, open, show and hide. None of them leaves this program.

use super::Outcome;
use super::cluster::cluster_meant;
use crate::fleet::{Item, Relative, RowId};
use crate::operations::LockPlace;
use crate::tui::cursor::Motion;
use crate::tui::effect::Effect;
use crate::tui::layout::layout;
use crate::tui::model::{Model, Tone};
use crate::tui::overlay::Overlay;
use crate::tui::overlay::help::Help;
use crate::tui::overlay::notice::Notice;
use crate::tui::overlay::prompt::Prompt;
use crate::tui::overlay::refusal::Refusal;
use crate::tui::screen::Screen;
use crate::tui::screen::chosen::Chosen;
use crate::tui::screen::details::{DetailsScreen, Tab};
use crate::tui::screen::etcd::EtcdScreen;
use crate::tui::screen::locks::{LockFeed, LocksScreen, MigrationScreen};
use crate::tui::screen::related::{NODE_ELSEWHERE, Way};
use crate::tui::screen::rollout::RolloutScreen;
use crate::tui::screen::rollouts::RolloutsScreen;
use crate::tui::screen::simulation::SimulationScreen;
use crate::tui::screen::sources_text;
use crate::tui::screen::tree::{Fold, TreeScreen};
use crate::tui::subject::LockSubject;

const NOTHING: Outcome = Ok(Vec::new());

/// The named cluster, or the one that the selected object belongs to.
pub fn tree(model: &mut Model, name: &str) -> Outcome {
    let cluster = cluster_meant(model, name)?;
    let mut screen = TreeScreen::of(&model.fleet, cluster).ok_or("the cluster is gone")?;
    if let Some(folds) = model.keeping.folds.get(&screen.cluster().1) {
        screen.set_folds(folds.clone());
    }
    if !name.is_empty() {
        // A cluster that is named has nothing to do with the open screen: back leads to the list.
        model.screens.truncate(1);
    }
    model.open(Screen::Tree(Box::new(screen)));
    NOTHING
}

/// The rollout of the cluster that the selected object belongs to.
pub fn rollout(model: &mut Model) -> Outcome {
    if let Screen::Rollout(_) = model.screen() {
        return NOTHING;
    }
    let id = model.selected().ok_or("no cluster is selected")?.row();
    let cluster = model.fleet.cluster_of(id).ok_or("the object belongs to no cluster that is known")?;
    let screen = RolloutScreen::of(&model.fleet, cluster).ok_or("the cluster is gone")?;
    model.open(Screen::Rollout(Box::new(screen)));
    model.refresh();
    NOTHING
}

/// The etcd of the named cluster, or of the one that the selected object belongs to.
pub fn etcd(model: &mut Model, name: &str) -> Outcome {
    if matches!(model.screen(), Screen::Etcd(_)) && name.is_empty() {
        return NOTHING;
    }
    let cluster = cluster_meant(model, name)?;
    let screen = EtcdScreen::of(&model.fleet, cluster).ok_or("the cluster is gone")?;
    if !name.is_empty() {
        model.screens.truncate(1);
    }
    model.open(Screen::Etcd(Box::new(screen)));
    NOTHING
}

/// The locks of the named cluster; without a name those of the cluster that the screen is about, in lists of clusters
/// those of the server.
pub fn leases(model: &mut Model, name: &str) -> Outcome {
    if matches!(model.screen(), Screen::Locks(_)) && name.is_empty() {
        return NOTHING;
    }
    let feed = lock_feed(model, name)?;
    model.open(Screen::Locks(Box::new(LocksScreen::of(feed))));
    NOTHING
}

/// The leader migration of the same place.
pub fn leader_migration(model: &mut Model, name: &str) -> Outcome {
    if matches!(model.screen(), Screen::Migration(_)) && name.is_empty() {
        return NOTHING;
    }
    let feed = lock_feed(model, name)?;
    model.open(Screen::Migration(Box::new(MigrationScreen::of(feed))));
    NOTHING
}

fn lock_feed(model: &Model, name: &str) -> Result<LockFeed, String> {
    if let Some(feed) = model.screen().lock_feed().filter(|_| name.is_empty()) {
        return Ok(feed.clone());
    }
    if model.screen().is_of_all_clusters() && name.is_empty() {
        let of_row = model.selected_row().and_then(|id| model.fleet.row(id)).map(|row| row.source);
        let source = of_row.or_else(|| model.fleet.sources().next().map(|(id, _)| id));
        let source = source.ok_or("nothing is connected yet")?;
        return Ok(LockFeed::of(LockSubject { source, place: LockPlace::Server }));
    }
    let cluster = cluster_meant(model, name)?;
    let row = model.fleet.row(cluster).ok_or("the cluster is gone")?;
    Ok(LockFeed::of(LockSubject { source: row.source, place: LockPlace::Workload(row.key()) }))
}

/// The named cluster run ahead of time, or the one that the selected object belongs to; on its screen, from now.
pub fn simulate(model: &mut Model, name: &str) -> Outcome {
    if let Screen::Simulation(open) = model.screen_mut()
        && name.is_empty()
    {
        open.run_again();
        return NOTHING;
    }
    let cluster = cluster_meant(model, name)?;
    // What is selected may be of another cluster than the one that is named.
    let selected = model.selected_row().filter(|_| name.is_empty());
    let screen = SimulationScreen::of(&model.fleet, cluster, selected).ok_or("the cluster is gone")?;
    if !name.is_empty() {
        model.screens.truncate(1);
    }
    model.open(Screen::Simulation(Box::new(screen)));
    NOTHING
}

/// Tries a change in the open simulation; without one, none.
pub fn what_if(model: &mut Model, typed: &str) -> Outcome {
    let Model { fleet, screens, .. } = model;
    if let Some(Screen::Simulation(open)) = screens.last_mut() {
        open.try_change(fleet, typed)?;
    }
    NOTHING
}

/// The chart and the steps of the other forecast.
pub fn other_forecast(model: &mut Model) -> Outcome {
    if let Screen::Simulation(open) = model.screen_mut() {
        open.turn();
    }
    NOTHING
}

/// Every cluster that rolls.
pub fn rollouts(model: &mut Model) -> Outcome {
    if let Screen::Rollouts(_) = model.screen() {
        return NOTHING;
    }
    model.screens.truncate(1);
    model.open(Screen::Rollouts(RolloutsScreen::default()));
    NOTHING
}

/// Details of the selected object; on the details screen, another tab.
pub fn details(model: &mut Model, tab: Tab) -> Outcome {
    if let Screen::Details(open) = model.screen_mut() {
        open.set_tab(tab);
        return NOTHING;
    }
    if let Screen::Objects(objects) = model.screen() {
        let target = objects.target().ok_or("nothing is selected")?;
        let mut screen = DetailsScreen::of_target(target);
        // What the fleet does not have is its YAML.
        screen.set_tab(if tab == Tab::Overview { Tab::Yaml } else { tab });
        model.open(Screen::Details(Box::new(screen)));
        return NOTHING;
    }
    let item = model.selected().ok_or("nothing is selected")?;
    if matches!((model.screen(), item), (Screen::Tree(_), Item::Group { .. })) {
        // A heading has no details: it opens to what stands below it.
        return fold(model, Fold::Toggle);
    }
    open_details(model, item, tab)
}

fn open_details(model: &mut Model, item: Item, tab: Tab) -> Outcome {
    if matches!(item, Item::Reference { which: Relative::Node, .. }) {
        return Err(NODE_ELSEWHERE.to_owned());
    }
    let screen = DetailsScreen::of(&model.fleet, item, tab).ok_or("a heading has no details")?;
    model.open(Screen::Details(Box::new(screen)));
    NOTHING
}

pub fn owner(model: &mut Model) -> Outcome {
    let item = model.selected().ok_or("nothing is selected")?;
    let owner = match item {
        Item::Row(id) => model.fleet.owner_of(id).or_else(|| model.fleet.cluster_of(id).filter(|c| *c != id)),
        Item::Group { of, .. } | Item::Reference { of, .. } => Some(of),
    };
    open_details(model, Item::Row(owner.ok_or("nothing owns this object")?), Tab::Overview)
}

/// To the next related object, or the one before.
pub fn link(model: &mut Model, forward: bool) -> Outcome {
    let is_chosen = model.on_screen(|screen, context| {
        if let Screen::Details(open) = screen { open.choose_link(context.fleet, forward) } else { false }
    });
    if is_chosen { NOTHING } else { Err("nothing is known that it is related to".to_owned()) }
}

/// Opens the related object that is chosen; chooses the first one where none is.
pub fn follow(model: &mut Model) -> Outcome {
    let open = if let Screen::Details(open) = model.screen() { Some(open) } else { None };
    let Some(related) = open.and_then(|open| open.chosen_link(&model.fleet)) else {
        return link(model, true);
    };
    match related.way {
        Way::Item(item) => open_details(model, item, Tab::Overview),
        Way::Object(target) => {
            model.open(Screen::Details(Box::new(DetailsScreen::of_target(target))));
            NOTHING
        }
        Way::None(why) => Err(why.to_owned()),
    }
}

/// To the object that explains the selected one's state best; where that is open, to the next one.
pub fn why(model: &mut Model) -> Outcome {
    if let Screen::Details(open) = model.screen()
        && let Some((of, at)) = open.explains(&model.fleet)
    {
        return next_cause(model, of, at + 1);
    }
    let id = model.selected().ok_or("nothing is selected")?.row();
    let screen =
        DetailsScreen::of_cause(&model.fleet, id, 0).ok_or("it is well: there is nothing to explain")?;
    if matches!(model.screen(), Screen::Details(_)) && screen.row() == Some(id) {
        return Err("nothing below it explains it better".to_owned());
    }
    model.open(Screen::Details(Box::new(screen)));
    NOTHING
}

/// Another cause in the place of the one that is open; after the last one, the first.
fn next_cause(model: &mut Model, of: RowId, at: usize) -> Outcome {
    let causes = model.fleet.causes(of).len();
    if causes == 1 {
        return Err("this is the only cause".to_owned());
    }
    let next = if at < causes { at } else { 0 };
    let screen = DetailsScreen::of_cause(&model.fleet, of, next).ok_or("it is well by now")?;
    // In its place, so that one step back leaves all causes.
    model.close_screen();
    model.open(Screen::Details(Box::new(screen)));
    NOTHING
}

/// Every warning whole; the line above the foot has room for one.
pub fn notices(model: &mut Model) -> Outcome {
    let explanation = crate::tui::screen::foot::explanation(&model.fleet);
    if explanation.is_empty() {
        return Err("there is nothing to tell: everything could be read".to_owned());
    }
    model.notice("What could not be read", explanation);
    NOTHING
}

/// Each kind that is read, with the age of what is known of it.
pub fn sources(model: &mut Model) -> Outcome {
    let text = sources_text::sources(&model.fleet, model.now);
    if text.is_empty() {
        return Err("nothing is read yet".to_owned());
    }
    model.overlays.push(Overlay::Notice(Notice::overview("What is read", text)));
    NOTHING
}

/// Undoes the last narrowing: the filter, else the screen.
pub fn back(model: &mut Model) -> Outcome {
    if !model.screen().filter().is_empty() {
        model.screen_mut().set_filter("");
        return NOTHING;
    }
    if model.screen_mut().chosen_mut().is_some_and(Chosen::clear) {
        return NOTHING;
    }
    model.close_screen();
    NOTHING
}

pub fn leave(model: &mut Model) -> Outcome {
    if model.close_screen() { NOTHING } else { quit() }
}

pub fn step(model: &mut Model, motion: Motion) -> Outcome {
    model.move_by(motion);
    NOTHING
}

/// With words: narrows a list to them, finds them in a text. Without: opens the line for them.
pub fn filter(model: &mut Model, words: &str) -> Outcome {
    let searched = model.screen().searched().map(|searched| (searched.words.to_owned(), searched.hint));
    let searched = match model.overlays.last() {
        None => searched,
        Some(Overlay::Help(help)) => Some((help.filter().to_owned(), "")),
        Some(_) => None,
    };
    let Some((before, hint)) = searched else {
        refuse(model, "there is nothing to search here".to_owned());
        return NOTHING;
    };
    if words.is_empty() {
        model.overlays.push(Overlay::Prompt(Prompt::filter(&before, hint)));
    } else {
        model.set_filter(words);
    }
    NOTHING
}

/// A line in place of a prompt: the letters that follow act no more than they would in the prompt.
fn refuse(model: &mut Model, why: String) {
    model.overlays.push(Overlay::Refusal(Refusal::new(why)));
}

/// To the next place with the words that are looked for, or the one before.
pub fn find(model: &mut Model, forward: bool) -> Outcome {
    if model.screen().filter().is_empty() {
        return Err("nothing is looked for; / begins".to_owned());
    }
    if let Screen::Details(details) = model.screen_mut() {
        details.find(forward);
    }
    NOTHING
}

/// Upstream's wide columns in every list, or its default ones.
pub fn wide(model: &mut Model) -> Outcome {
    model.preferences.wide = !model.preferences.wide;
    model.refresh();
    let list = model.screen().as_list();
    let shown = layout(model.area).is_none_or(|parts| list.is_some_and(|list| list.shows_wide(parts.body)));
    if model.preferences.wide && !shown {
        model.say(Tone::Info, "there is no room for more columns here; the details have them all");
    }
    NOTHING
}

pub fn faults(model: &mut Model) -> Outcome {
    if let Some(list) = model.screen_mut().as_list_mut() {
        list.toggle_faults();
    }
    NOTHING
}

/// What was opened and closed in a tree is known when it is opened again.
fn keep_folds(model: &mut Model) -> Outcome {
    if let Screen::Tree(tree) = model.screen() {
        let (cluster, folds) = (tree.cluster().1, tree.folds().clone());
        model.keeping.folds.insert(cluster, folds.touched(model.now.timestamp()));
    }
    NOTHING
}

/// To the next row or part that is at fault, or the one before; round at the end.
pub fn fault(model: &mut Model, forward: bool) -> Outcome {
    let is_found = model.on_screen(|screen, context| {
        screen.as_list_mut().is_some_and(|list| list.go_to_fault(context, forward))
    });
    if is_found { NOTHING } else { Err("nothing here is at fault".to_owned()) }
}

pub fn fold(model: &mut Model, fold: Fold) -> Outcome {
    model.on_screen(|screen, context| screen.fold(context, fold));
    keep_folds(model)
}

pub fn fold_all(model: &mut Model, open: bool) -> Outcome {
    model.on_screen(|screen, context| screen.fold_all(context, open));
    keep_folds(model)
}

pub fn objects(model: &mut Model) -> Outcome {
    if let Screen::Tree(tree) = model.screen_mut() {
        tree.toggle_references();
    }
    keep_folds(model)
}

pub fn turn(model: &mut Model, step: isize) -> Outcome {
    model.screen_mut().turn(step);
    NOTHING
}

/// The YAML or the edits when they are open, else the name of what is selected.
pub fn copy(model: &mut Model) -> Outcome {
    let (what, text) = match model.screen().copied(model.now)? {
        Some(copied) => copied,
        None => {
            let id = model.selected().ok_or("nothing is selected")?;
            let name = model.fleet.line(id).map(|line| line.name.to_owned()).ok_or("the object is gone")?;
            (format!("{name} was"), name)
        }
    };
    // Terminals do not answer whether they took it, so that only the sending can be told.
    model.say(Tone::Info, format!("{what} sent to the terminal's clipboard"));
    Ok(vec![Effect::Copy(text)])
}

pub fn prompt(model: &mut Model, begun: &str) -> Outcome {
    let why = super::named(begun).and_then(|command| super::refusal(model, command));
    if let Some(why) = why {
        refuse(model, why);
        return NOTHING;
    }
    // What is typed is meant for what is selected now.
    model.screen_mut().choose();
    let line = match super::configuration::begun(model, begun) {
        Some(edit) => edit,
        None if begun.is_empty() => String::new(),
        None => format!("{begun} "),
    };
    model.overlays.push(Overlay::Prompt(Prompt::command(&line)));
    super::complete_prompt(model);
    NOTHING
}

pub fn help(model: &mut Model) -> Outcome {
    if let Some(Overlay::Help(_)) = model.overlays.last() {
        model.overlays.pop();
        return NOTHING;
    }
    let help = Help::new(super::help::groups(model), super::help::has_letters(model));
    model.overlays.push(Overlay::Help(help));
    NOTHING
}

pub fn close(model: &mut Model) -> Outcome {
    let can_close = match model.overlays.last() {
        Some(Overlay::Preview(preview)) => preview.can_close(),
        Some(Overlay::Many(many)) => many.can_close(),
        _ => true,
    };
    if !can_close {
        return Err("it was sent; the answer is on its way".to_owned());
    }
    match model.overlays.pop() {
        Some(Overlay::Preview(preview)) => model.leave_edit(preview.ticket),
        Some(Overlay::Draft { ticket, is_refused: true, .. }) => model.leave_edit(ticket),
        _ => {}
    }
    NOTHING
}

pub fn theme(_: &mut Model, name: &str) -> Outcome {
    Ok(vec![Effect::LoadTheme(name.to_owned())])
}

pub fn keymap(_: &mut Model, name: &str) -> Outcome {
    Ok(vec![Effect::LoadKeymap(name.to_owned())])
}

/// Another server of the kubeconfig. It opens aside, and what is shown stays until then.
pub fn context(model: &mut Model, name: &str) -> Outcome {
    if model.contexts.is_empty() {
        return Err("there is no kubeconfig behind this".to_owned());
    }
    if !model.contexts.iter().any(|known| known == name) {
        return Err(format!("there is no context `{name}`; it has: {}", model.contexts.join(", ")));
    }
    model.say(Tone::Info, format!("opening {name}"));
    Ok(vec![Effect::OpenContext(name.to_owned())])
}

pub fn redraw() -> Outcome {
    Ok(vec![Effect::Redraw])
}

pub fn suspend() -> Outcome {
    Ok(vec![Effect::Suspend])
}

pub fn quit() -> Outcome {
    Ok(vec![Effect::Quit])
}
