//! The main screens over the fleet that `capstan demo` opens on, lived through as the demo does it: as texts to read, and
//! as the pictures of the documentation.

use std::path::PathBuf;

use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_dashboard::actions::{Planner, authors};
use capstan_dashboard::fleet::watch::{self, ObjectNews, Scope, Source};
use capstan_dashboard::fleet::{FeedState, SourceId};
use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::plans::PlanReading;
use capstan_dashboard::tui::reads::Reading;
use capstan_dashboard::tui::script::{press, svg, text};
use capstan_dashboard::tui::subject::Subject;
use capstan_dashboard::tui::update::update;
use capstan_engine::client::Connection;
use ratatui::layout::Rect;

use super::golden;
use super::past::{self, now};

/// What is watched, and how plans are read.
struct Demo {
    model: Model,
    source: Source,
    planner: Planner,
}

impl Demo {
    /// Everything is listed, and the dashboard has been open for long enough to say what it holds for true.
    async fn open(connection: &Connection) -> Self {
        let clock = Clock::fixed(now());
        let id = SourceId(0);
        let (mut deltas, source) =
            watch::spawn(connection, id, Scope::default(), clock.clone(), Rng::seeded(7));
        let look = Look::load("default", "default", Tier::Ansi16, false, None, command::check);
        let session = Session {
            title: "demo".to_owned(),
            scope: "all namespaces".to_owned(),
            read_only: false,
            ..Session::default()
        };
        let area = Rect::new(0, 0, 110, 26);
        let mut model = Model::new(session, look.expect("shipped files load"), area, now());
        while !is_complete(&model) {
            update(&mut model, Msg::Fleet(deltas.recv().await.expect("feeds go on")));
        }
        Self { model, source, planner: Planner::new(connection.clone(), clock) }
    }

    /// Presses keys, and answers what they ask for.
    async fn press(&mut self, keys: &str) {
        for effect in press(&mut self.model, keys).expect("keys") {
            let outcome = match effect {
                Effect::Read { subject: Subject::Plans(cluster), .. } => {
                    let lists = self.planner.lists(&cluster.key).await.expect("lists");
                    let authors = authors(&lists);
                    // The pictures show what is planned; what follows is not run ahead in them.
                    let planned = self.planner.plans(lists, &cluster.key, &[]);
                    let (plans, ahead) = (Ok(planned.forecast), None);
                    let reading = Reading::Plans(PlanReading { plans, ahead, authors, took_ms: 1 });
                    EffectOutcome::Read { subject: Subject::Plans(cluster), reading }
                }
                Effect::Read { subject: Subject::Object(target), .. } => {
                    let news = self.source.follow(target.clone()).recv().await.expect("the object");
                    assert!(matches!(news, ObjectNews::Object(_)), "{news:?}");
                    EffectOutcome::Read { subject: Subject::Object(target), reading: Reading::Object(news) }
                }
                _ => continue,
            };
            update(&mut self.model, Msg::Done(outcome));
        }
    }
}

fn is_complete(model: &Model) -> bool {
    let feeds: Vec<_> = model.fleet.feeds().collect();
    let is_read = |kind: &str| feeds.iter().any(|(key, _)| key.kind.as_ref() == kind);
    is_read("KubeadmControlPlane")
        && is_read("Machine")
        && feeds.iter().all(|(_, feed)| matches!(feed.state, FeedState::Live))
}

#[tokio::test]
async fn the_main_screens_of_the_demo_look_as_recorded() {
    let stack = past::demo().await;
    let mut demo = Demo::open(&stack.connection("demo", true)).await;
    for (name, keys) in
        [("fleet", ""), ("tree", "\":tree borealis\" enter"), ("rollout", "2"), ("details", "esc esc w")]
    {
        demo.press(keys).await;
        golden::screen(&format!("demo-{name}"), &text(&mut demo.model));
        picture(name, &svg(&mut demo.model));
    }
}

fn picture(name: &str, drawn: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("docs/images/{name}.svg"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, drawn).expect("the folder of pictures can be written");
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == drawn, "docs/images/{name}.svg is out of date: UPDATE_GOLDEN=1 writes it anew");
}
