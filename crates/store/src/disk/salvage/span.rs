//! Stretches of keys: what a subtree may hold, and what was lost with one.

/// Keys above one and up to another; `None` is no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) above: Option<Vec<u8>>,
    pub(super) upto: Option<Vec<u8>>,
}

impl Span {
    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.above.as_deref().is_none_or(|above| key > above)
            && self.upto.as_deref().is_none_or(|upto| key <= upto)
    }

    /// What both hold; `None` when that is nothing.
    pub(super) fn and(&self, above: Option<&[u8]>, upto: Option<&[u8]>) -> Option<Self> {
        let above = self.above.as_deref().max(above);
        let upto = match (self.upto.as_deref(), upto) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if let (Some(above), Some(upto)) = (above, upto)
            && above >= upto
        {
            return None;
        }
        Some(Self { above: above.map(<[u8]>::to_vec), upto: upto.map(<[u8]>::to_vec) })
    }
}

/// True when one of the stretches has the key. There are as many as there are damaged pages.
pub(super) fn holds(spans: &[Span], key: &[u8]) -> bool {
    spans.iter().any(|span| span.contains(key))
}
