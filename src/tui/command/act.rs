//! Commands that act on the selected object: each opens a preview, nothing more.

use super::Outcome;
use crate::actions::{Action, Request};
use crate::time;
use crate::tui::effect::Effect;
use crate::tui::model::Model;
use crate::tui::overlay::Overlay;
use crate::tui::overlay::preview::PreviewBox;

pub fn scale(model: &mut Model, argument: &str) -> Outcome {
    let replicas: i32 = argument
        .parse()
        .ok()
        .filter(|n| *n >= 0)
        .ok_or_else(|| format!("`{argument}` is not a number of replicas; write 0 or more"))?;
    ask(model, Action::Scale { replicas })
}

pub fn restart(model: &mut Model) -> Outcome {
    ask(model, Action::Restart)
}

pub fn rollout_after(model: &mut Model, argument: &str) -> Outcome {
    let at = time::parse_moment(argument, model.now)
        .ok_or_else(|| format!("`{argument}` is not a moment; write 2026-11-20T22:00:00Z or +2h"))?;
    ask(model, Action::RolloutAfter { at })
}

pub fn set_version(model: &mut Model, argument: &str) -> Outcome {
    let bare = argument.trim_start_matches('v');
    semver::Version::parse(bare).map_err(|e| format!("`{argument}` is not a version like v1.36.2: {e}"))?;
    ask(model, Action::SetVersion { version: format!("v{bare}") })
}

pub fn pause(model: &mut Model) -> Outcome {
    ask(model, Action::Pause)
}

pub fn resume(model: &mut Model) -> Outcome {
    ask(model, Action::Resume)
}

pub fn delete(model: &mut Model) -> Outcome {
    ask(model, Action::Delete)
}

/// Opens the preview of an action on the selected object.
fn ask(model: &mut Model, action: Action) -> Outcome {
    if model.session.read_only {
        return Err("read-only: nothing can be changed from here".to_owned());
    }
    let id = model.selected_row().ok_or("no object is selected that can be changed")?;
    let row = model.fleet.row(id).ok_or("the object is gone")?;
    if !action.applies_to(&row.gvk.kind) {
        return Err(format!("a {} does not take `{}`", row.gvk.kind, action.name()));
    }
    let (source, request) = (row.source, Request { target: row.object_ref(), action });
    model.ticket += 1;
    let ticket = model.ticket;
    model.overlays.push(Overlay::Preview(Box::new(PreviewBox::new(ticket, source, request.clone()))));
    Ok(vec![Effect::Preview { ticket, source, request }])
}

/// A yes in the open dialog.
pub fn confirm(model: &mut Model, strong: bool) -> Outcome {
    match model.overlays.last_mut() {
        Some(Overlay::Preview(preview)) => Ok(preview.confirm(strong)),
        Some(Overlay::Notice(_) | Overlay::Help(_)) => {
            model.overlays.pop();
            Ok(Vec::new())
        }
        Some(Overlay::Prompt(_)) | None => Ok(Vec::new()),
    }
}
