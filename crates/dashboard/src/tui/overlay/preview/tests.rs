use chrono::TimeDelta;

use super::lines::outlook;
use super::*;
use crate::actions::edit::Edit;
use crate::actions::{Action, Outlook, PlanChange, Preview, Risk};
use crate::operations::diff::{DiffLine, Sign};
use crate::operations::{Finding, Severity};
use crate::tui::keymap::parse_chord;
use crate::tui::theme::{Theme, Tier};
use capi_forecast::forecast::in_place::Updates;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capstan_base::time::Timestamp;

fn request() -> Request {
    let gvk = Gvk {
        group: "cluster.x-k8s.io".to_owned(),
        version: "v1beta2".to_owned(),
        kind: "MachineDeployment".to_owned(),
        plural: "machinedeployments".to_owned(),
        namespaced: true,
    };
    let target = ObjectRef { gvk, key: ObjectKey::new("prod", "md-0"), uid: "u".to_owned() };
    Request::new(target, Action::Scale { replicas: 5 })
}

fn ready(risk: Risk, severity: Severity) -> PreviewBox {
    ready_after(0, risk, severity)
}

fn ready_after(confirm_after_s: u32, risk: Risk, severity: Severity) -> PreviewBox {
    let finding = |severity, rule, text: &str| Finding { severity, rule, text: text.to_owned() };
    let line = |sign, text: &str| DiffLine { sign, text: text.to_owned() };
    let mut open = PreviewBox::new(7, SourceId(0), Order::Action(request()), confirm_after_s);
    open.show(Proposal::Action(Box::new(Preview {
        request: request(),
        summary: "MachineDeployment md-0 goes from 3 to 5 replicas: 2 Machines are created.".to_owned(),
        risk,
        findings: vec![
            finding(Severity::Note, "machines-created", "2 Machines more"),
            finding(
                severity,
                "cluster-paused",
                "the Cluster is paused: nothing moves\x1b[2J until it is resumed",
            ),
        ],
        diff: vec![
            line(Sign::Same, "spec:"),
            line(Sign::Removed, "  replicas: 3"),
            line(Sign::Added, "  replicas: 5"),
        ],
        outlook: Outlook::Known(PlanChange {
            before: "nothing to do".to_owned(),
            after: vec![
                "next: scale MachineSet md-0-a 3 → 5".to_owned(),
                "MachineSet md-0-a: next: create 2 Machines\x1b[2J".to_owned(),
            ],
            updates: None,
            course: Vec::new(),
            assumptions: vec!["the template is there".to_owned()],
        }),
        back: None,
        edit: Edit::Delete,
        uid: String::new(),
        resource_version: String::new(),
        shown: serde_json::Value::Null,
        topology: None,
    })));
    open
}

/// Draws it, and once more as it is after that.
fn picture(open: &mut PreviewBox, width: u16, height: u16) -> String {
    drawn(open, width, height);
    open.was_drawn(Rect::new(0, 0, width, height), Timestamp::default());
    drawn(open, width, height)
}

fn drawn(open: &PreviewBox, width: u16, height: u16) -> String {
    drawn_at(open, 0, width, height).0
}

/// The picture after so many seconds, and after how many more it reads differently.
fn drawn_at(open: &PreviewBox, seconds: i64, width: u16, height: u16) -> (String, Option<i64>) {
    let theme = Theme::load("default", None, Tier::None, true).expect("shipped");
    let paint = Paint::new(&theme, Timestamp::default() + TimeDelta::seconds(seconds));
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    open.view(&paint, area, &mut buffer);
    let lines = buffer.content().chunks(usize::from(width.max(1)));
    let text = |line: &[ratatui::buffer::Cell]| line.iter().map(|c| c.symbol()).collect::<String>();
    let text = lines.map(|line| text(line).trim_end().to_owned()).collect::<Vec<_>>().join("\n");
    (text, paint.next_change_s())
}

#[test]
fn time_to_read_is_counted_down_before_a_word_can_be_typed() {
    let mut open = ready_after(10, Risk::High, Severity::Warning);
    let area = Rect::new(0, 0, 80, 30);
    let (first, next_s) = drawn_at(&open, 0, 80, 30);
    assert!(first.contains("Can be confirmed in 10 s") && !first.contains("Type md-0"), "{first}");
    assert_eq!(next_s, Some(1));
    open.was_drawn(area, Timestamp::default());
    let (later, _) = drawn_at(&open, 7, 80, 30);
    assert!(later.contains("Can be confirmed in 3 s"), "{later}");
    open.was_drawn(area, Timestamp::default() + TimeDelta::seconds(7));
    assert_eq!(open.word(), None, "keys move about until then");
    let (asked, next_s) = drawn_at(&open, 10, 80, 30);
    assert!(asked.contains("Type md-0, then enter:"), "{asked}");
    assert_eq!(next_s, None);
    open.was_drawn(area, Timestamp::default() + TimeDelta::seconds(10));
    assert_eq!(open.word(), Some("md-0"));
}

#[test]
fn what_fits_is_asked_in_the_first_picture_and_confirmed_after_it() {
    let mut open = ready(Risk::Low, Severity::Note);
    assert!(open.confirmable().is_none(), "it was not on the screen yet");
    let first = drawn(&open, 80, 30);
    assert!(first.contains("Enter twice does it.") && !first.contains("Scroll"), "{first}");
    assert_eq!(picture(&mut open, 80, 30), first);
    assert!(open.confirmable().is_some());
}

#[test]
fn extensions_are_asked_by_key_and_only_where_there_are_any() {
    let mut open = ready(Risk::Medium, Severity::Warning);
    assert!(!picture(&mut open, 80, 30).contains("ask extensions"));
    assert!(open.ask_extensions(8).is_err());
    let Stage::Ready(Proposal::Action(preview)) = &mut open.stage else { panic!("it is ready") };
    let Outlook::Known(change) = &mut preview.outlook else { panic!("it is planned") };
    change.updates = Some(Updates {
        machines: Vec::new(),
        handlers: vec!["can-update-machine-set.ext\x1b[2J".to_owned()],
        asked: false,
        availability: "in place at least 2 of 3 Machines stay available, by replacement 3".to_owned(),
    });
    let shown = picture(&mut open, 100, 40);
    assert!(shown.contains("tab ask extensions"), "{shown}");
    assert!(shown.contains("ask can-update-machine-set.ext"), "{shown}");
    assert!(shown.contains("cost in place at least 2 of 3"), "{shown}");
    let tab = parse_chord("tab").expect("a key")[0].event();
    assert!(open.on_key(tab).is_none(), "the keymap says what it does");
    let effects = open.ask_extensions(8).expect("there is one to ask");
    let asked = |effect: &Effect| matches!(effect, Effect::Preview { ticket: 8, order: Order::Action(request), .. } if request.asks_extensions);
    assert!(effects.len() == 1 && effects.iter().all(asked));
    assert!(picture(&mut open, 100, 40).contains("asking the server"));
}

#[test]
fn a_change_that_belongs_elsewhere_is_offered_as_a_patch_file() {
    let mut open = ready(Risk::Medium, Severity::Warning);
    assert!(open.save_patch().is_err(), "a deletion is not a patch");
    let Stage::Ready(Proposal::Action(preview)) = &mut open.stage else { panic!("it is ready") };
    preview.edit =
        Edit::Patch(serde_json::json!({"spec": {"replicas": 5}, "metadata": {"annotations": {"a": null}}}));
    assert!(!picture(&mut open, 80, 30).contains("ctrl-s"), "nobody else is named");
    let Stage::Ready(Proposal::Action(preview)) = &mut open.stage else { panic!("it is ready") };
    let text = "Argo CD owns spec.replicas here".to_owned();
    preview.findings.push(Finding { severity: Severity::Warning, rule: "applied-by", text });
    let shown = picture(&mut open, 80, 30);
    assert!(shown.contains("ctrl-s write it as a patch file instead"), "{shown}");
    let key = parse_chord("ctrl-s").expect("a key")[0].event();
    assert!(open.on_key(key).is_none(), "the keymap says what it does");
    let effects = open.save_patch().expect("there is one");
    let [Effect::Write { path, text }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(path.to_str(), Some("scale-md-0.patch.yaml"));
    let patch: serde_json::Value = serde_saphyr::from_str(text).expect("YAML");
    let expected = serde_json::json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {"name": "md-0", "namespace": "prod", "annotations": {"a": null}}, "spec": {"replicas": 5}});
    assert_eq!(patch, expected);
}

fn type_in(open: &mut PreviewBox, text: &str) -> Vec<Answer> {
    let keys = text.chars().map(|c| c.to_string()).collect::<Vec<_>>().join(" ");
    parse_chord(&keys).expect("keys").into_iter().filter_map(|k| open.on_key(k.event())).collect()
}

#[test]
fn everything_that_matters_is_shown() {
    let text = picture(&mut ready(Risk::Medium, Severity::Warning), 70, 26);
    for part in [
        "scale to 5 MachineDeployment prod/md-0",
        "goes from 3 to 5 replicas",
        "x warning: the Cluster is paused",
        "(cluster-paused)",
        "* note: 2 Machines more",
        "now  nothing to do",
        "then next: scale MachineSet md-0-a 3 → 5",
        "     MachineSet md-0-a: next: create 2 Machines",
        "assumed: the template is there",
        "-   replicas: 3",
        "+   replicas: 5",
        "Type yes, then enter:",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(text.find("warning:") < text.find("note:"), "the gravest first");
    assert!(!text.contains('\x1b'));
}

#[test]
fn how_long_it_takes_stands_below_the_plan() {
    let course = vec![
        "done in about 40 to 90 seconds, never below 3 available".to_owned(),
        "1 member of etcd may fail at any moment\x1b[2J".to_owned(),
    ];
    let change = PlanChange { before: "nothing to do".to_owned(), course, ..PlanChange::default() };
    let lines: Vec<String> = outlook(&Outlook::Known(change), 70).into_iter().map(|(_, line)| line).collect();
    assert_eq!(
        lines[1..],
        [
            "now  nothing to do",
            "after done in about 40 to 90 seconds, never below 3 available",
            "      1 member of etcd may fail at any moment\u{fffd}[2J",
        ]
    );
}

/// As the dashboard does: what the dialog does not take itself may be bound to a yes.
fn enter(open: &mut PreviewBox) -> Vec<Effect> {
    let event = parse_chord("enter").expect("a key")[0].event();
    match open.on_key(event) {
        Some(Answer::Effects(effects)) => effects,
        Some(_) => Vec::new(),
        None => open.confirm(),
    }
}

fn read(risk: Risk, severity: Severity) -> PreviewBox {
    let mut open = ready(risk, severity);
    picture(&mut open, 70, 26);
    open
}

#[test]
fn enter_twice_in_a_row_confirms_what_can_break_little() {
    let mut open = read(Risk::Low, Severity::Warning);
    assert!(enter(&mut open).is_empty());
    assert!(picture(&mut open, 70, 26).contains("Enter again does it."));
    assert!(matches!(enter(&mut open).as_slice(), [Effect::Perform { ticket: 7, .. }]));
    assert!(enter(&mut open).is_empty() && !open.can_close(), "it is sent once");
    let mut open = read(Risk::Low, Severity::Warning);
    assert!(enter(&mut open).is_empty() && type_in(&mut open, "j").is_empty());
    assert!(enter(&mut open).is_empty(), "another key came between");
    assert!(!enter(&mut open).is_empty());
}

/// `y` was both "YAML" and "yes": whoever went on typing confirmed.
#[test]
fn no_letter_confirms() {
    for risk in [Risk::Low, Risk::Medium, Risk::High] {
        for letter in ('a'..='z').chain('A'..='Z') {
            let mut open = read(risk, Severity::Warning);
            let answers = type_in(&mut open, &letter.to_string());
            assert!(answers.iter().all(|a| matches!(a, Answer::Handled)), "{letter}");
            assert!(enter(&mut open).is_empty(), "{letter}");
        }
    }
}

#[test]
fn more_risk_wants_a_word() {
    for (risk, word, other) in [(Risk::Medium, "yes", "md-0"), (Risk::High, "md-0", "yes")] {
        let mut open = read(risk, Severity::Warning);
        assert!(picture(&mut open, 70, 26).contains(&format!("Type {word}, then enter:")));
        assert!(enter(&mut open).is_empty() && enter(&mut open).is_empty(), "nothing was typed");
        type_in(&mut open, other);
        assert!(enter(&mut open).is_empty(), "{other}");
        let missed = format!("That is another word. Type {word}, then enter: {other}");
        assert!(picture(&mut open, 70, 26).contains(&missed), "nothing said that enter had no effect");
        type_in(&mut open, "x");
        assert!(!picture(&mut open, 70, 26).contains("another word"), "it is being written anew");
        let mut open = read(risk, Severity::Warning);
        type_in(&mut open, word);
        assert!(matches!(enter(&mut open).as_slice(), [Effect::Perform { ticket: 7, .. }]));
        assert!(enter(&mut open).is_empty() && !open.can_close(), "it is sent once");
    }
}

/// At 40x8 the warning was below the edge, and the dialog took the confirmation.
#[test]
fn what_was_not_shown_cannot_be_confirmed() {
    for risk in [Risk::Low, Risk::Medium, Risk::High] {
        let area = Rect::new(0, 0, 40, 8);
        let mut open = ready(risk, Severity::Warning);
        type_in(&mut open, "yes");
        assert!(enter(&mut open).is_empty() && enter(&mut open).is_empty(), "never drawn");
        let text = picture(&mut open, 40, 8);
        assert!(text.contains("more lines below") && text.contains("Scroll to the end first"), "{text}");
        type_in(&mut open, "md-0");
        assert!(enter(&mut open).is_empty() && enter(&mut open).is_empty());
        while picture(&mut open, 40, 8).contains("Scroll to the end") {
            open.step(Motion::Down, area);
        }
        let text = picture(&mut open, 40, 8);
        assert!(text.contains("+   replicas: 5"), "{text}");
        let asked = ["Enter twice does it.", "Type yes, then enter:", "Type md-0, then enter:"];
        assert!(text.contains(asked[risk as usize]) && text.contains("esc leave it as it is"), "{text}");
        assert!(open.typed.value().is_empty(), "what was typed before counts for nothing");
    }
}

#[test]
fn a_blocked_action_cannot_be_confirmed() {
    for risk in [Risk::Low, Risk::Medium, Risk::High] {
        let mut open = read(risk, Severity::Blocker);
        assert!(enter(&mut open).is_empty() && enter(&mut open).is_empty());
        assert!(type_in(&mut open, "md-0").is_empty(), "there is no field");
        let text = picture(&mut open, 70, 20);
        assert!(
            text.contains("! blocked: the Cluster is paused") && text.contains("cannot be done now"),
            "{text}"
        );
    }
    let mut asking = PreviewBox::new(1, SourceId(0), Order::Action(request()), 0);
    picture(&mut asking, 70, 20);
    assert!(enter(&mut asking).is_empty() && enter(&mut asking).is_empty(), "nothing is known yet");
}

#[test]
fn no_size_breaks_it() {
    for width in 0..90 {
        for height in 0..24 {
            picture(&mut ready(Risk::High, Severity::Warning), width, height);
        }
    }
}
