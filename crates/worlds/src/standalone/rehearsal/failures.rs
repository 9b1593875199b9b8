//! The failures of a migration that processes can be brought into, each with what happens then. A table: who is put where
//! with which flags and which file, and the effect.

use super::stage::{CCM, Cast, KCM, ON, Played, Rehearsal, RehearsalError, file};
use leader_migration::configuration::DEFAULT_LEADER_NAME;
use leader_migration::controller_names::Function;
use leader_migration::manager_kind::ManagerKind;
use leader_migration::release::Release;

/// How long it is looked at after the last process has started.
const LOOKED_AT_S: u64 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureEffect {
    /// Two run one controller at once.
    Twice,
    /// No process runs a controller.
    Nowhere,
    /// A process ends at its start.
    Exits,
    /// Each controller has one that runs it.
    Sound,
}

impl FailureEffect {
    pub fn word(self) -> &'static str {
        match self {
            Self::Twice => "two run one controller at once",
            Self::Nowhere => "nobody runs it",
            Self::Exits => "a process ends at its start",
            Self::Sound => "each controller has one that runs it",
        }
    }
}

/// Where the file of a process comes from: what `generate` writes for its release, changed.
#[derive(Clone, Copy)]
enum Text {
    /// No file is mounted.
    None,
    Generated,
    /// One text in place of another.
    Changed(&'static str, &'static str),
    /// More behind it.
    More(&'static str),
}

struct Part {
    manager: ManagerKind,
    release: Release,
    node: &'static str,
    /// `ON` stands for the enable flag and the path.
    args: &'static str,
    text: Text,
}

/// One failure: the code of its finding, its processes, and what happens to `function`.
pub struct PlayedFailure {
    pub code: &'static str,
    pub effect: FailureEffect,
    function: Function,
    parts: &'static [Part],
}

const fn kcm(release: u64, args: &'static str, text: Text) -> Part {
    Part { manager: KCM, release: Release(release), node: "cp-1", args, text }
}

const fn ccm(release: u64, args: &'static str, text: Text) -> Part {
    Part { manager: CCM, release: Release(release), node: "cp-2", args, text }
}

const fn failure_of(code: &'static str, effect: FailureEffect, parts: &'static [Part]) -> PlayedFailure {
    PlayedFailure { code, effect, function: Function::Routes, parts }
}

const AWS_ON: &str = "--cloud-provider=in-tree ON";
const OLD: Part = kcm(26, AWS_ON, Text::Generated);
const CLOUD: Part = ccm(27, "ON", Text::Generated);

use FailureEffect::{Exits, Nowhere, Sound, Twice};
use Text::{Changed, Generated, More};

const INITIALIZATION: &str = "  - name: cloud-node\n    component: kube-controller-manager\n";

/// F9 is the right that is missing, F16 a source that is too late, F21 a Lease that is deleted, F22 two processes of one host:
/// what is done for them beside the table is in [`failure`].
pub const FAILURES: &[PlayedFailure] = &[
    failure_of("F1", Twice, &[OLD, ccm(27, "ON", Changed(DEFAULT_LEADER_NAME, "other-move"))]),
    PlayedFailure {
        code: "F2",
        effect: Nowhere,
        function: Function::NodeInitialization,
        parts: &[kcm(26, AWS_ON, More(INITIALIZATION)), ccm(27, "ON", More(INITIALIZATION))],
    },
    failure_of("F3", Twice, &[OLD, ccm(27, "ON", Changed("  - name: route\n    component: \"*\"\n", ""))]),
    failure_of(
        "F4",
        Twice,
        &[
            kcm(28, AWS_ON, Changed("node-route-controller", "route")),
            ccm(28, "ON", Changed("node-route-controller", "route")),
        ],
    ),
    failure_of("F5", Twice, &[kcm(26, "--cloud-provider=in-tree", Text::None), CLOUD]),
    failure_of(
        "F6",
        Twice,
        &[
            kcm(
                26,
                "--cloud-provider=in-tree --leader-migration-config=/etc/kubernetes/leader-migration.yaml",
                Generated,
            ),
            CLOUD,
        ],
    ),
    failure_of(
        "F7",
        Twice,
        &[
            kcm(26, "--cloud-provider=in-tree --leader-elect=false", Text::None),
            Part { node: "cp-2", ..kcm(26, "--cloud-provider=in-tree --leader-elect=false", Text::None) },
        ],
    ),
    failure_of(
        "F8",
        Twice,
        &[kcm(26, "--cloud-provider=in-tree ON --leader-elect-resource-namespace=default", Generated), CLOUD],
    ),
    failure_of("F9", Nowhere, &[OLD, CLOUD]),
    failure_of("F10", Nowhere, &[kcm(27, "--cloud-provider=external ON", Generated), CLOUD]),
    failure_of("F11", Exits, &[kcm(23, AWS_ON, Changed("resourceLock: leases", "resourceLock: endpoints"))]),
    failure_of("F12", Exits, &[ccm(32, "ON", More("resourceLock: leases\n"))]),
    failure_of("F13", Exits, &[kcm(26, AWS_ON, Changed("\"*\"", "*"))]),
    failure_of(
        "F14",
        Nowhere,
        &[kcm(30, "--cloud-provider=in-tree ON --feature-gates=CoordinatedLeaderElection=true", Generated)],
    ),
    failure_of(
        "F15",
        Nowhere,
        &[kcm(26, "--cloud-provider=in-tree ON --controllers=*,-serviceaccount-token", Generated)],
    ),
    failure_of("F16", Nowhere, &[kcm(31, "--cloud-provider=external ON", Generated)]),
    failure_of(
        "F17",
        Exits,
        &[kcm(
            26,
            "--cloud-provider=in-tree --enable-leader-migration --leader-migration-config=/srv/m.yaml",
            Generated,
        )],
    ),
    failure_of("F18", Nowhere, &[kcm(26, AWS_ON, Changed(DEFAULT_LEADER_NAME, "kube-controller-manager"))]),
    failure_of("F19", Sound, &[OLD, ccm(27, "ON --leader-elect-lease-duration=60s", Generated)]),
    failure_of(
        "F20",
        Twice,
        &[kcm(26, "--cloud-provider=in-tree", Text::None), Part { node: "cp-1", ..CLOUD }],
    ),
    failure_of("F21", Sound, &[OLD, CLOUD]),
    failure_of("F22", Sound, &[OLD, Part { node: "cp-1", ..OLD }]),
];

impl Part {
    fn text(&self) -> Result<String, RehearsalError> {
        let generated = || file(self.release);
        Ok(match self.text {
            Text::None => String::new(),
            Text::Generated => generated()?,
            Text::Changed(from, to) => generated()?.replace(from, to),
            Text::More(more) => generated()? + more,
        })
    }
}

/// Brings processes into a failure, and looks at what happens: the effect that was seen comes with what was played.
///
/// # Errors
/// See [`RehearsalError`]; a code that cannot be played.
pub async fn failure(cast: Cast, code: &str) -> Result<(FailureEffect, Played), RehearsalError> {
    let known = || FAILURES.iter().map(|failure| failure.code).collect::<Vec<_>>().join(", ");
    let failure = FAILURES.iter().find(|failure| failure.code.eq_ignore_ascii_case(code));
    let failure = failure.ok_or_else(|| RehearsalError::Unknown { what: code.to_owned(), known: known() })?;
    let mut play = Rehearsal::start(&cast).await?;
    play.grant(failure.code != "F9");
    let mut exits = false;
    for (number, part) in (1..).zip(failure.parts) {
        let (manager, node, args) = (part.manager, part.node, part.args.replace("ON", ON));
        // A second process on one node gets another name; under its own it would take the place.
        let is_there = play.pods.contains_key(&format!("{manager}-{node}"));
        let name = if is_there { format!("{manager}-{node}-{number}") } else { format!("{manager}-{node}") };
        play.note(&format!("{manager} {} on {node}: {args}", part.release));
        play.put_as(&name, manager, part.release, node, &args, &part.text()?);
        if let Some(why) = play.host.failure(&name).map(|why| why.to_string()) {
            play.note(&format!("  {name} ends: {why}"));
            exits = true;
        }
        // The one before leads before the next one comes.
        play.pass(5).await?;
    }
    // Long after the start, so that the Lease is held and renewed when it goes.
    if failure.code == "F21" {
        play.pass(20).await?;
        play.note("the held Lease is deleted");
        play.delete_lease().await;
    }
    play.pass(LOOKED_AT_S).await?;
    let is_run = play.runs(failure.function);
    let has_overlap = !play.host.ledger().overlaps().is_empty();
    let seen = match (has_overlap, exits, is_run) {
        // The worst comes first: a process may end and two others still run at once.
        (true, _, _) => FailureEffect::Twice,
        (_, true, _) => FailureEffect::Exits,
        (_, _, false) => FailureEffect::Nowhere,
        _ => FailureEffect::Sound,
    };
    play.note(&format!("{}: {}", failure.function.title(), seen.word()));
    Ok((seen, play.end()))
}
