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
}

impl Span {
    pub const fn new(short_s: u32, usual_s: u32, long_s: u32) -> Self {
        Self { short_s, usual_s, long_s }
    }

    /// Always the same.
    pub const fn exactly(seconds: u32) -> Self {
        Self::new(seconds, seconds, seconds)
    }

    /// Its length at a tempo.
    pub fn at(self, tempo: &Tempo) -> TimeDelta {
        let seconds = match tempo {
            Tempo::Short => self.short_s,
            Tempo::Usual => self.usual_s,
            Tempo::Long => self.long_s,
            Tempo::Drawn(rng) => self.drawn(rng),
        };
        TimeDelta::seconds(i64::from(seconds))
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
    Short,
    Usual,
    Long,
    /// Each step by chance.
    Drawn(Rng),
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
        assert_eq!((at(&Tempo::Short), at(&Tempo::Usual), at(&Tempo::Long)), (10, 20, 60));
        let rng = Rng::seeded(3);
        let drawn: Vec<i64> = (0..400).map(|_| at(&Tempo::Drawn(rng.clone()))).collect();
        assert!(drawn.iter().all(|s| (10..=60).contains(s)));
        let short = drawn.iter().filter(|s| **s < 20).count();
        assert!((120..280).contains(&short), "about half are shorter than usual: {short}");
    }

    #[test]
    fn a_span_may_have_no_width_and_no_end() {
        for span in [Span::exactly(0), Span::exactly(7), Span::new(u32::MAX, u32::MAX, u32::MAX)] {
            assert_eq!(span.at(&Tempo::Drawn(Rng::seeded(1))), span.at(&Tempo::Usual));
        }
    }
}
