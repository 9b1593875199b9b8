//! The query of a request and the options in it: of writes, of lists and watches. Must not know which resources
//! exist.
//!
//! Source: apimachinery `pkg/apis/meta/v1/{types,validation/validation,zz_generated.conversion}.go` and
//! `pkg/runtime/conversion.go`, v0.36.

use std::collections::BTreeMap;

use http::Uri;
use percent_encoding::percent_decode_str;

use super::fence::HeldLease;
use super::grants::Grants;
use crate::failure::Failure;
use crate::object::printable::not_printable;
use k8s_machinery::validation::cause::Cause;

/// The query, decoded: every value of each name, in their order. Of what is not a list the first value counts.
#[derive(Clone, Debug, Default)]
pub struct Query(BTreeMap<String, Vec<String>>);

impl Query {
    pub fn parse(uri: &Uri) -> Self {
        let decode =
            // A plus sign is a blank in a query; one that is meant is written as `%2B`.
            |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in pairs {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            values.entry(decode(name)).or_default().push(decode(value));
        }
        Self(values)
    }

    /// Empty when missing.
    pub fn text(&self, name: &str) -> &str {
        self.texts(name).first().map_or("", String::as_str)
    }

    /// All values of a name that is a list.
    pub fn texts(&self, name: &str) -> &[String] {
        self.0.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Present without a value is true.
    pub fn truthy(&self, name: &str) -> bool {
        // Upstream takes every other word for true as well.
        let is_false = |value: &String| matches!(value.to_ascii_lowercase().as_str(), "0" | "false");
        self.texts(name).first().is_some_and(|value| !is_false(value))
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        match self.text(name) {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| Failure::bad_request(format!("invalid query parameter {name}: \"{text}\""))),
        }
    }
}

/// What to do with fields that the schema does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Longest name of a field manager.
const MANAGER_BYTES_MAX: usize = 128;

/// What a write asks for, which field managers and admission look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    Create,
    Update,
    Patch,
    /// A patch by server-side apply.
    Apply,
}

/// Options of create, update and patch, and who writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WriteOptions<'a> {
    pub dry_run: bool,
    pub field_validation: FieldValidation,
    /// Who owns what is written.
    pub manager: &'a str,
    /// Apply takes over what others own.
    pub force: bool,
    /// The change is made to the object with its managed fields.
    pub sees_managed_fields: bool,
    /// Leases that the write rests on.
    pub held: &'a [HeldLease],
    /// What its author may hand on by Roles and bindings; `None`: anything.
    pub grants: Option<&'a Grants>,
    /// Why its author may only change what is there.
    pub creation_refused: Option<&'a Failure>,
}

impl<'a> WriteOptions<'a> {
    /// Options of the server's own writes.
    pub fn by(manager: &'a str) -> Self {
        Self { manager, ..Self::default() }
    }

    /// Without a manager in the query, `user_agent` names him.
    ///
    /// # Errors
    /// 422 for a value that is not one of the few allowed.
    pub fn parse(query: &'a Query, kind: WriteKind, user_agent: &'a str) -> Result<Self, Failure> {
        let mut causes = Vec::new();
        let manager = query.text("fieldManager");
        match kind {
            WriteKind::Apply if manager.is_empty() => {
                causes.push(Cause::required("fieldManager", "is required for apply patch"));
            }
            WriteKind::Patch if query.has("force") => {
                causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
            }
            _ => {}
        }
        check_manager(manager, &mut causes);
        let dry_run = dry_run(query.texts("dryRun"), &mut causes);
        let field_validation = match query.text("fieldValidation") {
            "Ignore" => FieldValidation::Ignore,
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            other => {
                let known = ["", "Ignore", "Strict", "Warn"];
                causes.push(Cause::not_supported("fieldValidation", &other.into(), &known));
                FieldValidation::Warn
            }
        };
        if causes.is_empty() {
            let manager = if manager.is_empty() { agent_name(user_agent) } else { manager };
            let force = query.truthy("force");
            Ok(Self { dry_run, field_validation, manager, force, ..Self::default() })
        } else {
            Err(Failure::invalid_options(kind.options(), causes))
        }
    }
}

impl WriteKind {
    /// The kind of its options in refusals.
    fn options(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

fn check_manager(manager: &str, causes: &mut Vec<Cause>) {
    let field = "fieldManager";
    if manager.len() > MANAGER_BYTES_MAX {
        causes.push(Cause::too_long(field, MANAGER_BYTES_MAX as u64));
    }
    for (at, c) in not_printable(manager) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
        causes.push(Cause::invalid(field, &manager.into(), &detail));
    }
}

/// The program in a `User-Agent`: what is before the first `/`, as far as a name may go.
fn agent_name(user_agent: &str) -> &str {
    let name = user_agent.split(|c: char| c == '/' || c.is_control()).next().unwrap_or_default();
    let end = name
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .take_while(|end| *end <= MANAGER_BYTES_MAX)
        .last();
    match end.and_then(|end| name.get(..end)) {
        Some(name) if !name.is_empty() => name,
        _ => "unknown",
    }
}

/// True for `All`; anything else is a cause.
pub fn dry_run(given: &[String], causes: &mut Vec<Cause>) -> bool {
    if given.iter().any(|text| text != "All") {
        causes.push(Cause::not_supported("dryRun", &given.to_vec().into(), &["All"]));
    }
    !given.is_empty()
}

/// How the given resource version of a list or watch is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    Unset,
    Exact,
    NotOlderThan,
}

/// Options of list and watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOptions {
    pub label_selector: String,
    pub field_selector: String,
    /// 0: no limit.
    pub limit: usize,
    pub continue_token: String,
    /// `None`: not given.
    pub resource_version: Option<u64>,
    pub version_match: Match,
    pub allow_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub timeout_s: Option<u64>,
}

/// The resource version that is asked for; `None`: not given.
///
/// # Errors
/// 400 when it is not a number.
pub fn resource_version(query: &Query) -> Result<Option<u64>, Failure> {
    match query.text("resourceVersion") {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            Failure::bad_request(format!("Invalid value: \"{text}\": invalid resource version"))
        }),
    }
}

impl ListOptions {
    /// # Errors
    /// 400 for numbers that are none, 422 for combinations upstream refuses.
    pub fn parse(query: &Query, watch: bool) -> Result<Self, Failure> {
        let given = query.text("resourceVersionMatch");
        let version_match = match given {
            "Exact" => Match::Exact,
            "NotOlderThan" => Match::NotOlderThan,
            _ => Match::Unset,
        };
        let send_initial_events = query.has("sendInitialEvents").then(|| query.truthy("sendInitialEvents"));
        let options = Self {
            label_selector: query.text("labelSelector").to_owned(),
            field_selector: query.text("fieldSelector").to_owned(),
            limit: usize::try_from(query.number("limit")?.unwrap_or(0)).unwrap_or(usize::MAX),
            continue_token: query.text("continue").to_owned(),
            resource_version: resource_version(query)?,
            version_match,
            allow_bookmarks: query.truthy("allowWatchBookmarks"),
            send_initial_events,
            // As upstream, 0 leaves the time to the server.
            timeout_s: query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0),
        };
        let causes = if watch { options.watch_causes(given) } else { options.list_causes(given) };
        if causes.is_empty() { Ok(options) } else { Err(Failure::invalid_options("ListOptions", causes)) }
    }

    /// `given` is `resourceVersionMatch` as the client wrote it.
    /// Source: apimachinery `pkg/apis/meta/internalversion/validation/validation.go`, v0.35.
    fn list_causes(&self, given: &str) -> Vec<Cause> {
        let mut causes = Vec::new();
        let mut forbid = |detail| causes.push(Cause::forbidden(MATCH, detail));
        if !given.is_empty() {
            if self.resource_version.is_none() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                forbid(CONTINUED);
            }
            if (self.version_match, self.resource_version) == (Match::Exact, Some(0)) {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
            if self.version_match == Match::Unset {
                let known = ["Exact", "NotOlderThan", ""];
                causes.push(Cause::not_supported(MATCH, &given.into(), &known));
            }
        }
        if self.send_initial_events.is_some() {
            causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        causes
    }

    fn watch_causes(&self, given: &str) -> Vec<Cause> {
        let mut causes = Vec::new();
        let as_wanted = self.version_match == Match::NotOlderThan;
        let mut forbid = |detail| causes.push(Cause::forbidden(MATCH, detail));
        if self.send_initial_events.is_some() && !as_wanted {
            forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        if !given.is_empty() {
            if self.send_initial_events.is_none() {
                forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
            }
            if !self.continue_token.is_empty() {
                forbid(CONTINUED);
            }
            if !as_wanted {
                causes.push(Cause::not_supported(MATCH, &given.into(), &["NotOlderThan"]));
            }
        }
        causes
    }
}

const MATCH: &str = "resourceVersionMatch";
const CONTINUED: &str = "resourceVersionMatch is forbidden when continue is provided";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s120_s127_who_writes() {
        for (query, kind, agent, expected) in [
            ("", WriteKind::Update, "manager/v0.0.0 (linux)", "manager"),
            ("", WriteKind::Create, "", "unknown"),
            ("fieldManager=me&force=true", WriteKind::Apply, "curl/8", "me!"),
            ("fieldManager=me&force=false", WriteKind::Apply, "curl/8", "me"),
            ("", WriteKind::Apply, "curl/8", "fieldManager: Required value: is required for apply patch"),
            (
                "force=false",
                WriteKind::Patch,
                "curl/8",
                "force: Forbidden: may not be specified for non-apply patch",
            ),
            (
                "fieldManager=a%0Ab",
                WriteKind::Update,
                "",
                "fieldManager: Invalid value: \"a\\nb\": invalid character U+000A (at position 1)",
            ),
            (
                "fieldManager=a%E2%80%8Bb",
                WriteKind::Update,
                "",
                "fieldManager: Invalid value: \"a\u{200b}b\": invalid character U+200B (at position 1)",
            ),
        ] {
            let uri: Uri = format!("/?{query}").parse().unwrap();
            let query = Query::parse(&uri);
            let found = match WriteOptions::parse(&query, kind, agent) {
                Ok(options) => format!("{}{}", options.manager, if options.force { "!" } else { "" }),
                Err(failure) => failure.details.causes[0].to_string(),
            };
            assert_eq!(found, expected, "{uri}");
        }
        let long = "x".repeat(200);
        let uri: Uri = format!("/?fieldManager={long}").parse().unwrap();
        let query = Query::parse(&uri);
        let failure = WriteOptions::parse(&query, WriteKind::Create, "").unwrap_err();
        assert_eq!(
            failure.details.causes[0].to_string(),
            "fieldManager: Too long: may not be more than 128 bytes"
        );
        assert_eq!(agent_name(&long).len(), 128);
    }

    #[test]
    fn of_a_name_that_is_given_twice_the_first_value_counts() {
        let query = |text: &str| {
            let uri: Uri = format!("/?{text}").parse().expect("an address");
            Query::parse(&uri)
        };
        for (text, first, all, is_true) in [
            ("a", "", &[""][..], true),
            ("", "", &[], false),
            ("a=1&a=0", "1", &["1", "0"], true),
            ("a=false&b=2&a=true", "false", &["false", "true"], false),
            ("%61=x&a=y%26", "x", &["x", "y&"], true),
            // The first value counts even where it is empty.
            ("a=&a=x", "", &["", "x"], true),
        ] {
            let query = query(text);
            assert_eq!((query.text("a"), query.truthy("a")), (first, is_true), "{text}");
            assert_eq!(query.texts("a"), all, "{text}");
        }
        let list = ListOptions::parse(&query("limit=5&limit=7&labelSelector=a&labelSelector=b"), false);
        let list = list.expect("options");
        assert_eq!((list.limit, list.label_selector.as_str()), (5, "a"));
        for (text, code) in [("dryRun=All&dryRun=All", 0), ("dryRun=All&dryRun=x", 422), ("dryRun=", 422)] {
            let query = query(text);
            let found = WriteOptions::parse(&query, WriteKind::Create, "");
            let found = found.map_or_else(|failure| failure.code(), |options| u16::from(!options.dry_run));
            assert_eq!(found, code, "{text}");
        }
    }

    #[test]
    fn list_options_refuse_what_upstream_refuses() {
        for (query, watch, expected) in [
            ("", false, 0),
            ("resourceVersion=0&limit=5", false, 0),
            ("resourceVersion=x", false, 400),
            ("limit=x", false, 400),
            ("resourceVersionMatch=Exact", false, 422),
            ("resourceVersion=0&resourceVersionMatch=Exact", false, 422),
            ("resourceVersion=5&resourceVersionMatch=Exact", false, 0),
            ("resourceVersion=5&resourceVersionMatch=Exact&continue=x", false, 422),
            ("resourceVersion=5&resourceVersionMatch=Newest", false, 422),
            ("sendInitialEvents=true", false, 422),
            ("sendInitialEvents=true", true, 422),
            ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", true, 0),
            ("resourceVersion=5&resourceVersionMatch=NotOlderThan", true, 422),
        ] {
            let uri: Uri = format!("/?{query}").parse().unwrap();
            let code = ListOptions::parse(&Query::parse(&uri), watch).map_or_else(|f| f.code(), |_| 0);
            assert_eq!(code, expected, "{query} watch={watch}");
        }
    }
}
