//! Commands of the screen of a kubeadm configuration: opening it, staging edits, and the previews of what is carried out. Writes
//! nothing itself.

use super::Outcome;
use super::cluster::cluster_meant;
use crate::actions::Order;
use crate::operations::ChangeOrder;
use crate::tui::model::Model;
use crate::tui::screen::Screen;
use crate::tui::screen::change::ChangeScreen;

/// The kubeadm configuration of the named cluster, or of the one that the selected object belongs to.
pub fn open(model: &mut Model, name: &str) -> Outcome {
    if matches!(model.screen(), Screen::Change(_)) && name.is_empty() {
        return Ok(Vec::new());
    }
    let cluster = cluster_meant(model, name)?;
    let screen = ChangeScreen::of(&model.fleet, cluster).ok_or("the cluster is gone")?;
    if !name.is_empty() {
        model.screens.truncate(1);
    }
    model.open(Screen::Change(Box::new(screen)));
    Ok(Vec::new())
}

/// Stages a change of the configuration that is open.
pub fn stage(model: &mut Model, edit: &str) -> Outcome {
    if let Screen::Change(change) = model.screen_mut() {
        change.stage(edit)?;
    }
    Ok(Vec::new())
}

/// Takes a staged change back, or all of them.
pub fn unstage(model: &mut Model, path: &str) -> Outcome {
    if let Screen::Change(change) = model.screen_mut() {
        change.unstage(path);
    }
    Ok(Vec::new())
}

/// The line that an edit begins with: the path under the cursor.
pub fn begun(model: &Model, command: &str) -> Option<String> {
    let Screen::Change(change) = model.screen() else { return None };
    let path = change.selected_path()?;
    match command {
        "set" => Some(format!("set {path}=")),
        "unset" => Some(format!("unset {path}")),
        _ => None,
    }
}

/// Opens the preview of what is staged in the open configuration, or of the next part of a change that was begun.
pub fn carry_out(model: &mut Model) -> Outcome {
    preview(model, ChangeScreen::order)
}

/// Opens the preview of taking the last change back.
pub fn take_back(model: &mut Model) -> Outcome {
    preview(model, ChangeScreen::order_back)
}

fn preview(
    model: &mut Model,
    order_of: impl FnOnce(&ChangeScreen) -> Result<ChangeOrder, String>,
) -> Outcome {
    let Screen::Change(change) = model.screen() else { return Ok(Vec::new()) };
    let (cluster, order) = (change.cluster().clone(), order_of(change)?);
    Ok(vec![model.open_preview(cluster.source, Order::Change { cluster: cluster.key, order })])
}
