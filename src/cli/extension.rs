//! `capstan extension serve`: the reference extension over HTTPS, for the server of the kubeconfig. Owns its options and
//! messages; what it answers says `extension`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::args::{Cli, ExtensionServeArgs};
use super::{engine, paths};
use capstan_base::private_file;
use capstan_base::time::Clock;
use capstan_base::toml_file::Source;
use capstan_commands::exit_code::WrongUsage;
use capstan_commands::output;
use capstan_dashboard::tui::Exit;
use capstan_engine::client::connect;
use capstan_worlds::extension::{self, Behaviour, DevHosts, Extension, Identity, extension_config};
use capstan_worlds::standalone::extension::register;

/// Serves until a signal comes.
///
/// # Errors
/// Options, files or an address that cannot be used; an ExtensionConfig that the server refuses.
pub async fn serve(cli: &Cli, args: &ExtensionServeArgs) -> anyhow::Result<Exit> {
    if !args.listen.ip().is_loopback() {
        bail!(WrongUsage(format!(
            "--listen {}: other machines could reach that address, and the extension does not ask who they are; use \
             a loopback one such as 127.0.0.1:9443",
            args.listen
        )));
    }
    let connection = connect(&super::options(&cli.connect)?).await?;
    let options = options(args)?;
    let identity = Identity::kept_in(&folder(args)?, &names(args))?;
    let hosts = DevHosts::new(connection.client.clone(), Clock::system(), args.time_scale);
    let serving =
        extension::serve(Arc::new(Extension::new(options, Arc::new(hosts))), args.listen, &identity).await?;
    let url = format!("https://{}", serving.address());
    match &args.register {
        None => output::print(&manifest(&extension_config("capstan", &url, identity.certificate_pem()))?)?,
        Some(name) => {
            let config = extension_config(name, &url, identity.certificate_pem());
            register(&connection, name, &config)
                .await
                .with_context(|| format!("cannot register ExtensionConfig {name}"))?;
            output::print(&format!("ExtensionConfig {name} at {} now names {url}\n", connection.server))?;
        }
    }
    engine::stopped().await
}

fn options(args: &ExtensionServeArgs) -> anyhow::Result<Behaviour> {
    let mut options = match &args.options {
        None => Behaviour::default(),
        Some(file) => {
            let text =
                private_file::read(file)?.with_context(|| format!("{} does not exist", file.display()))?;
            Behaviour::read(&Source::new(file.display().to_string(), text))?
        }
    };
    if let Some(seconds) = args.update_seconds {
        options.update_seconds = seconds;
    }
    if let Some(seconds) = args.retry_after_seconds {
        options.retry_after_seconds = seconds;
    }
    if !args.covers.is_empty() {
        options.covers.clone_from(&args.covers);
    }
    Ok(options)
}

/// Where certificate and key are kept.
fn folder(args: &ExtensionServeArgs) -> anyhow::Result<PathBuf> {
    let folder = match &args.cert_dir {
        Some(folder) => folder.clone(),
        None => paths::data_dir()?.join("extension"),
    };
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    Ok(folder)
}

fn names(args: &ExtensionServeArgs) -> Vec<String> {
    vec!["localhost".to_owned(), args.listen.ip().to_string()]
}

fn manifest(config: &Value) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(config)?)
}
