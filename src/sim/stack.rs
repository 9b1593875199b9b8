//! Server, engine and simulated infrastructure as one thing to start and stop. The same in the demo,
//! in standalone mode and in whole-engine tests; only store, clock and seed differ. Must not know a
//! terminal or a socket.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::admission::Webhooks;
use crate::api::crds;
use crate::apiserver::{ApiServer, Identity, OpenError, Options, Tokens};
use crate::client::{Connection, in_process};
use crate::controllers;
use crate::engine::lease::LeaseOptions;
use crate::engine::{Engine, EngineOptions, Handle};
use crate::provider::{self, ProviderOptions, World};
use crate::rng::Rng;
use crate::store::Store;
use crate::time::Clock;

/// How a stack runs.
#[derive(Clone, Debug)]
pub struct StackOptions {
    pub clock: Clock,
    pub rng: Rng,
    /// Divides every simulated duration and the distance between runs; above 0.
    pub time_scale: f64,
    pub tokens: Tokens,
    /// False: only the API server.
    pub engine: bool,
    /// Compete for this lease and reconcile only while holding it. `None`: alone with its store.
    pub lease: Option<LeaseOptions>,
}

/// A running stack. Dropping it stops everything without waiting.
pub struct Stack {
    server: ApiServer,
    engine: Option<Running>,
    stop: CancellationToken,
}

struct Running {
    handle: Handle,
    world: Arc<World>,
    task: JoinHandle<()>,
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
        let stop = CancellationToken::new();
        let engine = options.engine.then(|| run_engine(&server, &options, stop.clone()));
        Ok(Self { server, engine, stop })
    }

    /// The API server, to be served on a socket.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// A connection for a person or a test: administrator, or one whose requests are all reads.
    #[must_use]
    pub fn connection(&self, name: &str, read_only: bool) -> Connection {
        let identity = if read_only { Identity::READ_ONLY } else { Identity::ADMIN };
        in_process(self.server.acting_as(identity), name, "default", read_only)
    }

    /// The engine, when there is one.
    #[must_use]
    pub fn engine(&self) -> Option<&Handle> {
        self.engine.as_ref().map(|running| &running.handle)
    }

    /// The simulated infrastructure, when there is an engine.
    #[must_use]
    pub fn world(&self) -> Option<&Arc<World>> {
        self.engine.as_ref().map(|running| &running.world)
    }

    /// Ends the engine; runs that had begun are finished.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(running) = self.engine.take() {
            // A join error is a panic, which the engine has logged.
            let _ = running.task.await;
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn run_engine(server: &ApiServer, options: &StackOptions, stop: CancellationToken) -> Running {
    let connection = in_process(server.clone(), "engine", "default", false);
    let engine_options = EngineOptions {
        time_scale: options.time_scale,
        lease: options.lease.clone(),
        ..EngineOptions::default()
    };
    let rng = options.rng.stream("engine");
    let mut engine = Engine::new(connection.client, options.clock.clone(), rng, engine_options);
    let world = provider::register(&mut engine, ProviderOptions { time_scale: options.time_scale });
    controllers::register(&mut engine, world.clone());
    let handle = engine.handle();
    let task = tokio::spawn(engine.run(stop));
    Running { handle, world, task }
}
