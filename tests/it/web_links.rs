//! Addresses of the web on the screen: which cells lead where, what a cluster cannot make a link of, and what is copied instead.

use capstan_dashboard::fleet::watch::{EventLine, ObjectNews};
use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::reads::Reading;
use capstan_dashboard::tui::screen::Screen;
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::subject::Subject;
use capstan_dashboard::tui::update::update;
use capstan_dashboard::tui::view::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::{Value, json};

use crate::fleet_fixture::{self as fixture, now};

const RUNBOOK: &str =
    "https://wiki.example/a/page/with/a/name/that/does/not/fit/into/eighty/columns/nodes/not-healthy";

/// A model over the sample fleet with files of a configuration folder.
fn model(width: u16, files: &[(&str, &str)]) -> Model {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let config = Some(folder.path().to_path_buf());
    let look =
        Look::load("default", "default", Tier::Ansi16, false, config, command::check).expect("files load");
    let mut model = Model::new(Session::default(), look, Rect::new(0, 0, width, 40), now());
    update(&mut model, Msg::Fleet(fixture::sample()));
    model
}

/// The text of every link on the screen, piece by piece, with where it leads.
fn links(model: &mut Model) -> Vec<(String, String)> {
    model.refresh();
    let area = model.area;
    let mut buffer = Buffer::empty(area);
    let drawn = view(model, area, &mut buffer);
    let mut all: Vec<(String, String)> = Vec::new();
    for y in 0..area.height {
        let mut before: Option<u32> = None;
        for x in 0..area.width {
            let cell = &buffer[(x, y)];
            let link = drawn.links.of(cell);
            match (link, all.last_mut()) {
                (Some((number, _)), Some((letters, _))) if before == Some(number) => {
                    letters.push_str(cell.symbol());
                }
                (Some((_, address)), _) => all.push((cell.symbol().to_owned(), address.to_owned())),
                (None, _) => {}
            }
            before = link.map(|(number, _)| number);
        }
    }
    all
}

fn followed(model: &mut Model, typed: &str, object: &Value) {
    for effect in press(model, typed).unwrap_or_else(|e| panic!("{typed}: {e}")) {
        if let Effect::Read { subject: subject @ Subject::Object(_), .. } = effect {
            let reading = Reading::Object(ObjectNews::Object(Box::new(object.clone())));
            update(model, Msg::Done(EffectOutcome::Read { subject, reading }));
        }
    }
}

#[test]
fn a_runbook_is_one_link_over_its_lines_and_can_be_copied() {
    let file = format!("[Message.\"Kubelet stopped posting node status.\"]\nrunbook = \"{RUNBOOK}\"");
    let mut model = model(80, &[("explanations/default.toml", &file)]);
    let runbook = |model: &mut Model| {
        let effects = press(model, "\":runbook\" enter").expect("keys");
        effects.into_iter().find_map(|effect| if let Effect::Copy(text) = effect { Some(text) } else { None })
    };
    let Some(id) = model
        .fleet
        .rows()
        .map(|(id, _)| id)
        .find(|id| model.fleet.explanation(*id).is_some_and(|words| words.runbook == RUNBOOK))
    else {
        panic!("a Machine of the sample has a Node that is not ready")
    };
    let name = model.fleet.row(id).expect("a row").name.to_string();
    followed(&mut model, &format!("\":find {name}\" enter d"), &json!({}));
    let found: Vec<_> = links(&mut model).into_iter().filter(|(_, address)| address == RUNBOOK).collect();
    assert!(found.len() > 1, "it is wrapped: {found:?}\n{}", text(&mut model));
    assert_eq!(found.iter().map(|(letters, _)| letters.as_str()).collect::<String>(), RUNBOOK);
    assert_eq!(runbook(&mut model).as_deref(), Some(RUNBOOK));
    // The line that says so has the link as well.
    assert!(text(&mut model).contains("the address of the runbook was sent"), "{}", text(&mut model));
}

#[test]
fn addresses_in_text_of_a_cluster_lead_to_what_they_show() {
    let mut model = model(120, &[]);
    followed(&mut model, "\":tree edge-7\" enter 3", &json!({}));
    let Screen::Details(open) = model.screen() else { panic!("details are open") };
    let subject = Subject::Events(open.target.clone());
    let event = |message: &str| EventLine {
        kind: "Cluster".to_owned(),
        name: "edge-7".to_owned(),
        last_seen: Some(now()),
        count: 1,
        warning: true,
        reason: "Told".to_owned(),
        from: "kubelet".to_owned(),
        message: message.to_owned(),
    };
    let events = [
        "see https://a.example/page.",
        // As a label with another address is after it was sanitised.
        "\u{fffd}]8;;https://evil.example/\u{fffd}\\click\u{fffd}]8;;\u{fffd}\\",
        "https://bank.example@evil.example/ javascript:alert(1) file:///etc/passwd",
    ]
    .map(event);
    let news = Reading::Object(ObjectNews::Events(events.to_vec()));
    update(&mut model, Msg::Done(EffectOutcome::Read { subject, reading: news }));
    let found = links(&mut model);
    assert_eq!(found, [("https://a.example/page".to_owned(), "https://a.example/page".to_owned())]);
    let Screen::Details(open) = model.screen() else { panic!("details are open") };
    let subject = Subject::Object(open.target.clone());
    let object = json!({"spec": {"url": "https://b.example/x?y=1#z", "other": "text"}});
    let reading = Reading::Object(ObjectNews::Object(Box::new(object)));
    update(&mut model, Msg::Done(EffectOutcome::Read { subject, reading }));
    press(&mut model, "y").expect("a key");
    assert_eq!(
        links(&mut model).into_iter().map(|(_, to)| to).collect::<Vec<_>>(),
        ["https://b.example/x?y=1#z"]
    );
}

#[test]
fn links_are_switched_while_it_runs() {
    let mut model = model(80, &[]);
    model.preferences.links = true;
    let switched = |model: &mut Model, typed: &str| {
        let effects = press(model, typed).expect("keys");
        effects.into_iter().find_map(|effect| if let Effect::Links(on) = effect { Some(on) } else { None })
    };
    assert_eq!(switched(&mut model, "\":links\" enter"), Some(false));
    assert_eq!(switched(&mut model, "\":links on\" enter"), Some(true));
    assert_eq!(switched(&mut model, "\":links maybe\" enter"), None);
    assert!(text(&mut model).contains("neither on nor off"));
    assert!(press(&mut model, "\":runbook\" enter").expect("keys").is_empty());
    assert!(text(&mut model).contains("no runbook is named"), "{}", text(&mut model));
}

#[test]
fn the_console_of_the_provider_is_shown_and_copied() {
    let file = "[cloud]\nprovider-id = \"cloud:///{zone}/{machine}\"\nconsole = \"https://cloud.example/{zone}/{machine}\"";
    let mut model = model(120, &[("consoles/default.toml", file)]);
    let with_id = |model: &Model| {
        let mut rows = model.fleet.rows();
        rows.find(|(_, row)| row.provider_id().is_some()).map(|(_, row)| row.name.to_string())
    };
    if with_id(&model).is_none() {
        update(&mut model, Msg::Fleet(fixture::older()));
    }
    let name = with_id(&model).expect("a Machine of the sample has a provider id");
    followed(&mut model, &format!("\":find {name}\" enter d"), &json!({}));
    let page = links(&mut model).into_iter().find(|(_, to)| to.starts_with("https://cloud.example/"));
    let (letters, page) = page.unwrap_or_else(|| panic!("{}", text(&mut model)));
    assert_eq!(letters, page);
    let copied = press(&mut model, "\":console\" enter").expect("keys");
    assert!(matches!(&copied[..], [Effect::Copy(text)] if *text == page), "{copied:?}");
}

#[test]
fn without_a_provider_id_or_a_console_it_is_said_what_is_missing() {
    let mut model = model(120, &[]);
    press(&mut model, "\":console\" enter").expect("keys");
    assert!(text(&mut model).contains("has no provider id"), "{}", text(&mut model));
    // An object that no row of the fleet is: its infrastructure.
    followed(
        &mut model,
        "\":tree prod-us-2\" enter d ] ] ] enter",
        &json!({"spec": {"providerID": "vsphere://42"}}),
    );
    press(&mut model, "\":console\" enter").expect("keys");
    assert!(text(&mut model).contains("no console is known for vsphere://42"), "{}", text(&mut model));
    let aws = json!({"spec": {"providerID": "aws:///eu-west-1a/i-0abc"}});
    followed(&mut model, "esc ] enter", &aws);
    assert!(
        text(&mut model).contains("console.aws.amazon.com/ec2/home?region=eu-west-1"),
        "{}",
        text(&mut model)
    );
}
