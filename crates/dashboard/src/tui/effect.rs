//! What `update` asks the shell to do, and what comes back. Both are plain data.

use std::path::PathBuf;

use super::keeping::Waiting;
use super::keymap::Keymap;
use super::plans::{PlannedCluster, Reading};
use super::theme::Theme;
use super::turns::Turn;
use crate::actions::{
    Ahead, ChangeOrder, ChangePreview, ConfigurationReading, Grant, LockPlace, Preview, Report, Request,
    Right, Tried,
};
use crate::fleet::watch::Subject;
use crate::fleet::{SourceId, Target};
use capi_forecast::simulate::Remembered;
use capi_rules::etcd::facts::Facts;
use capstan_base::toml_file::FileError;
use leader_migration::look::LockLook;

/// Something only the shell can do.
#[derive(Clone, Debug)]
pub enum Effect {
    Quit,
    Suspend,
    /// We were stopped by somebody else: set the terminal up again.
    Retake,
    /// Clear and draw everything.
    Redraw,
    /// Ask the terminal for its size.
    Resize,
    Mouse(bool),
    Bell,
    /// To the terminal's clipboard; sanitised.
    Copy(String),
    /// Write the picture into a new file.
    Screenshot(PathBuf),
    /// Write a text into a new file.
    Write {
        path: PathBuf,
        text: String,
    },
    /// Run the person's command, told of what turned.
    Hook {
        command: String,
        turn: Turn,
    },
    /// Write what waits for it to the state folder.
    Keep(Waiting),
    LoadTheme(String),
    /// Another server in place of the one that is looked at.
    OpenContext(String),
    LoadKeymap(String),
    /// Show the full object from now on; `None` stops.
    Follow(Option<Target>),
    /// The same of its events.
    FollowEvents(Option<Target>),
    /// Read the plans of a cluster, after a rest.
    Plan {
        cluster: PlannedCluster,
        wait_ms: u64,
        /// How long its Machines took, here and in earlier runs.
        remembered: Vec<Remembered>,
    },
    /// Ask the server what this user may do.
    Rights {
        source: SourceId,
        rights: Vec<Right>,
    },
    /// Ask the members of a cluster's etcd, after a rest.
    ReadEtcd {
        cluster: PlannedCluster,
        wait_ms: u64,
    },
    /// Nothing shows them any more.
    StopEtcd,
    /// Watch the locks of a place from now on; `None` stops.
    FollowLocks(Option<LockSubject>),
    /// Read what a cluster stores of its kubeadm configuration, after a rest.
    ReadConfiguration {
        cluster: PlannedCluster,
        wait_ms: u64,
    },
    /// Nothing shows it any more.
    StopConfiguration,
    /// Everything a person must see before a change of a configuration is carried out.
    PreviewChange {
        ticket: u64,
        cluster: PlannedCluster,
        order: ChangeOrder,
    },
    /// They said yes.
    CarryOutChange {
        ticket: u64,
        cluster: PlannedCluster,
        preview: Box<ChangePreview>,
    },
    /// Run a cluster ahead, as it is and with what is tried.
    Simulate {
        cluster: PlannedCluster,
        tried: Tried,
        remembered: Vec<Remembered>,
    },
    /// Everything a person must see before saying yes.
    Preview {
        ticket: u64,
        source: SourceId,
        request: Request,
    },
    /// They said yes.
    Perform {
        ticket: u64,
        source: SourceId,
        preview: Box<Preview>,
    },
}

/// Whose locks are on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSubject {
    pub source: SourceId,
    pub place: LockPlace,
}

/// What came of an effect. Errors are sentences already: nothing here decides on their kind.
#[derive(Debug)]
pub enum EffectOutcome {
    Theme(Result<Box<Theme>, FileError>),
    Keymap(Result<Box<Keymap>, FileError>),
    Kept(Result<(), String>),
    /// In a sentence.
    HookFailed(String),
    Followed {
        target: Target,
        subject: Subject,
    },
    Planned {
        cluster: PlannedCluster,
        reading: Reading,
    },
    Rights {
        source: SourceId,
        answers: Vec<(Right, Grant)>,
    },
    EtcdRead {
        cluster: PlannedCluster,
        look: Result<Facts, String>,
    },
    Locks {
        of: LockSubject,
        look: Result<Box<LockLook>, String>,
    },
    ConfigurationRead {
        cluster: PlannedCluster,
        read: Result<Box<ConfigurationReading>, String>,
    },
    ChangePreviewed {
        ticket: u64,
        result: Result<Box<ChangePreview>, String>,
    },
    ChangeCarriedOut {
        ticket: u64,
        cluster: PlannedCluster,
        result: Result<String, String>,
    },
    Simulated {
        cluster: PlannedCluster,
        tried: Tried,
        ahead: Result<Box<Ahead>, String>,
    },
    Previewed {
        ticket: u64,
        result: Result<Box<Preview>, String>,
    },
    Performed {
        ticket: u64,
        result: Result<Report, String>,
    },
}
