//! Shells and plugins: what is shown and read before they get the terminal, and what is refused.

use capi_types::key::ObjectKey;
use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::outside::{Kubeconfig, OutsideCommand, OutsideEnd, OutsideProgram};
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::update::update;
use ratatui::layout::Rect;

use crate::fleet_fixture::{self as fixture, now};

const PLUGINS: &str = r#"
[look]
command = "kubectl get $KIND $NAME"
key = "alt-l"
read-only = true
[nodes]
command = "kubectl get nodes"
kinds = ["Cluster"]
workload-kubeconfig = true
"#;

fn model(read_only: bool) -> Model {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("plugins.toml"), PLUGINS).expect("a file");
    let config = Some(folder.path().to_path_buf());
    let look =
        Look::load("default", "default", Tier::None, false, config, command::check).expect("files load");
    let session = Session {
        title: "east".to_owned(),
        scope: "all namespaces".to_owned(),
        read_only,
        ..Session::default()
    };
    let mut model = Model::new(session, look, Rect::new(0, 0, 100, 30), now());
    update(&mut model, Msg::Fleet(fixture::sample()));
    text(&mut model);
    press(&mut model, "\":tree prod-eu-1\" enter").expect("keys");
    text(&mut model);
    model
}

fn keys(model: &mut Model, typed: &str) -> Vec<Effect> {
    let mut effects = press(model, typed).expect("keys");
    effects.retain(|effect| matches!(effect, Effect::Outside(_) | Effect::ReadKubeconfig { .. }));
    effects
}

fn done(model: &mut Model, outcome: EffectOutcome) -> Vec<Effect> {
    let mut effects = update(model, Msg::Done(outcome));
    effects.retain(|effect| matches!(effect, Effect::Outside(_)));
    effects
}

fn command(effects: &[Effect]) -> OutsideCommand {
    let [Effect::Outside(OutsideProgram::Command(command))] = effects else { panic!("{effects:?}") };
    command.clone()
}

#[test]
fn a_plugin_is_shown_with_its_environment_before_it_runs() {
    let mut model = model(false);
    assert!(keys(&mut model, "alt-l").is_empty());
    let picture = text(&mut model);
    for part in [
        "kubectl get $KIND $NAME",
        "NAMESPACE=prod",
        "NAME=prod-eu-1",
        "KIND=Cluster",
        "CONTEXT=east",
        "run it",
    ] {
        assert!(picture.contains(part), "{part}: {picture}");
    }
    assert!(keys(&mut model, "esc").is_empty() && model.overlays.is_empty());
    let run = command(&keys(&mut model, "alt-l enter"));
    assert_eq!((run.line.as_deref(), run.kubeconfig), (Some("kubectl get $KIND $NAME"), None));
    assert!(run.environment.contains(&("CLUSTER", "prod-eu-1".to_owned())), "{:?}", run.environment);
    let end = OutsideEnd::Command { title: run.title, failure: Some("it failed: exit status: 3".to_owned()) };
    done(&mut model, EffectOutcome::Outside(end));
    assert!(text(&mut model).contains("plugin look on Cluster prod/prod-eu-1: it failed: exit status: 3"));
}

#[test]
fn a_plugin_that_wants_the_kubeconfig_of_the_workload_cluster_waits_for_it() {
    let mut model = model(false);
    let effects = keys(&mut model, "\":plugin nodes\" enter enter");
    let [Effect::ReadKubeconfig { ticket, cluster, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(*cluster, ObjectKey::new("prod", "prod-eu-1"));
    let read = |ticket| EffectOutcome::KubeconfigRead { ticket, result: Ok(Kubeconfig("keys".to_owned())) };
    assert!(done(&mut model, read(ticket + 1)).is_empty(), "of something else");
    let run = command(&done(&mut model, read(*ticket)));
    assert_eq!(run.kubeconfig, Some(Kubeconfig("keys".to_owned())));
    keys(&mut model, "down");
    keys(&mut model, "\":plugin nodes\" enter");
    assert!(
        text(&mut model).contains("does not take plugin `nodes`; it works on Cluster"),
        "{}",
        text(&mut model)
    );
    keys(&mut model, "\":plugin nods\" enter");
    assert!(text(&mut model).contains("did you mean `nodes`?"), "{}", text(&mut model));
}

#[test]
fn a_shell_gets_the_kubeconfig_of_its_cluster_or_is_not_opened() {
    let mut model = model(false);
    let open = |model: &mut Model| {
        let effects = keys(model, "\":shell\" enter");
        let [Effect::ReadKubeconfig { ticket, .. }] = effects.as_slice() else { panic!("{effects:?}") };
        *ticket
    };
    let ticket = open(&mut model);
    let missing =
        EffectOutcome::KubeconfigRead { ticket, result: Err("Secret x holds no kubeconfig".to_owned()) };
    assert!(done(&mut model, missing).is_empty());
    assert!(
        text(&mut model).contains("Nothing was run")
            && text(&mut model).contains("Secret x holds no kubeconfig")
    );
    keys(&mut model, "enter");
    let read = |ticket| EffectOutcome::KubeconfigRead { ticket, result: Ok(Kubeconfig("keys".to_owned())) };
    let ticket = open(&mut model);
    keys(&mut model, "esc");
    assert!(done(&mut model, read(ticket)).is_empty(), "the person went on");
    let ticket = open(&mut model);
    let shell = command(&done(&mut model, read(ticket)));
    assert_eq!((shell.line, shell.title.as_str()), (None, "shell of Cluster prod/prod-eu-1"));
}

#[test]
fn read_only_runs_only_what_says_that_it_changes_nothing() {
    let mut model = model(true);
    for (typed, why) in [
        ("\":shell\" enter", "read-only: nothing can be changed from here"),
        ("\":plugin nodes\" enter", "read-only: plugin `nodes` does not say that it is `read-only`"),
    ] {
        assert!(keys(&mut model, typed).is_empty() && model.overlays.is_empty(), "{typed}");
        assert!(text(&mut model).contains(why), "{}", text(&mut model));
    }
    command(&keys(&mut model, "alt-l enter"));
}
