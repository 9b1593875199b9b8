//! `capstan leader-migration rehearse`: a migration played in virtual time before it is done. Owns the summary; what is
//! played is in `standalone::rehearsal`.

use std::fmt::Write as _;

use anyhow::Context as _;

use capstan_base::time::Timestamp;
use capstan_commands::leader_migration::Printed;
use capstan_commands::leader_migration::args::RehearseArgs;
use capstan_worlds::standalone::rehearsal::{Cast, Played, failure, in_virtual_time, way_back, whole_way};
use leader_migration::rules;
use leader_migration::stages::MigrationStage;

/// Plays what the arguments ask for, and says what came of it. Fine unless two ran one controller at once where the
/// walkthrough says that they never do, or nobody runs one at the end.
///
/// # Errors
/// What cannot be played.
pub async fn rehearse(args: &RehearseArgs, start: Timestamp) -> anyhow::Result<Printed> {
    let nodes = (1..=args.nodes).map(|number| format!("cp-{number}")).collect();
    let cast = Cast { nodes, old: args.kcm_version, new: args.ccm_version, start, seed: args.seed };
    if let Some(code) = args.failure.clone() {
        let played = in_virtual_time(move || async move { Ok(failure(cast, &code).await?.1) }).await?;
        return Ok(Printed { document: with_findings(&played), remarks: Vec::new(), is_fine: true });
    }
    let played = match args.back_from {
        None => in_virtual_time(move || whole_way(cast)).await?,
        Some(number) => {
            let from = MigrationStage::ALL.get(usize::from(number)).copied();
            let from = from.with_context(|| format!("--back-from {number}: there is no such stage"))?;
            in_virtual_time(move || way_back(cast, from)).await?
        }
    };
    let is_fine = !played.has_overlap && played.idle.is_empty();
    Ok(Printed { document: with_outcome(&played), remarks: Vec::new(), is_fine })
}

fn with_outcome(played: &Played) -> String {
    let actors = if played.has_overlap {
        "two ran one controller at once"
    } else {
        "no controller ran twice at any moment"
    };
    let gap_s = played.longest_gap.as_secs_f64();
    let idle = if played.idle.is_empty() {
        String::new()
    } else {
        format!("\nat the end nobody runs {}", played.idle.join(", "))
    };
    format!("{}\n{actors}; the longest time without one: {gap_s:.1} s{idle}\n", played.log)
}

/// With what `validate` says of these processes.
fn with_findings(played: &Played) -> String {
    let mut document = format!("{}\n", played.log);
    for code in &played.codes {
        let Some(rule) = rules::find(code) else { continue };
        let _ = writeln!(document, "{} {code}  {}\n  {}", rule.severity.word(), rule.cause, rule.effect);
    }
    document
}
