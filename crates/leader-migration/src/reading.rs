//! Reads a LeaderMigrationConfiguration as strictly as upstream's newest reader does, and notes what older ones
//! forgive. Owns lines and the wording of what is wrong; must not know processes.
//!
//! Source: `k8s.io/controller-manager` `pkg/leadermigration/config/config.go` (reading, `ValidateLeaderMigrationConfiguration`).

use serde_json::{Map, Value};

use super::configuration::{ConfigVersion, Configuration, ControllerLeader, GROUP, KIND, LEASES};
use super::release::Release;

/// The first release that refuses unknown and duplicate fields.
pub const STRICT_SINCE: Release = Release(32);

/// Which reader ends over a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fatal {
    /// Every process that reads the file exits.
    Always,
    /// From this release on; older ones ignore it.
    Since(Release),
    /// None does: it means something else than it looks like.
    Never,
}

impl Fatal {
    /// Does a process of `release` end over it?
    pub fn ends(self, release: Release) -> bool {
        match self {
            Self::Always => true,
            Self::Since(first) => release >= first,
            Self::Never => false,
        }
    }
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// A code of `rules`.
    pub code: &'static str,
    /// 1 is the first; also for what is about the whole file.
    pub line: usize,
    /// Whom it ends.
    pub fatal: Fatal,
    /// What is wrong, and what was expected.
    pub problem: String,
}

/// What a text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// `None`: no release reads this `apiVersion`.
    pub version: Option<ConfigVersion>,
    /// What a process that does not end over the defects would use.
    pub configuration: Option<Configuration>,
    /// In the order of lines.
    pub defects: Vec<Defect>,
}

impl Reading {
    /// Does a process of `release` end when it reads this?
    pub fn ends(&self, release: Release) -> bool {
        self.configuration.is_none()
            || self.version.is_some_and(|version| version.since() > release)
            || self.defects.iter().any(|defect| defect.fatal.ends(release))
    }
}

/// Is this document meant to be such a file?
pub fn is_configuration(text: &str) -> bool {
    text.lines()
        .any(|line| line.trim_start().trim_start_matches('"').starts_with("kind") && line.contains(KIND))
        || text.contains(GROUP)
}

/// Reads YAML or JSON as upstream's decoders do. Text that cannot be read is a defect.
pub fn read(text: &str) -> Reading {
    let mut defects = lint(text);
    let fields = match parse(text, &mut defects) {
        Some(Value::Object(fields)) => fields,
        Some(_) => {
            defects.push(always("file", 1, "expected a mapping with apiVersion and kind".to_owned()));
            Map::new()
        }
        None => return Reading { version: None, configuration: None, defects },
    };
    let mut reader = Reader { text, defects };
    let version = reader.version(&fields);
    let configuration = version.and_then(|version| reader.configuration(&fields, version));
    Reading { version, configuration, defects: reader.defects }
}

fn always(code: &'static str, line: usize, problem: String) -> Defect {
    Defect { code, line, fatal: Fatal::Always, problem }
}

/// What people write by hand and parsers answer with riddles.
fn lint(text: &str) -> Vec<Defect> {
    let mut defects = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let body = line.trim_start();
        let indent = &line[..line.len() - body.len()];
        if indent.contains('\t') {
            let problem = "a tab in the indentation: expected blanks, YAML takes no tabs there".to_owned();
            defects.push(always("F13", number, problem));
        }
        // Upstream's documentation has shown the bare form.
        if value_of(body).is_some_and(|value| value == "*") {
            let problem = "an unquoted * begins an alias of YAML: expected \"*\" in quotes".to_owned();
            defects.push(always("F13", number, problem));
        }
        // A sample of upstream's documentation has had this dash.
        if body.starts_with("- component:") && !next_names(text, number, indent) {
            let problem =
                "a dash before component begins an entry of its own: expected component below name, \
                           without a dash"
                    .to_owned();
            defects.push(always("F13", number, problem));
        }
    }
    defects
}

/// Of `key: value # remark`, the value.
fn value_of(line: &str) -> Option<&str> {
    let (_, value) = line.split_once(": ")?;
    Some(value.split(" #").next().unwrap_or(value).trim())
}

/// Does the entry that begins at `line` go on with its name?
fn next_names(text: &str, line: usize, indent: &str) -> bool {
    let mut rest =
        text.lines().skip(line).filter(|l| !l.trim().is_empty() && !l.trim_start().starts_with('#'));
    rest.next().is_some_and(|next| {
        let body = next.trim_start();
        next.len() - body.len() > indent.len() && body.starts_with("name:")
    })
}

/// The document, with the last of equal keys, as older readers have it.
fn parse(text: &str, defects: &mut Vec<Defect>) -> Option<Value> {
    // Strict first: the error has the line of the second of two equal fields.
    let strict: Result<Vec<Value>, _> = serde_saphyr::from_multiple(text);
    let mut documents = match strict {
        Ok(documents) => documents,
        Err(error) => {
            let line = error.location().map_or(1, |at| usize::try_from(at.line()).unwrap_or(1));
            let options = serde_saphyr::options! {
                duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
            };
            let Ok(documents) = serde_saphyr::from_multiple_with_options(text, options) else {
                // A remark of `lint` says more than the parser does about the same line.
                if defects.is_empty() {
                    let why = error.without_snippet().to_string();
                    let why = why.lines().next().unwrap_or_default();
                    let why = why.rsplit_once(" at line ").map_or(why, |(why, _)| why).to_owned();
                    defects.push(always("F13", line, format!("not YAML: {why}")));
                }
                return None;
            };
            let problem = "the same field twice: older readers take the last one".to_owned();
            defects.push(Defect { code: "F13", line, fatal: Fatal::Since(STRICT_SINCE), problem });
            documents
        }
    };
    // A stream that ends with `---` has an empty document behind it.
    documents.retain(|document| !document.is_null());
    if documents.len() > 1 {
        let problem = "more than one document: expected one, only the first is read".to_owned();
        defects.push(Defect { code: "file", line: 1, fatal: Fatal::Never, problem });
    }
    if documents.is_empty() {
        defects.push(always("file", 1, format!("empty: expected a {KIND}")));
        return None;
    }
    Some(documents.swap_remove(0))
}

struct Reader<'a> {
    text: &'a str,
    defects: Vec<Defect>,
}

impl Reader<'_> {
    /// The line of the field `key` for the `nth` time, from 0.
    fn line_of(&self, key: &str, nth: usize) -> usize {
        // The parser keeps no places of fields: their names are looked for in the text.
        let is_it = |line: &str| {
            let line = line.trim_start().trim_start_matches("- ").trim_start_matches('"');
            line.strip_prefix(key).is_some_and(|rest| rest.starts_with([':', '"']))
        };
        let mut lines = (1..).zip(self.text.lines()).filter(|(_, line)| is_it(line));
        lines.nth(nth).map_or(1, |(number, _)| number)
    }

    fn fails(&mut self, line: usize, problem: String) {
        self.defects.push(always("file", line, problem));
    }

    fn version(&mut self, fields: &Map<String, Value>) -> Option<ConfigVersion> {
        let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("kind") != KIND {
            self.fails(self.line_of("kind", 0), format!("kind {:?}: expected {KIND}", text("kind")));
        }
        let version = ConfigVersion::from_api_version(text("apiVersion"));
        if version.is_none() {
            let expected = ConfigVersion::ALL.map(ConfigVersion::api_version).join(", ");
            let problem = format!("apiVersion {:?}: expected one of {expected}", text("apiVersion"));
            self.fails(self.line_of("apiVersion", 0), problem);
        }
        version
    }

    fn configuration(
        &mut self,
        fields: &Map<String, Value>,
        version: ConfigVersion,
    ) -> Option<Configuration> {
        let known = ["apiVersion", "kind", "leaderName", "resourceLock", "controllerLeaders"];
        self.unknown_fields(fields, &known);
        let leader_name = self.text_field(fields, "leaderName", 0)?;
        if leader_name.is_empty() {
            self.fails(
                self.line_of("leaderName", 0),
                "leaderName is empty: expected the name of the Lease".to_owned(),
            );
        }
        let resource_lock = self.resource_lock(fields, version)?;
        let entries = match fields.get("controllerLeaders") {
            // An empty list is legal upstream: the second lock has nothing to run.
            None | Some(Value::Null) => &Vec::new(),
            Some(Value::Array(entries)) => entries,
            Some(_) => {
                let line = self.line_of("controllerLeaders", 0);
                self.fails(line, "controllerLeaders: expected a list of name and component".to_owned());
                return None;
            }
        };
        let read = entries.iter().enumerate().map(|(nth, entry)| self.entry(entry, nth)).collect::<Vec<_>>();
        // All entries are read before one of them ends the reading, so that each defect is named.
        let controller_leaders = read.into_iter().collect::<Option<Vec<_>>>()?;
        self.duplicates(&controller_leaders);
        Some(Configuration { leader_name, resource_lock, controller_leaders })
    }

    fn unknown_fields(&mut self, fields: &Map<String, Value>, known: &[&str]) {
        for key in fields.keys().filter(|key| !known.contains(&key.as_str())) {
            let problem = format!("unknown field {key}: expected one of {}", known.join(", "));
            let line = self.line_of(key, 0);
            self.defects.push(Defect { code: "file", line, fatal: Fatal::Since(STRICT_SINCE), problem });
        }
    }

    /// Absent is empty; another type than text ends the reading.
    fn text_field(&mut self, fields: &Map<String, Value>, key: &str, nth: usize) -> Option<String> {
        match fields.get(key) {
            None | Some(Value::Null) => Some(String::new()),
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => {
                self.fails(self.line_of(key, nth), format!("{key}: {other}: expected a text"));
                None
            }
        }
    }

    fn resource_lock(&mut self, fields: &Map<String, Value>, version: ConfigVersion) -> Option<String> {
        let lock = self.text_field(fields, "resourceLock", 0)?;
        let line = self.line_of("resourceLock", 0);
        let field = version.has_resource_lock();
        match lock.as_str() {
            _ if !field && !fields.contains_key("resourceLock") => return Some(LEASES.to_owned()),
            _ if !field => {
                let problem = "resourceLock is not a field of v1: leave it out".to_owned();
                self.defects.push(Defect { code: "F12", line, fatal: Fatal::Since(STRICT_SINCE), problem });
                return Some(LEASES.to_owned());
            }
            LEASES => {}
            "" => self.fails(line, format!("resourceLock is missing: {} requires {LEASES}", version.name())),
            // Upstream's validation takes it, and the process ends when its lock is made.
            "endpoints" => {
                let problem = format!("resourceLock endpoints: expected {LEASES}");
                self.defects.push(always("F11", line, problem));
            }
            other => self.fails(line, format!("resourceLock {other:?}: expected {LEASES}")),
        }
        Some(lock)
    }

    fn entry(&mut self, entry: &Value, nth: usize) -> Option<ControllerLeader> {
        let line = self.line_of("name", nth);
        let Value::Object(fields) = entry else {
            self.fails(line, format!("controllerLeaders[{nth}]: expected name and component"));
            return None;
        };
        self.unknown_fields(fields, &["name", "component"]);
        let name = self.text_field(fields, "name", nth)?;
        let component = self.text_field(fields, "component", nth)?;
        // The reader's own remark about a stray dash, which ends every process too, is the better one.
        let is_explained = self.defects.iter().any(|defect| matches!(defect.fatal, Fatal::Always));
        for (key, value) in [("name", &name), ("component", &component)] {
            if value.is_empty() && !is_explained {
                self.fails(line, format!("controllerLeaders[{nth}]: {key} is missing or empty"));
            }
        }
        Some(ControllerLeader { name, component })
    }

    fn duplicates(&mut self, entries: &[ControllerLeader]) {
        for (nth, entry) in entries.iter().enumerate() {
            if entries[..nth].iter().any(|before| before.name == entry.name) && !entry.name.is_empty() {
                let problem = format!("{} is listed twice: the last entry counts", entry.name);
                let line = self.line_of("name", nth);
                // Upstream's map of entries keeps the last one without a word.
                self.defects.push(Defect { code: "F13", line, fatal: Fatal::Never, problem });
            }
        }
    }
}
