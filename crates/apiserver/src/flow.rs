//! How many requests are served at once: by kind of request, and for each user a share, so that no user takes
//! all places. Who has shown no credentials has places of his own. Must not know what requests are about.
//!
//! Source: apiserver `pkg/server/filters/maxinflight.go`, v0.35, which has the totals; the shares stand for its
//! priority and fairness.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use http::Method;
use http::request::Parts;
use parking_lot::Mutex;

use super::request::auth::{Identity, Role};
use super::request::options::Query;
use super::request::routes::{Route, Verb, route};

/// `--max-requests-inflight` and `--max-mutating-requests-inflight` of kube-apiserver.
const READING_MAX: usize = 400;
const MUTATING_MAX: usize = 200;
/// Of each user; a watch costs little while it is quiet.
const WATCHES_OF_USER_MAX: usize = 20_000;
/// Of everybody without credentials together: probes.
const ANONYMOUS_MAX: usize = 20;

/// What a request counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Reading,
    Mutating,
    Watching,
    Anonymous,
}

impl Class {
    pub fn of(parts: &Parts, who: &Identity) -> Self {
        if who.role == Role::Anonymous {
            return Self::Anonymous;
        }
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return Self::Mutating;
        }
        match route(&parts.method, &parts.uri, &Query::parse(&parts.uri)) {
            Ok(Route::Resource(Verb::Watch, _)) => Self::Watching,
            _ => Self::Reading,
        }
    }

    /// Places for everybody together, and for one of so many users. With one share more than there are users,
    /// the next one finds a place, too.
    fn limits(self, users: usize) -> (usize, usize) {
        match self {
            Self::Reading => (READING_MAX, READING_MAX / (users + 1)),
            Self::Mutating => (MUTATING_MAX, MUTATING_MAX / (users + 1)),
            Self::Watching => (usize::MAX, WATCHES_OF_USER_MAX),
            Self::Anonymous => (ANONYMOUS_MAX, ANONYMOUS_MAX),
        }
    }
}

type User = Cow<'static, str>;

/// Requests being served.
#[derive(Clone, Debug, Default)]
pub struct Flow(Arc<Mutex<HashMap<Class, HashMap<User, usize>>>>);

/// A place among the requests being served; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    flow: Flow,
    class: Class,
    user: User,
}

impl Flow {
    /// `None`: too many requests.
    pub fn enter(&self, class: Class, who: &Identity) -> Option<Permit> {
        let mut flow = self.0.lock();
        let users = flow.entry(class).or_default();
        let own = users.get(&who.user).copied().unwrap_or(0);
        // A user without a request is not in the map yet, and takes a share all the same.
        let (max, share) = class.limits(users.len() + usize::from(own == 0));
        if own >= share || users.values().sum::<usize>() >= max {
            return None;
        }
        users.insert(who.user.clone(), own + 1);
        Some(Permit { flow: self.clone(), class, user: who.user.clone() })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut flow = self.flow.0.lock();
        let Some(users) = flow.get_mut(&self.class) else { return };
        if let Some(own) = users.get_mut(&self.user) {
            *own -= 1;
            // Names come from clients, and an administrator may act as anybody: none is kept for
            // long.
            if *own == 0 {
                users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Identity {
        Identity::of(name.to_owned(), vec!["system:masters".to_owned()])
    }

    fn taken(flow: &Flow, class: Class, who: &Identity) -> Vec<Permit> {
        std::iter::from_fn(|| flow.enter(class, who)).collect()
    }

    #[test]
    fn nobody_takes_all_places() {
        let flow = Flow::default();
        let (greedy, second, third) = (user("greedy"), user("second"), user("third"));
        let first = taken(&flow, Class::Mutating, &greedy);
        assert_eq!(first.len(), MUTATING_MAX / 2);
        let others = taken(&flow, Class::Mutating, &second);
        assert_eq!(others.len(), MUTATING_MAX / 3);
        assert!(!taken(&flow, Class::Mutating, &third).is_empty());
        assert_eq!(taken(&flow, Class::Reading, &greedy).len(), READING_MAX / 2);
        drop(first);
        assert!(flow.enter(Class::Mutating, &greedy).is_some(), "places come back");
        drop(others);
        assert_eq!(taken(&flow, Class::Mutating, &third).len(), MUTATING_MAX / 2);
        assert!(flow.0.lock()[&Class::Mutating].is_empty());
    }

    #[test]
    fn strangers_have_places_of_their_own() {
        let flow = Flow::default();
        let strangers = taken(&flow, Class::Anonymous, &Identity::ANONYMOUS);
        assert_eq!(strangers.len(), ANONYMOUS_MAX);
        assert!(flow.enter(Class::Reading, &Identity::ADMIN).is_some());
    }

    #[test]
    fn requests_are_told_apart() {
        for (method, uri, who, expected) in [
            (Method::GET, "/api/v1/nodes", Identity::ADMIN, Class::Reading),
            (Method::GET, "/api/v1/nodes?watch=1", Identity::ADMIN, Class::Watching),
            (Method::GET, "/api/v1/watch/nodes", Identity::READ_ONLY, Class::Watching),
            (Method::GET, "/api/v1/namespaces/watch/secrets", Identity::ADMIN, Class::Reading),
            (Method::GET, "/api/v1/nodes/a?watch=1", Identity::ADMIN, Class::Reading),
            (Method::PATCH, "/api/v1/nodes/a?watch=1", Identity::ADMIN, Class::Mutating),
            (Method::POST, "/apis", Identity::READ_ONLY, Class::Mutating),
            (Method::GET, "/readyz", Identity::ANONYMOUS, Class::Anonymous),
        ] {
            let request =
                http::Request::builder().method(method.clone()).uri(uri).body(()).expect("a request");
            assert_eq!(Class::of(&request.into_parts().0, &who), expected, "{method} {uri}");
        }
    }
}
