//! The Leases that a write rests on, as its headers name them. Owns the reading of the header; must not know what is
//! stored.

use http::HeaderMap;

use crate::failure::Failure;
use capstan_store::{Key, Revision};
use k8s_machinery::lease::{FENCE_HEADER, Fence};

/// A Lease that a write rests on, and where it was found to be as the fence says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    pub fence: Fence,
    pub key: Key,
    /// Of its last write; 0: it is not there.
    pub revision: Revision,
}

/// The fences that a request names.
///
/// # Errors
/// 400 for a header that is not a fence.
pub fn named(headers: &HeaderMap) -> Result<Vec<Fence>, Failure> {
    let read = |value: &http::HeaderValue| value.to_str().ok().and_then(Fence::parse);
    let wrong = || Failure::bad_request(format!("{FENCE_HEADER}: expected NAMESPACE/NAME UID TRANSITIONS"));
    headers.get_all(FENCE_HEADER).iter().map(|value| read(value).ok_or_else(wrong)).collect()
}
