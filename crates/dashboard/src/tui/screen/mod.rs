//! The screens: each keeps ids and positions, never rows. This file routes; what a screen shows is
//! in its own file.

mod abilities;
pub mod about_text;
pub mod change;
pub mod chosen;
pub mod chosen_columns;
pub mod columns;
mod condition_cells;
pub mod details;
pub mod details_text;
mod empty_list;
pub mod etcd;
pub mod fleet;
pub mod foot;
pub mod header;
pub mod list;
pub mod locks;
pub mod logs;
pub mod moments;
pub mod objects;
pub mod order;
pub mod pane;
pub mod parts;
pub mod plan_text;
pub mod readings;
pub mod reason;
pub mod related;
pub mod rollout;
pub mod rollouts;
mod row_cells;
pub mod search;
pub mod simulation;
pub mod since;
pub mod sources_text;
pub mod spec_text;
pub mod timeline_text;
pub mod tree;
pub mod tree_line;
pub mod wallboard;
pub mod why;
mod yaml_folds;

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::cursor::Motion;
use super::keymap::Keymap;
use super::layout::Layout;
use super::paint::Paint;
use super::plans::Plans;
use super::reads::Reading;
use super::subject::{PlannedCluster, Subject, Want};
use super::theme::Theme;
use crate::fleet::{Changes, Fleet, Item};
pub use abilities::Searched;
use capstan_base::time::Timestamp;
use chosen::Chosen;

/// What a screen needs to bring itself up to date.
pub struct Context<'a> {
    pub fleet: &'a Fleet,
    pub plans: &'a Plans,
    pub area: Rect,
    pub now: Timestamp,
    pub theme: &'a Theme,
    pub keymap: &'a Keymap,
    /// Nothing can be changed from here.
    pub is_read_only: bool,
    /// Lists over the fleet show only this one.
    pub namespace: Option<&'a Arc<str>>,
    /// Wide columns too.
    pub wide: bool,
    /// Somebody is at the keys: rows keep their places.
    pub is_held: bool,
}

pub enum Screen {
    Fleet(fleet::FleetScreen),
    Tree(Box<tree::TreeScreen>),
    Details(Box<details::DetailsScreen>),
    Rollout(Box<rollout::RolloutScreen>),
    Rollouts(rollouts::RolloutsScreen),
    Since(Box<since::SinceScreen>),
    Objects(Box<objects::ObjectsScreen>),
    Etcd(Box<etcd::EtcdScreen>),
    Locks(Box<locks::LocksScreen>),
    Migration(Box<locks::MigrationScreen>),
    Logs(Box<logs::LogsScreen>),
    Change(Box<change::ChangeScreen>),
    Simulation(Box<simulation::SimulationScreen>),
}

impl Screen {
    pub fn refresh(&mut self, context: &Context<'_>) {
        match self {
            Self::Fleet(s) => s.refresh(context),
            Self::Tree(s) => s.refresh(context),
            Self::Details(s) => s.refresh(context),
            Self::Rollout(s) => s.refresh(context),
            Self::Rollouts(s) => s.refresh(context),
            Self::Since(s) => s.refresh(context),
            Self::Objects(s) => s.refresh(context),
            Self::Etcd(s) => s.refresh(),
            Self::Locks(_) | Self::Migration(_) => {}
            Self::Logs(s) => s.refresh(context),
            Self::Change(s) => s.refresh(context),
            Self::Simulation(_) => {}
        }
    }

    /// What is read for it while it is the open one.
    pub fn wants(&self, fleet: &Fleet, plans: &Plans) -> Vec<Want> {
        let plans_of = |cluster: Option<PlannedCluster>| cluster.and_then(|cluster| plans.want(cluster));
        match self {
            Self::Fleet(_) | Self::Rollouts(_) | Self::Since(_) => Vec::new(),
            Self::Tree(s) => plans_of(s.planned(fleet)).into_iter().collect(),
            Self::Details(s) => s.wants(fleet, plans),
            Self::Rollout(s) => plans_of(s.planned(fleet)).into_iter().collect(),
            Self::Objects(s) => vec![s.want()],
            Self::Etcd(s) => vec![s.want()],
            Self::Locks(s) => vec![s.feed.want()],
            Self::Migration(s) => vec![s.feed.want()],
            Self::Logs(s) => vec![s.want()],
            Self::Change(s) => vec![s.want()],
            Self::Simulation(s) => s.want().into_iter().collect(),
        }
    }

    /// Something was read, for it or for another screen.
    pub fn take(&mut self, fleet: &Fleet, of: &Subject, reading: &Reading, now: Timestamp) {
        match self {
            Self::Details(s) => s.take(fleet, of, reading, now),
            Self::Objects(s) => s.take(of, reading, now),
            Self::Etcd(s) => s.take(of, reading, now),
            Self::Locks(s) => s.feed.take(of, reading),
            Self::Migration(s) => s.feed.take(of, reading),
            Self::Logs(s) => s.take(of, reading),
            Self::Change(s) => s.take(of, reading, now),
            Self::Simulation(s) => s.take(of, reading),
            // What they show of plans is the model's.
            Self::Fleet(_) | Self::Tree(_) | Self::Rollout(_) | Self::Rollouts(_) | Self::Since(_) => {}
        }
    }

    pub fn note(&mut self, fleet: &Fleet, changes: &Changes) {
        match self {
            Self::Fleet(s) => s.note(changes),
            Self::Tree(s) => s.note(fleet, changes),
            Self::Rollout(s) => s.note(fleet, changes),
            Self::Rollouts(s) => s.note(changes),
            Self::Since(s) => s.note(changes),
            Self::Details(_)
            | Self::Objects(_)
            | Self::Etcd(_)
            | Self::Locks(_)
            | Self::Migration(_)
            | Self::Logs(_)
            | Self::Change(_)
            | Self::Simulation(_) => {}
        }
    }

    /// Does a change of the fleet touch what is on the screen? Where that is not known it does.
    pub fn shows(&self, fleet: &Fleet, changes: &Changes, area: Rect) -> bool {
        match self {
            Self::Fleet(s) => s.shows(fleet, changes, area),
            Self::Tree(s) => changes.overview || changes.verdicts || s.is_stale(),
            Self::Details(_)
            | Self::Rollout(_)
            | Self::Rollouts(_)
            | Self::Since(_)
            | Self::Objects(_)
            | Self::Etcd(_)
            | Self::Locks(_)
            | Self::Migration(_)
            | Self::Logs(_)
            | Self::Change(_)
            | Self::Simulation(_) => true,
        }
    }

    /// A list over the fleet.
    pub fn as_fleet(&self) -> Option<&fleet::FleetScreen> {
        match self {
            Self::Fleet(s) => Some(s),
            Self::Tree(_)
            | Self::Details(_)
            | Self::Rollout(_)
            | Self::Rollouts(_)
            | Self::Since(_)
            | Self::Objects(_)
            | Self::Etcd(_)
            | Self::Locks(_)
            | Self::Migration(_)
            | Self::Logs(_)
            | Self::Change(_)
            | Self::Simulation(_) => None,
        }
    }

    /// Rows have other places as soon as nobody is at the keys.
    pub fn is_waiting(&self, now_s: u32) -> bool {
        self.as_fleet().is_some_and(|fleet| fleet.is_waiting(now_s))
    }

    /// When a row that improved takes its place, seconds since the epoch.
    pub fn kept_until_s(&self) -> Option<u32> {
        self.as_fleet()?.kept_until_s()
    }

    /// The marks of a list; `None` for screens that are not a list of objects.
    pub fn chosen(&self) -> Option<&Chosen> {
        self.as_list().map(|list| list.chosen())
    }

    pub fn chosen_mut(&mut self) -> Option<&mut Chosen> {
        self.as_list_mut().map(|list| list.chosen_mut())
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        match self {
            Self::Fleet(s) => s.step(context, motion),
            Self::Tree(s) => s.step(context, motion),
            Self::Details(s) => s.step(context, motion),
            Self::Rollout(s) => s.step(context, motion),
            Self::Rollouts(s) => s.step(context, motion),
            Self::Since(s) => s.step(context, motion),
            Self::Objects(s) => s.step(context, motion),
            Self::Etcd(s) => s.step(context, motion),
            Self::Locks(s) => s.step(context, motion),
            Self::Migration(s) => s.step(context, motion),
            Self::Logs(s) => s.step(context, motion),
            Self::Change(s) => s.step(context, motion),
            Self::Simulation(s) => s.step(context, motion),
        }
    }

    /// What an action or the details view would be about.
    pub fn selected(&self, fleet: &Fleet) -> Option<Item> {
        match self {
            Self::Fleet(s) => s.selected(fleet),
            Self::Tree(s) => s.selected(),
            Self::Details(s) => s.selected(fleet),
            Self::Rollout(s) => s.selected(fleet),
            Self::Rollouts(s) => s.selected(fleet),
            Self::Since(s) => s.selected(),
            Self::Etcd(s) => s.selected(fleet),
            Self::Objects(_) | Self::Locks(_) | Self::Migration(_) => None,
            Self::Logs(s) => s.selected(fleet),
            Self::Change(s) => s.selected(fleet),
            Self::Simulation(s) => s.selected(fleet),
        }
    }

    /// Somebody does something with what is selected: it stays selected from now on.
    pub fn choose(&mut self) {
        match self {
            Self::Fleet(s) => s.choose(),
            Self::Tree(s) => s.choose(),
            Self::Rollout(s) => s.choose(),
            Self::Rollouts(s) => s.choose(),
            Self::Since(s) => s.choose(),
            Self::Objects(s) => s.choose(),
            Self::Details(_)
            | Self::Etcd(_)
            | Self::Locks(_)
            | Self::Migration(_)
            | Self::Logs(_)
            | Self::Change(_)
            | Self::Simulation(_) => {}
        }
    }

    /// What it knows of locks, where it shows them.
    pub fn lock_feed(&self) -> Option<&locks::LockFeed> {
        match self {
            Self::Locks(s) => Some(&s.feed),
            Self::Migration(s) => Some(&s.feed),
            Self::Logs(_)
            | Self::Fleet(_)
            | Self::Tree(_)
            | Self::Details(_)
            | Self::Rollout(_)
            | Self::Rollouts(_)
            | Self::Since(_)
            | Self::Objects(_)
            | Self::Etcd(_)
            | Self::Change(_)
            | Self::Simulation(_) => None,
        }
    }

    /// Where the parts of this screen go: lists have a pane or a higher foot where there is room.
    pub fn arrange(&self, layout: Layout) -> Layout {
        self.as_list().map_or(layout, |list| list.arrange(layout))
    }

    /// A click on a line of the body.
    pub fn click(&mut self, context: &Context<'_>, line: usize) {
        match self {
            Self::Fleet(s) => s.click(context, line),
            Self::Tree(s) => s.click(context, line),
            Self::Rollouts(s) => s.click(context, line),
            Self::Since(s) => s.click(context, line),
            Self::Objects(s) => s.click(context, line),
            Self::Etcd(s) => s.click(line),
            Self::Migration(s) => s.click(context, line),
            Self::Details(_)
            | Self::Rollout(_)
            | Self::Locks(_)
            | Self::Logs(_)
            | Self::Change(_)
            | Self::Simulation(_) => {}
        }
    }

    pub fn view(
        &self,
        fleet: &Fleet,
        plans: &Plans,
        paint: &Paint<'_>,
        layout: &Layout,
        buffer: &mut Buffer,
    ) {
        match self {
            Self::Fleet(s) => s.view(fleet, paint, layout, buffer),
            Self::Tree(s) => s.view(fleet, plans, paint, layout, buffer),
            Self::Details(s) => s.view(fleet, plans, paint, layout, buffer),
            Self::Rollout(s) => s.view(fleet, plans, paint, layout, buffer),
            Self::Rollouts(s) => s.view(fleet, paint, layout, buffer),
            Self::Since(s) => s.view(fleet, paint, layout, buffer),
            Self::Objects(s) => s.view(fleet, paint, layout, buffer),
            Self::Etcd(s) => s.view(fleet, paint, layout, buffer),
            Self::Locks(s) => s.view(fleet, paint, layout, buffer),
            Self::Migration(s) => s.view(fleet, paint, layout, buffer),
            Self::Logs(s) => s.view(fleet, paint, layout, buffer),
            Self::Change(s) => s.view(fleet, paint, layout, buffer),
            Self::Simulation(s) => s.view(fleet, paint, layout, buffer),
        }
    }
}
