//! Commands that act on the selected object: each opens a preview and writes nothing.

use std::sync::Arc;

use super::Outcome;
use crate::actions::{Action, ActionInfo, Order, Request};
use crate::fleet::{Row, RowId};
use crate::tui::model::Model;
use crate::tui::overlay::Overlay;
use crate::tui::overlay::many::{ManyBox, OBJECTS_MAX};

/// Opens the preview of an action on the selected object.
pub fn preview(model: &mut Model, info: &ActionInfo, argument: &str) -> Outcome {
    let action = info.parse(argument, model.now).map_err(|error| error.to_string())?;
    let about = model.acted_on();
    if about.len() > 1 {
        return preview_many(model, &about, &action);
    }
    let id = about.first().copied().ok_or(NOTHING_SELECTED)?;
    let row = model.fleet.row(id).ok_or("the object does not exist any more")?;
    let (source, request) = (row.source, Request::new(row.object_ref(), action));
    Ok(vec![model.open_preview(source, Order::Action(request))])
}

/// The same on all that is marked.
fn preview_many(model: &mut Model, about: &[RowId], action: &Action) -> Outcome {
    if about.len() > OBJECTS_MAX {
        return Err(format!("{} objects are marked; at most {OBJECTS_MAX} are changed at once", about.len()));
    }
    let mut rows: Vec<_> = about.iter().filter_map(|id| model.fleet.row(*id)).collect();
    // By place, so that the order does not depend on that of the marks.
    rows.sort_by_key(|row| (row.kind, &row.namespace, &row.name));
    let of = |row: &Arc<Row>| {
        let is_member = row.machine().is_some_and(|machine| machine.control_plane);
        (row.source, Request::new(row.object_ref(), action.clone()), is_member)
    };
    let all: Vec<_> = rows.into_iter().map(of).collect();
    let with_ticket = |(source, request, is_member)| (model.next_ticket(), source, request, is_member);
    let objects: Vec<_> = all.into_iter().map(with_ticket).collect();
    let many = ManyBox::new(
        format!("{action} of {} objects", objects.len()),
        objects,
        model.session.confirm_after_s,
    );
    let effects = many.begin();
    model.overlays.push(Overlay::Many(Box::new(many)));
    Ok(effects)
}

/// Sets the version of a Cluster in its topology, where it has one.
const SET_VERSION: &str = "set-version";
const VERSION_BELOW: &str =
    "without a topology the version is set on its control plane, then on its workers: open the tree";

fn is_without_topology(row: &Row) -> bool {
    row.cluster_facts().is_some_and(|facts| facts.class.is_empty())
}

const NOTHING_SELECTED: &str = "no object is selected that can be changed";

pub fn refused_as_read_only(model: &Model) -> Option<String> {
    model.session.read_only.then(|| "read-only: nothing can be changed from here".to_owned())
}

/// Why an action cannot be asked for on what is selected; as far as it is known without asking the server.
pub fn refusal(model: &Model, info: &ActionInfo) -> Option<String> {
    if let Some(why) = refused_as_read_only(model) {
        return Some(why);
    }
    let about = model.acted_on();
    let mut rows = about.iter().filter_map(|id| model.fleet.row(*id)).peekable();
    if rows.peek().is_none() {
        return Some(NOTHING_SELECTED.to_owned());
    }
    let takes = |row: &Row| info.check_kind(&row.gvk.kind, row.is_control_plane()).is_ok();
    // All or none: nothing that is marked is passed over in silence.
    if let Some(row) = rows.clone().find(|row| !takes(row)) {
        return Some(format!("a {} does not take `{}`", row.gvk.kind, info.name));
    }
    rows.any(|row| is_without_topology(row) && info.name == SET_VERSION).then(|| VERSION_BELOW.to_owned())
}

/// The open preview once more, with what extensions say to it.
pub fn ask_extensions(model: &mut Model) -> Outcome {
    let ticket = model.next_ticket();
    let Some(Overlay::Preview(preview)) = model.overlays.last_mut() else {
        return Err("extensions are asked from the preview of an action".to_owned());
    };
    preview.ask_extensions(ticket)
}

/// The change of the open preview as a file, for where the object comes from.
pub fn save_patch(model: &Model) -> Outcome {
    let Some(Overlay::Preview(preview)) = model.overlays.last() else {
        return Err("a patch is written from the preview of an action".to_owned());
    };
    preview.save_patch()
}

/// The confirmation of the open dialog by key, or that a notice was read.
pub fn accept(model: &mut Model) -> Outcome {
    match model.overlays.last_mut() {
        Some(Overlay::Preview(preview)) => Ok(preview.confirm()),
        Some(Overlay::Launch(launch)) if !launch.is_reading => {
            let Some(Overlay::Launch(launch)) = model.overlays.pop() else { return Ok(Vec::new()) };
            Ok(model.launch(*launch))
        }
        Some(Overlay::Draft { is_refused: true, .. }) => {
            model.overlays.pop();
            Ok(model.edit_again())
        }
        Some(Overlay::Notice(_) | Overlay::Login(_) | Overlay::Help(_)) => {
            model.overlays.pop();
            Ok(Vec::new())
        }
        // A key alone is not a confirmation here: these take their keys themselves.
        Some(
            Overlay::Prompt(_)
            | Overlay::Refusal(_)
            | Overlay::Many(_)
            | Overlay::Launch(_)
            | Overlay::Draft { .. },
        )
        | None => Ok(Vec::new()),
    }
}
