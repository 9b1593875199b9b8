//! How long each step of a Machine takes. Owns the steps and what is taken as usual when nothing is known; must not know
//! objects, nor when a step begins.

use chrono::TimeDelta;
use serde::Serialize;

use capstan_base::rng::Rng;
use capstan_physics::boot::BootStage;

/// A duration that is not the same every time, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// One in ten is shorter.
    pub short_s: u32,
    /// Half of them are shorter.
    pub usual_s: u32,
    /// One in ten is longer.
    pub long_s: u32,
    /// So many Machines it was learnt from.
    #[serde(skip)]
    pub samples: Samples,
}

/// How much is known of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Samples {
    /// What is usual elsewhere: this installation may be slower or faster in every step.
    #[default]
    None,
    Of(u32),
    /// A person said it.
    Given,
}

impl Samples {
    /// From so many on, the ends of a span are those of what happened.
    pub const ENOUGH_FOR_ENDS: u32 = 10;

    /// How much of a step's deviation the whole run has in common, and how much the step has for itself. Of few Machines the common part
    /// is what they do not show; of many it is how far their median may be off.
    fn parts(self) -> (f64, f64) {
        match self {
            Self::None => (0.8, 0.6),
            Self::Of(few) if few < Self::ENOUGH_FOR_ENDS => (0.7, 0.7),
            Self::Of(many) => (1.25 / f64::from(many).sqrt(), 1.0),
            Self::Given => (0.0, 1.0),
        }
    }
}

impl Span {
    pub const fn new(short_s: u32, usual_s: u32, long_s: u32) -> Self {
        Self { short_s, usual_s, long_s, samples: Samples::None }
    }

    pub const fn of_samples(self, samples: Samples) -> Self {
        Self { samples, ..self }
    }

    /// Always the same.
    pub const fn exactly(seconds: u32) -> Self {
        Self::new(seconds, seconds, seconds)
    }

    /// Its length at a tempo.
    pub fn at(self, tempo: &Tempo) -> TimeDelta {
        let seconds = match tempo {
            Tempo::Usual => self.usual_s,
            Tempo::Likely(chance) => self.likely(chance),
            Tempo::Drawn(rng) => self.drawn(rng),
        };
        TimeDelta::seconds(i64::from(seconds))
    }

    /// As often shorter than the short end as longer than the long one: one time in ten each.
    fn likely(self, chance: &Chance) -> u32 {
        let (common, own) = self.samples.parts();
        let deviation = common * chance.pace + own * normal(&chance.rng);
        let tenths = (deviation / DEVIATION_OF_A_TENTH).clamp(-TENTHS_MAX, TENTHS_MAX);
        let end_s = if tenths < 0.0 { self.short_s } else { self.long_s };
        let (usual, end, far) = (f64::from(self.usual_s), f64::from(end_s), tenths.abs());
        let seconds = if usual > 0.0 && end > 0.0 {
            // In proportion, as durations differ.
            usual * (end / usual).powf(far)
        } else {
            usual + (end - usual) * far
        };
        seconds.round().max(0.0) as u32
    }

    /// Half of the draws between short and usual, half between usual and long.
    fn drawn(self, rng: &Rng) -> u32 {
        let between = |low: u32, high: u32| {
            let width = u64::from(high.saturating_sub(low)) + 1;
            low.saturating_add(u32::try_from(rng.below(width)).unwrap_or(0))
        };
        // Evenly around the usual one, though the long
        // side is mostly wider: so it stays the median.
        if rng.below(2) == 0 {
            between(self.short_s, self.usual_s)
        } else {
            between(self.usual_s, self.long_s)
        }
    }
}

/// How fast everything goes in one run.
#[derive(Clone, Debug)]
pub enum Tempo {
    Usual,
    /// Each step by chance, as likely as it is.
    Likely(Chance),
    /// Each step by chance between its ends, so that unlikely orders are met.
    Drawn(Rng),
}

/// What chance makes of one run.
#[derive(Clone, Debug)]
pub struct Chance {
    /// How far the run is off in all its steps, in deviations.
    pub pace: f64,
    pub rng: Rng,
}

/// A tenth of the values of the normal distribution lies beyond it.
const DEVIATION_OF_A_TENTH: f64 = 1.2816;
/// No step is further off than twice as far as one in ten: what takes longer has failed.
const TENTHS_MAX: f64 = 2.0;

/// A draw of the normal distribution with mean 0 and deviation 1 (Box and Muller).
pub(super) fn normal(rng: &Rng) -> f64 {
    // From 1 down, as 0 has no logarithm.
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit()).cos()
}

/// The steps of a Machine's life, each from the end of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timing {
    /// From its creation to its bootstrap data.
    pub bootstrap: Span,
    /// To the provider ID of its host.
    pub infrastructure: Span,
    /// To a Node that is ready.
    pub node: Span,
    /// From the first eviction to an empty Node.
    pub drain: Span,
    /// From the deletion of its host to its end.
    pub removal: Span,
    /// From the first call of an extension to a host that is updated where it stands.
    pub update: Span,
    /// From the creation of a Cluster's infrastructure to its endpoint.
    pub cluster: Span,
}

impl Timing {
    /// What is usual for a kind of infrastructure machine, by the name of its kind.
    pub fn usual(kind: &str) -> Self {
        // By name with and without the suffix: pools and templates are of the same providers.
        let (infrastructure, node, removal) = match kind.strip_suffix("Machine").unwrap_or(kind) {
            "Dev" | "Docker" => (Span::new(5, 15, 40), Span::new(5, 15, 60), Span::new(1, 3, 15)),
            "AWS" | "GCP" | "OpenStack" => {
                (Span::new(45, 90, 200), Span::new(50, 90, 200), Span::new(20, 60, 150))
            }
            "Azure" => (Span::new(80, 150, 320), Span::new(50, 100, 220), Span::new(60, 150, 400)),
            "VSphere" | "Nutanix" => {
                (Span::new(60, 130, 320), Span::new(50, 100, 220), Span::new(20, 60, 150))
            }
            "Metal3" | "Tinkerbell" => {
                (Span::new(480, 900, 1800), Span::new(60, 150, 400), Span::new(120, 400, 1200))
            }
            _ => (Span::new(45, 120, 320), Span::new(50, 100, 240), Span::new(20, 60, 180)),
        };
        let (drain, cluster) = match kind.strip_suffix("Machine").unwrap_or(kind) {
            "Dev" | "Docker" => (Span::new(0, 0, 20), Span::new(1, 10, 60)),
            _ => (Span::new(5, 30, 120), Span::new(20, 120, 600)),
        };
        let update = match kind.strip_suffix("Machine").unwrap_or(kind) {
            "Dev" | "Docker" => Span::new(1, 5, 30),
            _ => Span::new(60, 180, 600),
        };
        Self { bootstrap: Span::new(1, 2, 6), infrastructure, node, drain, removal, update, cluster }
    }

    /// To the end of a stage from the one before it; etcd and the API server come up with their Node.
    pub fn of(&self, stage: BootStage) -> Span {
        match stage {
            BootStage::Bootstrap => self.bootstrap,
            BootStage::Host => self.infrastructure,
            BootStage::Node | BootStage::Etcd | BootStage::ApiServer => self.node,
        }
    }

    /// Every step at once: for those who look at the order alone.
    pub const fn none() -> Self {
        let none = Span::exactly(0);
        Self {
            bootstrap: none,
            infrastructure: none,
            node: none,
            drain: none,
            removal: none,
            update: none,
            cluster: none,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_chooses_within_the_span() {
        let span = Span::new(10, 20, 60);
        let at = |tempo: &Tempo| span.at(tempo).num_seconds();
        assert_eq!(at(&Tempo::Usual), 20);
        let rng = Rng::seeded(3);
        let drawn: Vec<i64> = (0..400).map(|_| at(&Tempo::Drawn(rng.clone()))).collect();
        assert!(drawn.iter().all(|s| (10..=60).contains(s)));
        let short = drawn.iter().filter(|s| **s < 20).count();
        assert!((120..280).contains(&short), "about half are shorter than usual: {short}");
    }

    #[test]
    fn one_in_ten_is_shorter_and_one_longer_than_the_ends() {
        let rng = Rng::seeded(3);
        for samples in [Samples::None, Samples::Of(4), Samples::Of(1_000), Samples::Given] {
            let span = Span::new(10, 20, 60).of_samples(samples);
            let draw = |_| {
                let chance = Chance { pace: normal(&rng), rng: rng.clone() };
                span.at(&Tempo::Likely(chance)).num_seconds()
            };
            let drawn: Vec<i64> = (0..2_000).map(draw).collect();
            let count = |is_so: fn(i64) -> bool| drawn.iter().filter(|seconds| is_so(**seconds)).count();
            let (short, long, usual) = (count(|s| s < 10), count(|s| s > 60), count(|s| s < 20));
            assert!((100..260).contains(&short) && (140..260).contains(&long), "{samples:?} {short} {long}");
            assert!((850..1_050).contains(&usual), "{samples:?}: half are shorter than usual: {usual}");
            assert!(drawn.iter().all(|seconds| (4..=180).contains(seconds)), "{samples:?}");
        }
    }

    #[test]
    fn a_span_may_have_no_width_and_no_end() {
        for span in [Span::exactly(0), Span::exactly(7), Span::new(u32::MAX, u32::MAX, u32::MAX)] {
            assert_eq!(span.at(&Tempo::Drawn(Rng::seeded(1))), span.at(&Tempo::Usual));
            let chance = Chance { pace: 3.0, rng: Rng::seeded(1) };
            assert_eq!(span.at(&Tempo::Likely(chance)), span.at(&Tempo::Usual));
        }
    }
}
