//! Which volumes a drained Node still holds. Owns the matching of attached volumes with claims, and the
//! wording; must not know how storage is read.
//! Source: `machine_controller.go` (`shouldWaitForNodeVolumes` and below), v1.14.2.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::VolumeAttachment;

use super::{Fate, Grounds, fates};
use crate::status::conditions::wording::join_limited;
use capstan_base::time::Timestamp;

/// Names of a kind that are shown; those after them are counted.
const SHOWN: usize = 5;

/// The storage objects of a workload cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// Of all Nodes; an error when they could not be read.
    pub attachments: Result<Vec<VolumeAttachment>, String>,
    /// An error when they could not be read. They matter only when something is attached.
    pub volumes: Result<Vec<PersistentVolume>, String>,
}

/// What is attached to a Node, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    /// In the Node's own status.
    by_node: BTreeSet<String>,
    /// PersistentVolumes in VolumeAttachments.
    by_attachment: BTreeSet<String>,
}

/// What is waited for, each list ordered by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// As `namespace/name`, without those of pods that the drain skips.
    pub claims: BTreeSet<String>,
    /// PersistentVolumes that no claim is bound to.
    pub unclaimed: BTreeSet<String>,
    /// Entries of the Node's status that no PersistentVolume fits.
    pub unknown_to_node: BTreeSet<String>,
    /// PersistentVolumes that a VolumeAttachment names and that do not exist.
    pub unknown_to_attachment: BTreeSet<String>,
}

/// What is attached to `node`. Empty: nothing is waited for.
///
/// # Errors
/// What could not be read, or an attachment without a PersistentVolume.
pub fn attached(node: &Node, storage: &Storage) -> Result<Attached, String> {
    let listed = node.status.as_ref().and_then(|s| s.volumes_attached.as_ref());
    let mut attached = Attached {
        by_node: listed.into_iter().flatten().map(|volume| volume.name.clone()).collect(),
        by_attachment: BTreeSet::new(),
    };
    let attachments = storage
        .attachments
        .as_ref()
        .map_err(|error| format!("VolumeAttachments could not be read: {error}"))?;
    for attachment in attachments {
        let here = node.metadata.name.as_ref() == Some(&attachment.spec.node_name);
        // An attachment that is not attached yet, or not any more, holds nothing.
        if !here || !attachment.status.as_ref().is_some_and(|s| s.attached) {
            continue;
        }
        let Some(volume) = &attachment.spec.source.persistent_volume_name else {
            let name = attachment.metadata.name.as_deref().unwrap_or_default();
            return Err(format!("spec.source.persistentVolumeName for VolumeAttachment {name} is not set"));
        };
        attached.by_attachment.insert(volume.clone());
    }
    Ok(attached)
}

impl Attached {
    /// Is nothing attached?
    pub fn is_empty(&self) -> bool {
        self.by_node.is_empty() && self.by_attachment.is_empty()
    }

    /// Those of them that are waited for: all but the claims of pods that stay on the Node.
    ///
    /// # Errors
    /// What could not be read.
    pub fn held(self, grounds: Grounds<'_>, storage: &Storage, now: Timestamp) -> Result<Held, String> {
        // Pods that stay keep their volumes, so a wait for these would not end.
        let stay = claims_of_skipped(grounds, now)?;
        let volumes = storage
            .volumes
            .as_ref()
            .map_err(|error| format!("PersistentVolumes could not be read: {error}"))?;
        let mut held = Held {
            unknown_to_node: self.by_node.clone(),
            unknown_to_attachment: self.by_attachment.clone(),
            ..Held::default()
        };
        for volume in volumes {
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            let on_node = name_on_node(volume).filter(|name| self.by_node.contains(name));
            // Either of the two is enough: a Node's list and
            // the attachments change at different times.
            if on_node.is_none() && !self.by_attachment.contains(name) {
                continue;
            }
            if let Some(on_node) = on_node {
                held.unknown_to_node.remove(&on_node);
            }
            // What is left in both lists at the end has no PersistentVolume that names it.
            held.unknown_to_attachment.remove(name);
            match claim_of(volume) {
                Some(claim) => held.claims.extend(Some(claim).filter(|claim| !stay.contains(claim))),
                // Without a claim no pod can be found that keeps it, so it is waited for.
                None => held.unclaimed.extend([name.to_owned()]),
            }
        }
        Ok(held)
    }
}

/// A volume's name in a Node's status; only volumes of CSI drivers can be recognised.
fn name_on_node(volume: &PersistentVolume) -> Option<String> {
    let csi = volume.spec.as_ref()?.csi.as_ref()?;
    Some(format!("kubernetes.io/csi/{}^{}", csi.driver, csi.volume_handle))
}

fn claim_of(volume: &PersistentVolume) -> Option<String> {
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    // Upstream takes no other kind for a claim, nor one without kind.
    (claim.kind.as_deref() == Some("PersistentVolumeClaim"))
        .then(|| format!("{}/{}", text(&claim.namespace), text(&claim.name)))
}

/// Claims of the pods that a drain passes over: their volumes stay attached.
fn claims_of_skipped(grounds: Grounds<'_>, now: Timestamp) -> Result<BTreeSet<String>, String> {
    let pods = fates(grounds, now)?;
    let skipped = pods.into_iter().filter(|(_, _, fate)| *fate == Fate::Skip);
    let claims = skipped.flat_map(|(key, pod, _)| {
        let volumes = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
        let claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
        claims.map(move |claim| format!("{}/{}", key.namespace, claim.claim_name)).collect::<Vec<_>>()
    });
    Ok(claims.collect())
}

impl Held {
    /// Is nothing waited for?
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// How many are waited for.
    pub fn count(&self) -> usize {
        self.lists().iter().map(|(_, names)| names.len()).sum()
    }

    fn lists(&self) -> [(&'static str, &BTreeSet<String>); 4] {
        [
            ("PersistentVolumeClaims", &self.claims),
            ("PersistentVolumes without a .spec.claimRef to a PersistentVolumeClaim", &self.unclaimed),
            (
                "Node with .status.volumesAttached entries not matching a PersistentVolume",
                &self.unknown_to_node,
            ),
            (
                "VolumeAttachment with .spec.source.persistentVolumeName not matching a PersistentVolume",
                &self.unknown_to_attachment,
            ),
        ]
    }

    /// The whole message; `since` is when the wait began.
    pub fn message(&self, since: &str) -> String {
        let mut lines = vec![head(since)];
        for (what, names) in self.lists().into_iter().filter(|(_, names)| !names.is_empty()) {
            let names: Vec<&String> = names.iter().collect();
            lines.push(format!("* {what}: {}", join_limited(&names, SHOWN)));
        }
        lines.join("\n")
    }
}

/// The first line; `since` is when the wait began.
pub fn head(since: &str) -> String {
    format!("Waiting for Node volumes to be detached (started at {since})")
}
