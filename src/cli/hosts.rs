//! Machines that exist, for the engine of this process: how they are reached, and by which name this capstan owns them. Owns these
//! options; what is done with machines says `capstan_host_provider`.

use std::sync::Arc;

use clap::Args;
use sha2::{Digest as _, Sha256};

use capstan_base::time::Clock;
use capstan_host_provider::HostSettings;
use capstan_host_provider::access::Machines;
use capstan_host_provider::ssh::SshMachines;

const NAME_BYTES_MAX: usize = 63;

#[derive(Clone, Debug, Args)]
pub struct HostsArgs {
    /// The program that is called as ssh is, to reach Hosts
    #[arg(long, value_name = "PROGRAM", default_value = "ssh")]
    pub ssh_program: String,
    /// Names this capstan in the owner files of machines; without it a name made from the machine id of this computer
    ///
    /// Who moves to another computer and wants to keep its Hosts names the same again.
    #[arg(long, value_name = "WORD", value_parser = installation)]
    pub installation: Option<String>,
}

fn installation(text: &str) -> Result<String, &'static str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_word = !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.chars().all(is_plain);
    if is_word { Ok(text.to_owned()) } else { Err("expected letters, digits, `.`, `-` and `_`, at most 63") }
}

impl HostsArgs {
    /// Ssh, and what people chose.
    pub(super) fn reached(&self, clock: &Clock, read_only: bool) -> (Arc<dyn Machines>, HostSettings) {
        let machines = Arc::new(SshMachines::new(&self.ssh_program, clock.clone(), read_only));
        let installation = self.installation.clone().unwrap_or_else(own_installation);
        (machines, HostSettings { installation, read_only })
    }
}

/// The same on this computer for ever, and without showing its machine id: a store that is copied elsewhere owns nothing there.
fn own_installation() -> String {
    let read = |path: &str| std::fs::read_to_string(path).ok().filter(|text| !text.trim().is_empty());
    let id = read("/etc/machine-id").or_else(|| read("/proc/sys/kernel/hostname")).unwrap_or_default();
    let digest = Sha256::digest(format!("capstan installation {}", id.trim()));
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_is_a_word_of_an_owner_file() {
        for text in ["", "a b", "-$(id)", "a/b", &"x".repeat(64)] {
            assert!(installation(text).is_err(), "{text}");
        }
        assert_eq!(installation("site-1.x_y").as_deref(), Ok("site-1.x_y"));
        let own = own_installation();
        assert_eq!((own.len(), own == own_installation()), (16, true));
        assert!(installation(&own).is_ok());
    }
}
