//! A connection whose credentials stay good: they are made anew at their end and once when the server refuses them, and the
//! kubeconfig is read again when it has changed. Owns when that happens; must not know where credentials are from.
//!
//! Source: client-go `plugin/pkg/client/auth/exec/exec.go` (`maybeRefreshCreds`, `RoundTrip`), v0.36.3. Different: the request
//! that was refused is sent again, and a plugin whose credentials are refused again and again is run ever more rarely.

use std::future::ready;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use kube::Config;
use kube::client::{Body, DynBody};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tower::{BoxError, Service, ServiceExt as _};

use super::errors::chain;
use super::login::{Header, Login, LoginError, PluginTerminal, for_transport};
use super::proxy::Proxy;
use super::retry::copy;
use super::transport::{self, Transport};
use capstan_base::time::Clock;

/// Files are looked at for changes not more often.
const LOOK_PAUSE: Duration = Duration::from_secs(10);
/// Between attempts to get credentials that the server takes, at first and at most.
const PAUSE_MIN: Duration = Duration::from_secs(10);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// So long a request waits for a plugin whose words are shown elsewhere meanwhile.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Everything that leads to a server.
#[derive(Clone)]
pub struct Route {
    pub config: Config,
    pub context: String,
    pub proxy: Option<Proxy>,
    /// Where all this is from.
    pub files: Vec<PathBuf>,
}

impl Route {
    /// Would connections of both be the same?
    fn is_like(&self, other: &Self) -> bool {
        let (one, two) = (&self.config, &other.config);
        self.proxy == other.proxy
            && one.root_cert == two.root_cert
            && one.tls_server_name == two.tls_server_name
            && one.accept_invalid_certs == two.accept_invalid_certs
            && one.disable_compression == two.disable_compression
    }

    /// When each file was written, as far as it is there.
    fn stamps(&self) -> Stamps {
        let stamp = |path: &PathBuf| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.len()))
        };
        self.files.iter().map(stamp).collect()
    }
}

type Stamps = Vec<Option<(SystemTime, u64)>>;

/// Reads the route again.
pub type Reload = Arc<dyn Fn() -> Option<Route> + Send + Sync>;

/// Credentials with what carries them.
struct Session {
    number: u64,
    route: Route,
    stamps: Stamps,
    login: Login,
    transport: Transport,
}

type Renewal = Shared<BoxFuture<'static, Result<Arc<Session>, LoginError>>>;

struct State {
    session: Arc<Session>,
    /// Several requests wait for one.
    renewing: Option<Renewal>,
    looked_at: Instant,
    rests_until: Option<Instant>,
    pause: Duration,
}

struct Parts {
    reload: Option<Reload>,
    terminal: PluginTerminal,
    clock: Clock,
    state: Mutex<State>,
}

/// Why credentials are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trigger {
    Ended,
    Refused,
    /// Of the files that they are from.
    Changed,
}

/// Takes requests with paths of the server.
#[derive(Clone)]
pub struct Live(Arc<Parts>);

impl Live {
    /// Gets credentials, and runs a plugin for that where one is named. Nothing is sent yet.
    ///
    /// # Errors
    /// [`LoginError`].
    pub async fn open(
        route: Route,
        reload: Option<Reload>,
        terminal: PluginTerminal,
        clock: Clock,
    ) -> Result<Self, LoginError> {
        let stamps = route.stamps();
        let login = Login::of(&route.config.auth_info, &terminal, &clock).await?;
        let transport = carrier(&route, &login).await?;
        let session = Arc::new(Session { number: 0, route, stamps, login, transport });
        let state =
            State { session, renewing: None, looked_at: Instant::now(), rests_until: None, pause: PAUSE_MIN };
        Ok(Self(Arc::new(Parts { reload, terminal, clock, state: Mutex::new(state) })))
    }

    async fn exchange(self, request: Request<Body>) -> Result<Response<Box<DynBody>>, BoxError> {
        let session = self.current().await?;
        // Copied before it leaves: nothing of it is left afterwards.
        let again = copy(&request);
        let (answer, sent) = session.send(request).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            self.is_accepted();
            return Ok(answer);
        }
        // What cannot be copied cannot be sent a second time.
        let Some(request) = again else { return self.refused(&session, answer) };
        // The file may have been written anew since its token was read.
        if let (Header::File(file), Some(sent)) = (&session.login.header, sent)
            && file.renewed(&sent).is_some()
        {
            return Ok(session.send(request).await?.0);
        }
        let Some(next) = self.after_refusal(&session).await? else { return self.refused(&session, answer) };
        let (answer, _) = next.send(request).await?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            return self.refused(&next, answer);
        }
        self.is_accepted();
        Ok(answer)
    }

    /// A certificate whose time is over explains a refusal better than the server does.
    fn refused(
        &self,
        session: &Session,
        answer: Response<Box<DynBody>>,
    ) -> Result<Response<Box<DynBody>>, BoxError> {
        if matches!(session.login.header, Header::None)
            && let Some(identity) = &session.login.identity
        {
            identity.check_dates(self.0.clock.now())?;
        }
        Ok(answer)
    }

    fn is_accepted(&self) {
        let mut state = self.0.state.lock();
        state.pause = PAUSE_MIN;
        state.rests_until = None;
    }

    /// Credentials that are good as far as can be known here.
    async fn current(&self) -> Result<Arc<Session>, LoginError> {
        let session = self.0.state.lock().session.clone();
        let has_ended = session.login.renew_at.is_some_and(|at| at <= self.0.clock.now());
        if has_ended {
            return self.waited(&session, Trigger::Ended).await;
        }
        if self.has_changed(&session) {
            // Half of a file, or a plugin that fails: what was good may still be.
            return Ok(self.waited(&session, Trigger::Changed).await.unwrap_or(session));
        }
        Ok(session)
    }

    fn has_changed(&self, session: &Session) -> bool {
        if self.0.reload.is_none() {
            return false;
        }
        let mut state = self.0.state.lock();
        if state.looked_at.elapsed() < LOOK_PAUSE {
            return false;
        }
        state.looked_at = Instant::now();
        // The files are looked at without the lock: a slow disk holds up no other request.
        drop(state);
        session.route.stamps() != session.stamps
    }

    /// Others, if there are others.
    async fn after_refusal(&self, session: &Arc<Session>) -> Result<Option<Arc<Session>>, LoginError> {
        let has_others = self.0.reload.is_some() || session.route.config.auth_info.exec.is_some();
        if !has_others {
            return Ok(None);
        }
        let next = self.waited(session, Trigger::Refused).await?;
        // The same credentials would be refused once more.
        Ok((!next.login.is_like(&session.login)).then_some(next))
    }

    /// The renewal, which goes on when this is dropped.
    async fn waited(&self, session: &Arc<Session>, trigger: Trigger) -> Result<Arc<Session>, LoginError> {
        let renewal = self.renewal(session, trigger);
        if !self.0.terminal.is_shown() {
            return renewal.await;
        }
        // A plugin may wait for a person: requests fail meanwhile instead of standing still.
        let exec = session.route.config.auth_info.exec.as_ref();
        let program = exec.and_then(|exec| exec.command.clone()).unwrap_or_default();
        timeout(WAIT_MAX, renewal).await.unwrap_or(Err(LoginError::Waits { program }))
    }

    /// Of several that are wanted at once there is one; and none while the last one has to rest.
    fn renewal(&self, old: &Arc<Session>, trigger: Trigger) -> Renewal {
        let mut state = self.0.state.lock();
        // It was renewed since: the refusal is one of the old credentials.
        if state.session.number != old.number {
            return ready(Ok(state.session.clone())).boxed().shared();
        }
        // A changed kubeconfig is read at once: the rest is for credentials that do not get better.
        let may_rest = trigger != Trigger::Changed;
        let rests = may_rest && state.rests_until.is_some_and(|until| Instant::now() < until);
        if let Some(last) = state.renewing.as_ref().filter(|last| last.peek().is_none() || rests) {
            return last.clone();
        }
        if may_rest {
            state.rests_until = Some(Instant::now() + state.pause);
            state.pause = (state.pause * 2).min(PAUSE_MAX);
        }
        let task = tokio::spawn(renew(self.clone(), old.clone(), trigger));
        let renewal =
            async move { task.await.unwrap_or_else(|error| Err(LoginError::Unusable(error.to_string()))) };
        let renewal = renewal.boxed().shared();
        state.renewing = Some(renewal.clone());
        renewal
    }
}

/// What the kubeconfig says now and what its plugin prints now, as the session from now on.
async fn renew(live: Live, old: Arc<Session>, trigger: Trigger) -> Result<Arc<Session>, LoginError> {
    // Before the reading: a file that changes meanwhile is read once more.
    let before = old.route.stamps();
    let reread = live.0.reload.as_ref().and_then(|reload| reload());
    // Another server under the same name is not what is looked at: a person has to open it.
    let reread = reread.filter(|route| route.config.cluster_url == old.route.config.cluster_url);
    let route = reread.unwrap_or_else(|| old.route.clone());
    let stamps = if route.files == old.route.files { before } else { route.stamps() };
    // With the same plugin a person would have to log in again for nothing.
    let is_still_good = trigger == Trigger::Changed && has_same_plugin(&route.config, &old.route.config);
    let login = if is_still_good {
        old.login.clone()
    } else {
        Login::of(&route.config.auth_info, &live.0.terminal, &live.0.clock).await?
    };
    let is_same_way = route.is_like(&old.route) && login.identity == old.login.identity;
    let transport = if is_same_way { old.transport.clone() } else { carrier(&route, &login).await? };
    let session = Arc::new(Session { number: old.number + 1, route, stamps, login, transport });
    live.0.state.lock().session = session.clone();
    Ok(session)
}

/// Another context was made the current one, for example: no reason to have somebody log in again.
fn has_same_plugin(new: &Config, old: &Config) -> bool {
    let plain = |config: &Config| serde_json::to_value(&config.auth_info).ok();
    old.auth_info.exec.is_some() && plain(new).is_some_and(|new| Some(new) == plain(old))
}

/// Providers of old kubeconfigs run programs when they are set up, so that happens off the async threads.
async fn carrier(route: &Route, login: &Login) -> Result<Transport, LoginError> {
    let mut config = route.config.clone();
    config.auth_info = for_transport(&config.auth_info, login.identity.as_ref());
    let proxy = route.proxy.clone();
    let opened = tokio::task::spawn_blocking(move || transport::open(&config, proxy.as_ref())).await;
    let opened = opened.map_err(|error| LoginError::Unusable(error.to_string()))?;
    opened.map_err(|error| LoginError::Unusable(chain(&error)))
}

impl Session {
    /// The answer, and the header that went with the request.
    async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<(Response<Box<DynBody>>, Option<HeaderValue>), BoxError> {
        let header = match &self.login.header {
            Header::None => None,
            Header::Fixed(header) => Some(header.clone()),
            Header::File(file) => Some(file.header().map_err(LoginError::from)?),
        };
        if let Some(header) = &header {
            request.headers_mut().insert(AUTHORIZATION, header.clone());
        }
        Ok((self.transport.clone().oneshot(request).await?, header))
    }
}

impl Service<Request<Body>> for Live {
    type Response = Response<Box<DynBody>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().exchange(request))
    }
}
