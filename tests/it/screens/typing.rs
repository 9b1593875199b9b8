//! What is typed by mistake changes nothing.

use std::collections::BTreeMap;

use capstan_dashboard::tui::keymap::Keymap;

use super::*;

/// One key of each sort: others of a sort do the same. And every key that changes something.
fn letters() -> (Vec<String>, Vec<String>) {
    let keymap = Keymap::load("default", None, command::check).expect("shipped");
    let mut sorts: BTreeMap<String, String> = BTreeMap::from([("unbound".to_owned(), "x".to_owned())]);
    let mut writes = Vec::new();
    for (_, keys, line) in keymap.all().filter(|(_, keys, _)| keys.chars().count() == 1) {
        let command = command::behind(line).expect("shipped keymaps name commands");
        let sort = match (command.writes(), line) {
            (true, _) => {
                writes.push(keys.clone());
                format!("writes {}", line.starts_with("prompt"))
            }
            (false, "filter" | "prompt") => line.to_owned(),
            (false, _) => format!("{:?}", command.scope),
        };
        sorts.insert(sort, keys);
    }
    (sorts.into_values().collect(), writes)
}

/// In details `/` was refused, and of what one went on typing `p` paused the cluster, confirmed by `y`.
#[test]
fn no_three_letters_after_a_slash_change_anything() {
    let (letters, writes) = letters();
    assert!(
        letters.len() >= 10 && ["p", "P", "r", "s", "v"].iter().all(|key| writes.iter().any(|w| w == key))
    );
    for opened in [
        "",
        "enter",
        "enter down",
        "w",
        "d 2",
        "d 3",
        "d 4",
        "2",
        "R",
        "t",
        "?",
        "!",
        "enter down \":scale 5\" enter",
    ] {
        let mut model = sample(PLAIN);
        let old = "this server offers Cluster API only as v1beta1";
        update(&mut model, Msg::Fleet(vec![fixture::notice(old)]));
        keys(&mut model, opened);
        let before = (model.overlays.len(), model.screens.len());
        let mut pairs: Vec<[&str; 2]> = writes.iter().map(|key| [key.as_str(), "x"]).collect();
        pairs.extend(letters.iter().flat_map(|a| letters.iter().map(|b| [a.as_str(), b.as_str()])));
        for [a, b] in pairs {
            // Backspace takes the third letter away again, so that each third comes right after the two.
            let thirds = letters.iter().flat_map(|c| [c.as_str(), "backspace"]);
            for key in ["/", a, b].into_iter().chain(thirds).chain(["esc"]) {
                for effect in keys(&mut model, key) {
                    let changes = matches!(effect, Effect::Preview { .. } | Effect::Perform { .. });
                    assert!(!changes, "{opened}: /{a}{b} and {key}: {effect:?}");
                }
            }
            let after = (model.overlays.len(), model.screens.len());
            assert_eq!(after, before, "{opened}: /{a}{b} left something open");
        }
    }
}

/// `s` on a Cluster opened its prompt; what was typed there was refused only at its end.
#[test]
fn a_refused_prompt_eats_what_is_typed_for_it() {
    for (eyes, why) in [
        (PLAIN, "a Cluster does not take `scale`"),
        (Eyes { read_only: true, ..PLAIN }, "read-only: nothing can be changed from here"),
    ] {
        let mut model = sample(eyes);
        assert!(keys(&mut model, "s").is_empty());
        assert!(text(&mut model).contains(why), "{}", text(&mut model));
        let line = text(&mut model).lines().last().expect("a line").to_owned();
        assert!(line.ends_with("   enter goes on"), "the key is not the end of the sentence: {line}");
        assert!(keys(&mut model, "p q d 0").is_empty());
        assert_eq!((model.overlays.len(), model.screens.len()), (1, 1));
        keys(&mut model, "enter");
        assert!(model.overlays.is_empty());
    }
}
