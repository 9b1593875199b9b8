//! What is read for what is on the screen: plans, rights, events, etcd, locks, configurations, simulations. Asked after every
//! message, so that reading begins with the screen that shows it and ends with it. Must not know how anything is read.

use super::effect::Effect;
use super::model::Model;
use super::plans::{PlannedCluster, Reread};
use super::screen::Screen;
use super::screen::details::Tab;
use crate::fleet::PoolTimes;
use capi_forecast::simulate::Remembered;

/// What is read of one cluster again and again for as long as a screen of some kind is open.
struct Repeated {
    /// What to read now, and after which rest; the outer `None`: the screen is of another kind.
    want: fn(&mut Screen) -> Option<Option<(PlannedCluster, u64)>>,
    /// Nothing is read for the screen any more.
    forget: fn(&mut Screen),
    read: fn(PlannedCluster, u64) -> Effect,
    stop: Effect,
}

const ETCD: Repeated = Repeated {
    want: |screen| if let Screen::Etcd(open) = screen { Some(open.want()) } else { None },
    forget: |screen| {
        if let Screen::Etcd(open) = screen {
            open.forget_asked();
        }
    },
    read: |cluster, wait_ms| Effect::ReadEtcd { cluster, wait_ms },
    stop: Effect::StopEtcd,
};

const CONFIGURATION: Repeated = Repeated {
    want: |screen| if let Screen::Change(open) = screen { Some(open.want()) } else { None },
    forget: |screen| {
        if let Screen::Change(open) = screen {
            open.forget_asked();
        }
    },
    read: |cluster, wait_ms| Effect::ReadConfiguration { cluster, wait_ms },
    stop: Effect::StopConfiguration,
};

impl Repeated {
    fn ask(&self, screens: &mut [Screen], is_read: &mut bool) -> Option<Effect> {
        if let Some(wanted) = screens.last_mut().and_then(self.want) {
            let (cluster, wait_ms) = wanted?;
            *is_read = true;
            return Some((self.read)(cluster, wait_ms));
        }
        if !std::mem::take(is_read) {
            return None;
        }
        screens.iter_mut().for_each(self.forget);
        Some(self.stop.clone())
    }
}

impl Model {
    /// What the shell should read, or read no more.
    pub fn ask(&mut self) -> Vec<Effect> {
        let repeated = [
            ETCD.ask(&mut self.screens, &mut self.reads_etcd),
            CONFIGURATION.ask(&mut self.screens, &mut self.reads_configuration),
        ];
        let once = [
            self.ask_for_plans(),
            self.ask_for_rights(),
            self.ask_for_simulation(),
            self.ask_for_events(),
            self.ask_for_locks(),
        ];
        repeated.into_iter().chain(once).flatten().collect()
    }

    /// The plans on the open screen.
    fn ask_for_plans(&mut self) -> Option<Effect> {
        let wanted = match self.screen() {
            Screen::Fleet(_)
            | Screen::Rollouts(_)
            | Screen::Etcd(_)
            | Screen::Locks(_)
            | Screen::Migration(_)
            | Screen::Change(_)
            | Screen::Simulation(_) => None,
            Screen::Tree(tree) => tree.planned(&self.fleet),
            Screen::Details(details) => details.planned(&self.fleet),
            Screen::Rollout(rollout) => rollout.planned(&self.fleet),
        };
        let Reread { cluster, wait_ms } = self.plans.want(wanted)?;
        let remembered = self.remembered(&cluster);
        Some(Effect::Plan { cluster, wait_ms, remembered })
    }

    /// Rights, so that hints and help name only what this user may do to what is selected.
    fn ask_for_rights(&mut self) -> Option<Effect> {
        let row = self.selected_row().filter(|_| !self.session.read_only);
        let row = self.fleet.row(row?)?;
        let rights = self.rights.want(row);
        (!rights.is_empty()).then(|| Effect::Rights { source: row.source, rights })
    }

    /// A cluster that is run ahead.
    fn ask_for_simulation(&mut self) -> Option<Effect> {
        let Screen::Simulation(open) = self.screen_mut() else { return None };
        let (cluster, tried) = open.want()?;
        let remembered = self.remembered(&cluster);
        Some(Effect::Simulate { cluster, tried, remembered })
    }

    /// Events, only while they are on the screen: those of a busy namespace are many.
    fn ask_for_events(&mut self) -> Option<Effect> {
        let of = match self.screen() {
            Screen::Details(details) if details.tab() == Tab::Events => Some(details.target.clone()),
            _ => None,
        };
        turned(&mut self.events_of, of).map(Effect::FollowEvents)
    }

    fn ask_for_locks(&mut self) -> Option<Effect> {
        let of = self.screen().lock_feed().map(|feed| feed.subject.clone());
        turned(&mut self.locks_of, of).map(Effect::FollowLocks)
    }

    /// How long the Machines of a cluster's pools took.
    fn remembered(&self, cluster: &PlannedCluster) -> Vec<Remembered> {
        let of = |pool: PoolTimes| {
            let [bootstrap, infrastructure, node] = pool.newest_first;
            Remembered {
                cluster: cluster.key.clone(),
                pool: pool.pool.into(),
                kind: pool.infrastructure.into(),
                bootstrap,
                infrastructure,
                node,
            }
        };
        self.fleet.pool_times(cluster.source, &cluster.key).into_iter().map(of).collect()
    }
}

/// What is followed from now on, where it is another than before; `Some(None)`: nothing any more.
fn turned<T: Clone + PartialEq>(before: &mut Option<T>, now: Option<T>) -> Option<Option<T>> {
    (*before != now).then(|| {
        before.clone_from(&now);
        now
    })
}
