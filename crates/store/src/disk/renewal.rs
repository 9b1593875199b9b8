//! Sealing what a data file holds, its history included, before it is used: what is in clear, and what has an older key. Must
//! not know pages, nor how a file is written.

use std::collections::HashMap;
use std::sync::Arc;

use super::file::Loaded;
use crate::data_dir::OpenError;
use crate::sealed::ValueState;
use crate::{Blob, Census, Change, Entry, Key, Revision, Sealing};

/// Seals anew, with the same revisions: nothing changes for a reader, and watches go on. Counts what the objects were, and says
/// whether the file differs now. Without keys nothing is looked at.
pub(super) fn renew(loaded: &mut Loaded, sealing: &Sealing) -> Result<(Census, bool), OpenError> {
    let mut census = Census::default();
    if sealing.ring().is_none() {
        return Ok((census, false));
    }
    let mut renewed = Renewed { sealing, values: HashMap::new() };
    let covered = loaded.objects.iter().filter(|entry| sealing.covers(&entry.key));
    let mut anew = Vec::new();
    for entry in covered {
        census.count(&entry.key, &sealing.state(&entry.key, &entry.value));
        if let Some(entry) = renewed.entry(entry)? {
            anew.push(entry);
        }
    }
    anew.into_iter().for_each(|entry| loaded.objects.insert(entry));
    for change in loaded.changes.iter_mut().filter(|change| sealing.covers(&change.key)) {
        let current = renewed.held(change.current.as_ref())?;
        let previous = renewed.held(change.previous.as_ref())?;
        *change = Arc::new(Change { revision: change.revision, key: change.key.clone(), current, previous });
    }
    let newest = sealing.newest();
    // A file that has only now got a key may hold values in clear in free pages, whatever its objects are.
    let differs = newest != loaded.sealed_with || renewed.values.values().any(Option::is_some);
    loaded.sealed_with = newest;
    Ok((census, differs))
}

/// The key that most likely sealed all of these: of the value that was written last.
pub(super) fn key_of_newest<'a>(entries: impl Iterator<Item = &'a Entry>) -> Option<crate::KeyId> {
    let sealed = entries.filter_map(|entry| {
        let id = crate::sealed::key_of_value(&entry.value.unpack().ok()?)?;
        Some((entry.modified, id))
    });
    sealed.max_by_key(|(modified, _)| *modified).map(|(_, id)| id)
}

/// Values that were sealed anew. An object and the changes that led to it share theirs.
struct Renewed<'a> {
    sealing: &'a Sealing,
    values: HashMap<(Key, Revision), Option<Blob>>,
}

impl Renewed<'_> {
    /// The entry with its value sealed anew; `None`: it stays as it is.
    fn entry(&mut self, entry: &Entry) -> Result<Option<Entry>, OpenError> {
        let place = (entry.key.clone(), entry.modified);
        let value = match self.values.get(&place) {
            Some(known) => known.clone(),
            None => {
                let value = self.value(entry)?;
                self.values.insert(place, value.clone());
                value
            }
        };
        Ok(value.map(|value| Entry { value, ..entry.clone() }))
    }

    fn value(&self, entry: &Entry) -> Result<Option<Blob>, OpenError> {
        let (ValueState::Older(value) | ValueState::Clear(value)) =
            self.sealing.state(&entry.key, &entry.value)
        else {
            return Ok(None);
        };
        let sealed = self.sealing.seal(&entry.key, value)?;
        Ok(Some(Blob::raw(&sealed)))
    }

    fn held(&mut self, entry: Option<&Entry>) -> Result<Option<Entry>, OpenError> {
        let Some(entry) = entry else { return Ok(None) };
        Ok(Some(self.entry(entry)?.unwrap_or_else(|| entry.clone())))
    }
}
