//! Files of the configuration folder that change while the dashboard runs: what is taken, and what is said.

use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::effect::{Effect, EffectOutcome, Reread};
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::update::update;
use ratatui::layout::Rect;

use crate::fleet_fixture::{self as fixture, now};

/// The folder with a file in it, and what is read of it.
fn look(
    folder: &tempfile::TempDir,
    name: &str,
    words: &str,
) -> Result<Look, capstan_base::toml_file::FileError> {
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, words).expect("a file");
    let config = Some(folder.path().to_path_buf());
    Look::load("default", "default", Tier::Ansi16, false, config, command::check)
}

fn reread(model: &mut Model, folder: &tempfile::TempDir, name: &str, words: &str, is_asked: bool) {
    let read = look(folder, name, words);
    let reread = Reread { changed: vec![folder.path().join(name)], is_asked, look: read.map(Box::new) };
    update(model, Msg::Done(EffectOutcome::Reread(reread)));
}

#[test]
fn what_changed_is_taken_and_an_error_leaves_what_was_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let first =
        look(&folder, "keymaps/default.toml", "description = \"mine\"\n[global]\n\"f9\" = \"rollouts\"");
    let first = first.expect("it loads");
    let mut model = Model::new(Session::default(), first, Rect::new(0, 0, 100, 30), now());
    update(&mut model, Msg::Fleet(fixture::sample()));
    let opens = |model: &mut Model, key: &str| {
        press(model, key).expect("a key");
        let screen = text(model);
        press(model, "esc").expect("a key");
        screen.contains("rollouts")
    };
    assert!(opens(&mut model, "f9"));
    let other =
        "description = \"mine\"\n[global]\n\"f8\" = \"rollouts\"\n\"esc\" = \"back\"\n\":\" = \"prompt\"";
    reread(&mut model, &folder, "keymaps/default.toml", other, false);
    assert!(
        text(&mut model).contains("keymaps/default.toml changed and was read again"),
        "{}",
        text(&mut model)
    );
    assert!(opens(&mut model, "f8") && !opens(&mut model, "f9"));
    // A change of the file alone: the error is said on the last line, and the keys stay with the screen.
    reread(&mut model, &folder, "keymaps/default.toml", "[global]\n\"f8\" = \"no-such\"", false);
    let screen = text(&mut model);
    assert!(model.overlays.is_empty() && screen.contains("keymaps/default.toml:2:"), "{screen}");
    assert!(screen.contains("what was loaded before"), "{screen}");
    assert!(opens(&mut model, "f8"));
    // With `:reload` the error stands in a dialog until the person closes it.
    let asked = press(&mut model, "\":reload\" enter").expect("keys");
    assert!(
        matches!(&asked[..], [Effect::Reread { theme, keymap }] if theme == "default" && keymap == "default")
    );
    reread(&mut model, &folder, "keymaps/default.toml", "[global]\n\"f8\" = \"no-such\"", true);
    assert!(text(&mut model).contains("The file was not taken"), "{}", text(&mut model));
}

#[test]
fn other_words_for_a_reason_are_on_the_next_frame() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = look(&folder, "explanations/default.toml", "").expect("it loads");
    let mut model = Model::new(Session::default(), first, Rect::new(0, 0, 160, 40), now());
    update(&mut model, Msg::Fleet(fixture::sample()));
    let before = text(&mut model);
    let words = "[Message.\"Kubelet stopped posting node status.\"]\ncheck = \"Call the night shift.\"";
    reread(&mut model, &folder, "explanations/default.toml", words, false);
    let after = text(&mut model);
    assert!(!before.contains("Call the night shift.") && after.contains("Call the night shift."), "{after}");
}
