//! Screens while the fleet changes: what is drawn, and which rows move.

use std::sync::Arc;

use capstan_dashboard::fleet::{Kind, Uid};

use super::*;

/// The first row of a batch with another resource version.
pub(super) fn touched(deltas: &[Delta], version: u64) -> Delta {
    let row = deltas.iter().find_map(|d| match d {
        Delta::Upsert(row) => Some(row),
        _ => None,
    });
    let mut row = row.expect("a row").as_ref().clone();
    row.resource_version = 1_000_000 + version;
    Delta::Upsert(Arc::new(row))
}

/// Frames cost most of what news cost: those that nobody sees are not drawn.
#[test]
fn news_of_what_is_not_on_the_screen_draws_nothing() {
    let fleet = fixture::large(100, 2);
    let news = |kind: Kind, cluster: &str, at: u64| {
        let of_cluster = |delta: &Delta| match delta {
            Delta::Upsert(row) if row.cluster.as_ref() == cluster && row.kind == kind => {
                let mut row = (**row).clone();
                row.resource_version += at;
                Some(Delta::Upsert(Arc::new(row)))
            }
            _ => None,
        };
        Msg::Fleet(fleet.iter().filter_map(of_cluster).collect())
    };
    let mut model = model(PLAIN, fleet.clone());
    text(&mut model);
    model.was_drawn();
    for at in 1..50 {
        update(&mut model, news(Kind::Machine, "bulk-0099", at));
        assert!(!model.needs_frame, "change {at}");
    }
    update(&mut model, news(Kind::Machine, "bulk-0001", 1));
    assert!(!model.needs_frame, "its line says nothing of Machines that stay well");
    update(&mut model, news(Kind::Cluster, "bulk-0001", 1));
    assert!(model.needs_frame, "this one is on the screen");
    keys(&mut model, "end");
    text(&mut model);
    model.was_drawn();
    update(&mut model, news(Kind::Cluster, "bulk-0099", 50));
    assert!(model.needs_frame, "and so is that one now");
}

#[test]
fn rows_stay_where_they_are_while_somebody_is_at_the_keys() {
    let mut model = sample(PLAIN);
    text(&mut model);
    let broken = model.fleet.rows().find(|(_, row)| row.name.as_ref() == "edge-7").expect("there").1.clone();
    let mut new = (*broken).clone();
    (new.name, new.cluster) = ("zz-new".into(), "zz-new".into());
    new.uid = Uid::parse("zz-new");
    let place = |model: &mut Model| {
        text(model)
            .lines()
            .filter(|line| line.contains(" edge-7") || line.contains("prod") || line.contains(" zz-new"))
            .position(|line| line.contains("zz-new"))
    };
    keys(&mut model, "down");
    update(&mut model, Msg::Fleet(vec![Delta::Upsert(Arc::new(new))]));
    assert!(place(&mut model).is_some_and(|at| at >= 3), "it stands last\n{}", text(&mut model));
    assert!(model.wakes_in_s().is_some_and(|s| s <= 3));
    model.was_drawn();
    model.now += chrono::TimeDelta::seconds(4);
    update(&mut model, Msg::Tick);
    assert!(model.needs_frame, "now it may move");
    assert_eq!(place(&mut model), Some(1), "\n{}", text(&mut model));
}

#[test]
fn what_a_person_shelves_is_quiet_and_said() {
    let mut model = sample(WIDE);
    text(&mut model);
    keys(&mut model, "n a");
    let id = model.selected_row().expect("a cluster");
    assert!(model.fleet.mark(id).is_some_and(|mark| !mark.is_shelf()));
    assert!(text(&mut model).contains("seen"), "{}", text(&mut model));
    keys(&mut model, "a");
    assert!(model.fleet.mark(id).is_none(), "taken back");
    keys(&mut model, "A \"8h\" enter");
    assert!(text(&mut model).contains("a reason is needed"), "{}", text(&mut model));
    keys(&mut model, "A \"8h new disk\" enter");
    let picture = text(&mut model);
    assert!(picture.contains("shelved 8h00m (new disk)") && picture.contains("1 shelved"), "{picture}");
    keys(&mut model, "n");
    assert!(
        text(&mut model).contains("nothing here is at fault"),
        "it was the only one\n{}",
        text(&mut model)
    );
}
