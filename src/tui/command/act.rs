//! Commands that act on the selected object: each opens a preview and writes nothing.

use super::Outcome;
use crate::actions::{ActionInfo, Request};
use crate::tui::effect::Effect;
use crate::tui::model::Model;
use crate::tui::overlay::Overlay;
use crate::tui::overlay::preview::PreviewBox;

/// Opens the preview of an action on the selected object.
pub fn preview(model: &mut Model, info: &ActionInfo, argument: &str) -> Outcome {
    let action = info.parse(argument, model.now).map_err(|error| error.to_string())?;
    let id = model.selected_row().ok_or(NOTHING_SELECTED)?;
    let row = model.fleet.row(id).ok_or("the object does not exist any more")?;
    let (source, request) = (row.source, Request { target: row.object_ref(), action });
    model.ticket += 1;
    let ticket = model.ticket;
    model.overlays.push(Overlay::Preview(Box::new(PreviewBox::new(ticket, source, request.clone()))));
    Ok(vec![Effect::Preview { ticket, source, request }])
}

const NOTHING_SELECTED: &str = "no object is selected that can be changed";

/// Why an action cannot be asked for on what is selected; as far as it is known without asking the server.
#[must_use]
pub fn refusal(model: &Model, info: &ActionInfo) -> Option<String> {
    if model.session.read_only {
        return Some("read-only: nothing can be changed from here".to_owned());
    }
    let Some(row) = model.selected_row().and_then(|id| model.fleet.row(id)) else {
        return Some(NOTHING_SELECTED.to_owned());
    };
    let kind = &row.gvk.kind;
    info.check_kind(kind).is_err().then(|| format!("a {kind} does not take `{}`", info.name))
}

/// The confirmation of the open dialog by key, or that a notice was read.
pub fn accept(model: &mut Model) -> Outcome {
    match model.overlays.last_mut() {
        Some(Overlay::Preview(preview)) => Ok(preview.confirm()),
        Some(Overlay::Notice(_) | Overlay::Help(_)) => {
            model.overlays.pop();
            Ok(Vec::new())
        }
        Some(Overlay::Prompt(_) | Overlay::Refusal(_)) | None => Ok(Vec::new()),
    }
}
