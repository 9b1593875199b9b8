//! What `capstan change rollback` does first where a ConfigMap cannot be read: what the last change left there is written back, so
//! that there is something to plan from. Owns this conversation; the texts are `reconfigure::mend`'s.

use std::io::{BufRead, Write};

use anyhow::bail;

use super::args::RollbackArgs;
use super::{Session, offline, source};
use crate::confirmation::LinePrompt;
use capstan_base::text;
use capstan_dashboard::operations::Confirmation;
use capstan_dashboard::operations::change::MendedMaps;
use capstan_dashboard::operations::change::source::{SourceError, SourceReading};
use capstan_engine::client::ConnectError;
use capstan_engine::reconfigure::mend::{BrokenMap, broken};
use capstan_engine::reconfigure::read::ReadError;

/// Reads what a rollback begins from.
///
/// # Errors
/// It cannot be read, and no text of the last change can take its place; or that was not confirmed.
pub(super) async fn find(
    args: &RollbackArgs,
    session: &Session,
    out: &mut (impl Write + Send),
    answers: &mut (impl BufRead + Send),
) -> anyhow::Result<SourceReading> {
    let error = match source::find(&args.source, &session.reach).await {
        // --plan writes nothing, and so mends nothing.
        Err(error) if is_unreadable(&error) && !args.plan => error,
        Err(error) if is_unanswered(&error) => bail!("{error}\n{}", offline::HINT),
        other => return other,
    };
    let live = source::of_server(&args.source, &session.reach).await?;
    let maps = broken(&live.client, &live.server).await?;
    // The last change left nothing that could take the place of what cannot be read.
    if maps.is_empty() {
        return Err(error);
    }
    let guard = session.guard.over(live.read_only);
    guard.check_writable()?;
    for BrokenMap { name, why, change, .. } in &maps {
        let why = text::sanitize_line(why);
        writeln!(
            out,
            "ConfigMap kube-system/{name} cannot be read ({why}): what change {change} left there is written back"
        )?;
    }
    if !args.carry_out.yes {
        let question = "Write it back, before anything is taken back?".to_owned();
        let confirm_after_s = live.setting.confirm_after_s;
        let otherwise = "mend the ConfigMap yourself";
        let (confirmation, name) = (Confirmation::Yes.in_context(&live.setting), &live.server);
        LinePrompt { question, confirmation, name, confirm_after_s, otherwise }.ask(out, answers)?;
    }
    guard.write(&mut MendedMaps { live: &live, maps: &maps }, &[]).await?;
    source::find(&args.source, &session.reach).await
}

/// Without an answer of a server nothing can be planned.
fn is_unanswered(error: &anyhow::Error) -> bool {
    let of_connection = matches!(error.downcast_ref(), Some(ConnectError::Unanswered(_)));
    let of_reading = matches!(
        error.downcast_ref(),
        Some(SourceError::Read(ReadError::Server(_)) | SourceError::Unreachable(_))
    );
    of_connection || of_reading
}

fn is_unreadable(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(SourceError::Read(ReadError::Documents(_))))
}
