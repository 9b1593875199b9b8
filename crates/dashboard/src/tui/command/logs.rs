//! The command that opens logs. Must not read any.

use super::Outcome;
use super::cluster::cluster_meant;
use crate::operations::LogPlace;
use crate::tui::model::Model;
use crate::tui::screen::Screen;
use crate::tui::screen::logs::LogsScreen;
use crate::tui::subject::LogSubject;
use capi_types::key::ObjectKey;

/// Where static pods and add-ons are, when no namespace is named.
const NAMESPACE: &str = "kube-system";

/// What the controllers say about the selected object, or with a name the log of that Pod of its cluster.
pub fn open(model: &mut Model, pod: &str) -> Outcome {
    if matches!(model.screen(), Screen::Logs(_)) && pod.is_empty() {
        return Ok(Vec::new());
    }
    let subject = if pod.is_empty() { about_selected(model)? } else { of_pod(model, pod)? };
    model.open(Screen::Logs(Box::new(LogsScreen::of(subject))));
    Ok(Vec::new())
}

fn about_selected(model: &Model) -> Result<LogSubject, String> {
    let id = model.selected().ok_or("no object is selected")?.row();
    let row = model.fleet.row(id).ok_or("the object does not exist any more")?;
    Ok(LogSubject { source: row.source, place: LogPlace::Controllers(row.key()) })
}

fn of_pod(model: &Model, typed: &str) -> Result<LogSubject, String> {
    let cluster = cluster_meant(model, "")?;
    let row = model.fleet.row(cluster).ok_or("the cluster is gone")?;
    let (namespace, name) = typed.split_once('/').unwrap_or((NAMESPACE, typed));
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
    if !is_name(namespace) || !is_name(name) {
        return Err(format!("`{typed}` is not a Pod: write NAMESPACE/POD, such as kube-system/etcd-cp-1"));
    }
    let place = LogPlace::Workload { cluster: row.key(), pod: ObjectKey::new(namespace, name) };
    Ok(LogSubject { source: row.source, place })
}
