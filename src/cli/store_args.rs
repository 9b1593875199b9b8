//! Arguments of the commands that open a store, with their help. Owns the words of `--store`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

/// How an address of etcd begins.
const ETCD_SCHEME: &str = "etcd://";

/// Where objects are kept.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Store")]
pub struct StoreArgs {
    /// Data file, certificates and tokens; without it the XDG data directory
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// `disk` (in the data directory; the default), `memory`, or `etcd://HOST:PORT[,HOST:PORT...]`
    #[arg(long, value_name = "STORE")]
    pub store: Option<StoreName>,
    /// Where in etcd, as kube-apiserver's option of the same name
    #[arg(long, value_name = "PATH", value_parser = prefix, default_value = "/registry")]
    pub etcd_prefix: String,
    /// Who signs etcd's certificate (PEM); with it the connection uses TLS
    #[arg(long, value_name = "FILE")]
    pub etcd_ca: Option<PathBuf>,
    /// Client certificate for etcd (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["etcd_ca", "etcd_key"])]
    pub etcd_cert: Option<PathBuf>,
    /// Key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    pub etcd_key: Option<PathBuf>,
}

/// What `--store` names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreName {
    Memory,
    #[default]
    Disk,
    /// With the addresses of members, each `HOST:PORT`.
    Etcd(Vec<String>),
}

impl FromStr for StoreName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "memory" => Ok(Self::Memory),
            "disk" => Ok(Self::Disk),
            other => {
                let addresses = other.strip_prefix(ETCD_SCHEME);
                let addresses = addresses.ok_or("expected disk, memory or etcd://HOST:PORT")?;
                let endpoints = addresses.trim_end_matches('/').split(',').map(endpoint);
                endpoints.collect::<Result<_, _>>().map(Self::Etcd)
            }
        }
    }
}

fn endpoint(text: &str) -> Result<String, String> {
    let port =
        text.rsplit_once(':').and_then(|(host, port)| port.parse::<u16>().ok().filter(|_| !host.is_empty()));
    if port.is_none() || text.contains('/') {
        return Err(format!("\"{text}\" is not HOST:PORT"));
    }
    Ok(text.to_owned())
}

/// Without a slash at its end.
fn prefix(text: &str) -> Result<String, &'static str> {
    if !text.starts_with('/') {
        return Err("expected a path such as /registry");
    }
    Ok(text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_etcd_are_checked() {
        let store = |text: &str| text.parse::<StoreName>();
        let endpoints = ["a:2379", "[::1]:2380"].map(str::to_owned);
        assert_eq!(store("etcd://a:2379,[::1]:2380/"), Ok(StoreName::Etcd(endpoints.into())));
        for (text, why) in [
            ("etcd://", "\"\" is not HOST:PORT"),
            ("etcd://a", "\"a\" is not HOST:PORT"),
            ("etcd://http://a:1", "\"http://a:1\" is not HOST:PORT"),
            ("floppy", "expected disk, memory or etcd://HOST:PORT"),
        ] {
            assert_eq!(store(text), Err(why.to_owned()), "{text}");
        }
        assert_eq!(prefix("/registry/"), Ok("/registry".to_owned()));
        assert!(prefix("registry").is_err());
    }
}
