//! One cluster run ahead of time: how it ends and how low it goes, as it is and with what is tried, side by side; the
//! counters over time, and a slider over the steps. Owns what is tried and where the slider is; must not run anything.

mod chart;
mod page;
mod what_if;

use ratatui::buffer::Buffer;
use ratatui::text::Line;

use super::{Context, foot};
use crate::actions::{Ahead, Tried};
use crate::fleet::{Fleet, Item, RowId};
use crate::tui::cursor::Motion;
use crate::tui::layout::Layout;
use crate::tui::paint::{Paint, put};
use crate::tui::reads::Reading;
use crate::tui::subject::{PlannedCluster, Subject, Want};
use crate::tui::theme::Scope;
use capi_forecast::simulate::Forecast;

pub struct SimulationScreen {
    cluster: PlannedCluster,
    /// The pool that an edit without a name is about: `(name, is it the only one)`.
    about: Option<RowId>,
    tried: Tried,
    /// As they were typed.
    words: Vec<String>,
    ahead: Option<Ahead>,
    trouble: Option<String>,
    /// It has to be run ahead, or that is under way.
    is_wanted: bool,
    /// How often somebody asked for it.
    runs: u64,
    /// The chart and the steps are those of the cluster as it is, although something is tried.
    shows_plain: bool,
    step: usize,
}

impl SimulationScreen {
    /// `selected`: the object that was selected, whose pool edits are about.
    pub fn of(fleet: &Fleet, cluster: RowId, selected: Option<RowId>) -> Option<Self> {
        Some(Self {
            cluster: PlannedCluster::of(fleet, cluster)?,
            about: what_if::pool_of(fleet, cluster, selected),
            tried: Tried::default(),
            words: Vec::new(),
            ahead: None,
            trouble: None,
            is_wanted: true,
            runs: 0,
            shows_plain: false,
            step: 0,
        })
    }

    pub fn title(&self) -> String {
        format!("simulation {}", self.cluster.key.name)
    }

    /// What is to be run ahead; `None` once that is done.
    pub fn want(&self) -> Option<Want> {
        let (cluster, tried) = (self.cluster.clone(), self.tried.clone());
        let subject = Subject::Simulation { cluster, tried };
        self.is_wanted.then(|| Want { version: self.runs, ..Want::now(subject) })
    }

    /// From the objects as they are now.
    pub fn run_again(&mut self) {
        (self.is_wanted, self.runs) = (true, self.runs + 1);
    }

    /// An answer. One about another cluster is not for this screen, one about other edits is late.
    pub fn take(&mut self, of: &Subject, reading: &Reading) {
        let (Subject::Simulation { cluster, tried }, Reading::Simulation(ahead)) = (of, reading) else {
            return;
        };
        if self.cluster != *cluster || self.tried != *tried {
            return;
        }
        self.is_wanted = false;
        match ahead {
            Ok(ahead) => {
                (self.ahead, self.trouble) = (Some(ahead.as_ref().clone()), None);
                // Another forecast may have fewer steps.
                self.step = self.step.min(self.steps().saturating_sub(1));
            }
            Err(why) => self.trouble = Some(why.clone()),
        }
    }

    /// Tries one change more; none takes all of them back.
    ///
    /// # Errors
    /// What it is about or what it means is not clear, in a sentence.
    pub fn try_change(&mut self, fleet: &Fleet, typed: &str) -> Result<(), String> {
        if typed.is_empty() {
            (self.tried, self.words) = (Tried::default(), Vec::new());
        } else {
            let cluster = fleet.find(self.cluster.source, self.cluster.uid).ok_or("the cluster is gone")?;
            match what_if::parse(fleet, cluster, self.about, typed)? {
                what_if::WhatIf::Change(change) => self.tried.changes.push(change),
                what_if::WhatIf::Failing(machine) => self.tried.failing.push(machine),
            }
            self.words.push(typed.to_owned());
        }
        (self.is_wanted, self.shows_plain, self.step) = (true, false, 0);
        Ok(())
    }

    /// The chart of the other forecast.
    pub fn turn(&mut self) {
        (self.shows_plain, self.step) = (!self.shows_plain, 0);
    }

    /// The forecast that the chart and the steps are of.
    fn shown(&self) -> Option<&Forecast> {
        let ahead = self.ahead.as_ref()?;
        let tried = ahead.tried.as_ref().and_then(|tried| tried.as_ref().ok());
        Some(tried.filter(|_| !self.shows_plain).unwrap_or(&ahead.plain))
    }

    fn steps(&self) -> usize {
        self.shown().map_or(0, |forecast| forecast.events.len())
    }

    pub fn selected(&self, fleet: &Fleet) -> Option<Item> {
        fleet.find(self.cluster.source, self.cluster.uid).map(Item::Row)
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let page = usize::from(context.area.height / 2);
        self.step = motion.apply(self.step, self.steps(), page);
    }

    pub fn view(&self, fleet: &Fleet, paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
        paint.rule(layout.rule, buffer);
        let body = layout.body;
        let cells = usize::from(body.width.saturating_sub(4));
        let mut lines = page::head(self, paint, cells);
        if let Some(forecast) = self.shown() {
            let room = usize::from(body.height).saturating_sub(lines.len());
            lines.extend(chart::lines(forecast, self.step, paint, (cells, room)));
            let room = usize::from(body.height).saturating_sub(lines.len());
            lines.extend(page::steps(forecast, self.step, paint, (cells, room)));
        } else if self.trouble.is_none() {
            lines.push(Line::from(paint.span(Scope::Muted, "the cluster is being run ahead of time")));
        }
        for (y, line) in (body.y..body.bottom()).zip(&lines) {
            put(buffer, body.x + 2, y, line, body.width.saturating_sub(3));
        }
        foot::view(self.selected(fleet), false, None, fleet, paint, layout, buffer);
    }
}
