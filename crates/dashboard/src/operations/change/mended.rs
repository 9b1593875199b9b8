//! ConfigMaps that get back what the last change left there, since they cannot be read. Owns this write; must not know how the texts
//! are found.

use async_trait::async_trait;

use super::MANAGER;
use super::source::LiveCluster;
use crate::operations::guard::{Confirmed, Refusal};
use crate::operations::journal::About;
use capstan_engine::client::Writer;
use capstan_engine::reconfigure::mend::{BrokenMap, write_back};
use capstan_engine::reconfigure::write::ChangeWriteError;

/// The texts that a person wants back.
pub struct MendedMaps<'a> {
    pub live: &'a LiveCluster,
    pub maps: &'a [BrokenMap],
}

/// Why it was not written back.
#[derive(Debug, thiserror::Error)]
pub enum MendError {
    #[error(transparent)]
    Refusal(#[from] Refusal),
    #[error(transparent)]
    Write(#[from] ChangeWriteError),
}

#[async_trait]
impl Confirmed for MendedMaps<'_> {
    type Written = ();
    type Error = MendError;

    fn about(&self) -> About<'_> {
        let first = self.maps.first();
        About {
            server: &self.live.server,
            action: "change rollback",
            api_version: "v1".to_owned(),
            kind: "ConfigMap",
            namespace: "kube-system",
            name: first.map_or("", |map| map.name),
            seen: first.map_or("", |map| map.change.as_str()),
            ..About::default()
        }
    }

    async fn write(&mut self) -> Result<(), MendError> {
        let writer = Writer::new(self.live.client.clone(), MANAGER);
        for map in self.maps {
            write_back(&writer, map).await?;
        }
        Ok(())
    }
}
