//! The list of commands.

use std::sync::LazyLock;

use super::entry::{ModelChange, also, command, only, takes};
use super::{
    Argument, Command, Kind, Run, Scope, ScreenKind, act, choose, columns, condition, configuration, find,
    groups, lists, logs, navigate as go, outside, past, quiet,
};
use crate::actions::{ACTIONS, ActionInfo};
use crate::fleet::Listed;
use crate::tui::cursor::Motion;
use crate::tui::screen::details::Tab;
use crate::tui::screen::tree::Fold;

/// One that opens a preview of what the screen would have done.
const fn order(name: &'static str, preview: ModelChange, help: &'static str) -> Command {
    Command { run: Run::Order(preview), ..command(name, Scope::View, preview, help) }
}

const fn motion(name: &'static str, change: ModelChange, help: &'static str) -> Command {
    command(name, Scope::Motion, change, help)
}

/// A list over the fleet, perhaps narrowed at once.
const fn list(listed: Listed, open: ModelChange, help: &'static str) -> Command {
    let command = command(listed.command(), Scope::Go, open, help);
    also(takes(command, Argument::Optional(Kind::Filter)), listed.aliases())
}

/// A row of the table of actions as a command.
fn action(info: &'static ActionInfo) -> Command {
    let argument =
        info.argument.name().map_or(Argument::None, |name| Argument::Required(Kind::OfAction(name)));
    let (name, aliases, help) = (info.name, info.aliases, info.help);
    Command {
        name,
        aliases,
        help,
        argument,
        scope: Scope::Object,
        on: ScreenKind::Any,
        run: Run::Action(info),
    }
}

/// Every command, in the order of help.
pub static TABLE: LazyLock<Vec<Command>> = LazyLock::new(|| {
    let actions = ACTIONS.iter().map(|info| action(info));
    SCREENS.iter().chain(past::COMMANDS).copied().chain(actions).chain(PROGRAM.iter().copied()).collect()
});

/// Commands before those that act on an object.
const SCREENS: &[Command] = &[
    list(Listed::Clusters, |m, words| lists::open(m, Listed::Clusters, words), "All clusters, one row each."),
    list(Listed::Machines, |m, words| lists::open(m, Listed::Machines, words), "All Machines of the fleet."),
    list(
        Listed::MachineDeployments,
        |m, words| lists::open(m, Listed::MachineDeployments, words),
        "All MachineDeployments of the fleet.",
    ),
    list(
        Listed::MachineSets,
        |m, words| lists::open(m, Listed::MachineSets, words),
        "All MachineSets of the fleet.",
    ),
    list(
        Listed::ControlPlanes,
        |m, words| lists::open(m, Listed::ControlPlanes, words),
        "All control planes of the fleet, of any provider.",
    ),
    list(
        Listed::MachineHealthChecks,
        |m, words| lists::open(m, Listed::MachineHealthChecks, words),
        "All MachineHealthChecks of the fleet.",
    ),
    list(
        Listed::MachinePools,
        |m, words| lists::open(m, Listed::MachinePools, words),
        "All MachinePools of the fleet.",
    ),
    takes(
        command("tree", Scope::Go, go::tree, "The tree of the selected or named cluster."),
        Argument::Optional(Kind::Cluster),
    ),
    also(
        command(
            "details",
            Scope::Go,
            |m, _| go::details(m, Tab::Overview),
            "Everything about the selected object.",
        ),
        &["describe", "d"],
    ),
    command("yaml", Scope::Go, |m, _| go::details(m, Tab::Yaml), "The selected object as YAML."),
    also(
        command("events", Scope::Go, |m, _| go::details(m, Tab::Events), "Events about the selected object."),
        &["ev"],
    ),
    command(
        "plan",
        Scope::Go,
        |m, _| go::details(m, Tab::Plan),
        "What happens next to the selected object, and why not yet.",
    ),
    command(
        "timeline",
        Scope::Go,
        |m, _| go::details(m, Tab::Timeline),
        "What happened to the selected object; in a cluster, to all of it.",
    ),
    takes(
        command(
            "changes",
            Scope::Go,
            past::changes,
            "Fields of the selected object that change; since TIME, what differs.",
        ),
        Argument::Optional(Kind::PastSpan),
    ),
    command(
        "revisions",
        Scope::Go,
        |m, _| lists::revisions(m),
        "The MachineSets of a MachineDeployment: versions and templates.",
    ),
    command(
        "rollout",
        Scope::Go,
        |m, _| go::rollout(m),
        "What the cluster replaces: now, next, held, when through.",
    ),
    command(
        "rollouts",
        Scope::Go,
        |m, _| go::rollouts(m),
        "Every cluster that rolls, is scheduled to, or just did.",
    ),
    takes(
        command("etcd", Scope::Go, go::etcd, "The etcd of the cluster: members, alarms, what may be lost."),
        Argument::Optional(Kind::Cluster),
    ),
    also(
        takes(
            command(
                "leases",
                Scope::Go,
                go::leases,
                "Locks: who holds which Lease, who runs what, what is odd.",
            ),
            Argument::Optional(Kind::Cluster),
        ),
        &["locks"],
    ),
    also(
        takes(
            command(
                "logs",
                Scope::Go,
                logs::open,
                "What controllers say of the selected object, or a Pod of its cluster.",
            ),
            Argument::Optional(Kind::Pod),
        ),
        &["log"],
    ),
    command("host-log", Scope::Go, logs::of_host, "What the bootstrap run of the Host or Machine says."),
    takes(
        command(
            "leader-migration",
            Scope::Go,
            go::leader_migration,
            "How far its leader migration is, and the next step with its way back.",
        ),
        Argument::Optional(Kind::Cluster),
    ),
    takes(
        command(
            "change",
            Scope::Go,
            configuration::open,
            "The kubeadm configuration of the cluster, and what a change of it means.",
        ),
        Argument::Optional(Kind::Cluster),
    ),
    takes(
        command(
            "simulate",
            Scope::Go,
            go::simulate,
            "The cluster run ahead of time: how long, how low, step by step.",
        ),
        Argument::Optional(Kind::Cluster),
    ),
    only(
        ScreenKind::Change,
        takes(
            command(
                "set",
                Scope::View,
                configuration::stage,
                "Stage a change: PATH=VALUE; `null` takes a value away.",
            ),
            Argument::Required(Kind::Attribute),
        ),
    ),
    only(
        ScreenKind::Change,
        takes(
            command(
                "unset",
                Scope::View,
                configuration::unstage,
                "Take a staged change back; without a path, all.",
            ),
            Argument::Optional(Kind::Attribute),
        ),
    ),
    only(
        ScreenKind::Change,
        order(
            "apply",
            |m, _| configuration::carry_out(m),
            "Carry out what is staged, or go on with the change that was begun.",
        ),
    ),
    only(
        ScreenKind::Change,
        order(
            "rollback",
            |m, _| configuration::take_back(m),
            "Take the last change of the configuration back.",
        ),
    ),
    only(
        ScreenKind::Simulation,
        takes(
            command(
                "what-if",
                Scope::View,
                go::what_if,
                "Try a change in the simulation; without one, none.",
            ),
            Argument::Optional(Kind::WhatIf),
        ),
    ),
    only(
        ScreenKind::Simulation,
        command("other-forecast", Scope::View, |m, _| go::other_forecast(m), "The chart of the other one."),
    ),
    command("owner", Scope::Go, |m, _| go::owner(m), "Details of what owns the selected object."),
    also(
        command("why", Scope::Go, |m, _| go::why(m), "To what explains its state; again: to the next cause."),
        &["cause"],
    ),
    takes(
        command("find", Scope::Go, find::find, "Any object by some letters of its name, or by its Node."),
        Argument::Required(Kind::Object),
    ),
    takes(
        command(
            "get",
            Scope::Go,
            lists::objects,
            "Any kind that the server has, by its names; `:KIND` does as well.",
        ),
        Argument::Required(Kind::AnyKind),
    ),
    takes(
        command(
            "condition",
            Scope::Go,
            condition::condition,
            "How one condition stands on all Machines here, or on all of a KIND.",
        ),
        Argument::Required(Kind::Condition),
    ),
    also(
        takes(
            command(
                "conditions",
                Scope::Go,
                condition::conditions,
                "All conditions of all Machines here, or of a kind: a column for each.",
            ),
            Argument::Optional(Kind::Listed),
        ),
        &["cond"],
    ),
    also(
        takes(
            command(
                "ns",
                Scope::Go,
                lists::namespace,
                "Lists show one namespace, or `all`; alone: how each is.",
            ),
            Argument::Optional(Kind::Namespace),
        ),
        &["namespace", "namespaces"],
    ),
    also(
        takes(
            command(
                "groups",
                Scope::Go,
                groups::groups,
                "Clusters by namespace, class, version or label, and how they are.",
            ),
            Argument::Required(Kind::Grouping),
        ),
        &["group"],
    ),
    command("notices", Scope::Go, |m, _| go::notices(m), "What could not be read, and why, in full."),
    command(
        "sources",
        Scope::Go,
        |m, _| go::sources(m),
        "Which kinds are read, and how old what is shown of each is.",
    ),
    command("back", Scope::Go, |m, _| go::back(m), "Clear the filter, then marks, else the screen before."),
    command("leave", Scope::Go, |m, _| go::leave(m), "The screen before; quit on the first one."),
    motion("up", |m, _| go::step(m, Motion::Up), "One line up."),
    motion("down", |m, _| go::step(m, Motion::Down), "One line down."),
    motion("page-up", |m, _| go::step(m, Motion::PageUp), "One page up."),
    motion("page-down", |m, _| go::step(m, Motion::PageDown), "One page down."),
    motion("half-page-up", |m, _| go::step(m, Motion::HalfUp), "Half a page up."),
    motion("half-page-down", |m, _| go::step(m, Motion::HalfDown), "Half a page down."),
    motion("top", |m, _| go::step(m, Motion::Top), "To the first line."),
    motion("bottom", |m, _| go::step(m, Motion::Bottom), "To the last line."),
    takes(
        command(
            "filter",
            Scope::View,
            go::filter,
            "Only lines with these words, not `!word`; in a text, find them.",
        ),
        Argument::Optional(Kind::Text),
    ),
    only(
        ScreenKind::Details,
        command("find-next", Scope::View, |m, _| go::find(m, true), "To the next place with the words."),
    ),
    only(
        ScreenKind::Details,
        command("find-previous", Scope::View, |m, _| go::find(m, false), "To the place before with them."),
    ),
    only(
        ScreenKind::Fleet,
        takes(
            command("sort", Scope::View, lists::sort, "Order the list by a column."),
            Argument::Required(Kind::Column),
        ),
    ),
    only(
        ScreenKind::List,
        command("sort-next", Scope::View, |m, _| lists::sort_next(m), "Another order: the next column."),
    ),
    only(
        ScreenKind::Fleet,
        command("sort-reverse", Scope::View, |m, _| lists::sort_reverse(m), "Turn the order round."),
    ),
    command(
        "wide",
        Scope::View,
        |m, _| go::wide(m),
        "The columns of `-o wide` too, as far as they fit; or not.",
    ),
    only(
        ScreenKind::List,
        command("faults", Scope::View, |m, _| go::faults(m), "Only what is not well, or all again."),
    ),
    only(
        ScreenKind::List,
        command("next-fault", Scope::View, |m, _| go::fault(m, true), "To the next that is at fault."),
    ),
    only(
        ScreenKind::List,
        command("previous-fault", Scope::View, |m, _| go::fault(m, false), "To the one before."),
    ),
    only(
        ScreenKind::List,
        command(
            "mark",
            Scope::View,
            |m, _| choose::mark(m),
            "Mark the row, or not: actions are then about all that is marked.",
        ),
    ),
    only(
        ScreenKind::List,
        command("mark-all", Scope::View, |m, _| choose::mark_all(m), "Mark all rows of the list, or none."),
    ),
    only(
        ScreenKind::Fleet,
        takes(
            command(
                "columns",
                Scope::View,
                columns::choose,
                "Columns by name, and fields by path; without any, the usual ones.",
            ),
            Argument::Optional(Kind::Columns),
        ),
    ),
    only(
        ScreenKind::Folds,
        command("fold", Scope::View, |m, _| go::fold(m, Fold::Close), "Close the node, or go to its parent."),
    ),
    only(
        ScreenKind::Folds,
        command(
            "unfold",
            Scope::View,
            |m, _| go::fold(m, Fold::Open),
            "Open the node, or go to its first child.",
        ),
    ),
    only(
        ScreenKind::Folds,
        command(
            "toggle",
            Scope::View,
            |m, _| go::fold(m, Fold::Toggle),
            "Open or close the node, the block or the message.",
        ),
    ),
    only(
        ScreenKind::Folds,
        command("fold-all", Scope::View, |m, _| go::fold_all(m, false), "Close every node or block."),
    ),
    only(
        ScreenKind::Folds,
        command("unfold-all", Scope::View, |m, _| go::fold_all(m, true), "Open every node or block."),
    ),
    only(
        ScreenKind::Tree,
        command(
            "objects",
            Scope::View,
            |m, _| go::objects(m),
            "Infrastructure and bootstrap of all Machines, or not.",
        ),
    ),
    only(
        ScreenKind::Details,
        command("next-link", Scope::View, |m, _| go::link(m, true), "To the next related object."),
    ),
    only(
        ScreenKind::Details,
        command("previous-link", Scope::View, |m, _| go::link(m, false), "To the related object before."),
    ),
    only(
        ScreenKind::Details,
        command("follow", Scope::Go, |m, _| go::follow(m), "Open the chosen related object."),
    ),
    only(
        ScreenKind::Pages,
        command("next-tab", Scope::View, |m, _| go::turn(m, 1), "The next tab of the details."),
    ),
    only(ScreenKind::Pages, command("previous-tab", Scope::View, |m, _| go::turn(m, -1), "The tab before.")),
];

/// Commands after those that act on an object.
const PROGRAM: &[Command] = &[
    Command {
        scope: Scope::Object,
        ..order("edit", |m, _| m.begin_edit(), "The selected object as text in your editor, then a preview.")
    },
    takes(
        Command {
            scope: Scope::Object,
            ..order("shell", outside::shell, "A shell with the kubeconfig of the cluster; it may write.")
        },
        Argument::Optional(Kind::Cluster),
    ),
    takes(
        command(
            "plugin",
            Scope::Object,
            |m, name| m.begin_plugin(name),
            "A command of your own on the object, shown before it runs.",
        ),
        Argument::Required(Kind::Plugin),
    ),
    also(
        command(
            "acknowledge",
            Scope::Object,
            |m, _| quiet::acknowledge(m),
            "Seen: quiet until it is well or worse. Again: not.",
        ),
        &["ack"],
    ),
    takes(
        command(
            "shelve",
            Scope::Object,
            quiet::shelve,
            "Aside for so long, at most 7d, with a reason; or `off`.",
        ),
        Argument::Required(Kind::TimeAndReason),
    ),
    takes(
        command(
            "report",
            Scope::Object,
            outside::report,
            "How its cluster is, why and what happened, as Markdown into a new file.",
        ),
        Argument::Required(Kind::File),
    ),
    command(
        "console",
        Scope::Object,
        |m, _| outside::console(m),
        "The page of its machine in the provider's console, to the clipboard.",
    ),
    command(
        "runbook",
        Scope::Object,
        |m, _| outside::runbook(m),
        "The address of the runbook for its state, to the clipboard.",
    ),
    command("copy", Scope::Object, |m, _| go::copy(m), "Its name, or the open YAML, to the clipboard."),
    takes(
        command("prompt", Scope::Program, go::prompt, "The command line, perhaps begun."),
        Argument::Optional(Kind::CommandLine),
    ),
    also(command("help", Scope::Program, |m, _| go::help(m), "This."), &["?", "h"]),
    takes(
        command("theme", Scope::Program, go::theme, "Other colours, read from its file again."),
        Argument::Required(Kind::Theme),
    ),
    takes(
        command("keymap", Scope::Program, go::keymap, "Other keys, read from their file again."),
        Argument::Required(Kind::Keymap),
    ),
    command(
        "reload",
        Scope::Program,
        |m, _| outside::reload(m),
        "Themes, keymaps, explanations, consoles and plugins, read again.",
    ),
    also(
        takes(
            command(
                "context",
                Scope::Program,
                go::context,
                "Another server of the kubeconfig, in place of this one.",
            ),
            Argument::Required(Kind::Context),
        ),
        &["ctx"],
    ),
    takes(
        command("bell", Scope::Program, outside::bell, "Ring when a cluster comes to be at fault."),
        Argument::Optional(Kind::OnOff),
    ),
    takes(
        command("mouse", Scope::Program, outside::mouse, "Mouse on: then hold shift to select text."),
        Argument::Optional(Kind::OnOff),
    ),
    takes(
        command("links", Scope::Program, outside::links, "Addresses on the screen as links, or as text."),
        Argument::Optional(Kind::OnOff),
    ),
    takes(
        command(
            "screenshot",
            Scope::Program,
            |_, path| outside::screenshot(path),
            "The screen into a new file: text, or SVG if it ends in .svg.",
        ),
        Argument::Required(Kind::File),
    ),
    command("redraw", Scope::Program, |_, _| go::redraw(), "Draw everything again."),
    command("suspend", Scope::Program, |_, _| go::suspend(), "Back to the shell; `fg` returns."),
    also(command("quit", Scope::Program, |_, _| go::quit(), "Leave."), &["q", "q!", "quit!", "exit"]),
    command(
        "accept",
        Scope::Dialog,
        |m, _| act::accept(m),
        "Twice: yes to what can break little. Closes a notice.",
    ),
    command(
        "ask-extensions",
        Scope::Dialog,
        |m, _| act::ask_extensions(m),
        "In a preview: ask extensions which Machines they can update in place.",
    ),
    command(
        "save-patch",
        Scope::Dialog,
        |m, _| act::save_patch(m),
        "In a preview: write the change into a new file, as a patch.",
    ),
    command("close", Scope::Dialog, |m, _| go::close(m), "Close the dialog; nothing is done."),
];
