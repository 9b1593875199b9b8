//! What goes wrong in a simulated cluster: switched on and off by tests and by the demonstration.
//! Owns the list of faults; must not know who reacts and how.

use std::collections::BTreeMap;

use capstan_base::time::Timestamp;

/// One fault of one cluster. Names are names of nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The API server answers no request.
    Unreachable,
    /// The kubelet reports Ready False.
    NodeNotReady(String),
    /// The kubelet reports nothing: Ready Unknown and the unreachable taint.
    NodeSilent(String),
    /// The kubelet did not start again: the node is as silent as above.
    KubeletDown(String),
    /// Whoever asks for an eviction waits six seconds for the answer.
    SlowEvictions,
    /// The member raises NOSPACE.
    EtcdNoSpace(String),
}

/// The faults that are on, and since when.
pub type Faults = BTreeMap<Fault, Timestamp>;
