//! Lists of all objects of a kind over the fleet: what stands in them, what narrows and orders them, and what may be done
//! from one.

use super::*;

/// The names in the rows on the screen, whatever the place in front of them.
fn rows(model: &mut Model) -> Vec<String> {
    let screen = text(model);
    let body = screen.lines().skip(4).take_while(|line| !line.starts_with('\u{2500}'));
    let cell = |line: &str, at: usize| line.chars().nth(at).is_some_and(|cell| cell != ' ');
    // A row has a glyph, and more lines of its reason have not.
    let rows = body.filter(|line| cell(line, 1) && cell(line, 3));
    let name = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    rows.filter_map(|line| name(line.trim_start_matches('\u{258c}'))).collect()
}

#[test]
fn lists_of_every_kind_look_as_recorded() {
    for (name, eyes, typed) in [
        ("machines-80x24", PLAIN, "\":machines\" enter"),
        ("machines-120x40", WIDE, "\":ma\" enter"),
        ("machines-200x50", LARGE, "\":machines\" enter"),
        ("machines-40x8", SMALL, "\":machines\" enter"),
        ("machines-wide-200x50", LARGE, "\":machines\" enter ctrl-w"),
        ("machines-filter-80x24", PLAIN, "\":machines\" enter / \"cp !ok\""),
        ("machinedeployments-80x24", PLAIN, "\":md\" enter"),
        ("machinesets-120x40", WIDE, "\":ms\" enter"),
        ("controlplanes-120x40", WIDE, "\":kcp\" enter"),
        ("machinepools-80x24", PLAIN, "\":pools\" enter"),
        ("machines-ascii", Eyes { ascii: true, tier: Tier::None, ..PLAIN }, "\":machines\" enter"),
    ] {
        let mut model = sample(eyes);
        keys(&mut model, typed);
        golden::screen(name, &text(&mut model));
    }
}

#[test]
fn a_list_opens_details_and_the_way_back_is_the_way_that_was_gone() {
    let mut model = sample(PLAIN);
    keys(&mut model, "\":tree edge-7\" enter \":machines\" enter enter");
    let lists: Vec<bool> = model.screens.iter().map(|s| matches!(s, Screen::Fleet(_))).collect();
    assert_eq!(lists, [true, false, true, false], "clusters, tree, list, details: {}", text(&mut model));
    keys(&mut model, "esc");
    assert!(matches!(model.screen(), Screen::Fleet(_)));
    keys(&mut model, "w");
    assert!(matches!(model.screen(), Screen::Details(_)), "why: {}", text(&mut model));
    keys(&mut model, "esc \":md\" enter \":md\" enter esc esc");
    assert!(matches!(model.screen(), Screen::Tree(_)), "the same list opens once");
    keys(&mut model, "\":machines\" enter o");
    assert!(matches!(model.screen(), Screen::Tree(_)), "the tree of its cluster");
}

/// `version:1.35` found nothing where VERSION showed v1.35.1, anchors meant all of the text, and no word of WHY was found.
#[test]
fn filters_are_about_what_the_columns_show() {
    for (opened, typed, expected) in [
        ("", "^prod-e", &["prod-eu-1"][..]),
        ("", "us-2$", &["prod-us-2"]),
        ("", "~^(edge|lab)", &["edge-7", "lab-3"]),
        ("\":machines\" enter", "~^edge-7-md cluster:^edge-7$ why:kubelet", &["edge-7-md-0-qq2lk-x8f4z"]),
        ("\":md\" enter", "name:^prod-eu !verdict:ok", &[]),
    ] {
        let mut model = sample(WIDE);
        keys(&mut model, &format!("{opened} / \"{typed}\" enter"));
        assert_eq!(rows(&mut model), expected, "{typed}: {}", text(&mut model));
    }
    // Each version that is shown finds its row, and a word of a reason the row with the reason.
    let mut model = sample(LARGE);
    for line in text(&mut model).lines().skip(4).take_while(|line| line.contains('/')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let version = words.iter().find_map(|word| word.strip_prefix("v1.")).expect("a version");
        let name = words.iter().find(|word| word.contains('-')).expect("a name").trim_start_matches("prod/");
        keys(&mut model, &format!("esc / \"version:1.{version}\" enter"));
        assert!(rows(&mut model).iter().any(|row| row.ends_with(name)), "{version}: {}", text(&mut model));
    }
}

#[test]
fn a_filter_that_cannot_be_understood_is_marked_where_it_is_wrong() {
    for (name, typed) in [
        ("filter-error-80x24", "/ \"edge age>9x\""),
        ("filter-error-field-80x24", "\":machines\" enter / \"cp versoin:1.35\""),
    ] {
        let mut model = sample(PLAIN);
        keys(&mut model, typed);
        golden::screen(name, &text(&mut model));
    }
}

#[test]
fn a_list_opens_narrowed() {
    for (typed, filter) in [
        ("\":machines /cp\" enter", "cp"),
        ("\":machines prod\" enter", "ns:^prod$"),
        ("\":ma version:1.3\" enter", "version:1.3"),
        ("\":clusters lab\" enter", "lab"),
    ] {
        let mut model = sample(PLAIN);
        keys(&mut model, typed);
        assert_eq!(model.screen().filter(), filter, "{typed}");
    }
}

#[test]
fn rows_are_ordered_by_every_column() {
    let mut model = sample(LARGE);
    keys(&mut model, "\":machines\" enter \":sort NAME\" enter");
    let by_name = rows(&mut model);
    assert!(by_name.is_sorted(), "{by_name:?}");
    keys(&mut model, "I");
    assert_eq!(rows(&mut model).first(), by_name.last());
    for word in ["status", "cluster", "since", "version", "node-name", "age", "phase", "ready"] {
        keys(&mut model, &format!("\":sort {word}\" enter"));
        assert!(text(&mut model).contains(&format!("by {word}")), "{word}: {}", text(&mut model));
        assert_eq!(rows(&mut model).len(), by_name.len());
    }
    keys(&mut model, "\":sort cp-available\" enter");
    assert!(text(&mut model).contains("there is no column"), "of clusters: {}", text(&mut model));
}

#[test]
fn actions_are_about_the_marked_rows_of_a_list() {
    let mut model = sample(PLAIN);
    let effects = keys(&mut model, "\":md\" enter m m \":scale 4\" enter");
    let asked = effects.iter().filter(|effect| matches!(effect, Effect::Preview { .. })).count();
    assert!(asked > 0 && matches!(model.overlays.last(), Some(Overlay::Many(_))), "{effects:?}");
    let mut model = sample(PLAIN);
    keys(&mut model, "\":machines\" enter M");
    assert!(text(&mut model).contains("16 marked"), "{}", text(&mut model));
}

/// A Machine whose Cluster is not there stood nowhere.
#[test]
fn what_belongs_to_no_cluster_is_listed() {
    let mut objects = fixture::Builder::default();
    objects.machine("stray", ("MachineSet", "gone", "x"), "gone", "v1.35.1", 5, "Running", &[]);
    let mut model = model(PLAIN, objects.deltas());
    keys(&mut model, "\":machines\" enter");
    assert_eq!(rows(&mut model), ["stray"]);
    keys(&mut model, "/ \"str\" enter");
    assert_eq!(rows(&mut model), ["stray"]);
}

/// Each change that a person could see in a list is drawn, and the list has what came and what went.
#[test]
fn a_list_follows_its_objects() {
    let mut model = sample(PLAIN);
    keys(&mut model, "\":machines\" enter");
    text(&mut model);
    assert!(!model.needs_frame);
    let mut objects = fixture::Builder::default();
    objects.machine("stray", ("MachineSet", "gone", "x"), "gone", "v1.35.1", 5, "Running", &[]);
    let came = fixture::with_uids(objects.deltas(), 7);
    update(&mut model, Msg::Fleet(came));
    assert!(model.needs_frame);
    model.now += chrono::Duration::minutes(1);
    update(&mut model, Msg::Tick);
    assert!(rows(&mut model).contains(&"stray".to_owned()), "{}", text(&mut model));
}

#[test]
fn conditions_of_a_kind_are_a_matrix_of_rows_that_open() {
    for (name, eyes, typed) in [
        ("conditions-80x24", PLAIN, "\":conditions\" enter"),
        ("conditions-120x40", WIDE, "\":conditions\" enter down"),
        ("conditions-200x50", LARGE, "\":conditions machines\" enter"),
        ("conditions-clusters-120x40", WIDE, "\":conditions clusters\" enter"),
        ("conditions-kcp-ascii", Eyes { ascii: true, tier: Tier::None, ..WIDE }, "\":conditions kcp\" enter"),
        ("conditions-40x8", SMALL, "\":cond\" enter"),
    ] {
        let mut model = sample(eyes);
        keys(&mut model, typed);
        golden::screen(name, &text(&mut model));
        keys(&mut model, "enter");
        assert!(matches!(model.screen(), Screen::Details(_)), "{name}: {}", text(&mut model));
    }
    let mut model = sample(PLAIN);
    keys(&mut model, "\":md\" enter \":conditions\" enter");
    assert!(text(&mut model).contains("conditions of machine deployments"), "{}", text(&mut model));
    keys(&mut model, "\":conditions pods\" enter");
    assert!(text(&mut model).contains("there is no list `pods`"), "{}", text(&mut model));
}

/// Nineteen of the 37 types are not those of Machines.
#[test]
fn a_condition_of_any_kind_is_listed() {
    for (typed, title) in [
        ("NodeHealthy", "NodeHealthy of machines 16: "),
        ("RollingOut", "RollingOut of clusters 4: 3 False, 1 True"),
        ("Available clusters", "Available of clusters 4: 2 False, 2 True"),
        ("scalingup clusters", "ScalingUp of clusters 4: "),
        ("nodehealthy kcp", "no object here has a condition `nodehealthy`"),
    ] {
        let mut model = sample(WIDE);
        keys(&mut model, &format!("\":condition {typed}\" enter"));
        assert!(text(&mut model).contains(title), "{typed}: {}", text(&mut model));
    }
    let mut model = sample(WIDE);
    keys(&mut model, "\":machines /cp\" enter \":conditions\" enter");
    assert_eq!(model.screen().filter(), "cp", "of the rows that were listed");
    let mut model = sample(WIDE);
    keys(&mut model, "\":condition NodeHealthy\" enter enter");
    assert!(matches!(model.screen(), Screen::Details(_)), "the worst one: {}", text(&mut model));
}

#[test]
fn lists_show_one_namespace_or_all() {
    let mut model = sample(PLAIN);
    let others = fixture::with_uids(fixture::sample(), 3).into_iter().map(|delta| match delta {
        Delta::Upsert(row) => {
            let mut row = (*row).clone();
            row.namespace = "stage".into();
            Delta::Upsert(row.into())
        }
        other => other,
    });
    update(&mut model, Msg::Fleet(others.filter(|delta| matches!(delta, Delta::Upsert(_))).collect()));
    assert!(text(&mut model).contains("clusters 8"), "{}", text(&mut model));
    keys(&mut model, "\":ns stage\" enter");
    golden::screen("namespace-80x24", &text(&mut model));
    keys(&mut model, "\":machines\" enter");
    assert!(text(&mut model).contains("machines 16"), "{}", text(&mut model));
    keys(&mut model, "\":ns all\" enter");
    assert!(text(&mut model).contains("machines 32"), "{}", text(&mut model));
    keys(&mut model, "\":ns stagee\" enter");
    assert!(text(&mut model).contains("did you mean `stage`?"), "{}", text(&mut model));
    keys(&mut model, ": \"ns s\" tab enter");
    assert!(text(&mut model).contains("namespace stage"), "completed: {}", text(&mut model));
    keys(&mut model, "\":ns\" enter");
    assert!(text(&mut model).contains("clusters by namespace"), "{}", text(&mut model));
}

/// `:ctx ` listed nothing until tab was pressed.
#[test]
fn other_names_of_a_command_complete_its_argument() {
    let mut model = sample(PLAIN);
    model.contexts = vec!["prod-eu".to_owned(), "prod-us".to_owned()];
    keys(&mut model, ": \"ctx \"");
    let screen = text(&mut model);
    assert!(screen.contains("ctx prod-eu") && screen.contains("ctx prod-us"), "{screen}");
}
