//! Which Cluster API looks after the clusters of a server, read once: clusterctl notes it where it installs one. Nothing is missing
//! without it, so that nothing is said where it may not be read.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{Context, feed};
use crate::fleet::{Delta, FeedState, PROVIDER_KIND, PROVIDERS_GROUP, cluster_api_of};
use capstan_engine::client::catalog::Missing;
use capstan_engine::client::read::list_values;
use capstan_engine::client::watch::Backoff;

/// Says it, as soon as the server answers.
pub(super) async fn say(context: Arc<Context>, batches: mpsc::Sender<Vec<Delta>>) {
    for wait in Backoff::new(context.rng.stream(PROVIDERS_GROUP)) {
        match read(&context).await {
            Ok(None) => return,
            Ok(Some(version)) => {
                let version = capstan_base::text::sanitize_line(&version).into();
                let _ = batches.send(vec![Delta::ClusterApi { source: context.id, version }]).await;
                return;
            }
            Err(error) => match feed::refused_or_lost(&error, &context.server) {
                FeedState::Lost { .. } => tokio::time::sleep(wait).await,
                _ => return,
            },
        }
    }
}

async fn read(context: &Context) -> Result<Option<String>, kube::Error> {
    // Looked for among the groups first: what is not served would have all kinds looked up again.
    if !context.catalog.has_group(PROVIDERS_GROUP).await? {
        return Ok(None);
    }
    let gvk = match context.catalog.resolve(PROVIDERS_GROUP, PROVIDER_KIND).await {
        Ok(gvk) => gvk,
        Err(Missing::NotServed(_)) => return Ok(None),
        Err(Missing::Unreachable(error)) => return Err(error),
    };
    let mut listed = list_values(&context.client, &gvk, "", "").await?;
    // Items of a list come without it.
    listed.iter_mut().for_each(|object| object["kind"] = PROVIDER_KIND.into());
    Ok(listed.iter().find_map(cluster_api_of))
}
