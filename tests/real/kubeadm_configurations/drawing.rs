//! Configurations by chance. Owns how one is drawn and written; must not know what anybody says to it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use capstan_base::rng::Rng;
use kubeadm_change::convert::to_stored;
use kubeadm_change::kind::{DocumentKind, KUBEADM_GROUP, V1, V1BETA3, V1BETA4};
use kubeadm_change::schema::{Schema, Type};
use serde_json::{Map, Value, json};

/// The values of each field of each document.
static VALUES: LazyLock<BTreeMap<String, BTreeMap<String, Vec<Value>>>> =
    LazyLock::new(|| toml::from_str(include_str!("values.toml")).expect("values.toml"));

/// Letters that parsers of names, paths, addresses and numbers stumble over.
const LETTERS: &str = " :/.,-_[]@%*+=0aZ9\u{e9}\t";
/// What stands in YAML without quotes, and is not what it seems.
const PLAIN: [&str; 20] = [
    "yes",
    "on",
    "Y",
    "no",
    "TRUE",
    "~",
    "0644",
    "0o644",
    "1e3",
    "1_000",
    ".inf",
    "0x1F",
    "12:30:45",
    "2001-01-01",
    "1.36",
    "+1",
    "-0",
    ".5",
    "1.",
    "null",
];
/// They stand around such a text until it is written.
const PLAIN_BEGINS: char = '\u{1}';
const PLAIN_ENDS: char = '\u{2}';
const FIELDS_MAX: u64 = 4;
/// The first minor releases that read these versions of kubeadm's API, and the last that reads v1beta3.
const V1_SINCE: u64 = 37;
const V1BETA3_UNTIL: u64 = 36;

/// The first minor release of which it is known that `config validate` looks at an UpgradeConfiguration; 1.34 does not.
const UPGRADE_VALIDATED_SINCE: u64 = 36;

/// Documents, as they are given to kubeadm.
pub(super) struct Drawn {
    /// YAML, in which some texts stand without quotes.
    pub text: String,
    /// What the cluster stores, when one of them is a ClusterConfiguration.
    pub has_cluster: bool,
    /// kubeadm reads it only when it is asked to.
    pub is_experimental: bool,
}

/// Draws for one release of kubeadm.
pub(super) struct Drawing<'k> {
    pub rng: Rng,
    pub version: &'k str,
    pub minor: u64,
}

impl Drawing<'_> {
    pub fn draw(&self) -> Drawn {
        let kind = match self.rng.below(20) {
            0..14 => DocumentKind::Cluster,
            14..16 => DocumentKind::Init,
            16..18 => DocumentKind::Join,
            18 if self.minor >= UPGRADE_VALIDATED_SINCE => DocumentKind::Upgrade,
            _ => DocumentKind::Reset,
        };
        let api = self.api_version(kind);
        let mut documents = vec![(kind, self.document(kind, api))];
        if kind == DocumentKind::Init && self.one_in(2) {
            documents.push((DocumentKind::Cluster, self.document(DocumentKind::Cluster, api)));
        }
        let written: Option<Vec<Value>> =
            documents.iter().map(|(kind, value)| to_stored(*kind, api, value).ok()).collect();
        // What an older version cannot say, such as a flag that stands twice, is written in the usual one.
        let (api, values) = match written {
            Some(values) => (api, values),
            None => (V1BETA4, documents.iter().map(|(_, value)| value.clone()).collect()),
        };
        let texts = documents.iter().zip(values).map(|((kind, _), value)| written_as(*kind, api, &value));
        Drawn {
            text: texts.collect::<Vec<String>>().join("---\n"),
            has_cluster: documents.iter().any(|(kind, _)| *kind == DocumentKind::Cluster),
            is_experimental: api == V1,
        }
    }

    fn one_in(&self, times: u64) -> bool {
        self.rng.below(times) == 0
    }

    fn one_of<'v, T>(&self, values: &'v [T]) -> &'v T {
        let index = usize::try_from(self.rng.below(values.len() as u64)).expect("an index");
        &values[index]
    }

    fn api_version(&self, kind: DocumentKind) -> &'static str {
        if self.minor >= V1_SINCE && self.one_in(5) {
            V1
        } else if self.minor <= V1BETA3_UNTIL && kind.versions().contains(&V1BETA3) && self.one_in(5) {
            V1BETA3
        } else {
            V1BETA4
        }
    }

    fn document(&self, kind: DocumentKind, api: &str) -> Value {
        let mut document = match kind {
            DocumentKind::Cluster => json!({ "kubernetesVersion": self.kubernetes_version() }),
            DocumentKind::Join => json!({ "discovery": { "bootstrapToken": {
                "token": "abcdef.0123456789abcdef", "apiServerEndpoint": "a:6443", "unsafeSkipCAVerification": true,
            } } }),
            _ => json!({}),
        };
        let fields: Vec<(&String, &Vec<Value>)> =
            VALUES[kind.name()].iter().filter(|(path, _)| self.is_known(kind, api, path)).collect();
        for _ in 0..=self.rng.below(FIELDS_MAX) {
            let (path, values) = self.one_of(&fields);
            let mut value = self.one_of(values).clone();
            if self.one_in(4) {
                self.alter(&mut value);
            } else if self.one_in(20) {
                value = self.of_another_type();
            }
            put(&mut document, path, value);
        }
        document
    }

    /// Labels such as `stable-1` are looked up in the network.
    fn kubernetes_version(&self) -> String {
        let short = &self.version[1..];
        match self.rng.below(40) {
            0 => short.to_owned(),
            1 => format!("v1.{}", self.minor),
            2 => format!("{}-rc.1", self.version),
            3 => format!("{}+build", self.version),
            4 => format!("{}.4", self.version),
            _ => self.version.to_owned(),
        }
    }

    /// Does the kubeadm of this release have the field in that version of its API? `config validate` refuses others, which its
    /// commands only ignore.
    fn is_known(&self, kind: DocumentKind, api: &str, path: &str) -> bool {
        let mut structure = kind.name().to_owned();
        path.split('.').all(|name| {
            let Some(field) = Schema::embedded().fields(&structure).and_then(|fields| fields.get(name))
            else {
                return false;
            };
            if let Type::Struct(below) = &field.type_ {
                structure.clone_from(below);
            }
            field.is_in(api) && field.since_minor.is_none_or(|since| since <= self.minor)
        })
    }

    /// Alters one of the texts in it.
    fn alter(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.altered(text),
            Value::Array(items) if !items.is_empty() => {
                let index = usize::try_from(self.rng.below(items.len() as u64)).expect("an index");
                self.alter(&mut items[index]);
            }
            Value::Object(fields) if !fields.is_empty() => {
                let nth = usize::try_from(self.rng.below(fields.len() as u64)).expect("an index");
                if let Some(below) = fields.values_mut().nth(nth) {
                    self.alter(below);
                }
            }
            _ => {}
        }
    }

    fn altered(&self, text: &str) -> String {
        let mut letters: Vec<char> = text.chars().collect();
        let at = usize::try_from(self.rng.below(letters.len() as u64 + 1)).expect("an index");
        let letter = *self.one_of(&LETTERS.chars().collect::<Vec<char>>());
        match self.rng.below(4) {
            0 if at < letters.len() => letters[at] = letter,
            1 if at < letters.len() => {
                letters.remove(at);
            }
            2 => letters.extend(text.chars()),
            _ => letters.insert(at, letter),
        }
        letters.into_iter().collect()
    }

    fn of_another_type(&self) -> Value {
        match self.rng.below(8) {
            0 => json!(1),
            1 => json!(true),
            2 => json!(["a"]),
            3 => json!({ "a": "b" }),
            4 => Value::Null,
            5 => json!(1.5),
            _ => json!(format!("{PLAIN_BEGINS}{}{PLAIN_ENDS}", self.one_of(&PLAIN))),
        }
    }
}

/// Puts a value at a path; what stands in its way goes.
fn put(document: &mut Value, path: &str, value: Value) {
    let place = path.split('.').fold(document, |at, name| {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        &mut at[name]
    });
    *place = value;
}

/// A line for each field: kubeadm takes a text that begins with a brace for JSON, where no text stands without quotes.
fn written_as(kind: DocumentKind, api: &str, value: &Value) -> String {
    let mut text = format!("apiVersion: {KUBEADM_GROUP}/{api}\nkind: {}\n", kind.name());
    let fields = value.as_object().into_iter().flatten();
    for (name, field) in fields.filter(|(name, _)| !["apiVersion", "kind"].contains(&name.as_str())) {
        let _ = writeln!(text, "{name}: {field}");
    }
    text.replace("\"\\u0001", "").replace("\\u0002\"", "")
}
