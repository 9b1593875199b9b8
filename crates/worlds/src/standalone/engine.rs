//! An engine with every controller and the simulated infrastructure, over any connection to a server: a test gives
//! it one that loses answers. Must not know where the server is.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::options::{RealHosts, StackOptions};
use super::processes::{self, Ledgers};
use crate::provider::{self, ProviderOptions, World};
use crate::workload_api::{self, WorkloadApis};
use capstan_engine::client::Connection;
use capstan_engine::controllers;
use capstan_engine::engine::{Engine, EngineOptions, Handle};
use capstan_engine::runtime_sdk::{Https, Runtime};
use capstan_engine::workload::kube::KubeWorkloads;
use capstan_engine::workload::router::Router;
use capstan_engine::workload::{JudgedAfter, Workload};

/// Machines that exist, and their clusters: these are reached by their kubeconfig Secrets, simulated ones in the world.
fn with_hosts(engine: &mut Engine, world: &Arc<World>, hosts: &RealHosts) -> Arc<dyn Workload> {
    let rng = engine.rng().stream("workload");
    let (writer, clock) = (engine.writer().clone(), engine.clock().clone());
    let real = KubeWorkloads::new(writer, clock, rng, hosts.settings.read_only, JudgedAfter::default());
    let is_simulated = real.attach_real(&engine.cache(), &engine.cache());
    let workload: Arc<dyn Workload> = Arc::new(Router::new(world.clone(), Arc::new(real), is_simulated));
    let machines = Arc::clone(&hosts.machines);
    capstan_host_provider::register(engine, machines, Arc::clone(&workload), &hosts.settings);
    workload
}

/// An engine that runs. Dropping it stops it without waiting.
pub struct RunningEngine {
    handle: Handle,
    world: Arc<World>,
    apis: Option<Arc<WorkloadApis>>,
    ledgers: Ledgers,
    task: JoinHandle<()>,
    stop: DropGuard,
}

impl RunningEngine {
    /// Runs an engine in a task of its own; of `options` it takes clock, chance, time scale, lease, share and updates.
    pub fn start(connection: Connection, options: &StackOptions) -> Self {
        let engine_options = EngineOptions {
            time_scale: options.time_scale,
            lease: options.lease.clone(),
            sharing: options.sharing.clone(),
            ..EngineOptions::default()
        };
        let rng = options.rng.stream("engine");
        let mut engine = Engine::new(connection.client, options.clock.clone(), rng, engine_options);
        // First: the world is rebuilt before controllers that ask it begin.
        let world = provider::register(
            &mut engine,
            ProviderOptions { time_scale: options.time_scale, ..ProviderOptions::default() },
        );
        let (serves, ledgers) = (options.serves_workloads, Ledgers::default());
        // Without APIs there are no pods that could say which processes run.
        let apis = serves.then(|| workload_api::register(&mut engine, Arc::clone(&world)));
        if let Some(apis) = &apis {
            let rng = options.rng.stream("controller-managers");
            let (apis, world) = (Arc::clone(apis), Arc::clone(&world));
            engine.add_background(processes::run(apis, world, ledgers.clone(), options.clock.clone(), rng));
        }
        let extensions =
            Runtime::new(engine.client().clone(), engine.clock().clone(), Arc::new(Https::default()));
        let extensions = Arc::new(extensions);
        let mut in_place = options.in_place.clone();
        // A test may have given its own, which stay.
        in_place.extensions.get_or_insert_with(|| extensions.clone());
        let settings = controllers::Settings { in_place, ..controllers::Settings::default() };
        let workload = match &options.hosts {
            Some(hosts) => with_hosts(&mut engine, &world, hosts),
            None => world.clone(),
        };
        controllers::register(&mut engine, workload, settings);
        controllers::extension_config::register(&mut engine, extensions);
        let (handle, stop) = (engine.handle(), CancellationToken::new());
        let task = tokio::spawn(engine.run(stop.clone()));
        Self { handle, world, apis, ledgers, task, stop: stop.drop_guard() }
    }

    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// The served APIs of simulated clusters. `None`: this engine serves none.
    pub fn workload_apis(&self) -> Option<&Arc<WorkloadApis>> {
        self.apis.as_ref()
    }

    /// Who ran which controller of a simulated cluster's cloud.
    pub fn ledgers(&self) -> &Ledgers {
        &self.ledgers
    }

    /// Ends it; runs that had begun are finished.
    pub async fn stop(self) {
        // The guard cancels when it is dropped, which ends the engine's loop.
        drop(self.stop);
        // A join error is a panic, which the engine has logged.
        let _ = self.task.await;
    }
}
