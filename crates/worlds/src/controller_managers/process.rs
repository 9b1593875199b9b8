//! One process from its start to its end: the main lock, then the migration lock, controllers under each, and exit when
//! either is lost. Must not know flags, nor who starts it again.

use tokio_util::sync::CancellationToken;

use super::ledger::{Ledger, RunningSpell};
use super::program::Program;
use capstan_base::time::Clock;
use capstan_engine::client::{Client, Writer};
use capstan_engine::engine::lease::{Elector, Leadership};
use leader_migration::controller_names::Function;

/// What a process is given.
pub(super) struct Process {
    pub program: Program,
    /// Of its pod, for people.
    pub name: String,
    /// `HOST_UUID`, for both locks.
    pub identity: String,
    pub client: Client,
    pub clock: Clock,
    pub ledger: Ledger,
}

/// An election that ends with this value, and gives nothing back: upstream's processes let their Leases run out.
struct Competing {
    leadership: Leadership,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Competing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Competing {
    async fn until(&mut self, leads: bool) {
        while self.leadership.leads() != leads {
            self.leadership.changed().await;
        }
    }
}

impl Process {
    /// Runs until a lock is lost, then answers which. Dropping it is a kill.
    pub async fn run(self) -> String {
        // Without election the locks are passed over, and everything runs at once.
        let all = [self.program.main.clone(), self.program.migrated.clone()].concat();
        if !self.program.elects {
            let _running = self.begin(&all);
            return std::future::pending().await;
        }
        let mut main = self.compete(&self.program.main_lease);
        main.until(true).await;
        tracing::info!("{}: leader migration: starting main controllers", self.name);
        // Held to the end of this function, which is the end of the process.
        let _running = self.begin(&self.program.main);
        // Without the signal the process never competes: the migrated controllers do not run.
        let lease = self.program.migration_lease.as_ref().filter(|_| self.program.signals);
        let Some(lease) = lease else {
            main.until(false).await;
            return format!("lost {}", self.program.main_lease);
        };
        // Only now, as upstream: whoever lacks the main lock has no claim to the second.
        let mut migration = self.compete(lease);
        tokio::select! {
            biased;
            () = main.until(false) => return format!("lost {}", self.program.main_lease),
            () = migration.until(true) => {}
        }
        tracing::info!("{}: leader migration: starting migrated controllers", self.name);
        let _migrated = self.begin(&self.program.migrated);
        tokio::select! {
            biased;
            () = main.until(false) => format!("lost {}", self.program.main_lease),
            () = migration.until(false) => format!("lost {lease}"),
        }
    }

    fn compete(&self, lease: &str) -> Competing {
        let options = self.program.election(lease, &self.identity);
        let writer = Writer::new(self.client.clone(), self.program.manager.name());
        let (elector, leadership) = Elector::new(options, writer, self.clock.clone());
        // Never cancelled: a process that ends gives nothing back.
        let task = tokio::spawn(elector.run(CancellationToken::new()));
        Competing { leadership, task }
    }

    fn begin(&self, functions: &[Function]) -> Vec<RunningSpell> {
        functions.iter().map(|function| self.ledger.begin(*function, &self.name)).collect()
    }
}
