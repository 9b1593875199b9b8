//! What people decide about Hosts: a key to trust, a machine to reset, one to let go, one to take over. Each is a change of an object,
//! previewed, confirmed and written down as every action is; the engine does the rest. Must not know ssh but for the offered keys.

use std::io::{BufRead, Write};

use anyhow::{Context as _, bail};
use serde_json::json;

use super::args::{HostActArgs, HostConfirmArgs, HostReleaseArgs, HostTrustArgs};
use super::objects::HostsOfServer;
use crate::act::{ConfirmArgs, act};
use capi_types::host::annotation::{ABANDON, RESET, TAKE_OVER};
use capi_types::host::{Host, HostOwnerStatus};
use capi_types::key::ObjectRef;
use capstan_base::time::{Clock, rfc3339};
use capstan_dashboard::actions::{Action, Executor, MetadataChange, ObjectChange, Request};
use capstan_remote::host_key::PublicKey;
use capstan_remote::openssh::OpenSsh;

/// Where the preview goes, and where the confirmation comes from.
pub struct Conversation<'c, O, A> {
    pub executor: &'c Executor,
    pub out: &'c mut O,
    pub answers: &'c mut A,
}

impl<O: Write, A: BufRead> Conversation<'_, O, A> {
    async fn hold(
        &mut self,
        target: ObjectRef,
        action: Action,
        confirm: &HostConfirmArgs,
    ) -> anyhow::Result<()> {
        let request = Request { target, action, asks_extensions: false };
        let confirm = ConfirmArgs {
            yes: confirm.yes,
            dry_run: confirm.dry_run,
            patch_file: None,
            ask_extensions: false,
        };
        act(self.executor, request, &confirm, None, self.out, self.answers).await
    }
}

fn annotate(key: &str, value: &str) -> anyhow::Result<Action> {
    let change = MetadataChange::parse(&format!("{key}={value}")).map_err(anyhow::Error::msg)?;
    Ok(Action::Annotate(change))
}

/// A machine is reset, or let go where it is gone.
///
/// # Errors
/// It is not in such a state, it was not confirmed, or the server refuses.
pub async fn release<O: Write, A: BufRead>(
    hosts: &HostsOfServer<'_>,
    args: &HostReleaseArgs,
    clock: &Clock,
    mut talk: Conversation<'_, O, A>,
) -> anyhow::Result<()> {
    let host = hosts.host(&args.name).await?;
    let now = rfc3339(clock.now());
    if !args.abandon {
        let action = annotate(RESET, &now)?;
        is_free_or_quarantined(&host)?;
        return talk.hold(ObjectRef::of(&host), action, &args.confirm).await;
    }
    let user = hosts.user_of(&host).await?;
    if user.metadata.deletion_timestamp.is_none() {
        let name = user.metadata.name.as_deref().unwrap_or_default();
        bail!("HostMachine {name} is not being deleted: delete its Machine first, then let go of the Host");
    }
    let uid = user.metadata.uid.as_deref().unwrap_or_default();
    talk.hold(ObjectRef::of(&host), annotate(ABANDON, uid)?, &args.confirm).await
}

fn is_free_or_quarantined(host: &Host) -> anyhow::Result<()> {
    let state = host.status.as_ref().and_then(|status| status.state.as_deref()).unwrap_or("Unknown");
    match (&host.spec.consumer_ref, state) {
        (None, "Available") => bail!("the Host is clean and available: there is nothing to reset"),
        (None, _) | (Some(_), "Quarantined") => Ok(()),
        (Some(consumer), _) => bail!(
            "HostMachine {} has the Host, which is {state}: delete its Machine, and the Host is reset then",
            consumer.name
        ),
    }
}

/// A machine is taken from the owner that its file names.
///
/// # Errors
/// Its file names nobody else, it was not confirmed, or the server refuses.
pub async fn adopt<O: Write, A: BufRead>(
    hosts: &HostsOfServer<'_>,
    args: &HostActArgs,
    mut talk: Conversation<'_, O, A>,
) -> anyhow::Result<()> {
    let host = hosts.host(&args.name).await?;
    let owner = host.status.as_ref().and_then(|status| status.owner.as_ref());
    let Some(HostOwnerStatus { installation: Some(installation), cluster, .. }) = owner else {
        bail!("no owner file is known on the machine of Host {}: there is nobody to take it from", args.name);
    };
    let cluster = cluster.as_deref().unwrap_or("an unknown cluster");
    let end = match &host.spec.consumer_ref {
        Some(consumer) => format!("HostMachine {} goes on with it as it is", consumer.name),
        None => "it is reset then, and what runs on it is lost".to_owned(),
    };
    writeln!(talk.out, "The machine belongs to installation {installation}, cluster {cluster}; {end}.")?;
    talk.hold(ObjectRef::of(&host), annotate(TAKE_OVER, installation)?, &args.confirm).await
}

/// A key is pinned.
///
/// # Errors
/// The machine offers no such key, it was not confirmed, or the server refuses.
pub async fn trust<O: Write, A: BufRead>(
    hosts: &HostsOfServer<'_>,
    args: &HostTrustArgs,
    mut talk: Conversation<'_, O, A>,
) -> anyhow::Result<()> {
    let (target, document) = hosts.document(&args.name).await?;
    let host: Host = serde_json::from_value(document.clone()).context("the Host cannot be read")?;
    let reach = hosts.reach(&host).await?;
    let ssh = OpenSsh { jump: reach.jump.clone(), ..OpenSsh::named(&args.ssh_program) };
    let offered = ssh.offered_public_keys(&reach.to).await;
    if offered.is_empty() {
        bail!("{} offers no host key: it is not reached directly, or not at all", reach.to);
    }
    for key in &offered {
        writeln!(talk.out, "offers {} {}", key.key.kind, key.key.fingerprint)?;
    }
    let Some(wanted) = &args.fingerprint else {
        writeln!(
            talk.out,
            "Compare one with what the machine's own console says (`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`), then \
             name it with --fingerprint."
        )?;
        return Ok(());
    };
    let chosen = chosen(&offered, wanted)?;
    let patch = json!({ "spec": { "hostKeys": [chosen.text] } });
    let change = ObjectChange::of(&document, patch);
    talk.hold(target, Action::Edit(Box::new(change)), &args.confirm).await
}

fn chosen<'k>(offered: &'k [PublicKey], fingerprint: &str) -> anyhow::Result<&'k PublicKey> {
    let found = offered.iter().find(|key| key.key.fingerprint == fingerprint);
    found.with_context(|| {
        format!("the machine offers no key with {fingerprint}: another machine may answer at its address; nothing is trusted")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::host::{HostConsumer, HostSpec, HostStatus};
    use capstan_remote::host_key::HostKey;

    #[test]
    fn only_the_key_that_was_compared_is_chosen() {
        let key = |fingerprint: &str| PublicKey {
            key: HostKey { kind: "ssh-ed25519".to_owned(), fingerprint: fingerprint.to_owned() },
            text: format!("ssh-ed25519 {fingerprint}"),
        };
        let offered = [key("SHA256:a"), key("SHA256:b")];
        assert_eq!(chosen(&offered, "SHA256:b").expect("it is offered").text, "ssh-ed25519 SHA256:b");
        let error = chosen(&offered, "SHA256:c").expect_err("it is not").to_string();
        assert!(error.contains("nothing is trusted"), "{error}");
    }

    #[test]
    fn a_host_in_use_is_not_reset() {
        let host = |state: &str, is_claimed: bool| {
            let consumer_ref = is_claimed.then(HostConsumer::default);
            let mut host = Host::new("h", HostSpec { consumer_ref, ..HostSpec::default() });
            host.status = Some(HostStatus { state: Some(state.to_owned()), ..HostStatus::default() });
            host
        };
        for (state, is_claimed, may) in [
            ("Available", false, false),
            ("Quarantined", false, true),
            ("Unfit", false, true),
            ("Quarantined", true, true),
            ("InUse", true, false),
            ("Bootstrapping", true, false),
        ] {
            assert_eq!(is_free_or_quarantined(&host(state, is_claimed)).is_ok(), may, "{state} {is_claimed}");
        }
    }
}
