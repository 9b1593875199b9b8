//! What people see before a change: predictions of updates in place from a real extension over HTTPS, asked through the
//! preview of an action, and the action that stops when a Machine would be replaced.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use capi_forecast::forecast::in_place::{Known, Updates, Way};
use capi_forecast::forecast::{Forecast, forecast, forecast_knowing};
use capi_rules::observe::dump::Dump;
use capi_types::condition::{Conditioned as _, is_true};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::extension_config::ExtensionConfig;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::machine_deployment::MachineDeployment;
use capstan_base::toml_file::Source;
use capstan_dashboard::actions::in_place::InPlaceChange;
use capstan_dashboard::actions::{Action, Executor, Outlook, Preview, Request};
use capstan_dashboard::operations::Severity;
use capstan_dashboard::operations::guard::Guard;
use capstan_dashboard::operations::journal::Journal;
use capstan_engine::can_update::AtServer;
use capstan_engine::client::clusters::list_clusters;
use capstan_engine::client::get;
use capstan_worlds::extension::{Behaviour, DevHosts, Extension, Identity, Serving, extension_config, serve};
use capstan_worlds::standalone::extension::register;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use super::simulation::{Sim, manifest, settled};

/// A cluster that is up, with an extension that behaves so; time runs as usual from here on.
async fn up(seed: u64, options: &str) -> (Sim, Serving) {
    let sim = Sim::start(seed).await;
    sim.create(manifest(3, 3)).await;
    sim.until("the cluster up", 400, async |s| settled(s, 3, 3, "v1.34.1").await).await;
    tokio::time::resume();
    let identity = Identity::generate(&[Ipv4Addr::LOCALHOST.to_string()]).expect("a certificate");
    let behaviour = Behaviour::read(&Source::new("options", options)).expect("options");
    let hosts = DevHosts::new(sim.connection.client.clone(), sim.clock.clone(), 1.0);
    let extension = Arc::new(Extension::new(behaviour, Arc::new(hosts)));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let serving = serve(extension, address, &identity).await.expect("served");
    let url = format!("https://{}", serving.address());
    let config = extension_config("ext", &url, identity.certificate_pem());
    register(&sim.connection, "ext", &config).await.expect("registered");
    loop {
        let config: Option<ExtensionConfig> =
            get(&sim.connection.client, &ObjectKey::new("", "ext")).await.expect("an answer");
        if config.is_some_and(|config| is_true(config.conditions(), "Discovered")) {
            return (sim, serving);
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

struct Person {
    executor: Executor,
    _folder: tempfile::TempDir,
}

impl Person {
    fn at(sim: &Sim) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Journal::at(folder.path().join("journal"));
        let executor =
            Executor::new(sim.connection.clone(), &Guard::new(journal, sim.clock.clone(), "ada".to_owned()));
        Self { executor, _folder: folder }
    }

    async fn preview(&self, gvk: Gvk, name: &str, words: &str) -> Preview {
        let target = ObjectRef { gvk, key: ObjectKey::new("default", name), uid: String::new() };
        let change = InPlaceChange::parse(words).expect("understood");
        let request = Request::new(target, Action::UpdateInPlace(Box::new(change)));
        self.executor.preview(&request).await.expect(words)
    }
}

fn updates(preview: &Preview) -> &Updates {
    match &preview.outlook {
        Outlook::Known(change) => change.updates.as_ref().expect("an extension has a say"),
        other => panic!("{other:?}"),
    }
}

fn ways(updates: &Updates) -> Vec<Way> {
    updates.machines.iter().map(|update| update.way).collect()
}

fn refusal(preview: &Preview) -> &str {
    let found =
        preview.findings.iter().find(|f| f.rule == "would-replace" && f.severity == Severity::Blocker);
    &found.expect("refused").text
}

#[tokio::test(start_paused = true)]
async fn every_machine_is_known_before_and_the_action_stops_when_one_would_go() {
    use Way::{InPlace, Replacement};
    let (sim, _serving) = up(61, "").await;
    let person = Person::at(&sim);
    let (plane, deployment) = (Gvk::of::<KubeadmControlPlane>(), Gvk::of::<MachineDeployment>());

    // A surge means that one Machine is made and an old one goes.
    let surge = person.preview(plane.clone(), "harbor-cp", "v1.34.2").await;
    assert_eq!(ways(updates(&surge)), [InPlace, InPlace, Replacement]);
    assert!(refusal(&surge).starts_with("1 of 3 Machines is not updated in place: "), "{}", refusal(&surge));
    let allowed = person.preview(plane.clone(), "harbor-cp", "v1.34.2 allow-replace").await;
    assert!(allowed.is_allowed(), "{:?}", allowed.findings);

    let in_place = person.preview(plane.clone(), "harbor-cp", "v1.34.2 no-surge").await;
    assert!(in_place.is_allowed(), "{:?}", in_place.findings);
    assert_eq!(ways(updates(&in_place)), [InPlace; 3]);
    let covered = &updates(&in_place).machines[0].covered;
    assert_eq!(covered[0].handler, "can-update-machine.ext");
    assert_eq!(covered[0].fields, ["Machine spec.version"]);
    let cost = &updates(&in_place).availability;
    assert_eq!(cost, "at least 2 of 3 Machines stay available");

    let workers = person.preview(deployment.clone(), "harbor-md-0", "v1.34.2").await;
    assert_eq!(ways(updates(&workers)), [InPlace, InPlace, Replacement]);
    let cost = &updates(&workers).availability;
    assert_eq!(cost, "at least 3 of 3 Machines stay available");
    let workers = person.preview(deployment.clone(), "harbor-md-0", "v1.34.2 no-surge").await;
    assert_eq!(ways(updates(&workers)), [InPlace; 3]);
    assert!(updates(&workers).lines().iter().any(|(word, line)| {
        *word == "in place"
            && line.contains("can-update-machine-set.ext covers MachineSet spec.template.spec.version")
    }));

    // A field through a new template, which the action makes.
    let memory = "infrastructure:/metadata/annotations/provider.capstan.dev~1memory=16Gi no-surge";
    let preview = person.preview(deployment, "harbor-md-0", memory).await;
    assert_eq!(ways(updates(&preview)), [InPlace; 3], "{:?}", preview.findings);
    person.executor.perform(&preview).await.expect("done");
    let changed: MachineDeployment = sim.get("harbor-md-0").await.expect("there");
    let template = changed.spec.template.spec.infrastructure_ref.name;
    assert_ne!(template, "harbor-md-0");
    let made = sim.list::<capi_types::dev::DevMachineTemplate>().await;
    assert!(made.iter().any(|made| made.metadata.name.as_deref() == Some(template.as_str())), "{template}");
}

#[tokio::test(start_paused = true)]
async fn what_no_extension_covers_is_the_reason_and_silence_is_not_a_yes() {
    let (sim, serving) = up(62, "covers = [\"bootstrap:/spec\"]").await;
    let person = Person::at(&sim);
    let plane = Gvk::of::<KubeadmControlPlane>();
    let preview = person.preview(plane.clone(), "harbor-cp", "v1.34.2 no-surge").await;
    let uncovered = "Machine cannot be updated in-place: spec.version: \"v1.34.1\" → \"v1.34.2\"";
    assert!(refusal(&preview).contains(uncovered), "{}", refusal(&preview));
    assert_eq!(ways(updates(&preview)), [Way::Replacement; 3]);

    // The plan of a change that is there already: not asked, asked, and without an answer.
    let changed = json!({"spec": {"version": "v1.34.2"}});
    let mut lists = list_clusters(&sim.connection, "default", Some("harbor")).await.expect("lists");
    for (gvk, objects) in &mut lists.kinds {
        if gvk.kind == "KubeadmControlPlane" {
            k8s_machinery::merge::apply(&mut objects[0], &changed);
        }
    }
    let (dump, now) = (Dump::of_lists(lists.kinds), sim.clock.now());
    let of_plane = |forecast: Forecast| {
        let mut plans = forecast.objects.into_iter();
        plans.find(|plan| plan.kind == "KubeadmControlPlane").expect("a plan")
    };
    let silent = of_plane(forecast(&dump, now));
    let known = silent.updates.expect("an extension could be asked");
    assert_eq!((ways(&known), known.asked), (vec![Way::Unknown; 3], false));
    assert_eq!(known.availability, "in place at least 3 of 3 Machines stay available, by replacement 3");
    assert!(silent.assumptions.iter().any(|a| a.contains("can-update-machine.ext was not asked")));

    let server = async || AtServer::read(&sim.connection, sim.clock.clone()).await.expect("read");
    let asked = server().await.ask(&dump, &|_| true, now).await;
    let plan = of_plane(forecast_knowing(&dump, &Known::Asked(asked), now));
    let told = plan.updates.expect("asked");
    assert!(told.asked && told.machines.iter().all(|m| m.way == Way::Replacement), "{told:?}");

    drop(serving);
    let asked = server().await.ask(&dump, &|_| true, now).await;
    let plan = of_plane(forecast_knowing(&dump, &Known::Asked(asked), now));
    let told = plan.updates.expect("tried");
    assert!(
        told.machines.iter().any(|m| m.way == Way::Unknown && m.reason.contains("can-update-machine.ext"))
    );
    let preview = person.preview(plane, "harbor-cp", "v1.34.2 no-surge").await;
    assert!(refusal(&preview).contains("is not known"), "{}", refusal(&preview));
}

#[tokio::test(start_paused = true)]
async fn previews_ask_as_many_extensions_as_the_engine_wrote_on_its_lease() {
    let (sim, _serving) = up(63, "").await;
    let person = Person::at(&sim);
    let configs: Api<ExtensionConfig> = Api::all(sim.connection.client.clone());
    let first = configs.get("ext").await.expect("registered");
    let metadata = ObjectMeta { name: Some("second".to_owned()), ..ObjectMeta::default() };
    let second = ExtensionConfig { metadata, status: None, ..first };
    configs.create(&PostParams::default(), &second).await.expect("created");
    sim.until("the second extension", 60, async |_: &Sim| {
        let found = configs.get("second").await.expect("there");
        found.status.is_some_and(|status| !status.handlers.is_empty())
    })
    .await;
    let plane = Gvk::of::<KubeadmControlPlane>();
    let alone = person.preview(plane.clone(), "harbor-cp", "v1.34.2 no-surge").await;
    assert!(!alone.is_allowed(), "two are too many where nothing else is said");

    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "capstan-engine",
        "namespace": "default", "labels": {"capstan.dev/engine": "engine"},
        "annotations": {"capstan.dev/in-place-handlers": "union"}}, "spec": {"holderIdentity": "a_1"}});
    sim.create(vec![lease]).await;
    let told = person.preview(plane, "harbor-cp", "v1.34.2 no-surge").await;
    assert!(told.is_allowed(), "{:?}", told.findings);
}

#[tokio::test(start_paused = true)]
async fn previews_know_the_gates_that_the_engine_wrote_on_its_lease() {
    let (sim, _serving) = up(63, "").await;
    let person = Person::at(&sim);
    let plane = Gvk::of::<KubeadmControlPlane>();
    let assumes = "the controllers run with the feature gate InPlaceUpdates";
    let not_told = person.preview(plane.clone(), "harbor-cp", "v1.34.2 no-surge").await;
    assert!(not_told.is_allowed() && format!("{:?}", not_told.outlook).contains(assumes));

    let leases: Api<Lease> = Api::default_namespaced(sim.connection.client.clone());
    let lease = json!({"metadata": {"name": "capstan-engine", "labels": {"capstan.dev/engine": "engine"}},
        "spec": {"holderIdentity": "a_1"}});
    leases
        .create(&PostParams::default(), &serde_json::from_value(lease).expect("a Lease"))
        .await
        .expect("created");
    for (in_place, is_allowed) in [(true, true), (false, false)] {
        let gates = format!("RuntimeSDK=true,InPlaceUpdates={in_place}");
        let note = Patch::Merge(json!({"metadata": {"annotations": {"capstan.dev/feature-gates": gates}}}));
        leases.patch("capstan-engine", &PatchParams::default(), &note).await.expect("noted");
        let told = person.preview(plane.clone(), "harbor-cp", "v1.34.2 no-surge").await;
        assert_eq!(told.is_allowed(), is_allowed, "{:?}", told.findings);
        assert!(!format!("{:?}", told.outlook).contains(assumes), "nothing is assumed that is known");
        assert!(is_allowed || refusal(&told).contains("without the feature gates"), "{}", refusal(&told));
    }
}
