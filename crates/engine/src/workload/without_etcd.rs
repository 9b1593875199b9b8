//! The etcd of a workload cluster in a build without the etcd client: unknown. Must not know more.

use super::{EtcdView, WorkloadError};

const MISSING: &str = "etcd (this build is without it)";

pub struct StackedEtcd;

impl StackedEtcd {
    pub async fn view(&self) -> Result<EtcdView, WorkloadError> {
        Err(WorkloadError::Unsupported(MISSING))
    }

    pub async fn remove(&self, _: u64) -> Result<(), WorkloadError> {
        Err(WorkloadError::Unsupported(MISSING))
    }

    pub async fn move_leader(&self, _: u64) -> Result<(), WorkloadError> {
        Err(WorkloadError::Unsupported(MISSING))
    }
}
