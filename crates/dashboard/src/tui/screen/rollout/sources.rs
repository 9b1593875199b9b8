//! What the parts of a rollout's outlook look at: the fleet, the picture made from it, and the plans. Must not judge.

use std::sync::Arc;

use crate::fleet::{Fleet, OwnerRollout, OwnerStage, Rollout, Row, RowId};
use crate::tui::plans::Plans;
use capi_forecast::forecast::{ObjectPlan, State};

/// The fleet, the picture and the plans.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    pub fleet: &'a Fleet,
    pub rollout: &'a Rollout,
    pub plans: &'a Plans,
}

impl<'a> Sources<'a> {
    pub(super) fn row(&self, id: RowId) -> Option<&'a Arc<Row>> {
        self.fleet.row(id)
    }

    pub(super) fn name(&self, id: RowId) -> &'a str {
        self.row(id).map_or("", |row| row.name.as_ref())
    }

    /// The plan of an owner, where one could be made.
    pub(super) fn plan(&self, id: RowId) -> Option<&'a ObjectPlan> {
        self.plans.of_row(self.row(id)?).filter(|plan| plan.state != State::Unknown)
    }

    /// The name of an owner as the screen has it: a control plane needs none.
    pub(super) fn owner_name(&self, owner: &OwnerRollout) -> &'a str {
        if owner.is_control_plane {
            return "control plane";
        }
        let cluster = self.name(self.rollout.cluster);
        let name = self.name(owner.id);
        name.strip_prefix(cluster)
            .and_then(|rest| rest.strip_prefix('-'))
            .filter(|n| !n.is_empty())
            .unwrap_or(name)
    }

    /// Does an owner only wait until the control plane is through?
    pub(super) fn waits_its_turn(&self, owner: &OwnerRollout) -> bool {
        let waits = matches!(owner.stage, OwnerStage::Waiting { .. } | OwnerStage::FollowsTopology);
        waits && !owner.is_control_plane && self.rollout.control_plane_rolls()
    }
}
