//! What is read for what is on the screen. Asked after every message, so that reading begins with the screen that shows it and
//! ends with it; an answer goes to every screen that shows its subject. Must not know how anything is read.

use super::effect::Effect;
use super::model::Model;
use super::reads::Reading;
use super::subject::{PlannedCluster, Subject, Want};
use crate::fleet::PoolTimes;
use capi_forecast::simulate::Remembered;

impl Model {
    /// What the shell should read, or read no more.
    pub fn ask(&mut self) -> Vec<Effect> {
        let mut wants = self.screen().wants(&self.fleet, &self.known.plans);
        wants.extend(self.wanted_rights());
        let turn = self.known.reads.turn_to(wants);
        let mut effects: Vec<Effect> = turn.stopped.into_iter().map(Effect::StopReading).collect();
        for Want { subject, wait_ms, .. } in turn.begun {
            if let Subject::Plans(cluster) = &subject {
                self.known.plans.begin(cluster);
            }
            let remembered = self.remembered(&subject);
            effects.push(Effect::Read { subject, wait_ms, remembered });
        }
        effects
    }

    /// Rights, so that hints and help name only what this user may do to what is selected.
    fn wanted_rights(&self) -> Option<Want> {
        let row = self.selected_row().filter(|_| !self.session.read_only);
        let row = self.fleet.row(row?)?;
        let rights = self.known.rights.unknown(row);
        (!rights.is_empty()).then(|| Want::now(Subject::Rights { source: row.source, rights }))
    }

    pub fn take(&mut self, subject: &Subject, reading: Reading) {
        // First: what a screen makes of the answer may be to want it again.
        self.known.reads.answered(subject);
        match (subject, reading) {
            (Subject::Plans(cluster), Reading::Plans(reading)) => self.known.plans.take(cluster, reading),
            (Subject::Rights { source, .. }, Reading::Rights(answers)) => {
                self.known.rights.take(*source, answers);
            }
            (_, reading) => {
                let now = self.now;
                self.screens.iter_mut().for_each(|screen| screen.take(&self.fleet, subject, &reading, now));
            }
        }
    }

    /// How long the Machines of a cluster's pools took, for what is run ahead.
    fn remembered(&self, subject: &Subject) -> Vec<Remembered> {
        let (Subject::Plans(cluster) | Subject::Simulation { cluster, .. }) = subject else {
            return Vec::new();
        };
        let PlannedCluster { source, key, .. } = cluster;
        let of = |pool: PoolTimes| {
            let [bootstrap, infrastructure, node] = pool.newest_first;
            Remembered {
                cluster: key.clone(),
                pool: pool.pool.into(),
                kind: pool.infrastructure.into(),
                bootstrap,
                infrastructure,
                node,
            }
        };
        self.fleet.pool_times(*source, key).into_iter().map(of).collect()
    }
}
