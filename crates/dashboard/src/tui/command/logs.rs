//! The command that opens logs. Must not read any.

use super::Outcome;
use super::cluster::cluster_meant;
use crate::operations::LogPlace;
use crate::tui::model::Model;
use crate::tui::screen::Screen;
use crate::tui::screen::logs::LogsScreen;
use crate::tui::subject::LogSubject;
use capi_types::host::is_host;
use capi_types::key::ObjectKey;

/// Where static pods and add-ons are, when no namespace is named.
const NAMESPACE: &str = "kube-system";

/// What the controllers say about the selected object, or with a name the log of that Pod of its cluster.
pub fn open(model: &mut Model, pod: &str) -> Outcome {
    if matches!(model.screen(), Screen::Logs(_)) && pod.is_empty() {
        return Ok(Vec::new());
    }
    let subject = if pod.is_empty() { about_selected(model)? } else { of_pod(model, pod)? };
    show(model, subject)
}

/// What the run on the selected Host says, or on that of the selected Machine.
pub fn of_host(model: &mut Model, _: &str) -> Outcome {
    let subject = selected_host(model).ok_or("a Host has a run: select one, or a Machine that has one")?;
    show(model, subject)
}

fn show(model: &mut Model, subject: LogSubject) -> Outcome {
    let about = model.selected_row().and_then(|id| model.fleet.row(id)).map(|row| (row.source, row.uid));
    model.open(Screen::Logs(Box::new(LogsScreen::of(subject, about))));
    Ok(Vec::new())
}

fn selected_host(model: &Model) -> Option<LogSubject> {
    if let Screen::Objects(objects) = model.screen() {
        let target = objects.target().filter(|target| is_host(&target.group, &target.kind))?;
        let place = LogPlace::HostRun(ObjectKey::new(target.namespace, target.name));
        return Some(LogSubject { source: target.source, place });
    }
    let host = model.fleet.row(model.fleet.host_of(model.selected()?.row())?)?;
    Some(LogSubject { source: host.source, place: LogPlace::HostRun(host.key()) })
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
    if !is_name(namespace) || !is_name(name) {
        return Err(format!("`{typed}` is not a Pod: write NAMESPACE/POD, such as kube-system/etcd-cp-1"));
    }
    let place = LogPlace::Workload { cluster: row.key(), pod: ObjectKey::new(namespace, name) };
    Ok(LogSubject { source: row.source, place })
}

/// In a name of Kubernetes the first and the last are letters or digits, so that none of them leads elsewhere in a path.
fn is_name(text: &str) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let is_inside = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    is_end(text.chars().next()) && is_end(text.chars().next_back()) && text.chars().all(is_inside)
}
