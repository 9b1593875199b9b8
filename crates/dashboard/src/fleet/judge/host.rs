//! What is wrong with a machine that is reached over ssh while a HostMachine has it. Must not know its Machine, which its
//! HostMachine speaks for.

use super::{Rules, SOFT_S};
use crate::fleet::Verdict;
use capi_types::host::condition::{HOST_KEY_VERIFIED, PRIVILEGED, REACHABLE, SUITABLE};

impl Rules<'_> {
    /// `Clean` and `Available` are false of every Host in use.
    pub(super) fn host(&mut self) {
        for type_ in [REACHABLE, HOST_KEY_VERIFIED, PRIVILEGED, SUITABLE] {
            self.part(type_, Verdict::Degraded, SOFT_S);
        }
    }
}
