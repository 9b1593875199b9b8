//! The whole way of a migration, and the way back from each stage, as they are to be done.

use super::stage::{CCM, Cast, KCM, ON, Played, Rehearsal, RehearsalError, file};
use leader_migration::manager_kind::ManagerKind;
use leader_migration::stages::MigrationStage;

/// Long enough for a Lease to run out and be taken by another.
const SETTLES_S: u64 = 25;
/// The stages from which the processes have something to go back to.
pub const WAYS_BACK: [MigrationStage; 5] = [
    MigrationStage::Enable,
    MigrationStage::Introduce,
    MigrationStage::Handover,
    MigrationStage::Settle,
    MigrationStage::Disable,
];

impl Rehearsal {
    fn old(&mut self, cast: &Cast, node: &str, is_on: bool) -> Result<(), RehearsalError> {
        self.note(&format!("{KCM} {} on {node}{}", cast.old, if is_on { " with the flag" } else { "" }));
        let provider = "--cloud-provider=in-tree";
        match is_on {
            true => self.put(KCM, cast.old, node, &format!("{provider} {ON}"), &file(cast.old)?),
            false => self.put(KCM, cast.old, node, provider, ""),
        }
        Ok(())
    }

    fn new_node(&mut self, cast: &Cast, node: &str) -> Result<(), RehearsalError> {
        let new = cast.new;
        self.note(&format!("{KCM} {new} without cloud provider on {node}, and {CCM} with the flag"));
        self.put(KCM, new, node, "--cloud-provider=external", "");
        self.put(CCM, new, node, ON, &file(new)?);
        Ok(())
    }

    fn cloud(&mut self, cast: &Cast, node: &str, is_on: bool) -> Result<(), RehearsalError> {
        self.note(&format!("{CCM} {} the flag on {node}", if is_on { "with" } else { "without" }));
        match is_on {
            true => self.put(CCM, cast.new, node, ON, &file(cast.new)?),
            false => self.put(CCM, cast.new, node, "", ""),
        }
        Ok(())
    }

    /// The holder's node comes last: it keeps the controllers until then.
    fn holder_last(&self, cast: &Cast, manager: ManagerKind) -> Vec<String> {
        let holder = self.holder(manager.name());
        let mut nodes = cast.nodes.clone();
        // `false` sorts first, and the sort is stable: the others keep their order.
        nodes.sort_by_key(|node| *node == holder);
        nodes
    }

    async fn enable(&mut self, cast: &Cast) -> Result<(), RehearsalError> {
        for node in self.holder_last(cast, KCM) {
            self.old(cast, &node, true)?;
            self.wait().await?;
        }
        self.pass(SETTLES_S).await
    }

    async fn hand_over(&mut self, cast: &Cast) -> Result<(), RehearsalError> {
        for node in self.holder_last(cast, KCM) {
            self.judge();
            self.new_node(cast, &node)?;
            self.wait().await?;
        }
        self.pass(SETTLES_S).await
    }

    async fn disable(&mut self, cast: &Cast) -> Result<(), RehearsalError> {
        for node in self.holder_last(cast, CCM) {
            self.judge();
            self.cloud(cast, &node, false)?;
            self.wait().await?;
        }
        self.pass(SETTLES_S).await
    }

    async fn clean(&mut self) -> Result<(), RehearsalError> {
        self.judge();
        self.note("the Lease, the Role and the files are deleted");
        self.delete_lease().await;
        self.pass(3).await
    }
}

/// From the first stage to the last.
///
/// # Errors
/// See [`RehearsalError`].
pub async fn whole_way(cast: Cast) -> Result<Played, RehearsalError> {
    let mut play = Rehearsal::start(&cast).await?;
    play.grant(false);
    for node in &cast.nodes {
        play.old(&cast, node, false)?;
    }
    play.pass(5).await?;
    play.judge();
    play.note("Role and binding are applied");
    play.grant(true);
    play.judge();
    play.enable(&cast).await?;
    play.hand_over(&cast).await?;
    play.judge();
    // Stage Settle lasts ten minutes without a transition.
    play.pass(600).await?;
    play.disable(&cast).await?;
    play.clean().await?;
    play.judge();
    Ok(play.end())
}

/// To a stage, and back from there.
///
/// # Errors
/// See [`RehearsalError`]; a stage from which there is nothing to go back to.
pub async fn way_back(cast: Cast, from: MigrationStage) -> Result<Played, RehearsalError> {
    if !WAYS_BACK.contains(&from) {
        let known = WAYS_BACK.map(|stage| (stage as usize).to_string()).join(", ");
        return Err(RehearsalError::Unknown { what: format!("stage {}", from as usize), known });
    }
    let mut play = Rehearsal::start(&cast).await?;
    for node in &cast.nodes {
        play.old(&cast, node, false)?;
    }
    play.pass(5).await?;
    play.enable(&cast).await?;
    match from {
        MigrationStage::Enable => play.note("back: the flag goes, node by node"),
        MigrationStage::Introduce => {
            let nodes = play.holder_last(&cast, KCM);
            play.new_node(&cast, &nodes[0])?;
            play.wait().await?;
            play.note(
                "back: the node gets the old release with the flag, then its cloud-controller-manager goes",
            );
            play.judge();
            play.old(&cast, &nodes[0], true)?;
            play.pass(SETTLES_S).await?;
            // Only after the old process runs: otherwise no process would be left between the two.
            play.take(CCM, &nodes[0]);
        }
        _ => {
            play.hand_over(&cast).await?;
            if from == MigrationStage::Disable {
                play.disable(&cast).await?;
                play.note("back: the flag comes again, node by node");
                for node in &cast.nodes {
                    play.cloud(&cast, node, true)?;
                    play.pass(SETTLES_S).await?;
                }
            }
            play.note("back: old processes with the flag come on every node, then the cloud's go");
            play.judge();
            for node in &cast.nodes {
                play.old(&cast, node, true)?;
                play.pass(SETTLES_S).await?;
            }
            for node in &cast.nodes {
                play.take(CCM, node);
            }
        }
    }
    // Both locks may have to run out, one after the other.
    play.pass(2 * SETTLES_S).await?;
    play.judge();
    play.note("back: the flag goes, node by node");
    for node in &cast.nodes {
        play.old(&cast, node, false)?;
        play.pass(SETTLES_S).await?;
    }
    play.clean().await?;
    play.judge();
    Ok(play.end())
}
