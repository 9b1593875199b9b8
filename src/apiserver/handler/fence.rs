//! Writes that name the Leases they rest on: refused once such a Lease has another uid or more transitions. A request that
//! left in time and arrives late is stopped here; the writer's own clock cannot do that.

use super::Call;
use crate::api::names::lease::{FENCE_HEADER, Fence};
use crate::apiserver::failure::{Failure, Reason};
use crate::apiserver::object::Record;
use crate::apiserver::registry::Subject;

/// Compares every fence of the request with what is stored now.
///
/// # Errors
/// 400 for a header that is none, 409 when the Lease has been taken by somebody since.
pub(super) async fn check(call: &Call) -> Result<(), Failure> {
    for value in call.parts.headers.get_all(FENCE_HEADER) {
        let fence = value.to_str().ok().and_then(Fence::parse);
        let fence = fence.ok_or_else(|| {
            Failure::bad_request(format!("{FENCE_HEADER}: expected NAMESPACE/NAME UID TRANSITIONS"))
        })?;
        compare(call, &fence).await?;
    }
    Ok(())
}

/// A Lease that is gone was not taken by anybody.
async fn compare(call: &Call, fence: &Fence) -> Result<(), Failure> {
    let catalog = call.registry.catalog.load();
    let Some(leases) = catalog.find("coordination.k8s.io", "v1", "leases").cloned() else { return Ok(()) };
    drop(catalog);
    let lease = Subject { resource: &leases, namespace: &fence.namespace, name: &fence.name };
    let entry = match call.registry.entry(lease).await {
        Ok(entry) => entry,
        Err(failure) if failure.reason == Reason::NotFound => return Ok(()),
        Err(failure) => return Err(failure),
    };
    let object = Record::read(&entry)?.value()?;
    let is_same = object["metadata"]["uid"] == fence.uid.as_str()
        && object["spec"]["leaseTransitions"].as_i64().unwrap_or(0) == i64::from(fence.transitions);
    if is_same {
        return Ok(());
    }
    let (resource, name) = (&call.resource, &call.target.name);
    let why = format!("Lease {}/{} has been taken by another process since", fence.namespace, fence.name);
    Err(Failure::conflict(&resource.group, &resource.plural, name, &why))
}
