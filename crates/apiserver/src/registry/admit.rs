//! Asking admission about a write: looks up what its rules have to know. Owns the reading; must not
//! know a rule.

use serde_json::Value;

use super::{Registry, Subject};
use crate::failure::Failure;
use crate::object::Record;
use crate::request::grants::{GrantRefusal, Grants};
use crate::resource::RBAC_GROUP;
use capstan_store::Range;
use k8s_machinery::admission::{Found, Known, Need, Request};

impl Registry {
    /// Refuses what the kind's rules refuse; answers with warnings. `old` is `None` on create.
    pub(super) async fn admit(
        &self,
        subject: Subject<'_>,
        old: Option<&Value>,
        new: &Value,
        dry_run: bool,
    ) -> Result<Vec<String>, Failure> {
        let request = subject.request(old, dry_run);
        // The answers may be out of date at the commit, as those that upstream's webhooks get from
        // a cache.
        let known = self.learn(self.admission.needs(&request, new)).await?;
        Ok(self.admission.check(&request, new, &known)?)
    }

    /// Refuses a Role or a binding that hands on what its author does not hold.
    pub(super) fn admit_grants(
        &self,
        subject: Subject<'_>,
        grants: Option<&Grants>,
        old: Option<&Value>,
        new: &Value,
    ) -> Result<(), Failure> {
        let Subject { resource, name, .. } = subject;
        let Some(grants) = grants.filter(|_| resource.group == RBAC_GROUP) else { return Ok(()) };
        grants.check(&resource.kind, old, new).map_err(|refusal| match refusal {
            GrantRefusal::NotHeld(why) => Failure::forbidden(&resource.group, &resource.plural, name, &why),
            GrantRefusal::NoRole { resource, name } => Failure::not_found(RBAC_GROUP, resource, &name),
        })
    }

    /// Refuses to delete what is in use. Most kinds have no such rule, and are not read for it.
    pub(super) async fn admit_delete(&self, subject: Subject<'_>, record: &Record) -> Result<(), Failure> {
        let (group, kind) = (&subject.resource.group, &subject.resource.kind);
        let needs = self.admission.needs_for_delete(group, kind);
        if needs.is_empty() {
            return Ok(());
        }
        let known = self.learn(needs).await?;
        Ok(self.admission.check_delete(group, kind, &record.value()?, &known)?)
    }

    /// Refuses replicas that the kind refuses, when `new` came through the scale subresource.
    pub(super) fn admit_scale(&self, subject: Subject<'_>, old: &Value, new: &Value) -> Result<(), Failure> {
        let Some(paths) = &subject.resource.scale else { return Ok(()) };
        let replicas = new.pointer(&paths.spec_replicas).and_then(Value::as_i64).unwrap_or(0);
        let (group, kind) = (&subject.resource.group, &subject.resource.kind);
        Ok(self.admission.check_scale(group, kind, old, replicas)?)
    }

    async fn learn(&self, needs: Vec<Need>) -> Result<Known, Failure> {
        let mut known = Known::default();
        for need in needs {
            let found = self.find(&need).await?;
            known.add(need, found);
        }
        Ok(known)
    }

    /// Objects as they are stored.
    async fn find(&self, need: &Need) -> Result<Found, Failure> {
        let catalog = self.catalog.load_full();
        let is_wanted = |resource: &&_| {
            let resource: &crate::resource::Resource = resource;
            resource.group == need.group && resource.kind == need.kind
        };
        let Some(resource) = catalog.stored().map(AsRef::as_ref).find(is_wanted) else {
            return Ok(Found::NotServed);
        };
        let entries = if need.name.is_empty() {
            let prefix = resource.range_prefix(&need.namespace);
            self.store.range(Range { prefix: &prefix, ..Range::default() }).await?.entries
        } else {
            self.store.get(&resource.key(&need.namespace, &need.name)).await?.into_iter().collect()
        };
        let objects: Result<Vec<Value>, Failure> =
            entries.iter().map(|entry| Record::read(entry)?.value()).collect();
        Ok(Found::Objects(objects?))
    }
}

impl<'a> Subject<'a> {
    /// The write as admission sees it.
    pub(super) fn request(&self, old: Option<&'a Value>, dry_run: bool) -> Request<'a> {
        Request { group: &self.resource.group, kind: &self.resource.kind, old, dry_run }
    }
}
