//! Which cluster a command means. Must not know what is done with it.

use crate::fleet::RowId;
use crate::tui::model::Model;
use capstan_base::text::did_you_mean;

/// The named cluster, or the one that the selected object belongs to.
pub fn cluster_meant(model: &Model, name: &str) -> Result<RowId, String> {
    if !name.is_empty() {
        return cluster_named(model, name);
    }
    let id = model.selected().ok_or("no cluster is selected")?.row();
    model.fleet.cluster_of(id).ok_or_else(|| "the object belongs to no cluster that is known".to_owned())
}

/// A cluster by `name` or `namespace/name`.
fn cluster_named(model: &Model, name: &str) -> Result<RowId, String> {
    let rows = || model.fleet.clusters().iter().filter_map(|id| Some((*id, model.fleet.row(*id)?)));
    let found: Vec<RowId> = rows()
        .filter(|(_, row)| row.name.as_ref() == name || format!("{}/{}", row.namespace, row.name) == name)
        .map(|(id, _)| id)
        .collect();
    match found.as_slice() {
        [one] => Ok(*one),
        [] => {
            let hint = did_you_mean(name, rows().map(|(_, row)| row.name.as_ref()));
            Err(format!("there is no cluster `{name}`{hint}"))
        }
        several => Err(format!("{} clusters are called `{name}`; write NAMESPACE/NAME", several.len())),
    }
}
