//! Lists over the fleet: which one is open, and in which order. Must not know how they are drawn.

use std::collections::BTreeSet;

use super::{Outcome, groups};
use crate::fleet::{By, Kind, Listed, RowId, Sort};
use crate::tui::model::Model;
use crate::tui::screen::Screen;
use crate::tui::screen::chosen_columns::ChosenColumns;
use crate::tui::screen::fleet::FleetScreen;
use crate::tui::screen::objects::ObjectsScreen;
use capi_types::names::{annotation, label};
use capstan_base::text::did_you_mean;

const NOTHING: Outcome = Ok(Vec::new());
/// Machines that are used as nodes. Where the server has no Hosts, those of Metal3 are meant, which it calls otherwise.
const HOSTS: [&str; 2] = ["hosts", "host"];
const HOSTS_OVER_SSH: &str = "hosts.infrastructure.cluster.x-k8s.io";
const HOSTS_OF_METAL3: &str = "baremetalhosts.metal3.io";
/// Owners above an object; a circle ends here.
const OWNERS_MAX: usize = 8;
/// The word for no choice of a namespace.
pub const ALL_NAMESPACES: &str = "all";

/// All objects of a kind, narrowed to what is written: words as behind `/`, or a namespace.
pub fn open(model: &mut Model, listed: Listed, words: &str) -> Outcome {
    let filter = filter_of(model, words);
    if listed == Listed::Clusters {
        model.screens.truncate(1);
    } else if model.screen().as_fleet().is_none_or(|open| !open.is_list_of(listed)) {
        model.open(Screen::Fleet(FleetScreen::of(listed)));
    }
    if !filter.is_empty() {
        model.screen_mut().set_filter(&filter);
    }
    NOTHING
}

/// As in k9s, a word that is a namespace means that one, and a slash may stand before others.
fn filter_of(model: &Model, words: &str) -> String {
    match words.strip_prefix('/') {
        Some(words) => words.trim().to_owned(),
        None if namespaces(model).contains(words) => format!("ns:^{words}$"),
        None => words.to_owned(),
    }
}

/// Those that have clusters.
pub fn namespaces(model: &Model) -> BTreeSet<&str> {
    let rows = model.fleet.clusters().iter().filter_map(|id| model.fleet.row(*id));
    rows.map(|row| row.namespace.as_ref()).collect()
}

/// Lists over the fleet show one namespace from now on, or all. Without a name: how the clusters of each are.
pub fn namespace(model: &mut Model, name: &str) -> Outcome {
    if name.is_empty() {
        return groups::groups(model, "namespace");
    }
    let known = namespaces(model);
    let chosen = match name {
        ALL_NAMESPACES | "*" => None,
        name if known.contains(name) => Some(name.into()),
        _ => {
            let hint = did_you_mean(name, known.into_iter());
            return Err(format!("no Cluster is in a namespace `{name}`{hint}; `ns all` shows all"));
        }
    };
    model.preferences.namespace = chosen;
    if model.screen().as_fleet().is_none() && !matches!(model.screen(), Screen::Objects(_)) {
        model.screens.truncate(1);
    }
    NOTHING
}

/// Objects of any kind that the server has: `KIND`, `KIND NAMESPACE` or `KIND /WORDS`. Nodes are those of the server that is
/// open, not those of its clusters.
pub fn objects(model: &mut Model, typed: &str) -> Outcome {
    let (named, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
    if let Some(listed) = Listed::named(named) {
        return open(model, listed, rest.trim());
    }
    let source = model.fleet.sources().next().map(|(source, _)| source).ok_or("nothing is connected yet")?;
    let mut screen = if HOSTS.contains(&named) {
        ObjectsScreen::of(source, HOSTS_OVER_SSH).or_of(HOSTS_OF_METAL3)
    } else {
        ObjectsScreen::of(source, named)
    };
    match rest.trim() {
        "" => {}
        rest => match rest.strip_prefix('/') {
            Some(words) => screen.set_filter(words.trim()),
            None => drop(namespace(model, rest)?),
        },
    }
    model.open(Screen::Objects(Box::new(screen)));
    model.refresh();
    NOTHING
}

/// What a revision of a MachineDeployment is made of, behind its number.
const REVISION_COLUMNS: &str = "VERSION=.spec.template.spec.version,\
     INFRASTRUCTURE=.spec.template.spec.infrastructureRef.name,\
     BOOTSTRAP=.spec.template.spec.bootstrap.configRef.name,desired,replicas,ready,age";

/// The MachineSets of a MachineDeployment, of the one that is selected or that the selected object belongs to.
pub fn revisions(model: &mut Model) -> Outcome {
    const NONE: &str = "a MachineDeployment has revisions; select one, or what belongs to it";
    let selected = model.selected().ok_or(NONE)?.row();
    let mut above = std::iter::successors(Some(selected), |id| model.fleet.owner_of(*id)).take(OWNERS_MAX);
    let is_deployment =
        |id: &RowId| model.fleet.row(*id).is_some_and(|row| row.kind == Kind::MachineDeployment);
    let row = above.find(is_deployment).and_then(|id| model.fleet.row(id)).ok_or(NONE)?;
    let columns = format!("REVISION=.metadata.annotations['{}'],{REVISION_COLUMNS}", annotation::REVISION);
    let columns = ChosenColumns::parse(&columns).map_err(|error| error.why)?;
    let (deployment, cluster) = (label::DEPLOYMENT_NAME, label::CLUSTER_NAME);
    let selector = format!("{deployment}={},{cluster}={}", row.name, row.cluster);
    let title = format!("revisions of {}", row.name);
    let kind = "machinesets.cluster.x-k8s.io";
    let screen = ObjectsScreen::of_labels(row.source, kind, (&row.namespace, selector), title, &columns);
    model.open(Screen::Objects(Box::new(screen)));
    model.refresh();
    NOTHING
}

pub fn sort(model: &mut Model, column: &str) -> Outcome {
    let word = column.to_lowercase();
    if let Screen::Objects(objects) = model.screen_mut() {
        let known = objects.sorts();
        let at = known.iter().position(|known| *known == word).ok_or_else(|| no_column(column, &known))?;
        objects.sort_by(at);
        return NOTHING;
    }
    let Some(list) = model.screen().as_fleet() else { return NOTHING };
    let known = list.sorts(true);
    let Some((_, by)) = known.iter().find(|(known, _)| *known == word) else {
        let words: Vec<String> = known.into_iter().map(|(word, _)| word).collect();
        return Err(no_column(column, &words));
    };
    order(model, |sort| sort.by = *by)
}

fn no_column(column: &str, known: &[String]) -> String {
    let hint = did_you_mean(&column.to_lowercase(), known.iter().map(String::as_str));
    format!("there is no column `{column}`{hint}; known: {}", known.join(", "))
}

/// By the next column, or in the next order of a tree.
pub fn sort_next(model: &mut Model) -> Outcome {
    match model.screen_mut() {
        Screen::Tree(tree) => tree.sort_next(),
        Screen::Objects(objects) => objects.sort_next(),
        Screen::Fleet(_) => return next_column(model),
        Screen::Details(_)
        | Screen::Rollout(_)
        | Screen::Rollouts(_)
        | Screen::Since(_)
        | Screen::Etcd(_)
        | Screen::Locks(_)
        | Screen::Migration(_)
        | Screen::Logs(_)
        | Screen::Change(_)
        | Screen::Simulation(_) => {}
    }
    NOTHING
}

fn next_column(model: &mut Model) -> Outcome {
    let Some(list) = model.screen().as_fleet() else { return NOTHING };
    let all: Vec<By> = list.sorts(model.preferences.wide).into_iter().map(|(_, by)| by).collect();
    order(model, |sort| {
        // A wide column is not among them any more once the list is not wide: the first one
        // follows.
        let next = all.iter().position(|by| *by == sort.by).map_or(0, |at| at + 1);
        sort.by = all[next % all.len()];
    })
}

pub fn sort_reverse(model: &mut Model) -> Outcome {
    if let Screen::Objects(objects) = model.screen_mut() {
        objects.sort_reverse();
        return NOTHING;
    }
    order(model, |sort| sort.reverse = !sort.reverse)
}

fn order(model: &mut Model, change: impl FnOnce(&mut Sort)) -> Outcome {
    let Screen::Fleet(list) = model.screen_mut() else { return NOTHING };
    let mut sort = list.sort();
    change(&mut sort);
    list.set_sort(sort);
    NOTHING
}
