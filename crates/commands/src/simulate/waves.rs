//! The upgrade of many Clusters in waves: what is typed about it, and its calendar. Owns both forms; what happens is
//! `simulate`'s.

use std::fmt::Write as _;

use anyhow::{anyhow, bail};
use serde_json::json;

use super::{Asked, SimulationAnswer};
use crate::arguments::PlanOutputArg;
use crate::output;
use crate::output::colour::{BOLD, GREEN, RED, RESET};
use capi_forecast::simulate::{
    ClusterUpgrade, End, StageForecast, Upgrade, UpgradePlan, control_planes_of, upgrade,
};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capstan_base::text::did_you_mean;
use capstan_base::time::parse_rfc3339;
use capstan_dashboard::actions::tried::{self, TriedChange, TriedEdit};

pub(super) fn answer(asked: &Asked<'_>, version: &str) -> anyhow::Result<SimulationAnswer> {
    let args = asked.args;
    let plan = UpgradePlan {
        version: version.to_owned(),
        pools: pools(asked, &args.pools)?,
        waves: waves(asked)?,
        rest: args.rest,
        window: args.window,
    };
    // Before the calendar, which takes longest: a version that the webhook refuses has none.
    check(asked, version)?;
    let calendar = upgrade(asked.dump, &plan, asked.scenario, asked.now);
    let document = match args.output {
        PlanOutputArg::Json => asked.style.block(output::json(&calendar)?),
        PlanOutputArg::Text => text(&calendar, asked.style.color),
    };
    Ok(SimulationAnswer { document, remarks: calendar.remarks })
}

/// Would Cluster API take the version for each control plane?
fn check(asked: &Asked<'_>, version: &str) -> anyhow::Result<()> {
    // A copy: the calendar has to begin with the versions that run.
    let mut dump = asked.dump.clone();
    for key in asked.clusters().flat_map(|cluster| control_planes_of(asked.dump, cluster)).cloned() {
        let object = ObjectRef { gvk: Gvk::of::<KubeadmControlPlane>(), key, uid: String::new() };
        let edit = TriedEdit::Merge(json!({"spec": {"version": version}}));
        let origin = format!("--upgrade {version}: {object}");
        tried::apply(&mut dump, &[TriedChange { origin, object, edit }])?;
    }
    Ok(())
}

fn pools(asked: &Asked<'_>, names: &[String]) -> anyhow::Result<Vec<String>> {
    let known = || asked.dump.machine_deployments.keys().map(|key| key.name.as_str());
    for name in names {
        if !known().any(|known| known == name) {
            bail!("--pools {name}: there is no such MachineDeployment{}", did_you_mean(name, known()));
        }
    }
    Ok(names.to_vec())
}

/// Those that are named, then the others, so many at once.
fn waves(asked: &Asked<'_>) -> anyhow::Result<Vec<Vec<ObjectKey>>> {
    let mut left: Vec<ObjectKey> = asked.clusters().cloned().collect();
    let mut waves = Vec::new();
    for typed in &asked.args.waves {
        let mut wave = Vec::new();
        for name in typed.split(',').map(str::trim) {
            let is_meant = |key: &ObjectKey| key.name == name || key.to_string() == name;
            let at = left.iter().position(is_meant).ok_or_else(|| {
                let hint = did_you_mean(name, left.iter().map(|key| key.name.as_str()));
                anyhow!("--wave {typed}: there is no Cluster {name} that is not in a wave yet{hint}")
            })?;
            // Taken out, so that no Cluster is in two waves, and what is left makes the last ones.
            wave.push(left.remove(at));
        }
        waves.push(wave);
    }
    waves.extend(left.chunks(usize::from(asked.args.at_once)).map(<[ObjectKey]>::to_vec));
    if waves.is_empty() {
        bail!("there is nothing to upgrade: no Cluster among the objects");
    }
    Ok(waves)
}

/// How a stage ends and how low it goes, in a line or two.
pub(super) fn stage_lines(stage: &StageForecast) -> Vec<String> {
    let range = stage.duration.in_words();
    let ending = match &stage.ending {
        End::Settled if stage.duration.usual_s == 0 => "nothing to do".to_owned(),
        End::Settled | End::Reached => range,
        End::Stuck => "stands still, and is not done".to_owned(),
        End::Circle { .. } => "does not end: the same happens again and again".to_owned(),
        End::TooLong => "was cut: it needs more steps than any rollout should".to_owned(),
    };
    let lows = stage.pools.iter().map(|pool| {
        let name = pool.owner.split_once('/').map_or(pool.owner.as_str(), |(_, name)| name);
        format!(", {name} never below {} available", pool.available_min)
    });
    let mut all = vec![format!("{ending}{}", lows.collect::<String>())];
    all.extend(stage.held.iter().take(2).map(|held| format!("held: {}: {}", held.object, held.sentence)));
    all
}

fn text(calendar: &Upgrade, color: bool) -> String {
    let painted = |paint: &str, text: &str| {
        if color { format!("{paint}{text}{RESET}") } else { text.to_owned() }
    };
    let mut out = String::new();
    for wave in &calendar.waves {
        let when = match (&wave.begins, &wave.ends_by) {
            (Some(begins), Some(ends)) => format!("{begins} to {ends} at the latest"),
            (Some(begins), None) => format!("{begins}, and no end"),
            (None, _) => "does not begin: a wave before it stands still".to_owned(),
        };
        let head = format!("wave {}", wave.number);
        let _ = writeln!(out, "{}  {when}", painted(BOLD, &head));
        for upgrade in &wave.clusters {
            let name = format!("{}/{}", upgrade.namespace, upgrade.cluster);
            let paint = if upgrade.is_stopped() { RED } else { GREEN };
            let _ = writeln!(
                out,
                "  {}",
                painted(paint, &format!("{name}  {}", in_words(upgrade, wave.begins.is_some())))
            );
            for stage in &upgrade.stages {
                let at = parse_rfc3339(&stage.begins).map(|at| at.format("%m-%d %H:%M").to_string());
                // `stage_lines` has three lines at most: the ending and two that hold it.
                for (line, first) in stage_lines(stage).iter().zip([true, false, false]) {
                    let lead = if first { at.as_deref().unwrap_or_default() } else { "" };
                    let name = if first { stage.name.as_str() } else { "" };
                    let _ = writeln!(out, "    {}", format!("{lead:<11}  {name}  {line}").trim_end());
                }
            }
        }
    }
    out
}

fn in_words(upgrade: &ClusterUpgrade, has_begun: bool) -> String {
    match upgrade.stages.len() {
        0 if !has_begun => "waits".to_owned(),
        0 => "nothing to do".to_owned(),
        _ if upgrade.is_stopped() => "stands still".to_owned(),
        1 => "1 stage".to_owned(),
        stages => format!("{stages} stages"),
    }
}
