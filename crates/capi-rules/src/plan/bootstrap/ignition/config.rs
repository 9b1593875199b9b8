//! Ignition 2.3.0 as JSON, read from the spelling of Container Linux Config. Owns shapes and how two configurations become
//! one; must not know what they are for.
//! Source: `flatcar/ignition` v0.36.2 `config/v2_3` (`types/schema.go`, `append.go`), and the sections of
//! `flatcar/container-linux-config-transpiler` v0.9.4 that have one counterpart.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

const VERSION: &str = "2.3.0";
/// Of a file, and of a folder, that sets none.
pub const FILE_MODE: i64 = 0o644;
const FOLDER_MODE: i64 = 0o755;
const MEBIBYTE: u64 = 1 << 20;
/// What stays as it is in the data URL of a file.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// Empty sections are written too, as upstream's are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    pub ignition: Ignition,
    pub networkd: Networkd,
    pub passwd: Passwd,
    pub storage: Storage,
    pub systemd: Systemd,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ignition {
    pub config: Value,
    pub security: Security,
    pub timeouts: Timeouts,
    #[serde(skip_deserializing)]
    pub version: &'static str,
}

impl Default for Ignition {
    fn default() -> Self {
        Self {
            config: Value::Object(serde_json::Map::new()),
            security: Security::default(),
            timeouts: Timeouts::default(),
            version: VERSION,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Security {
    pub tls: Tls,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all(serialize = "camelCase", deserialize = "snake_case"))]
pub struct Tls {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificate_authorities: Vec<Reference>,
}

/// Something that is fetched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reference {
    pub source: String,
    pub verification: Verification,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Verification {
    /// `FUNCTION-SUM`.
    #[serde(deserialize_with = "hash")]
    pub hash: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeouts {
    #[serde(rename(serialize = "httpResponseHeaders", deserialize = "http_response_headers"))]
    pub response_headers_s: Option<i64>,
    #[serde(rename(serialize = "httpTotal", deserialize = "http_total"))]
    pub total_s: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Networkd {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<NetworkUnit>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkUnit {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub contents: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropins: Vec<DropIn>,
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Systemd {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<Unit>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unit {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub contents: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropins: Vec<DropIn>,
    #[serde(skip_serializing_if = "is_false")]
    pub enable: bool,
    pub enabled: Option<bool>,
    #[serde(skip_serializing_if = "is_false")]
    pub mask: bool,
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DropIn {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub contents: String,
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Passwd {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<PasswdGroup>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<User>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all(serialize = "camelCase", deserialize = "snake_case"))]
pub struct PasswdGroup {
    pub gid: Option<u32>,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub password_hash: String,
    #[serde(skip_serializing_if = "is_false")]
    pub system: bool,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all(serialize = "camelCase", deserialize = "snake_case"))]
pub struct User {
    pub create: Option<Box<Account>>,
    #[serde(flatten)]
    pub account: Account,
    pub name: String,
    pub password_hash: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ssh_authorized_keys: Vec<String>,
}

/// What a user is made with.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all(serialize = "camelCase", deserialize = "snake_case"))]
pub struct Account {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gecos: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub home_dir: String,
    #[serde(skip_serializing_if = "is_false")]
    pub no_create_home: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub no_log_init: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub no_user_group: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub primary_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub shell: String,
    #[serde(skip_serializing_if = "is_false")]
    pub system: bool,
    pub uid: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Storage {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<Directory>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<Disk>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filesystems: Vec<Filesystem>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub raid: Vec<Raid>,
}

/// Where something lies, and whose it is.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Location {
    pub filesystem: String,
    pub group: Option<NodeOwner>,
    pub overwrite: Option<bool>,
    pub path: String,
    pub user: Option<NodeOwner>,
}

impl Default for Location {
    fn default() -> Self {
        Self { filesystem: "root".to_owned(), group: None, overwrite: None, path: String::new(), user: None }
    }
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeOwner {
    pub id: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct File {
    #[serde(flatten)]
    pub location: Location,
    #[serde(skip_serializing_if = "is_false")]
    pub append: bool,
    #[serde(deserialize_with = "contents")]
    pub contents: Contents,
    pub mode: i64,
}

impl Default for File {
    fn default() -> Self {
        Self {
            location: Location::default(),
            append: false,
            contents: Contents::of_bytes(&[]),
            mode: FILE_MODE,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Contents {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub compression: String,
    pub source: String,
    pub verification: Verification,
}

impl Contents {
    /// As a data URL.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self { source: format!("data:,{}", percent_encode(bytes, ESCAPED)), ..Self::default() }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Directory {
    #[serde(flatten)]
    pub location: Location,
    pub mode: i64,
}

impl Default for Directory {
    fn default() -> Self {
        Self { location: Location::default(), mode: FOLDER_MODE }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    #[serde(flatten)]
    pub location: Location,
    #[serde(skip_serializing_if = "is_false")]
    pub hard: bool,
    pub target: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all(serialize = "camelCase", deserialize = "snake_case"))]
pub struct Disk {
    pub device: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<Partition>,
    #[serde(skip_serializing_if = "is_false")]
    pub wipe_table: bool,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all(serialize = "camelCase", deserialize = "snake_case"))]
pub struct Partition {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub guid: String,
    pub label: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub number: i64,
    #[serde(rename(serialize = "sizeMiB", deserialize = "size"), deserialize_with = "mebibytes")]
    pub size_mib: Option<u64>,
    #[serde(rename(serialize = "startMiB", deserialize = "start"), deserialize_with = "mebibytes")]
    pub start_mib: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "partition_type")]
    pub type_guid: String,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filesystem {
    pub mount: Option<Mount>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub path: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all(serialize = "camelCase", deserialize = "snake_case"))]
pub struct Mount {
    pub create: Option<Create>,
    pub device: String,
    pub format: String,
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    pub uuid: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub wipe_filesystem: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Create {
    #[serde(skip_serializing_if = "is_false")]
    pub force: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Raid {
    pub devices: Vec<String>,
    pub level: String,
    pub name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub spares: i64,
}

impl Config {
    /// Lists of `other` behind one's own; what stands alone is that of `other` where it says something.
    pub fn append(&mut self, other: Self) {
        let Self { ignition, networkd, passwd, storage, systemd } = other;
        // Replaced even by an empty one: ours never has any.
        self.ignition.config = ignition.config;
        self.ignition
            .security
            .tls
            .certificate_authorities
            .extend(ignition.security.tls.certificate_authorities);
        let (ours, theirs) = (&mut self.ignition.timeouts, ignition.timeouts);
        // Of single values that of the other one counts, as in upstream's append.
        ours.response_headers_s = theirs.response_headers_s.or(ours.response_headers_s);
        ours.total_s = theirs.total_s.or(ours.total_s);
        self.networkd.units.extend(networkd.units);
        self.passwd.groups.extend(passwd.groups);
        self.passwd.users.extend(passwd.users);
        self.storage.directories.extend(storage.directories);
        self.storage.disks.extend(storage.disks);
        self.storage.files.extend(storage.files);
        self.storage.filesystems.extend(storage.filesystems);
        self.storage.links.extend(storage.links);
        self.storage.raid.extend(storage.raid);
        self.systemd.units.extend(systemd.units);
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &i64) -> bool {
    *value == 0
}

/// `{function, sum}`; half of one counts as none.
fn hash<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Hash {
        function: String,
        sum: String,
    }
    let Hash { function, sum } = Hash::deserialize(from)?;
    Ok((!function.is_empty() && !sum.is_empty()).then(|| format!("{function}-{sum}")))
}

fn contents<'de, D: Deserializer<'de>>(from: D) -> Result<Contents, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Remote {
        url: String,
        compression: String,
        verification: Verification,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Written {
        remote: Remote,
        inline: String,
        local: String,
    }
    let Written { remote, inline, local } = Written::deserialize(from)?;
    let refused = <D::Error as serde::de::Error>::custom;
    if !local.is_empty() {
        // The transpiler reads them from where it runs, which is here the engine's host.
        return Err(refused("local files cannot be read here; use inline or remote"));
    }
    if !inline.is_empty() && !remote.url.is_empty() {
        return Err(refused("only one of the following can be set: local, inline, remote.url"));
    }
    let contents = Contents::of_bytes(inline.as_bytes());
    let source = if remote.url.is_empty() { contents.source } else { remote.url };
    Ok(Contents { compression: remote.compression, source, verification: remote.verification })
}

/// Sizes such as `512MiB` or `4GB`; both count in powers of two.
fn mebibytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(from)?;
    if text.is_empty() {
        return Ok(None);
    }
    let refused = |why: &str| <D::Error as serde::de::Error>::custom(format!("size {text:?}: {why}"));
    // No sign and no fraction: `1.5GiB` has an unknown unit here.
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit {
        "B" => 0,
        "KB" | "KiB" => 10,
        "MB" | "MiB" => 20,
        "GB" | "GiB" => 30,
        "TB" | "TiB" => 40,
        _ => return Err(refused("expected a number and a unit such as MiB")),
    };
    let number: u64 = number.parse().map_err(|_| refused("expected a number and a unit such as MiB"))?;
    // A size comes from a person's text, and may be any number.
    let bytes = number.checked_mul(1 << shift).ok_or_else(|| refused("it is too large"))?;
    // Ignition 2.3 counts partitions in whole mebibytes.
    if bytes % MEBIBYTE != 0 {
        return Err(refused("invalid dimension (finest granularity is 1MiB)"));
    }
    Ok(Some(bytes / MEBIBYTE))
}

/// The names that Container Linux Config knows for type GUIDs.
fn partition_type<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    Ok(match text.as_str() {
        "raid_containing_root" => "be9067b9-ea49-4f15-b4f6-f36f8c9e1818".to_owned(),
        "linux_filesystem_data" => "0fc63daf-8483-4772-8e79-3d69d8477de4".to_owned(),
        "swap_partition" => "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f".to_owned(),
        "raid_partition" => "a19d880f-05fc-4d3b-a006-743f0f84911e".to_owned(),
        _ => text,
    })
}
