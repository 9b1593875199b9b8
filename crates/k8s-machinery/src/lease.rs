//! Words of Leases that several programs share: how the holder of a Lease is described, and the fence that a write
//! carries while its writer holds one. Must not know which Leases there are.

/// Label of the Leases of capstan's own engines: what the holder is called in the files of a shared server.
pub const COMPONENT: &str = "capstan.dev/engine";
/// Annotation: the controllers that the holder runs under it, with commas between them.
pub const CONTROLLERS: &str = "capstan.dev/controllers";

/// Annotation of an engine's own Lease: upstream's feature gates that it was started with, as `GATE=BOOL` with commas between
/// them.
pub const FEATURE_GATES: &str = "capstan.dev/feature-gates";
/// Annotation of an engine's own Lease: how many extensions may answer a hook about updates in place, `one` or `union`.
pub const IN_PLACE_HANDLERS: &str = "capstan.dev/in-place-handlers";

/// Annotation of an engine's own Lease: the kinds that its controllers wait for, each with why it cannot be read; empty: they run.
pub const HELD_UP_BY: &str = "capstan.dev/held-up-by";

/// Header of a write that rests on a Lease; capstan's own server compares it. One for each Lease.
pub const FENCE_HEADER: &str = "capstan-fence";

/// One holding of one Lease, as a write names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub transitions: i32,
}

impl Fence {
    /// `NAMESPACE/NAME UID TRANSITIONS`.
    pub fn text(&self) -> String {
        format!("{}/{} {} {}", self.namespace, self.name, self.uid, self.transitions)
    }

    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (namespace, name) = words.next()?.split_once('/')?;
        let (uid, transitions) = (words.next()?, words.next()?.parse().ok()?);
        let [namespace, name, uid] = [namespace, name, uid].map(str::to_owned);
        words.next().is_none().then_some(Self { namespace, name, uid, transitions })
    }
}
