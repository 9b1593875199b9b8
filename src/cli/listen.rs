//! Where `capstan standalone` and `capstan demo` serve their API to others, and what it prints about that: address or socket
//! file, kubeconfigs, tokens. Must not know what is served.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use tokio_util::task::AbortOnDropHandle;

use super::listen_args::ListenArgs;
use super::store::{self, StoreLocation};
use super::store_args::StoreArgs;
use capstan_apiserver::serve::rotation::follow_tokens;
use capstan_apiserver::serve::{self, Address, tls};
use capstan_apiserver::{ApiServer, Tokens};
use capstan_base::private_file;
use capstan_base::time::Clock;
use capstan_commands::exit_code::WrongUsage;
use capstan_commands::output;
use capstan_store::claim;

/// Certificates and tokens of a server: kept with the store, or made for one run.
pub struct ServerIdentity {
    pub tokens: Tokens,
    authority: tls::Authority,
    /// Where they are kept.
    folder: Option<PathBuf>,
}

impl ServerIdentity {
    /// A store that outlives the process has an identity in the data directory, which outlives it as well.
    ///
    /// # Errors
    /// Files that cannot be read, written or understood.
    pub fn of(place: &StoreLocation, args: &StoreArgs, clock: &Clock) -> anyhow::Result<Self> {
        if matches!(place, StoreLocation::Memory) {
            let authority = tls::Authority::generate(clock.now())?;
            return Ok(Self { tokens: Tokens::random(), authority, folder: None });
        }
        let folder = store::data_dir(args)?;
        // A store on disk has claimed the folder itself.
        if !matches!(place, StoreLocation::Disk(_)) {
            claim(&folder)?;
        }
        let (authority, tokens) = tls::kept_in(&folder, clock.now())?;
        Ok(Self { tokens, authority, folder: Some(folder) })
    }
}

/// The kubeconfigs that may be asked for: the administrator's and the reader's.
fn kubeconfigs(args: &ListenArgs) -> [(&'static str, Option<&PathBuf>); 2] {
    [
        ("--kubeconfig-out", args.kubeconfig_out.as_ref()),
        ("--read-only-kubeconfig-out", args.read_only_kubeconfig_out.as_ref()),
    ]
}

/// Options that do not go together, before anything is opened.
///
/// # Errors
/// A kubeconfig without an address, or in the place of something else; an address that others can reach, without the option that allows it.
pub fn check(args: &ListenArgs) -> anyhow::Result<()> {
    for (flag, path) in kubeconfigs(args) {
        let Some(path) = path else { continue };
        private_file::check_target(path).context(flag)?;
        if !matches!(args.listen, Some(Address::Tcp(_))) {
            bail!(WrongUsage(format!(
                "{flag} needs --listen with an address: without one there is nothing to write (try --listen \
                 127.0.0.1:0; programs with a kubeconfig cannot use a socket file)"
            )));
        }
    }
    match &args.listen {
        Some(Address::Tcp(address)) if !address.ip().is_loopback() && !args.listen_beyond_loopback => {
            bail!(WrongUsage(format!(
                "--listen {address}: other machines could reach that address; use a loopback one such as \
                 127.0.0.1:0, or add --listen-beyond-loopback"
            )))
        }
        _ => Ok(()),
    }
}

/// What is being served; ends when dropped.
pub struct Served {
    _listening: Listening,
    _tokens: Option<AbortOnDropHandle<()>>,
}

enum Listening {
    Address { _listening: serve::Listening },
    Socket { _listening: AbortOnDropHandle<()> },
}

/// Serves `server` where the options say; with `says`, prints where that is: nothing else is on the screen then.
///
/// # Errors
/// An address or socket that cannot be listened on; a kubeconfig that cannot be written.
pub async fn listen(
    args: &ListenArgs,
    server: &ApiServer,
    identity: &ServerIdentity,
    says: bool,
) -> anyhow::Result<Option<Served>> {
    let (listening, said) = match &args.listen {
        None => return Ok(None),
        Some(Address::Unix(path)) => {
            let listening = serve::listen_on_socket(server.clone(), path).await?;
            let path = path.display();
            let said = format!(
                "capstan serves the Kubernetes API on the socket {path}\n  curl --unix-socket {path} \
                 http://localhost/version\n"
            );
            (Listening::Socket { _listening: listening }, said)
        }
        Some(Address::Tcp(address)) => {
            // A script that waits for the server to be ready reads the kubeconfig next.
            server.set_announced(false);
            let listening = serve::listen(server.guarded(), *address, &identity.authority).await?;
            let said = announce(args, listening.address(), identity)?;
            server.set_announced(true);
            (Listening::Address { _listening: listening }, said)
        }
    };
    if says {
        output::print(&said)?;
    }
    let tokens = identity.folder.clone().map(|folder| follow_tokens(folder, server.clone()));
    Ok(Some(Served { _listening: listening, _tokens: tokens }))
}

/// Writes the kubeconfigs of the options, and prints where the server is.
fn announce(args: &ListenArgs, address: SocketAddr, identity: &ServerIdentity) -> anyhow::Result<String> {
    let mut said = format!("capstan serves the Kubernetes API on https://{address}\n");
    if !address.ip().is_loopback() {
        let warning = "other machines can reach this address; only its tokens and certificates keep them out";
        tracing::warn!("{address}: {warning}");
        said.push_str(&format!("  {warning}\n"));
    }
    let Tokens { admin, read_only } = &identity.tokens;
    for ((flag, path), token) in kubeconfigs(args).into_iter().zip([admin, read_only]) {
        let Some(path) = path else { continue };
        let text = serve::kubeconfig(address, &identity.authority, token);
        private_file::write(path, &text).context(flag)?;
        said.push_str(&format!("  kubectl --kubeconfig {} get clusters -A\n", path.display()));
    }
    Ok(said)
}
