//! The random parts of the names that controllers give. Each owner has a stream of its own, so that a seed gives
//! the same names in whatever order controllers run. Must not know how a name is put together.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use capi_types::key::ObjectKey;
use capstan_base::rng::Rng;

/// How many parts each owner has used. Clones share it; one number per owner is kept as long as the process runs,
/// because a part that was used must not come again.
#[derive(Clone, Debug)]
pub struct Names {
    rng: Rng,
    used: Arc<Mutex<HashMap<String, u64>>>,
}

impl Names {
    pub fn new(rng: Rng) -> Self {
        Self { rng, used: Arc::default() }
    }

    /// The next `count` parts of `length` characters for children of `owner`. A part comes again until it is in
    /// one of the names in `taken`, and never after that.
    pub fn parts(
        &self,
        (kind, owner): (&str, &ObjectKey),
        taken: &[&str],
        (count, length): (usize, usize),
    ) -> Vec<String> {
        let stream = |index: u64| self.rng.stream(&format!("{kind}/{owner}/{index}")).suffix(length);
        let is_taken = |part: &String| taken.iter().any(|name| name.contains(part.as_str()));
        let mut used = self.used.lock();
        let first = used.entry(format!("{kind}/{owner}")).or_default();
        while is_taken(&stream(*first)) {
            *first += 1;
        }
        (*first..).map(stream).filter(|part| !is_taken(part)).take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three(names: &Names, owner: &str, taken: &[&str]) -> Vec<String> {
        names.parts(("MachineSet", &ObjectKey::new("ns", owner)), taken, (3, 5))
    }

    #[test]
    fn owners_do_not_disturb_each_other() {
        let (one, other) = (Names::new(Rng::seeded(7)), Names::new(Rng::seeded(7)));
        let first = three(&one, "a", &[]);
        let _ = three(&other, "b", &[]);
        assert_eq!(three(&other, "a", &[]), first, "not the order of runs");
        assert_ne!(three(&other, "b", &[]), first);
    }

    #[test]
    fn a_part_comes_again_until_a_child_has_it_and_never_after() {
        let names = Names::new(Rng::seeded(7));
        let parts = three(&names, "a", &[]);
        assert_eq!(three(&names, "a", &[]), parts, "none was used");
        let child = format!("a-{}", parts[0]);
        let next = three(&names, "a", &[&child]);
        assert_eq!(next[..2], parts[1..]);
        assert_eq!(three(&names, "a", &[]), next, "also when the child is gone");
    }
}
