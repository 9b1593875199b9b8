//! A forecast and its events in sentences, for previews and for the head of a page. Owns the words; must not run anything.

use std::fmt;

use super::chronicle::{EventObject, HostEvent, Occurrence};
use super::outcome::{Duration, End, Forecast, Pool};
use capstan_base::text::counted;

impl fmt::Display for EventObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

impl fmt::Display for Occurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action(action) => action.fmt(f),
            Self::Host(event) => f.write_str(event.words()),
        }
    }
}

impl HostEvent {
    /// Said of the object that it happens to.
    fn words(self) -> &'static str {
        match self {
            Self::BootstrapDataReady => "its bootstrap data is there",
            Self::HostReady => "its host is there",
            Self::NodeReady => "its Node is ready",
            Self::NodeFails => "its Node stops to report",
            Self::UpdatedInPlace => "it is updated in place",
            Self::Gone => "it is gone",
        }
    }
}

impl Forecast {
    /// How it ends and how long that takes, such as `done in about 14 to 22 minutes`.
    pub fn ending_in_words(&self) -> String {
        let (usual, range) = (self.duration.usual_s, self.duration.in_words());
        // Without durations only the order counts, and rounds are what is left of time.
        if let Some(rounds) = self.rounds.filter(|rounds| *rounds > 0) {
            return match &self.ending {
                End::Settled => format!("done after {}", counted(rounds, "round")),
                End::TooLong => format!("was cut after {}", counted(rounds, "round")),
                _ => format!("not at its end after {}", counted(rounds, "round")),
            };
        }
        match &self.ending {
            End::Settled if usual == 0 => "nothing to do".to_owned(),
            End::Settled => format!("done in {range}"),
            End::Stuck if usual == 0 => "nothing moves".to_owned(),
            End::Stuck => format!("stands still after {range}, and is not done"),
            End::Reached => format!("not at its end after {}", seconds(usual)),
            End::Circle { since_s, machines_made } => format!(
                "does not end: since {} the same happens again and again, {} {} made",
                seconds(*since_s),
                counted(*machines_made, "Machine"),
                if *machines_made == 1 { "was" } else { "were" },
            ),
            End::TooLong => "was cut: it needs more steps than any rollout should".to_owned(),
        }
    }

    /// What becomes of a change, in one to three sentences: how long it takes and how low it goes, what holds it, and how near
    /// etcd comes to losing its quorum. Empty when nothing happens. `about`: the pool that is meant, as `Kind/name`.
    pub fn brief(&self, about: &str) -> Vec<String> {
        // Settled at once: there is nothing that could be said of a way.
        if self.duration.usual_s == 0 && self.ending == End::Settled {
            return Vec::new();
        }
        let changing: Vec<&Pool> = self.pools.iter().filter(|pool| self.changes(pool)).collect();
        let own = changing.iter().find(|pool| pool.owner == about);
        let low = match (own, changing.as_slice()) {
            (Some(pool), _) => format!(", never below {} available", pool.available_min),
            (None, []) => String::new(),
            (None, pools) => {
                let each = |pool: &&Pool| format!("{} of {}", pool.available_min, pool.owner);
                format!(", never below {} available", pools.iter().map(each).collect::<Vec<_>>().join(", "))
            }
        };
        let mut all = vec![format!("{}{low}", self.ending_in_words())];
        if self.ending == End::Stuck {
            all.extend(self.held.first().map(|held| format!("held: {}", held.sentence)));
        }
        // Workers never touch etcd.
        if changing.iter().any(|pool| pool.owner.starts_with("KubeadmControlPlane/")) {
            all.extend(self.etcd_in_words());
        }
        all
    }

    /// How low the pools go that change on the way; empty when none does.
    pub fn lows_in_words(&self) -> Vec<String> {
        self.pools.iter().filter(|pool| self.changes(pool)).map(Pool::in_words).collect()
    }

    /// A moment of it, such as `4m10s` or `round 3`.
    pub fn moment(&self, at_s: i64) -> String {
        if self.rounds.is_some() { format!("round {at_s}") } else { seconds(at_s) }
    }

    /// Did counters of the pool change on the way?
    pub fn changes(&self, pool: &Pool) -> bool {
        self.samples.iter().filter(|sample| sample.owner == pool.owner).count() > 1
    }

    /// How near etcd comes to losing its quorum; `None` without etcd.
    pub fn etcd_in_words(&self) -> Option<String> {
        let margin = self.etcd_margin_min?;
        Some(match margin {
            ..0 => "etcd loses its quorum".to_owned(),
            0 => "at its worst moment no member of etcd may fail".to_owned(),
            1 => "1 member of etcd may fail at any moment".to_owned(),
            more => format!("{more} members of etcd may fail at any moment"),
        })
    }
}

impl Pool {
    pub fn in_words(&self) -> String {
        let (low, most) = (self.available_min, counted(self.machines_max, "Machine"));
        format!("{}: never below {low} available, never more than {most}", self.owner)
    }
}

impl Duration {
    /// Such as `about 14 to 22 minutes`.
    pub fn in_words(&self) -> String {
        let (low, high) = (self.short_s, self.long_s);
        for (unit, name) in [(86_400, "days"), (3600, "hours"), (60, "minutes")] {
            // Two of a unit tell enough; less of it would hide the range.
            if low < 2 * unit && high < 10 * unit {
                continue;
            }
            // Rounded and not cut: 119 minutes are 2 hours.
            let (from, to) = ((low + unit / 2) / unit, (high + unit / 2) / unit);
            return if from == to {
                format!("about {from} {name}")
            } else {
                format!("about {from} to {to} {name}")
            };
        }
        if low == high { format!("about {low} seconds") } else { format!("about {low} to {high} seconds") }
    }
}

/// A duration from the beginning, such as `1h02m` or `4m10s`.
pub fn seconds(all: i64) -> String {
    let (days, hours, minutes, rest) = (all / 86_400, all / 3600 % 24, all / 60 % 60, all % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest}s"),
        (0, 0, _) => format!("{minutes}m{rest:02}s"),
        (0, _, _) => format!("{hours}h{minutes:02}m"),
        _ => format!("{days}d{hours:02}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_said_in_the_unit_that_shows_it() {
        let said = |short_s, usual_s, long_s| Duration { short_s, usual_s, long_s }.in_words();
        assert_eq!(said(0, 0, 0), "about 0 seconds");
        assert_eq!(said(40, 55, 90), "about 40 to 90 seconds");
        assert_eq!(said(840, 1000, 1320), "about 14 to 22 minutes");
        assert_eq!(said(900, 900, 900), "about 15 minutes");
        assert_eq!(said(100, 600, 4000), "about 2 to 67 minutes");
        assert_eq!(said(7200, 9000, 20_000), "about 2 to 6 hours");
        assert_eq!(said(3 * 86_400, 4 * 86_400, 9 * 86_400), "about 3 to 9 days");
    }

    #[test]
    fn one_is_not_many() {
        let pool = |machines_max| {
            Pool {
                owner: "MachineSet/a".to_owned(),
                machines: 1,
                available: 1,
                available_min: 0,
                machines_max,
            }
            .in_words()
        };
        assert_eq!(pool(1), "MachineSet/a: never below 0 available, never more than 1 Machine");
        assert_eq!(pool(2), "MachineSet/a: never below 0 available, never more than 2 Machines");
    }

    #[test]
    fn a_moment_since_the_beginning_is_short() {
        let said: Vec<String> = [0, 9, 250, 3725, 180_000].into_iter().map(seconds).collect();
        assert_eq!(said, ["0s", "9s", "4m10s", "1h02m", "2d02h"]);
    }
}
