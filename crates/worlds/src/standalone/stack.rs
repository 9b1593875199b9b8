//! Server, engine and simulated infrastructure as one thing to start and stop. The same in the demo, in
//! standalone mode and in tests; only store, clock and seed differ. Must not know a terminal or a socket.

use std::sync::Arc;

use super::engine::RunningEngine;
pub use super::options::StackOptions;
use super::processes::Ledgers;
use crate::provider::World;
use crate::workload_api::WorkloadApis;
use capi_rules::admission::Webhooks;
use capi_types::crds;
use capstan_apiserver::{ApiServer, Identity, OpenError, Options};
use capstan_engine::client::{Connection, in_process};
use capstan_engine::engine::Handle;
use capstan_store::Store;

/// A running stack. Dropping it stops everything without waiting.
pub struct Stack {
    server: ApiServer,
    engine: Option<RunningEngine>,
}

impl Stack {
    /// Serves what `store` holds and, when asked, brings its objects to life.
    ///
    /// # Errors
    /// The store cannot be read, or a definition cannot be served.
    pub async fn start(store: Arc<dyn Store>, options: StackOptions) -> Result<Self, OpenError> {
        let server = ApiServer::open(
            store,
            Options {
                clock: options.clock.clone(),
                rng: options.rng.stream("apiserver"),
                definitions: crds::all(),
                tokens: options.tokens.clone(),
                admission: Arc::new(Webhooks),
            },
        )
        .await?;
        // The engine is in the server's own process: no socket, and no token.
        let connection = || in_process(server.clone(), "engine", "default", false);
        let engine = options.engine.then(|| RunningEngine::start(connection(), &options));
        if let Some(engine) = &engine {
            let trace = engine.handle().trace().clone();
            server.append_metrics(Box::new(move || trace.metrics()));
        }
        Ok(Self { server, engine })
    }

    /// The API server, to be served on a socket.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// A connection for a person or a test: administrator, or one whose requests are all reads.
    pub fn connection(&self, name: &str, read_only: bool) -> Connection {
        let identity = if read_only { Identity::READ_ONLY } else { Identity::ADMIN };
        in_process(self.server.acting_as(identity), name, "default", read_only)
    }

    /// The engine, when there is one.
    pub fn engine(&self) -> Option<&Handle> {
        self.engine.as_ref().map(RunningEngine::handle)
    }

    /// The simulated infrastructure, when there is an engine.
    pub fn world(&self) -> Option<&Arc<World>> {
        self.engine.as_ref().map(RunningEngine::world)
    }

    /// The served APIs of simulated clusters, when there is an engine that serves them.
    pub fn workload_apis(&self) -> Option<&Arc<WorkloadApis>> {
        self.engine.as_ref().and_then(RunningEngine::workload_apis)
    }

    /// Who ran which controller of the clouds of simulated clusters, when there is an engine.
    pub fn ledgers(&self) -> Option<&Ledgers> {
        self.engine.as_ref().map(RunningEngine::ledgers)
    }

    /// Ends the engine; runs that had begun are finished.
    pub async fn stop(self) {
        if let Some(engine) = self.engine {
            engine.stop().await;
        }
    }
}
