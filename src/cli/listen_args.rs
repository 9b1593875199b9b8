//! Arguments of the commands that serve their API to others, with their help.

use std::path::PathBuf;

use clap::Args;

use capstan_apiserver::serve::Address;

/// Who may reach the API, and how they learn where it is.
#[derive(Clone, Debug, Default, Args)]
pub struct ListenArgs {
    /// Serve the API over TLS on this loopback address (port 0 picks a free one), or on a socket file
    #[arg(long, value_name = "ADDR:PORT|unix:PATH")]
    pub listen: Option<Address>,
    /// Allow an address that other machines can reach
    #[arg(long, requires = "listen")]
    pub listen_beyond_loopback: bool,
    /// Write a kubeconfig (admin) with mode 0600
    #[arg(long, value_name = "FILE")]
    pub kubeconfig_out: Option<PathBuf>,
    /// Write a kubeconfig that may only read, with mode 0600
    #[arg(long, value_name = "FILE")]
    pub read_only_kubeconfig_out: Option<PathBuf>,
}
