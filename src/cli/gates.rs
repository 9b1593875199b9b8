//! Upstream's feature gates, as far as they change what capstan does. Owns their words; must not know what they open.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use clap::Args;

use capstan_commands::arguments::HandlersArg;
use capstan_engine::controllers::in_place::Settings;
use k8s_machinery::lease;

/// Feature gates, closed by default as upstream.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Updates in place")]
pub struct GateArgs {
    /// Upstream's gates, with commas: `RuntimeSDK=true` registers extensions, `InPlaceUpdates=true` asks them
    ///
    /// Standalone, extensions are always registered.
    #[arg(long, value_name = "GATE=BOOL", value_delimiter = ',')]
    pub feature_gates: Vec<Gate>,
    /// How many extensions may answer a hook: `one`, as upstream, where several are an error; or their `union`, which
    /// upstream does not have
    #[arg(long, value_enum, default_value_t = HandlersArg::One, value_name = "HOW")]
    pub in_place_handlers: HandlersArg,
}

/// One gate, open or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    pub name: GateName,
    pub open: bool,
}

/// The gates that change what capstan does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateName {
    RuntimeSdk,
    InPlaceUpdates,
}

/// Text that is not a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAGate(String);

impl fmt::Display for NotAGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: expected RuntimeSDK or InPlaceUpdates, `=`, and true or false", self.0)
    }
}

impl std::error::Error for NotAGate {}

impl FromStr for Gate {
    type Err = NotAGate;

    fn from_str(text: &str) -> Result<Self, NotAGate> {
        let wrong = || NotAGate(text.to_owned());
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let name = match name.trim() {
            "RuntimeSDK" => GateName::RuntimeSdk,
            "InPlaceUpdates" => GateName::InPlaceUpdates,
            _ => return Err(wrong()),
        };
        Ok(Self { name, open: value.trim().parse().map_err(|_| wrong())? })
    }
}

impl GateArgs {
    /// The last word about a gate counts.
    fn stated(&self, name: GateName) -> Option<bool> {
        self.feature_gates.iter().rev().find(|gate| gate.name == name).map(|gate| gate.open)
    }

    fn is_open(&self, name: GateName) -> bool {
        self.stated(name).unwrap_or(false)
    }

    pub fn runtime_sdk(&self) -> bool {
        self.is_open(GateName::RuntimeSdk)
    }

    /// Without extensions, which the caller has.
    pub fn in_place(&self) -> Settings {
        let handlers = self.in_place_handlers.of();
        Settings { on: self.is_open(GateName::InPlaceUpdates), handlers, extensions: None }
    }
}

impl GateArgs {
    /// What an engine with these gates writes on its own Lease, for those who predict what it does.
    pub fn published(&self, registers_extensions: bool) -> BTreeMap<String, String> {
        let in_place = self.in_place();
        let gates = format!("RuntimeSDK={registers_extensions},InPlaceUpdates={}", in_place.on);
        BTreeMap::from([
            (lease::FEATURE_GATES.to_owned(), gates),
            (lease::IN_PLACE_HANDLERS.to_owned(), in_place.handlers.word().to_owned()),
        ])
    }

    /// The same where the gate is open unless it was closed: in the demo, which has a cluster to show it.
    pub fn in_place_unless_closed(&self) -> Settings {
        Settings { on: self.stated(GateName::InPlaceUpdates).unwrap_or(true), ..self.in_place() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_as_upstream_writes_them() {
        let gate = |text: &str| text.parse::<Gate>();
        assert_eq!(gate("InPlaceUpdates=true"), Ok(Gate { name: GateName::InPlaceUpdates, open: true }));
        assert_eq!(gate("RuntimeSDK=false"), Ok(Gate { name: GateName::RuntimeSdk, open: false }));
        for wrong in ["InPlaceUpdates", "ClusterTopology=true", "InPlaceUpdates=on", ""] {
            let said = gate(wrong).expect_err("not a gate").to_string();
            assert!(said.contains("expected RuntimeSDK or InPlaceUpdates"), "{said}");
        }
        let all = ["InPlaceUpdates=true", "InPlaceUpdates=false"].map(|text| gate(text).expect("a gate"));
        let args = GateArgs { feature_gates: all.into(), ..GateArgs::default() };
        let union = GateArgs { in_place_handlers: HandlersArg::Union, ..args.clone() }.published(true);
        assert_eq!(union[lease::FEATURE_GATES], "RuntimeSDK=true,InPlaceUpdates=false");
        assert_eq!(union[lease::IN_PLACE_HANDLERS], "union");
        assert!(!args.in_place().on && !args.in_place_unless_closed().on, "the last word counts");
        assert!(!GateArgs::default().in_place().on && GateArgs::default().in_place_unless_closed().on);
    }
}
