//! Editing an object: its text over the embedded server, what the pipeline makes of a change of it, and the dialog around the editor.

use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capstan_dashboard::actions::metadata_change::MetadataChange;
use capstan_dashboard::actions::{Action, ActionError, Draft, Executor, Order, Request, Risk};
use capstan_dashboard::operations::guard::Refusal;
use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::outside::{OutsideEnd, OutsideProgram, Texts};
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::update::update;
use kube::api::{Patch, PatchParams};
use ratatui::layout::Rect;
use serde_json::{Value, json};

use crate::actions::{Place, request};
use crate::fleet_fixture::{self as fixture, now};

/// The change of a text, as a request.
fn change(draft: &Draft, from: &str, to: &str) -> Request {
    assert!(draft.text.contains(from), "{from}: {}", draft.text);
    let mut draft = draft.clone();
    draft.text = draft.text.replace(from, to);
    let change = draft.change().expect("it is read").expect("it is a change");
    Request::new(draft.target, Action::Edit(Box::new(change)))
}

async fn draft(executor: &Executor) -> Draft {
    executor.draft(&request(Action::Undo).target, None).await.expect("a text")
}

#[tokio::test]
async fn a_changed_text_is_previewed_written_and_put_back() {
    let place = Place::new().await.with_deployment().await;
    let executor = place.executor(false);
    let draft = draft(&executor).await;
    let preview = executor.preview(&change(&draft, "replicas: 3", "replicas: 0")).await.expect("a preview");
    assert_eq!(preview.summary, "Change MachineDeployment md: spec.replicas.");
    // What it amounts to counts: none is left.
    assert_eq!(preview.risk, Risk::High);
    let replicas = async || place.deployments().get("md").await.expect("read").spec.replicas;
    assert_eq!(replicas().await, Some(3), "a preview writes nothing");
    executor.perform(&preview).await.expect("performed");
    assert_eq!(replicas().await, Some(0));
    let journal = place.journal();
    assert_eq!(
        (&journal[0]["action"], &journal[0]["patch"]),
        (&json!("edit"), &json!({"spec": {"replicas": 0}}))
    );
    let undo = executor.preview(&request(Action::Undo)).await.expect("a preview");
    executor.perform(&undo).await.expect("performed");
    assert_eq!(replicas().await, Some(3));
}

#[tokio::test]
async fn what_others_changed_meanwhile_stays_or_is_asked_about() {
    let place = Place::new().await.with_deployment().await;
    let executor = place.executor(false);
    let draft = draft(&executor).await;
    let mine = change(&draft, "replicas: 3", "replicas: 5");
    let theirs = async |patch: Value| {
        place
            .deployments()
            .patch("md", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .expect("a change");
    };
    theirs(json!({"metadata": {"labels": {"by": "others"}}})).await;
    let preview = executor.preview(&mine).await.expect("another field");
    // Between the preview and the write.
    theirs(json!({"metadata": {"labels": {"by": "again"}}})).await;
    let stale = executor.perform(&preview).await.expect_err("stale");
    assert!(matches!(stale, ActionError::Stale { .. }), "{stale}");
    theirs(json!({"spec": {"replicas": 9}})).await;
    let why = executor.preview(&mine).await.expect_err("the same field").to_string();
    assert_eq!(
        why,
        "others changed the same since you opened it: spec.replicas: 5 in your text, 9 on the server now"
    );
    let mut left = draft.clone();
    left.text = left.text.replace("replicas: 3", "replicas: 5");
    let again = executor.draft(&draft.target, Some((&left, &why))).await.expect("a text");
    for there in ["# others changed the same", "spec.replicas: 5 in your text, 9", "replicas: 5", "by: again"]
    {
        assert!(again.text.contains(there), "{there}: {}", again.text);
    }
    let change = again.change().expect("it is read").expect("it is a change");
    let preview = executor.preview(&Request::new(again.target, Action::Edit(Box::new(change)))).await;
    executor.perform(&preview.expect("seen by the person now")).await.expect("performed");
    assert_eq!(place.deployments().get("md").await.expect("read").spec.replicas, Some(5));
}

#[tokio::test]
async fn what_the_server_does_not_take_is_said_before_anything_is_written() {
    let place = Place::new().await.with_deployment().await;
    let executor = place.executor(false);
    let draft = draft(&executor).await;
    for (from, to, part) in [
        ("replicas: 3", "replicas: 3\n  sheep: 7", "sheep"),
        ("replicas: 3", "replicas: many", "replicas"),
        ("clusterName: c\n  replicas", "clusterName: d\n  replicas", "clusterName"),
    ] {
        match executor.preview(&change(&draft, from, to)).await {
            Err(error) => assert!(error.to_string().contains(part), "{error}"),
            Ok(preview) => {
                assert!(!preview.is_allowed(), "{to}: {:?}", preview.findings);
                assert!(
                    preview.findings.iter().any(|finding| finding.text.contains(part)),
                    "{:?}",
                    preview.findings
                );
            }
        }
    }
    assert!(place.journal().is_empty());
}

#[tokio::test]
async fn read_only_gives_no_text() {
    let place = Place::new().await.with_deployment().await;
    let refused = place.executor(true).draft(&request(Action::Undo).target, None).await.expect_err("refused");
    assert!(matches!(refused, ActionError::Refusal(Refusal::ReadOnly)), "{refused}");
}

/// A file that is written to a machine may hold a key.
#[tokio::test]
async fn secrets_of_an_object_are_not_in_the_journal() {
    let template = json!({
        "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfigTemplate",
        "metadata": {"name": "t", "namespace": "default", "uid": "t"},
        "spec": {"template": {"spec": {"files": [{"path": "/etc/key", "content": "old-secret"}]}}},
    });
    let place = Place::new().await.with(template).await;
    let executor = place.executor(false);
    let gvk = Gvk::of::<capi_types::bootstrap::KubeadmConfigTemplate>();
    let target = ObjectRef { gvk, key: ObjectKey::new("default", "t"), uid: String::new() };
    let draft = executor.draft(&target, None).await.expect("a text");
    let preview = executor.preview(&change(&draft, "old-secret", "new-secret")).await.expect("a preview");
    executor.perform(&preview).await.expect("performed");
    let journal = place.journal();
    let text = serde_json::to_string(&journal).expect("JSON");
    assert!(!text.contains("-secret") && text.contains("(not kept)"), "{text}");
    assert!(journal[0].get("back").is_none(), "{text}");
    let undo = Request::new(target, Action::Undo);
    let why = executor.preview(&undo).await.expect_err("not known any more").to_string();
    assert!(why.ends_with("cannot be taken back"), "{why}");
}

fn model(read_only: bool) -> Model {
    let look = Look::load("default", "default", Tier::None, false, None, command::check)
        .expect("shipped files load");
    let session = Session {
        title: "t".to_owned(),
        scope: "all namespaces".to_owned(),
        read_only,
        ..Session::default()
    };
    let mut model = Model::new(session, look, Rect::new(0, 0, 120, 40), now());
    update(&mut model, Msg::Fleet(fixture::sample()));
    text(&mut model);
    model
}

fn keys(model: &mut Model, typed: &str) -> Vec<Effect> {
    let effects = press(model, typed).expect("keys");
    effects.into_iter().filter(|effect| !matches!(effect, Effect::Read { .. } | Effect::Keep(_))).collect()
}

fn done(model: &mut Model, outcome: EffectOutcome) -> Vec<Effect> {
    let effects = update(model, Msg::Done(outcome));
    effects.into_iter().filter(|effect| !matches!(effect, Effect::Read { .. } | Effect::Keep(_))).collect()
}

/// The server's answer to the wish for a text.
fn answered(model: &mut Model, effects: &[Effect]) -> (Draft, Texts) {
    let [Effect::Draft { ticket, target, begun, .. }] = effects else { panic!("{effects:?}") };
    assert!(text(model).contains("reading it from the server"), "{}", text(model));
    let object =
        json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": target.key.name}, "spec": {"a": 1}});
    let draft = match begun.as_deref() {
        Some((draft, why)) => draft.again(&object, why),
        None => Draft::of(target.clone(), &object),
    };
    let result = draft.map(Box::new);
    let effects = done(model, EffectOutcome::Drafted { ticket: *ticket, result });
    let [Effect::Outside(OutsideProgram::Editor { draft, texts })] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    (draft.as_ref().clone(), texts.clone())
}

fn left(model: &mut Model, text: String, failure: Option<&str>) -> Vec<Effect> {
    let texts = Texts { folder: Some("/tmp/edit".into()), last: Some("/tmp/edit/x.yaml".into()), opened: 1 };
    let failure = failure.map(str::to_owned);
    done(model, EffectOutcome::Outside(OutsideEnd::Editor { texts, text: Some(text), failure }))
}

#[test]
fn a_text_without_a_change_leaves_nothing_behind() {
    let mut model = model(false);
    let effects = keys(&mut model, "e");
    let (draft, texts) = answered(&mut model, &effects);
    assert_eq!(texts, Texts::default());
    let effects = left(&mut model, draft.text, None);
    assert!(
        matches!(effects.as_slice(), [Effect::DropTexts(folder)] if folder.ends_with("edit")),
        "{effects:?}"
    );
    assert!(text(&mut model).contains("nothing changed") && model.overlays.is_empty());
}

#[test]
fn whatever_goes_wrong_the_text_is_kept_and_opened_again() {
    let mut model = model(false);
    let effects = keys(&mut model, "e");
    let (draft, _) = answered(&mut model, &effects);
    // The editor fails, then the text is not YAML, then the server refuses it, then the person leaves it, then it is done.
    assert!(left(&mut model, draft.text, Some("the editor `x` failed")).is_empty());
    let picture = text(&mut model);
    assert!(picture.contains("the editor `x` failed") && picture.contains("/tmp/edit/x.yaml"), "{picture}");
    let effects = keys(&mut model, "enter");
    let (draft, texts) = answered(&mut model, &effects);
    assert!(draft.text.contains("# the editor `x` failed\n"), "{}", draft.text);
    assert_eq!(texts.opened, 1, "its folder is used again");
    assert!(left(&mut model, draft.text.replace("a: 1", "a: [1"), None).is_empty());
    assert!(text(&mut model).contains("it is not YAML"), "{}", text(&mut model));
    let effects = keys(&mut model, "enter");
    let (draft, _) = answered(&mut model, &effects);
    assert!(draft.text.contains("a: [1") && draft.text.contains("# line "), "{}", draft.text);
    let effects = left(&mut model, draft.text.replace("a: [1", "a: 2"), None);
    let [Effect::Preview { ticket, order: Order::Action(request), .. }] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert_eq!(request.action.to_string(), "edit");
    done(
        &mut model,
        EffectOutcome::Previewed { ticket: *ticket, result: Err("the server says no".to_owned()) },
    );
    assert!(text(&mut model).contains("the server says no"), "{}", text(&mut model));
    keys(&mut model, "esc");
    assert!(
        text(&mut model).contains(":edit goes on with your text in /tmp/edit/x.yaml"),
        "{}",
        text(&mut model)
    );
    let effects = keys(&mut model, "e");
    let (draft, _) = answered(&mut model, &effects);
    assert!(draft.text.contains("a: 2") && draft.text.contains("# the server says no"), "{}", draft.text);
    let effects = left(&mut model, draft.text, None);
    let [Effect::Preview { ticket, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    let effects =
        done(&mut model, EffectOutcome::Performed { ticket: *ticket, result: Ok("changed".to_owned()) });
    assert!(matches!(effects.as_slice(), [Effect::DropTexts(_)]), "{effects:?}");
    let effects = keys(&mut model, "e");
    assert!(matches!(effects.as_slice(), [Effect::Draft { begun: None, .. }]), "{effects:?}");
}

#[test]
fn nothing_is_edited_read_only_or_after_the_person_went_on() {
    let mut read_only = model(true);
    assert!(keys(&mut read_only, "e").is_empty());
    assert!(text(&mut read_only).contains("read-only: nothing can be changed from here"));
    let mut model = model(false);
    let effects = keys(&mut model, "e");
    let [Effect::Draft { ticket, target, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    keys(&mut model, "esc");
    let object = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}});
    let result = Draft::of(target.clone(), &object).map(Box::new);
    assert!(done(&mut model, EffectOutcome::Drafted { ticket: *ticket, result }).is_empty());
    keys(&mut model, "M");
    assert!(keys(&mut model, "e").is_empty());
    assert!(text(&mut model).contains("one is edited at a time"), "{}", text(&mut model));
}

#[tokio::test]
async fn labels_and_annotations_are_set_and_taken_away() {
    let place = Place::new().await.with_deployment().await;
    let executor = place.executor(false);
    let words = |words: &str| MetadataChange::parse(words).expect(words);
    let label = request(Action::Label(words("tier=gold example.com/a=b")));
    let preview = executor.preview(&label).await.expect("a preview");
    assert_eq!(preview.summary, "Change labels of MachineDeployment md: tier=gold example.com/a=b.");
    executor.perform(&preview).await.expect("performed");
    let annotate = request(Action::Annotate(words("note=\"two words\"")));
    executor.perform(&executor.preview(&annotate).await.expect("a preview")).await.expect("performed");
    let taken = request(Action::Label(words("tier-")));
    executor.perform(&executor.preview(&taken).await.expect("a preview")).await.expect("performed");
    let metadata = place.deployments().get("md").await.expect("read").metadata;
    let (labels, annotations) =
        (metadata.labels.unwrap_or_default(), metadata.annotations.unwrap_or_default());
    assert_eq!((labels.get("tier"), labels.get("example.com/a").map(String::as_str)), (None, Some("b")));
    assert_eq!(annotations.get("note").map(String::as_str), Some("two words"));
    for (action, why) in [
        (Action::Label(words("tier-")), "nothing to change: MachineDeployment md is as asked for already"),
        (Action::Label(words("tier=\"two words\"")), "a valid label must"),
    ] {
        let error = executor.preview(&request(action)).await.expect_err("refused").to_string();
        assert!(error.contains(why), "{error}");
    }
    executor
        .perform(&executor.preview(&request(Action::Undo)).await.expect("a preview"))
        .await
        .expect("put back");
    let labels = place.deployments().get("md").await.expect("read").metadata.labels.unwrap_or_default();
    assert_eq!(labels.get("tier").map(String::as_str), Some("gold"));
}
