//! What previews and performs actions on one server, and what screens read through it. Owns what it is made of; the order of both is
//! the pipeline's ([`Guard`]), what is asked, read and written for an action stands in `proposed` and `confirmed`.

use std::sync::Arc;

use super::confirmed::ConfirmedAction;
use super::outdated::read_outdated;
use super::proposed::ProposedAction;
use super::{Action, ActionError, Draft, Planner, Preview, Report, Request};
use crate::operations::guard::Guard;
use crate::operations::{
    BudgetReader, ConfigurationReader, EtcdReader, LockReader, LogReader, ObjectQuery, ObjectTable,
    read_objects, workload_kubeconfig,
};
use capi_types::key::{ObjectKey, ObjectRef};
use capstan_engine::client::catalog::Catalog;
use capstan_engine::client::{Connection, Writer};

/// The field manager of what people do through capstan.
const FIELD_MANAGER: &str = "capstan";

/// Previews and performs actions on one server. Cheap to clone.
#[derive(Clone)]
pub struct Executor {
    pub(super) connection: Connection,
    pub(super) writer: Writer,
    pub(super) guard: Guard,
    planner: Planner,
    /// A list that is read again and again looks its kind up once.
    catalog: Arc<Catalog>,
    etcd: Option<Arc<dyn EtcdReader>>,
    locks: Option<Arc<dyn LockReader>>,
    logs: Option<Arc<dyn LogReader>>,
    budgets: Option<Arc<dyn BudgetReader>>,
    configuration: Option<Arc<dyn ConfigurationReader>>,
}

/// So often is an object looked at that others write to at the same time.
const PREVIEWS: u32 = 5;

impl Executor {
    /// From a preview to the first moment at which it can be confirmed.
    pub fn confirm_after_s(&self) -> u32 {
        self.connection.setting.confirm_after_s
    }

    pub fn new(connection: Connection, guard: &Guard) -> Self {
        let guard = guard.over(connection.read_only);
        // A server that is not strict drops fields which the version does not have, without an
        // error.
        let writer = Writer::new(connection.client.clone(), FIELD_MANAGER).strict();
        let planner = Planner::new(connection.clone(), guard.clock.clone());
        let catalog = Arc::new(Catalog::new(connection.client.clone()));
        Self {
            connection,
            writer,
            guard,
            planner,
            catalog,
            etcd: None,
            locks: None,
            logs: None,
            budgets: None,
            configuration: None,
        }
    }

    /// Previews of what takes a member ask etcd, too.
    pub fn with_etcd(self, reader: impl EtcdReader) -> Self {
        Self { etcd: Some(Arc::new(reader)), ..self }
    }

    /// What asks the etcd of the clusters of this server.
    pub fn etcd(&self) -> Option<&dyn EtcdReader> {
        self.etcd.as_deref()
    }

    /// Screens can show locks.
    pub fn with_locks(self, reader: impl LockReader) -> Self {
        Self { locks: Some(Arc::new(reader)), ..self }
    }

    /// What watches the locks of this server and of its clusters.
    pub fn locks(&self) -> Option<&dyn LockReader> {
        self.locks.as_deref()
    }

    /// Screens can show logs.
    pub fn with_logs(self, reader: impl LogReader) -> Self {
        Self { logs: Some(Arc::new(reader)), ..self }
    }

    /// What follows the logs of this server and of its clusters.
    pub fn logs(&self) -> Option<&dyn LogReader> {
        self.logs.as_deref()
    }

    /// Previews of what drains Nodes look at the disruption budgets, too.
    pub fn with_budgets(self, reader: impl BudgetReader) -> Self {
        Self { budgets: Some(Arc::new(reader)), ..self }
    }

    /// What reads the disruption budgets of the clusters of this server.
    pub(super) fn budgets(&self) -> Option<&dyn BudgetReader> {
        self.budgets.as_deref()
    }

    /// Screens read what clusters store of their kubeadm configuration, too.
    pub fn with_configuration(self, reader: impl ConfigurationReader) -> Self {
        Self { configuration: Some(Arc::new(reader)), ..self }
    }

    /// What reads and changes the kubeadm configuration of the clusters of this server.
    ///
    /// # Errors
    /// There is nothing that does, in a sentence.
    pub fn configuration(&self) -> Result<&dyn ConfigurationReader, String> {
        self.configuration.as_deref().ok_or_else(|| "nothing here reads workload clusters".to_owned())
    }

    /// The first objects of a kind of this server.
    ///
    /// # Errors
    /// They cannot be read, in a sentence.
    pub async fn objects(&self, query: &ObjectQuery) -> Result<ObjectTable, String> {
        read_objects(&self.connection, &self.catalog, query).await
    }

    /// Why a Machine is not as its owner wants it, a line for each difference.
    ///
    /// # Errors
    /// Something cannot be read, in a sentence.
    pub async fn outdated(&self, machine: &ObjectKey) -> Result<Vec<String>, String> {
        read_outdated(&self.connection, &self.catalog, machine).await
    }

    /// The kubeconfig of a workload cluster, with which one may write there.
    ///
    /// # Errors
    /// It may not be given out, or cannot be read, in a sentence.
    pub async fn kubeconfig(&self, cluster: &ObjectKey) -> Result<String, String> {
        self.guard.check_writable().map_err(|refusal| refusal.to_string())?;
        workload_kubeconfig(&self.connection, cluster).await
    }

    /// The plans of the clusters of this server.
    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// What a person sees before the confirmation. Writes nothing.
    ///
    /// # Errors
    /// [`ActionError`]: not taken by the kind, no right, refused, gone, or refused by the dry run, which must change
    /// something.
    pub async fn preview(&self, request: &Request) -> Result<Preview, ActionError> {
        let mut left = PREVIEWS;
        loop {
            left -= 1;
            let mut proposed = ProposedAction::new(self, request);
            match self.guard.look(&mut proposed).await {
                // No preview is shown yet: an object that changed while it was read is read again.
                Err(ActionError::Stale { .. }) if left > 0 => {}
                looked => return proposed.preview(looked?),
            }
        }
    }

    /// The object as text for an editor. Of one that was begun, the person's change goes on, with the reason on top.
    ///
    /// # Errors
    /// [`ActionError`]: no right, gone, or not to be shown as text.
    pub async fn draft(
        &self,
        target: &ObjectRef,
        begun: Option<(&Draft, &str)>,
    ) -> Result<Draft, ActionError> {
        // The change does not matter yet.
        let request = Request::new(target.clone(), Action::Undo);
        let (target, object) = ProposedAction::new(self, &request).object().await?;
        let draft = match begun {
            // What was written in fields of another version cannot be put into this one.
            Some((draft, why)) if draft.target.gvk == target.gvk => draft.again(&object, why),
            Some(_) | None => Draft::of(target, &object),
        };
        draft.map_err(|why| ActionError::Refused(format!("{} cannot be edited here: {why}", request.target)))
    }

    /// Does what was previewed, guarded by the uid and resourceVersion that were shown.
    ///
    /// # Errors
    /// [`ActionError`]; `Stale` when the object changed in the meantime, `NotKept` when it was done and is not there.
    pub async fn perform(&self, preview: &Preview) -> Result<Report, ActionError> {
        self.guard.write(&mut ConfirmedAction::new(self, preview), &preview.findings).await
    }
}
