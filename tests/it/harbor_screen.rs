//! The dashboard over one settled cluster, `prod/harbor` with three control plane Machines, for screens about one cluster. Owns how
//! it is opened and typed at; what a screen shows is tested elsewhere.

use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::effect::Effect;
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::script::press;
use capstan_dashboard::tui::update::update;
use ratatui::layout::Rect;

use crate::fleet_fixture::{MachineState, OwnerState, RollingCluster, now};

/// The dashboard on a screen of this size.
pub fn model(width: u16, height: u16) -> Model {
    opened(width, height, false)
}

/// One that may not change anything.
pub fn read_only(width: u16, height: u16) -> Model {
    opened(width, height, true)
}

fn opened(width: u16, height: u16, read_only: bool) -> Model {
    let mut harbor = RollingCluster::new("harbor", OwnerState::settled("v1.35.1", 3));
    for suffix in ["8gtlh", "lkcfv", "85qjm"] {
        harbor.control_plane_machine(suffix, "v1.35.1", &MachineState::Old);
    }
    let look = Look::load("default", "default", Tier::None, false, None, command::check)
        .expect("shipped files load");
    let session = Session {
        title: "demo".to_owned(),
        scope: "all namespaces".to_owned(),
        read_only,
        ..Session::default()
    };
    let mut model = Model::new(session, look, Rect::new(0, 0, width, height), now());
    update(&mut model, Msg::Fleet(harbor.deltas()));
    update(&mut model, Msg::Tick);
    model
}

pub fn keys(model: &mut Model, keys: &str) -> Vec<Effect> {
    press(model, keys).unwrap_or_else(|e| panic!("{keys}: {e}"))
}

/// Types a command line; it is not sent.
pub fn begin(model: &mut Model, line: &str) -> Vec<Effect> {
    let key = |c: char| if c == ' ' { "space".to_owned() } else { c.to_string() };
    let all: Vec<String> = std::iter::once(":".to_owned()).chain(line.chars().map(key)).collect();
    keys(model, &all.join(" "))
}

/// Types a command line and sends it.
pub fn line(model: &mut Model, line: &str) -> Vec<Effect> {
    begin(model, line);
    keys(model, "enter")
}
