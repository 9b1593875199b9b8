//! Documents as they were made, for as long as the same is served: a document that many ask for is made once, and they wait for
//! it. Owns when it is made anew; must not know what is in it.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::discovery::etag;
use crate::failure::Failure;
use crate::resource::Catalog;
use crate::response::kept::KeptBody;

/// The documents of one server.
#[derive(Default)]
pub struct Documents(Mutex<Made>);

#[derive(Default)]
struct Made {
    /// What they were made of.
    catalog: Option<Arc<Catalog>>,
    documents: HashMap<String, Arc<OnceCell<Option<Document>>>>,
}

/// A document with its tag.
#[derive(Clone)]
pub struct Document {
    pub body: Arc<KeptBody>,
    pub tag: String,
}

impl From<Bytes> for Document {
    fn from(text: Bytes) -> Self {
        Self { tag: etag(&text), body: Arc::new(KeptBody::new(text)) }
    }
}

impl Documents {
    /// The document of this name, made when nobody made it for this catalogue yet. `None`: there is none.
    ///
    /// # Errors
    /// Those of `make`; the next one tries again.
    pub async fn get<F>(
        &self,
        catalog: &Arc<Catalog>,
        name: &str,
        make: impl FnOnce() -> F,
    ) -> Result<Option<Document>, Failure>
    where
        F: Future<Output = Result<Option<Document>, Failure>>,
    {
        let cell = self.cell(catalog, name);
        // A request that is given up leaves the making to the next one that waits.
        let made = cell.get_or_try_init(make).await;
        made.cloned()
    }

    fn cell(&self, catalog: &Arc<Catalog>, name: &str) -> Arc<OnceCell<Option<Document>>> {
        let mut made = self.0.lock();
        // Every change of what is served makes a new catalogue, so its address stands for its
        // version.
        if !made.catalog.as_ref().is_some_and(|known| Arc::ptr_eq(known, catalog)) {
            *made = Made { catalog: Some(catalog.clone()), documents: HashMap::new() };
        }
        // The cell is handed out, so that no lock is held while a document is made.
        made.documents.entry(name.to_owned()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_document_is_made_once_for_all_who_ask_and_anew_for_another_catalogue() {
        let (documents, made) = (Documents::default(), AtomicUsize::new(0));
        let (first, second) = (Arc::new(Catalog::built_in()), Arc::new(Catalog::built_in()));
        let get = async |catalog: &Arc<Catalog>| {
            let make = || async {
                tokio::task::yield_now().await;
                made.fetch_add(1, Ordering::Relaxed);
                Ok(Some(Document::from(Bytes::from_static(b"{}"))))
            };
            let document = documents.get(catalog, "a", make).await.expect("an answer");
            document.expect("a document").tag
        };
        let tags = futures::future::join_all((0..200).map(|_| get(&first))).await;
        assert_eq!(made.load(Ordering::Relaxed), 1);
        assert!(tags.iter().all(|tag| *tag == tags[0]));
        get(&second).await;
        get(&second).await;
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_failure_is_not_kept() {
        let (documents, catalog) = (Documents::default(), Arc::new(Catalog::built_in()));
        let failed = documents.get(&catalog, "a", || async { Err(Failure::internal("no store")) }).await;
        assert!(failed.is_err());
        let none = documents.get(&catalog, "a", || async { Ok(None) }).await.expect("an answer");
        assert!(none.is_none());
    }
}
