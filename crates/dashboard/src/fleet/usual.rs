//! How long a step of a Machine usually takes, and from when on it is slow or stuck. Owns the formulas,
//! the samples and the times assumed before there are samples. Must not know conditions nor clocks.
//!
//! The formulas follow the modified z-score (Iglewicz and Hoaglin: 0.6745·|x − M| / MAD > 3.5), with a floor
//! under the spread, because the median deviation of few samples is often 0.

use std::collections::BTreeMap;

use super::row::SourceId;

/// Samples kept per group, newest first.
const SAMPLES_MAX: usize = 20;

/// Kinds of infrastructure, of all sources, whose times are kept.
const GROUPS_MAX: usize = 256;

/// Pools, of all sources, whose times are kept.
const POOLS_MAX: usize = 1_024;

/// No limit is longer, seconds.
const STUCK_MAX_S: f64 = 2.0 * 3600.0;

/// One stretch in the life of a Machine that is coming up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Until the bootstrap data is there.
    Bootstrap,
    /// From there until the infrastructure is ready.
    Infrastructure,
    /// From there until the Machine is ready: the Node appears and gets healthy, and its control plane parts.
    Node,
    /// The three stretches together.
    Total,
}

impl Step {
    pub const ALL: [Self; 4] = [Self::Bootstrap, Self::Infrastructure, Self::Node, Self::Total];
}

/// When a step counts as slow and as stuck, seconds from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The usual range, for people.
    pub low_s: u32,
    pub high_s: u32,
    pub slow_s: u32,
    pub stuck_s: u32,
}

/// The last durations of one step in one group of Machines, seconds.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    newest_first: Vec<u32>,
}

/// How long Machines on one kind of infrastructure took from their creation until they were ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsualTime {
    /// Name of the source, as people know it.
    pub source: Box<str>,
    pub infrastructure: Box<str>,
    pub control_plane: bool,
    /// Seconds, the last 20.
    pub newest_first: Vec<u32>,
}

/// How long the steps of the Machines of one pool took: those of a MachineDeployment, or of a control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolTimes {
    /// Name of the source, as people know it.
    pub source: Box<str>,
    pub namespace: Box<str>,
    pub cluster: Box<str>,
    pub pool: Box<str>,
    /// Kind of its infrastructure machines.
    pub infrastructure: Box<str>,
    /// Seconds of the steps [`Step::Bootstrap`], [`Step::Infrastructure`] and [`Step::Node`], the last 20 of each.
    pub newest_first: [Vec<u32>; 3],
}

/// Source, namespace, cluster and name of a pool.
pub(super) type PoolKey = (SourceId, Box<str>, Box<str>, Box<str>);

/// The same of all sources, of Machines that came up before our eyes and of earlier runs.
#[derive(Debug, Default)]
pub(super) struct UsualTimes {
    by: BTreeMap<(SourceId, bool, Box<str>), Samples>,
    pools: BTreeMap<PoolKey, (Box<str>, StepSamples)>,
    is_changed: bool,
}

impl UsualTimes {
    /// The time assumed for a Machine without samples of its own cluster. Samples of others only lengthen it: machine
    /// sizes differ, and a time that is too short is a false alarm.
    pub(super) fn prior_s(&self, source: SourceId, infrastructure: &str, control_plane: bool) -> u32 {
        let assumed_s = prior_s(infrastructure, control_plane);
        let known = self.by.get(&(source, control_plane, infrastructure.into()));
        known
            .filter(|samples| samples.count() >= 3)
            .map_or(assumed_s, |samples| samples.median().max(assumed_s))
    }

    pub(super) fn add(
        &mut self,
        source: SourceId,
        infrastructure: &str,
        control_plane: bool,
        duration_s: u32,
    ) {
        let key = (source, control_plane, infrastructure.into());
        // The kinds are named by the objects of clusters, so that nothing else bounds their number.
        if self.by.len() >= GROUPS_MAX && !self.by.contains_key(&key) {
            return;
        }
        self.by.entry(key).or_default().add(duration_s, prior_s(infrastructure, control_plane));
        self.is_changed = true;
    }

    /// One Machine more of a pool.
    pub(super) fn add_to_pool(
        &mut self,
        pool: PoolKey,
        infrastructure: &str,
        durations: [u32; Step::ALL.len()],
        prior_s: u32,
    ) {
        if self.pools.len() >= POOLS_MAX && !self.pools.contains_key(&pool) {
            return;
        }
        let (kind, samples) = self.pools.entry(pool).or_default();
        *kind = infrastructure.into();
        for (samples, duration_s) in samples.iter_mut().zip(durations) {
            samples.add(duration_s, prior_s);
        }
        self.is_changed = true;
    }

    /// Takes in what was kept of a pool, behind what was seen meanwhile.
    pub(super) fn open_pool(&mut self, source: SourceId, kept: PoolTimes) {
        if self.pools.len() >= POOLS_MAX {
            return;
        }
        let key = (source, kept.namespace, kept.cluster, kept.pool);
        let (kind, samples) = self.pools.entry(key).or_default();
        // What this run saw is newer than what was kept.
        if kind.is_empty() {
            *kind = kept.infrastructure;
        }
        for (samples, earlier) in samples.iter_mut().zip(kept.newest_first) {
            samples.newest_first.extend(earlier);
            samples.newest_first.truncate(SAMPLES_MAX);
        }
    }

    pub(super) fn pools(
        &self,
        name: impl Fn(SourceId) -> Box<str>,
        is_wanted: impl Fn(&PoolKey) -> bool,
    ) -> Vec<PoolTimes> {
        let times = |(key, (kind, samples)): (&PoolKey, &(Box<str>, StepSamples))| {
            let (source, namespace, cluster, pool) = key.clone();
            let [bootstrap, host, node, _] = samples.each_ref().map(|samples| samples.newest_first.clone());
            let (source, infrastructure) = (name(source), kind.clone());
            PoolTimes {
                source,
                namespace,
                cluster,
                pool,
                infrastructure,
                newest_first: [bootstrap, host, node],
            }
        };
        self.pools.iter().filter(|(key, _)| is_wanted(key)).map(times).collect()
    }

    /// Takes in what was kept, behind what was seen meanwhile.
    pub(super) fn open(&mut self, source: SourceId, kept: UsualTime) {
        if self.by.len() < GROUPS_MAX {
            let key = (source, kept.control_plane, kept.infrastructure);
            let samples = &mut self.by.entry(key).or_default().newest_first;
            samples.extend(kept.newest_first);
            samples.truncate(SAMPLES_MAX);
        }
    }

    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    pub(super) fn all(&self, name: impl Fn(SourceId) -> Box<str>) -> Vec<UsualTime> {
        let time =
            |((source, control_plane, infrastructure), samples): (&(SourceId, bool, Box<str>), &Samples)| {
                UsualTime {
                    source: name(*source),
                    infrastructure: infrastructure.clone(),
                    control_plane: *control_plane,
                    newest_first: samples.newest_first.clone(),
                }
            };
        self.by.iter().map(time).collect()
    }
}

/// Durations of one group of Machines, by [`Step`].
pub(super) type StepSamples = [Samples; Step::ALL.len()];

impl Samples {
    /// Takes a duration in; what is longer than the limit counts as the limit, so that one bad day does not
    /// raise it. Durations far over everything usual are no samples: a later flip ended them.
    pub fn add(&mut self, duration_s: u32, prior_s: u32) {
        let limits = self.limits(prior_s);
        let usual_s = if self.newest_first.is_empty() { prior_s } else { self.median() };
        if duration_s > usual_s.max(1).saturating_mul(10).max(60) {
            return;
        }
        self.newest_first.insert(0, duration_s.min(limits.stuck_s));
        self.newest_first.truncate(SAMPLES_MAX);
    }

    pub fn count(&self) -> usize {
        self.newest_first.len()
    }

    pub fn limits(&self, prior_s: u32) -> Limits {
        limits(&self.newest_first, prior_s)
    }

    fn median(&self) -> u32 {
        let all: Vec<f64> = self.newest_first.iter().map(|s| f64::from(*s)).collect();
        whole(median(all))
    }
}

/// The limits that these samples (seconds) and a time assumed without samples lead to.
pub fn limits(samples: &[u32], prior_s: u32) -> Limits {
    let prior = f64::from(prior_s.max(1));
    let mut all: Vec<f64> = samples.iter().map(|s| f64::from(*s).max(1.0)).collect();
    if let [a, b] = all[..]
        && a.max(b) > 3.0 * a.min(b)
    {
        // Two that disagree prove nothing.
        all.clear();
    }
    let count = all.len();
    if count == 0 {
        return rounded(prior, 0.5 * prior, (2.0 * prior).max(15.0), (5.0 * prior).max(60.0));
    }
    let middle = median(all.clone());
    // The factor makes it comparable to a standard deviation.
    let deviation = 1.4826 * median(all.iter().map(|d| (d - middle).abs()).collect());
    let weight = (f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / 5.0).min(1.0);
    // A geometric mean, since durations differ by factors;
    // from five samples on the assumed time is out.
    let usual = ((1.0 - weight) * prior.ln() + weight * middle.ln()).exp();
    let spread = deviation.max(0.15 * middle);
    if count < 3 {
        return rounded(middle, spread, (2.0 * usual).max(15.0), (4.0 * usual).max(60.0));
    }
    // Few samples often agree by chance: their spread alone would raise false alarms.
    let floor = if count < 8 { 0.3 } else { 0.15 };
    let sigma = deviation.max(floor * usual).max(2.0);
    // 3.5 is the bound of the z-score for outliers; stuck is twice as far.
    let slow = (1.5 * usual).max(usual + 3.5 * sigma).max(15.0);
    let stuck = (3.0 * usual).max(usual + 7.0 * sigma).min(10.0 * usual).max(60.0);
    rounded(middle, spread, slow, stuck)
}

fn rounded(middle: f64, spread: f64, slow: f64, stuck: f64) -> Limits {
    let stuck = stuck.min(STUCK_MAX_S);
    Limits {
        low_s: whole(middle - spread),
        high_s: whole(middle + spread),
        slow_s: whole(slow.min(stuck)),
        stuck_s: whole(stuck),
    }
}

/// Whole seconds of what is never large.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the range just before"
)]
fn whole(seconds: f64) -> u32 {
    seconds.round().clamp(0.0, 1e9) as u32
}

fn median(mut all: Vec<f64>) -> f64 {
    if all.is_empty() {
        return 0.0;
    }
    all.sort_by(f64::total_cmp);
    let half = all.len() / 2;
    if all.len() % 2 == 1 { all[half] } else { f64::midpoint(all[half - 1], all[half]) }
}

/// How long a Machine takes from its creation until it is ready, seconds, before there are samples: by the
/// kind of its infrastructure. A `DevMachine` does not show whether its backend is a container or memory
/// alone; a time that is too long does less harm than one that is too short.
pub fn prior_s(infrastructure_kind: &str, control_plane: bool) -> u32 {
    let minutes = |worker: u32, plane: u32| 60 * if control_plane { plane } else { worker };
    match infrastructure_kind {
        "DevMachine" | "DockerMachine" if control_plane => 90,
        "DevMachine" | "DockerMachine" => 60,
        "AWSMachine" | "GCPMachine" | "AzureMachine" => minutes(3, 5),
        "VSphereMachine" | "VSphereVM" => minutes(6, 7),
        kind if kind.starts_with("Metal3") || kind.ends_with("BareMetalMachine") => minutes(15, 20),
        _ => minutes(4, 6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_base::rng::Rng;

    #[test]
    fn limits_by_number_of_samples() {
        for (samples, prior, slow, stuck) in [
            (&[][..], 15, 30, 75),
            (&[], 25, 50, 125),
            (&[], 4, 15, 60),
            (&[20], 20, 40, 80),
            (&[10, 100], 30, 60, 150),
            (&[20, 20, 20], 20, 41, 62),
            (&[20, 20, 20, 20, 20, 20, 20, 20], 20, 30, 60),
            (&[1, 1, 1], 1, 15, 60),
            (&[9000, 9000, 9000], 9000, 7200, 7200),
        ] {
            let found = limits(samples, prior);
            assert_eq!((found.slow_s, found.stuck_s), (slow, stuck), "{samples:?} {prior}");
        }
    }

    #[test]
    fn one_bad_day_does_not_raise_the_limit_and_a_lasting_change_is_learnt() {
        let mut samples = Samples::default();
        for _ in 0..10 {
            samples.add(30, 60);
        }
        let before = samples.limits(60);
        samples.add(280, 60);
        assert_eq!(samples.limits(60).stuck_s, before.stuck_s);
        samples.add(301, 60);
        assert_eq!(samples.count(), 11, "ten times the usual is another event");
        for _ in 0..20 {
            samples.add(80, 60);
        }
        assert!(samples.limits(60).stuck_s > 200);
    }

    /// Log-normal times, spread 0.4: how many of 20,000 Machines pass each limit when the five, eight or
    /// twenty before them are known.
    #[test]
    fn well_machines_seldom_pass_a_limit() {
        let rng = Rng::seeded(12);
        let draw = |middle: f64| {
            let uniform: f64 = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
            whole(middle * (0.4 * uniform).exp())
        };
        for count in [5usize, 8, 20] {
            let (mut slow, mut stuck) = (0, 0);
            for _ in 0..20_000 {
                let known: Vec<u32> = (0..count).map(|_| draw(300.0)).collect();
                let limits = limits(&known, 300);
                let taken = draw(300.0);
                slow += u32::from(taken > limits.slow_s);
                stuck += u32::from(taken > limits.stuck_s);
            }
            assert!(slow <= 1_400, "{count} samples: {slow} of 20000 slow");
            assert!(stuck <= 100, "{count} samples: {stuck} of 20000 stuck");
        }
    }
}
