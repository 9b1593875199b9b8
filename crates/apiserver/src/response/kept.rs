//! A body that many ask for: each form of it that a client likes is made once. Must not know what is in it, nor how a form is made.

use std::future::Future;

use bytes::Bytes;
use tokio::sync::OnceCell;

/// How a client likes to get a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyForm {
    pub yaml: bool,
    pub indent: bool,
    pub gzip: bool,
}

#[derive(Clone, Debug)]
pub struct FormedBody {
    pub bytes: Bytes,
    pub yaml: bool,
    pub packed: bool,
    /// Enough to be packed for those who like that.
    pub large: bool,
}

/// A body with the forms of it that were asked for.
#[derive(Debug, Default)]
pub struct KeptBody {
    plain: Bytes,
    forms: [OnceCell<FormedBody>; 8],
}

impl KeptBody {
    pub fn new(plain: Bytes) -> Self {
        Self { plain, ..Self::default() }
    }

    /// The body in this form, made by whoever is the first to ask for it.
    pub async fn formed<F: Future<Output = FormedBody>>(
        &self,
        form: BodyForm,
        make: impl FnOnce(Bytes) -> F,
    ) -> FormedBody {
        let BodyForm { yaml, indent, gzip } = form;
        let at = usize::from(yaml) | usize::from(indent) << 1 | usize::from(gzip) << 2;
        match self.forms.get(at) {
            Some(cell) => cell.get_or_init(|| make(self.plain.clone())).await.clone(),
            None => make(self.plain.clone()).await,
        }
    }
}
