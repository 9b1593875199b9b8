//! What keys do: the cursor, marks, an action from its key to its answer, keys of k9s, what is pasted.

use super::*;

#[test]
fn the_cursor_stays_on_its_object() {
    let mut model = sample(PLAIN);
    keys(&mut model, "down down");
    let before = model.selected();
    let mut later = fixture::large(5, 1);
    later.extend(fixture::sample());
    update(&mut model, Msg::Fleet(later));
    model.refresh();
    assert_eq!(model.selected(), before);
}

#[test]
fn read_only_opens_no_preview() {
    let mut model = sample(Eyes { read_only: true, ..PLAIN });
    for typed in ["ctrl-d", "r", "p", "P", "\":scale 5\" enter", "\":delete\" enter", "enter down r"] {
        let effects = keys(&mut model, typed);
        let writes = effects.iter().any(|e| matches!(e, Effect::Preview { .. } | Effect::Perform { .. }));
        assert!(!writes && model.overlays.is_empty(), "{typed}: {effects:?}");
    }
}

#[test]
fn pasted_text_runs_nothing() {
    let mut model = sample(PLAIN);
    assert!(update(&mut model, Msg::Paste("q\n:quit\n".to_owned())).is_empty());
    keys(&mut model, ":");
    assert!(update(&mut model, Msg::Paste("quit\n".to_owned())).is_empty());
    assert_eq!(model.overlays.len(), 1, "the line is open still");
}

#[test]
fn an_action_is_asked_for_shown_and_answered() {
    let mut model = sample(PLAIN);
    keys(&mut model, "\":tree prod-eu-1\" enter down");
    let effects = keys(&mut model, "\":scale 5\" enter");
    let [Effect::Preview { ticket, order: Order::Action(request), .. }] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    let asked = format!("{} {}", request.action, request.target);
    assert_eq!(asked, "scale to 5 KubeadmControlPlane prod/prod-eu-1-cp");
    assert!(text(&mut model).contains("asking the server what would happen"));
    let late = EffectOutcome::Previewed { ticket: ticket + 1, result: Err("of another question".to_owned()) };
    update(&mut model, Msg::Done(late));
    assert!(text(&mut model).contains("asking the server"), "an answer to another question is dropped");
    let refused =
        EffectOutcome::Previewed { ticket: *ticket, result: Err("not allowed: patch it".to_owned()) };
    update(&mut model, Msg::Done(refused));
    let screen = text(&mut model);
    assert!(screen.contains("Nothing was changed") && screen.contains("not allowed: patch it"), "{screen}");
    keys(&mut model, "enter");
    assert!(model.overlays.is_empty());
    for (typed, said) in [
        ("\":scale many\" enter", "`many` is not a number of replicas"),
        ("\":rollout after soon\" enter", "`soon` is not a moment"),
        ("\":set-version 1.x\" enter", "`1.x` is not a version"),
        ("\":delete\" enter", "does not take `delete`"),
    ] {
        assert!(keys(&mut model, typed).is_empty(), "{typed}");
        assert!(text(&mut model).contains(said), "{typed}:\n{}", text(&mut model));
    }
}

/// The first object that arrived kept the cursor, and worse ones came in above it.
#[test]
fn the_cursor_is_on_top_until_it_is_moved() {
    let mut model = model(PLAIN, fixture::renewed("prod-eu-1"));
    draw(&mut model);
    update(&mut model, Msg::Fleet(fixture::sample()));
    let marked = |screen: &str| screen.lines().position(|line| line.starts_with('\u{258c}'));
    assert_eq!(marked(&text(&mut model)), Some(4));
    keys(&mut model, "d esc");
    let chosen = model.selected();
    let mut later = fixture::large(5, 1);
    later.extend(fixture::sample());
    update(&mut model, Msg::Fleet(later));
    model.refresh();
    assert_eq!(model.selected(), chosen);
}

#[test]
fn escape_on_a_line_of_notice_closes_only_the_notice() {
    let mut model = sample(PLAIN);
    keys(&mut model, "enter I");
    assert!(text(&mut model).contains("only in lists over the fleet"));
    keys(&mut model, "esc");
    assert!(!text(&mut model).contains("only in lists over the fleet"));
    assert_eq!(model.screens.len(), 2, "the tree is open still");
    keys(&mut model, "esc");
    assert_eq!(model.screens.len(), 1);
}

#[test]
fn letters_of_k9s_do_what_they_do_there() {
    let eyes = Eyes { keymap: "k9s", ..WIDE };
    for (typed, same) in [
        ("space", "m"),
        ("ctrl-z", "F"),
        ("N", "\":sort name\" enter"),
        ("enter - ", ""),
        ("d J", "d u"),
        ("l", "O"),
    ] {
        let (mut theirs, mut ours) = (sample(eyes), sample(WIDE));
        keys(&mut theirs, typed);
        keys(&mut ours, same);
        // The hints name the keys of each.
        let picture = |model: &mut Model| text(model).lines().rev().skip(1).collect::<Vec<_>>().join("\n");
        assert_eq!(picture(&mut theirs), picture(&mut ours), "{typed}");
    }
}

#[test]
fn escape_and_a_key_in_one_packet_are_two_keys() {
    // What the terminal's bytes ESC and / come to.
    let mut model = sample(PLAIN);
    keys(&mut model, "enter alt-/ \"policy\"");
    let screen = text(&mut model);
    assert!(screen.contains("/policy"), "the letters are a filter's:\n{screen}");

    // In a dialog escape closes it, and the key behind it is the screen's.
    for (one, two) in
        [("? alt-w", "? esc w"), ("? alt-enter", "? esc enter"), ("? ctrl-alt-w", "? esc ctrl-w")]
    {
        let (mut model, mut by_two) = (sample(PLAIN), sample(PLAIN));
        keys(&mut model, one);
        assert!(model.overlays.is_empty(), "{one}");
        keys(&mut by_two, two);
        assert_eq!(text(&mut model), text(&mut by_two), "{one}");
    }

    // A binding of its own keeps the key whole.
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("keymaps")).expect("a folder");
    std::fs::write(
        folder.path().join("keymaps/mine.toml"),
        "inherits = \"default\"\n[global]\nalt-y = \"help\"\n",
    )
    .expect("a keymap");
    let mut model = sample(PLAIN);
    model.look.keymap =
        Keymap::load("mine", Some(folder.path()), command::check).expect("a keymap that can be read");
    keys(&mut model, "alt-y");
    assert!(!model.overlays.is_empty());
}

#[test]
fn an_action_is_about_all_marked_rows() {
    let mut model = sample(PLAIN);
    keys(&mut model, "m m");
    let screen = text(&mut model);
    assert!(screen.contains("◆ 2 marked"), "{screen}");
    assert_eq!(screen.lines().filter(|line| line.starts_with('◆')).count(), 2, "{screen}");
    let effects = keys(&mut model, "p");
    assert_eq!(effects.iter().filter(|effect| matches!(effect, Effect::Preview { .. })).count(), 2);
    let screen = text(&mut model);
    assert!(screen.contains("pause of 2 objects") && screen.contains("asked about 0 of 2"), "{screen}");
    keys(&mut model, "esc");
    assert!(text(&mut model).contains("◆ 2 marked"), "the dialog alone was closed");
    keys(&mut model, "s");
    assert!(text(&mut model).contains("a Cluster does not take `scale`"));
    keys(&mut model, "esc esc");
    assert!(!text(&mut model).contains("marked"));
    let mut model = sample(Eyes { ascii: true, ..WIDE });
    keys(&mut model, "enter + M");
    let screen = text(&mut model);
    let marked = screen.lines().filter(|line| line.starts_with('#')).count();
    assert!(marked > 5 && screen.contains("marked"), "{screen}");
    keys(&mut model, "M");
    assert!(text(&mut model).lines().all(|line| !line.starts_with('#')), "none of them any more");
}
