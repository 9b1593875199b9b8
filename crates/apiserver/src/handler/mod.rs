//! One request to one answer. Owns verbs, subresources and headers; what a verb does is in `registry`, how
//! `response` writes its outcome.

mod rbac;
mod review;

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use http::request::Parts;
use http::{HeaderName, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::{Value, json};

use crate::documents::{self, Documents, Site};
use crate::failure::{Failure, Reason};
use crate::object::Record;
use crate::patch::{self, Patch};
use crate::registry::deletion::DeleteOptions;
use crate::registry::identity;
use crate::registry::list::Listing;
use crate::registry::offload::{LIGHT_BYTES_MAX, LIGHT_OBJECTS_MAX, Lane};
use crate::registry::{Draft, Part, Registry, Subject, Written, present};
use crate::request::auth::{Identity, Role};
use crate::request::content;
use crate::request::fence::{self, HeldLease};
use crate::request::grants::Grants;
use crate::request::negotiate::{self, Form};
use crate::request::options::{ListOptions, Query, WriteKind, WriteOptions, resource_version};
use crate::request::routes::{Route, Target, Verb, route};
use crate::resource::scale;
use crate::resource::strategy::Strategy;
use crate::resource::{RBAC_GROUP, Resource, ScalePaths};
use crate::response::answer;
use crate::response::lines::{Lines, value_line};
use crate::response::watch::Watcher;
use crate::response::{ForwardedPort, PORT_FORWARD_PROTOCOL, Payload, Reply};

/// Lists up to this size, unpacked, are written on the spot.
const LIGHT_LIST_BYTES_MAX: usize = 16 * LIGHT_BYTES_MAX;

/// Of what a list leaves out, so many are named.
const LEFT_OUT_NAMED_MAX: usize = 3;

/// Who asks for what, before its resource is looked for.
pub struct Asked {
    pub registry: Arc<Registry>,
    pub lines: Arc<Lines>,
    pub documents: Arc<Documents>,
    pub who: Identity,
    pub parts: Arc<Parts>,
    pub body: Result<Bytes, Failure>,
    /// By a part of this process.
    pub in_process: bool,
}

/// A request whose resource was found.
struct Call {
    registry: Arc<Registry>,
    lines: Arc<Lines>,
    who: Identity,
    resource: Arc<Resource>,
    target: Target,
    query: Query,
    parts: Arc<Parts>,
    body: Bytes,
    /// Leases that it rests on, if it writes.
    held: Vec<HeldLease>,
    /// What may be handed on by Roles and bindings, if it writes one; `None`: anything.
    grants: Option<Grants>,
    in_process: bool,
}

/// Answers a request; failures are answers too.
pub async fn handle(asked: Asked) -> Reply {
    match try_handle(asked).await {
        Ok(reply) => reply,
        Err(failure) => failure.into(),
    }
}

async fn try_handle(asked: Asked) -> Result<Reply, Failure> {
    let Asked { registry, lines, documents, who, parts, body, in_process } = asked;
    let query = Query::parse(&parts.uri);
    let (verb, target) = match route(&parts.method, &parts.uri, &query)? {
        Route::Other(path) => {
            who.authorize_path(documents::verb(&parts.method), &path)?;
            let lane = if in_process { Lane::InProcess } else { Lane::Reading };
            let site = Site { registry: &registry, kept: &documents, lane };
            return documents::answer(site, &path, &parts, &query).await;
        }
        Route::Resource(verb, target) => (verb, target),
    };
    // Rights come before the resource: who has none does not learn what is served.
    authorize(&registry, &who, verb, &target).await?;
    let catalog = registry.catalog.load();
    let Some(resource) = catalog.find(&target.group, &target.version, &target.plural).cloned() else {
        // The core group answers with a Status, the others with plain text, as upstream.
        return if target.group.is_empty() {
            Err(Failure::unknown_path())
        } else {
            Ok(documents::not_found())
        };
    };
    // `load` lends one of a few fast slots, which is not to be kept over the awaits below.
    drop(catalog);
    let scoped = if resource.namespaced {
        !target.namespace.is_empty() || matches!(verb, Verb::List | Verb::Watch)
    } else {
        target.namespace.is_empty()
    };
    if !scoped {
        return Ok(documents::not_found());
    }
    let warnings: Vec<String> = resource.deprecation.iter().cloned().collect();
    // What is wrong with a body is said only to those who may send one.
    let (body, held, grants) = (body?, Vec::new(), None);
    let call = Call { registry, lines, who, resource, target, query, parts, body, held, grants, in_process };
    let reply = if call.is_long(verb) {
        let (registry, lane) = (call.registry.clone(), call.lane(Lane::Writing));
        registry.offload.drive(lane, call.run(verb)).await?
    } else {
        call.run(verb).await
    };
    Ok(reply?.with_warnings(&warnings))
}

/// By what the user is, else by what is bound to it.
async fn authorize(registry: &Registry, who: &Identity, verb: Verb, target: &Target) -> Result<(), Failure> {
    let Err(refusal) = who.authorize(verb, target) else { return Ok(()) };
    let attributes = rbac::ResourceAttributes {
        verb: verb.word(),
        group: &target.group,
        resource: &target.plural,
        subresource: &target.subresource,
        namespace: &target.namespace,
        name: &target.name,
    };
    if rbac::allows(registry, who, attributes).await? { Ok(()) } else { Err(refusal) }
}

impl Call {
    /// Much has to be read, changed or checked, of the body or of what is there.
    fn is_long(&self, verb: Verb) -> bool {
        let changes = matches!(verb, Verb::Update | Verb::Patch | Verb::Delete);
        let there = if changes { self.registry.store.weight(&self.subject().key()) } else { 0 };
        self.body.len().max(there) > LIGHT_BYTES_MAX
    }

    fn lane(&self, lane: Lane) -> Lane {
        if self.in_process { Lane::InProcess } else { lane }
    }

    async fn run(mut self, verb: Verb) -> Result<Reply, Failure> {
        let resource = self.resource.clone();
        if !resource.verbs().contains(&verb.word()) && !(resource.terminating && is_write(verb)) {
            return Err(Failure::method_not_allowed(&resource.group, &resource.plural, verb.word()));
        }
        if let Strategy::Review(kind) = resource.strategy {
            let draft = self.draft()?;
            let reviewed = review::answer(kind, draft.object, &self.who, &self.registry).await?;
            return Ok(Reply::json(reviewed.to_string()).created(true));
        }
        if is_write(verb) || matches!(verb, Verb::Delete | Verb::DeleteCollection) {
            let fences = fence::named(&self.parts.headers)?;
            self.held = self.registry.hold(self.subject(), fences).await?;
            // As upstream: nobody hands on rights that he does not have, except an administrator.
            if is_write(verb) && resource.group == RBAC_GROUP && self.who.role != Role::Admin {
                self.grants = Some(rbac::grants(&self.registry, &self.who, &self.target.namespace).await?);
            }
        }
        match (self.target.subresource.as_str(), verb) {
            ("", Verb::List) => self.list().await,
            ("", Verb::Watch) => self.watch().await,
            ("", Verb::Create) => self.create().await,
            ("", Verb::Delete) => self.delete().await,
            ("", Verb::DeleteCollection) => self.delete_collection().await,
            ("", _) if self.target.name.is_empty() => Err(Failure::bad_request("name must be provided")),
            ("", _) => self.part(Part::Main, verb).await,
            ("status", _) if resource.has_status => self.part(Part::Status, verb).await,
            ("finalize", Verb::Update) if matches!(resource.strategy, Strategy::Namespace) => {
                self.part(Part::Finalize, verb).await
            }
            ("scale", _) if resource.scale.is_some() => self.scale(verb).await,
            ("eviction", Verb::Create) if matches!(resource.strategy, Strategy::Pod) => self.evict().await,
            ("portforward", Verb::Get | Verb::Create) if matches!(resource.strategy, Strategy::Pod) => {
                self.forward_port().await
            }
            (proxied, Verb::Get) if matches!(resource.strategy, Strategy::Node) => {
                self.ask_kubelet(proxied).await
            }
            // As upstream, the object is named although only its subresource is missing.
            _ => Err(self.subject().not_found()),
        }
    }

    /// What lies behind `proxy/` is the kubelet's.
    async fn ask_kubelet(&self, subresource: &str) -> Result<Reply, Failure> {
        let (Some(kubelets), Some(path)) = (&self.registry.kubelets, subresource.strip_prefix("proxy/"))
        else {
            return Err(self.subject().not_found());
        };
        let answer = kubelets.get(&self.target.name, path).await;
        answer.map(Reply::json).map_err(|why| Failure::unavailable(why, 0))
    }

    async fn evict(&self) -> Result<Reply, Failure> {
        let Some(kubelets) = &self.registry.kubelets else { return Err(self.subject().not_found()) };
        // A pod that is not there is 404, whatever its kubelet would say.
        self.registry.entry(self.subject()).await?;
        let grace_period_s = self.draft()?.object["deleteOptions"]["gracePeriodSeconds"].as_u64();
        let grace_period_s = grace_period_s.and_then(|seconds| u32::try_from(seconds).ok());
        let asked = kubelets.evict(&self.target.namespace, &self.target.name, grace_period_s).await;
        // 429 is what `kubectl drain` and Cluster API take for "not yet" and repeat at their own pace. Without Retry-After, as upstream
        // (`checkAndDecrement` of pkg/registry/core/pod/storage/eviction.go, v1.36): client-go would hold the request back for as long.
        asked.map_err(|why| Failure::too_many_requests(why, 0))?;
        Ok(Reply::json(json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }).to_string())
            .created(true))
    }

    /// The answer turns the connection into a WebSocket; what is sent then is the pod's.
    async fn forward_port(&self) -> Result<Reply, Failure> {
        let Some(kubelets) = &self.registry.kubelets else { return Err(self.subject().not_found()) };
        // It is a GET, and acts.
        authorize(&self.registry, &self.who, Verb::Create, &self.target).await?;
        self.registry.entry(self.subject()).await?;
        let says = |name: HeaderName, word: &str| {
            self.header(name).split(',').any(|said| said.trim().eq_ignore_ascii_case(word))
        };
        if !says(header::UPGRADE, "websocket") || !says(header::SEC_WEBSOCKET_PROTOCOL, PORT_FORWARD_PROTOCOL)
        {
            let why = format!("a port-forward needs an upgrade to a WebSocket of {PORT_FORWARD_PROTOCOL}");
            return Err(Failure::bad_request(why));
        }
        let asked = self.query.text("ports").parse().ok();
        let port = asked.ok_or_else(|| Failure::bad_request("expected one port, such as ports=8080"))?;
        let connection = kubelets.connect(&self.target.namespace, &self.target.name, port).await;
        Ok(Reply::switching(ForwardedPort { port, connection }))
    }

    fn subject(&self) -> Subject<'_> {
        Subject { resource: &self.resource, namespace: &self.target.namespace, name: &self.target.name }
    }

    fn header(&self, name: HeaderName) -> &str {
        self.parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    fn form(&self, list: bool) -> Result<Form, Failure> {
        negotiate::form(self.header(header::ACCEPT), &self.query, list)
    }

    fn draft(&self) -> Result<Draft, Failure> {
        let (object, duplicates) = content::decode(self.header(header::CONTENT_TYPE), &self.body)?;
        Ok(Draft { object, duplicates, is_patch: false })
    }

    async fn get(&self) -> Result<Reply, Failure> {
        let form = self.form(false)?;
        // As upstream: with a resource version, the answer must not be older than that.
        self.registry.wait_for(resource_version(&self.query)?.unwrap_or(0)).await?;
        let record = Record::read(&self.registry.entry(self.subject()).await?)?;
        answer::one(&self.resource, &record, form, self.registry.clock.now()).map(Reply::json)
    }

    async fn list(&self) -> Result<Reply, Failure> {
        let form = self.form(true)?;
        let options = ListOptions::parse(&self.query, false)?;
        let listing = self.registry.list(&self.resource, &self.target.namespace, &options).await?;
        let reply = self.listed(listing, form).await?;
        Ok(reply.with_warnings(self.left_out().as_slice()))
    }

    /// What a list lacks because the store has no object there.
    fn left_out(&self) -> Option<String> {
        let keys = self.registry.store.unreadable(&self.resource.range_prefix(&self.target.namespace));
        let prefix = self.resource.range_prefix("");
        let names = keys.iter().filter_map(|key| key.strip_prefix(prefix.as_str()));
        let named = names.take(LEFT_OUT_NAMED_MAX).collect::<Vec<_>>().join(", ");
        let more = if keys.len() > LEFT_OUT_NAMED_MAX { ", ..." } else { "" };
        let sentence = || {
            let (count, plural) = (keys.len(), &self.resource.plural);
            format!(
                "{count} of the {plural} cannot be read and are left out: {named}{more}; delete them by name"
            )
        };
        (!keys.is_empty()).then(sentence)
    }

    async fn listed(&self, listing: Listing, form: Form) -> Result<Reply, Failure> {
        let now = self.registry.clock.now();
        let bytes: usize = listing.entries.iter().map(|entry| entry.value.bytes()).sum();
        if listing.entries.len() <= LIGHT_OBJECTS_MAX && bytes <= LIGHT_LIST_BYTES_MAX {
            return answer::list(&self.resource, &listing, form, now).map(Reply::json);
        }
        let resource = self.resource.clone();
        let written = move || answer::list(&resource, &listing, form, now).map(Reply::json);
        self.registry.offload.run(self.lane(Lane::Reading), written).await?
    }

    async fn watch(&self) -> Result<Reply, Failure> {
        let form = self.form(false)?;
        let options = ListOptions::parse(&self.query, true)?;
        let (registry, lines) = (self.registry.clone(), self.lines.clone());
        let namespace = &self.target.namespace;
        let opened = Watcher::open(registry, lines, self.resource.clone(), namespace, &options, form).await?;
        let mut reply = Reply::json(Bytes::new());
        reply.body = match opened {
            Ok(watcher) => {
                let frames = watcher.into_stream().map(|chunk| Ok(Frame::data(chunk)));
                Payload::Events(StreamBody::new(frames).boxed_unsync())
            }
            // A refusal is the first event of the stream, where clients of a watch look for it.
            Err(failure) => Payload::Events(Full::new(value_line("ERROR", &failure.status())).boxed_unsync()),
        };
        Ok(reply)
    }

    async fn create(&self) -> Result<Reply, Failure> {
        let form = self.form(false)?;
        let options = self.write_options(WriteKind::Create)?;
        let written = self.registry.create(self.subject(), self.draft()?, options).await?;
        self.written(&written, form)
    }

    fn written(&self, written: &Written, form: Form) -> Result<Reply, Failure> {
        let now = self.registry.clock.now();
        let body = answer::written(&self.resource, &written.object, &written.managed, form, now)?;
        let reply = Reply::json(body).about(&written.object);
        Ok(reply.created(written.created).with_warnings(&written.warnings))
    }

    /// Get, update or patch of the object or of its status.
    async fn part(&self, part: Part, verb: Verb) -> Result<Reply, Failure> {
        let form = self.form(false)?;
        let resource = &self.resource;
        match verb {
            Verb::Get => self.get().await,
            Verb::Update => {
                let options = self.write_options(WriteKind::Update)?;
                let draft = self.draft()?;
                let written =
                    self.registry.update(self.subject(), part, options, &|_| Ok(draft.clone())).await;
                let written = match written {
                    Err(failure)
                        if failure.reason == Reason::NotFound && resource.allows_create_on_update() =>
                    {
                        // As upstream: who may update what is there may not for that make what is not.
                        authorize(&self.registry, &self.who, Verb::Create, &self.target).await?;
                        let mut draft = self.draft()?;
                        identity::check_upsert(self.subject(), &mut draft.object)?;
                        self.registry.create(self.subject(), draft, options).await?
                    }
                    other => other?,
                };
                self.written(&written, form)
            }
            Verb::Patch if self.is_apply() => {
                let may_create = authorize(&self.registry, &self.who, Verb::Create, &self.target).await;
                let creation_refused = may_create.as_ref().err();
                let options = WriteOptions { creation_refused, ..self.write_options(WriteKind::Apply)? };
                let wish = patch::wish(&self.body)?;
                self.written(&self.registry.apply(self.subject(), part, options, &wish).await?, form)
            }
            Verb::Patch => {
                let patch = self.patch()?;
                let sees_managed_fields = patch.touches_managed_fields();
                let options = WriteOptions { sees_managed_fields, ..self.write_options(WriteKind::Patch)? };
                let change = |old: &Value| {
                    // Each attempt applies the patch anew, to what the faster writer has left.
                    let object = patch.apply(&resource.kind, old.clone())?;
                    Ok(Draft { object, duplicates: Vec::new(), is_patch: true })
                };
                self.written(&self.registry.update(self.subject(), part, options, &change).await?, form)
            }
            _ => Err(Failure::method_not_allowed(&resource.group, &resource.plural, verb.word())),
        }
    }

    fn patch(&self) -> Result<Patch, Failure> {
        Patch::parse(self.header(header::CONTENT_TYPE), &self.body, !self.resource.is_custom())
    }

    fn is_apply(&self) -> bool {
        patch::is_apply(self.header(header::CONTENT_TYPE))
    }

    fn write_options(&self, kind: WriteKind) -> Result<WriteOptions<'_>, Failure> {
        let options = WriteOptions::parse(&self.query, kind, self.header(header::USER_AGENT))?;
        Ok(WriteOptions { held: &self.held, grants: self.grants.as_ref(), ..options })
    }

    async fn delete(&self) -> Result<Reply, Failure> {
        let form = self.form(false)?;
        let options = self.delete_options()?;
        let deleted = self.registry.delete(self.subject(), &options).await?;
        let mut reply =
            answer::value(&self.resource, &deleted, form, self.registry.clock.now()).map(Reply::json)?;
        if options.says_accepted && deleted["kind"] != "Status" {
            reply.code = StatusCode::ACCEPTED;
        }
        Ok(reply)
    }

    fn delete_options(&self) -> Result<DeleteOptions, Failure> {
        let body = match self.body.is_empty() {
            true => None,
            false => Some(content::decode(self.header(header::CONTENT_TYPE), &self.body)?.0),
        };
        let options = DeleteOptions::parse(&self.query, body)?;
        Ok(DeleteOptions { held: self.held.clone(), ..options })
    }

    async fn delete_collection(&self) -> Result<Reply, Failure> {
        let form = self.form(true)?;
        let which = ListOptions::parse(&self.query, false)?;
        let options = self.delete_options()?;
        let namespace = &self.target.namespace;
        let listing = self.registry.delete_collection(&self.resource, namespace, &which, &options).await?;
        self.listed(listing, form).await
    }

    async fn scale(&self, verb: Verb) -> Result<Reply, Failure> {
        let resource = &self.resource;
        let Some(paths) = &resource.scale else { return Err(self.subject().not_found()) };
        let kind = if verb == Verb::Patch { WriteKind::Patch } else { WriteKind::Update };
        let change: Box<dyn Fn(&Value) -> Result<Value, Failure> + Send + Sync> = match verb {
            Verb::Patch if self.is_apply() => {
                let options = self.write_options(WriteKind::Apply)?;
                let wish = patch::wish(&self.body)?.behind_scale(resource, paths, &self.target.name)?;
                let written = self.registry.apply(self.subject(), Part::Scale, options, &wish).await?;
                return Ok(scaled(paths, &written));
            }
            Verb::Get => {
                let record = Record::read(&self.registry.entry(self.subject()).await?)?;
                let object = present(resource, &record)?;
                scale::check_replicas(paths, &object)?;
                return Ok(Reply::json(scale::view(paths, &object).to_string()));
            }
            Verb::Update => {
                let wanted = self.draft()?.object;
                identity::check_name(self.subject(), &wanted)?;
                Box::new(move |_| Ok(wanted.clone()))
            }
            Verb::Patch => {
                let patch = self.patch()?;
                Box::new(move |old| patch.apply("Scale", scale::patched_view(paths, old)))
            }
            _ => return Err(Failure::method_not_allowed(&resource.group, &resource.plural, verb.word())),
        };
        let options = self.write_options(kind)?;
        let change = |old: &Value| {
            let object = scale::apply(resource, paths, old, &change(old)?)?;
            Ok(Draft { object, duplicates: Vec::new(), is_patch: true })
        };
        let written = self.registry.update(self.subject(), Part::Scale, options, &change).await?;
        Ok(scaled(paths, &written))
    }
}

fn scaled(paths: &ScalePaths, written: &Written) -> Reply {
    Reply::json(scale::view(paths, &written.object).to_string()).about(&written.object)
}

/// Verbs that a definition on its way out does not offer, but whose requests are answered: finalizers still
/// have to come off its objects, and creating is refused in words of its own.
fn is_write(verb: Verb) -> bool {
    matches!(verb, Verb::Create | Verb::Update | Verb::Patch)
}
