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
    if model.session.read_only {
        return Err("read-only: nothing can be changed from here".to_owned());
    }
    let id = model.selected_row().ok_or("no object is selected that can be changed")?;
    let row = model.fleet.row(id).ok_or("the object does not exist any more")?;
    info.check_kind(&row.gvk.kind).map_err(|error| error.to_string())?;
    let (source, request) = (row.source, Request { target: row.object_ref(), action });
    model.ticket += 1;
    let ticket = model.ticket;
    model.overlays.push(Overlay::Preview(Box::new(PreviewBox::new(ticket, source, request.clone()))));
    Ok(vec![Effect::Preview { ticket, source, request }])
}

/// The confirmation of the open dialog by one key: `strong` by `y`, otherwise by enter.
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
