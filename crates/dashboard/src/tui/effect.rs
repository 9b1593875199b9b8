//! What `update` asks the shell to do, and what comes back. Both are plain data.

use std::path::PathBuf;

use super::keeping::Waiting;
use super::keymap::Keymap;
use super::look::Look;
use super::outside::{Kubeconfig, OutsideEnd, OutsideProgram};
use super::reads::Reading;
use super::subject::{Subject, SubjectKind};
use super::theme::Theme;
use super::turns::Turn;
use crate::actions::{Draft, Order, Proposal};
use crate::fleet::SourceId;
use capi_forecast::simulate::Remembered;
use capi_types::key::{ObjectKey, ObjectRef};
use capstan_base::toml_file::FileError;

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
    /// Addresses on the screen are links, or text.
    Links(bool),
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
    /// Read everything anew that the screen is made of.
    Reread {
        theme: String,
        keymap: String,
    },
    /// Read something for a screen, after a rest; what was read of the same kind before ends.
    Read {
        subject: Subject,
        wait_ms: u64,
        /// How long Machines of the cluster took, here and in earlier runs, where it is run ahead.
        remembered: Vec<Remembered>,
    },
    /// Nothing shows what is being read of this kind any more.
    StopReading(SubjectKind),
    /// Read an object as text for an editor; of one that was begun, with the reason why it is opened again.
    Draft {
        ticket: u64,
        source: SourceId,
        target: ObjectRef,
        begun: Option<Box<(Draft, String)>>,
    },
    /// Read the kubeconfig of a workload cluster.
    ReadKubeconfig {
        ticket: u64,
        source: SourceId,
        cluster: ObjectKey,
    },
    /// Give the terminal to a program until it ends.
    Outside(OutsideProgram),
    /// What was done needs its folder of texts no more.
    DropTexts(PathBuf),
    /// Everything a person must see before saying yes.
    Preview {
        ticket: u64,
        source: SourceId,
        order: Order,
    },
    /// They said yes.
    Perform {
        ticket: u64,
        source: SourceId,
        proposal: Proposal,
    },
}

/// What came of an effect. Errors are sentences already: nothing here decides on their kind.
#[derive(Debug)]
pub enum EffectOutcome {
    Theme(Result<Box<Theme>, FileError>),
    Keymap(Result<Box<Keymap>, FileError>),
    Reread(Reread),
    Kept(Result<(), String>),
    /// In a sentence.
    HookFailed(String),
    Read {
        subject: Subject,
        reading: Reading,
    },
    Drafted {
        ticket: u64,
        result: Result<Box<Draft>, String>,
    },
    KubeconfigRead {
        ticket: u64,
        result: Result<Kubeconfig, String>,
    },
    /// The terminal is ours again.
    Outside(OutsideEnd),
    Previewed {
        ticket: u64,
        result: Result<Proposal, String>,
    },
    /// With what was done, in a sentence.
    Performed {
        ticket: u64,
        result: Result<String, String>,
    },
}

/// Files of the configuration folder that were read anew.
#[derive(Debug)]
pub struct Reread {
    /// The files that changed, as far as one looked before.
    pub changed: Vec<PathBuf>,
    /// A person asked for it.
    pub is_asked: bool,
    pub look: Result<Box<Look>, FileError>,
}
