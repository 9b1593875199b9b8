//! The way from previews to the disruption budgets of a workload cluster. Owns the question; must not know how they are read, nor which
//! Machines an action takes.

use async_trait::async_trait;

use capi_types::key::ObjectKey;
use capstan_engine::client::Connection;
pub use capstan_engine::workload::HeldBudget;
use capstan_engine::workload::held_budgets;

/// Reads the budgets of workload clusters.
#[async_trait]
pub trait BudgetReader: Send + Sync + 'static {
    /// Those that let no pod go.
    ///
    /// # Errors
    /// Why they could not be read, in a sentence.
    async fn held(&self, cluster: &ObjectKey) -> Result<Vec<HeldBudget>, String>;
}

/// Reads them through the kubeconfigs of one management cluster.
pub struct ServerBudgets {
    pub connection: Connection,
}

#[async_trait]
impl BudgetReader for ServerBudgets {
    async fn held(&self, cluster: &ObjectKey) -> Result<Vec<HeldBudget>, String> {
        held_budgets(&self.connection.client, cluster).await
    }
}
