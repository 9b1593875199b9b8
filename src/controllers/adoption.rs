//! Taking over what nobody controls. Owns the one write; must not know why an object is an orphan.

use super::Context;
use crate::client::{Mode, Object, Precondition, WriteError};
use crate::plan::ownership::{add_owner, owner};

/// Makes `new` the controller of `orphan`. Answers with the orphan as it then is.
///
/// # Errors
/// When the server refuses, also because the orphan changed meanwhile.
pub async fn adopt<K: Object>(context: &Context, new: &impl Object, orphan: &K) -> Result<K, WriteError> {
    let mut after = orphan.clone();
    add_owner(after.meta_mut(), owner(new, true));
    context.writer.patch(orphan, &after, &Precondition::unchanged(orphan), Mode::Real).await
}
