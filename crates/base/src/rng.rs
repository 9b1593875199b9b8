//! Random numbers: no other module makes them. Owns one seeded generator and streams derived from it by name,
//! so that a run can be repeated from its seed. Must not know what it is used for.
//! (Keys and certificates are not made here: they take the operating system's entropy.)

use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};

/// The alphabet of generated names: no vowels, no look-alikes.
/// Source: apimachinery `util/rand/rand.go`, v0.35.
const SAFE: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A shared seeded generator. Clones draw from the same stream.
#[derive(Clone, Debug)]
pub struct Rng {
    seed: u64,
    inner: Arc<Mutex<StdRng>>,
}

impl Rng {
    /// The same seed gives the same draws in the same order.
    pub fn seeded(seed: u64) -> Self {
        Self { seed, inner: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))) }
    }

    /// A generator whose seed the operating system chose.
    #[allow(clippy::disallowed_methods, reason = "the one place that takes entropy for names and jitter")]
    pub fn from_entropy() -> Self {
        Self::seeded(rand::random())
    }

    /// The seed to print when a run fails.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// An independent stream for `name`, the same whenever seed and name are the same.
    pub fn stream(&self, name: &str) -> Self {
        // FNV-1a: stable over releases and platforms, which std's hashers are not.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        Self::seeded(self.seed ^ hash)
    }

    /// A suffix for generated names, as `SafeEncodeString(rand.String(length))` upstream.
    pub fn suffix(&self, length: usize) -> String {
        let mut rng = self.inner.lock();
        (0..length).map(|_| char::from(SAFE[rng.random_range(0..SAFE.len())])).collect()
    }

    /// Uniform in `0.0..1.0`.
    pub fn unit(&self) -> f64 {
        self.inner.lock().random_range(0.0..1.0)
    }

    /// Uniform in `0..bound`; 0 when `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.inner.lock().random_range(0..bound) }
    }

    /// A version 4 UUID.
    pub fn uuid(&self) -> uuid::Uuid {
        let mut bytes = [0_u8; 16];
        self.inner.lock().fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_repeats_and_streams_differ() {
        let (a, b) = (Rng::seeded(7), Rng::seeded(7));
        assert_eq!(a.suffix(5), b.suffix(5));
        assert_eq!(a.uuid(), b.uuid());
        assert_eq!(a.stream("x").suffix(8), b.stream("x").suffix(8));
        assert_ne!(a.stream("x").suffix(8), a.stream("y").suffix(8));
    }

    #[test]
    fn suffixes_use_the_safe_alphabet() {
        assert!(Rng::seeded(1).suffix(500).bytes().all(|b| SAFE.contains(&b)));
    }
}
