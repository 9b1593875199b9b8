//! What became of one object: computed, computed in part, or left as it was. Must not know kinds.

/// What became of a status.
pub(super) enum Outcome<K> {
    New(K),
    Left(String),
    /// Most of it cannot be computed, for this reason.
    Broken(K, String),
}
