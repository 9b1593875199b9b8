//! `users`: accounts of a machine. Owns their words; must not know how an account is made.
//! Source: cloud-init `cloudinit/distros/__init__.py` (`add_user`, `create_user`), 04eacd06 (2026-08).

use serde_json::Value;

use super::reading::Section;
use super::refusal::DataRefusal;

const KEYS: [&str; 11] = [
    "name",
    "gecos",
    "groups",
    "homedir",
    "inactive",
    "lock_passwd",
    "passwd",
    "primary_group",
    "shell",
    "ssh_authorized_keys",
    "sudo",
];

/// As `useradd` has it; the password is hashed.
#[derive(Clone, PartialEq, Eq)]
pub struct UserToMake {
    pub name: String,
    pub gecos: Option<String>,
    pub groups: Vec<String>,
    pub home: Option<String>,
    /// Days after which an expired password closes the account.
    pub inactive: Option<String>,
    pub is_locked: bool,
    /// Hashed, as `/etc/shadow` has it.
    pub password_hash: Option<String>,
    pub primary_group: Option<String>,
    pub shell: Option<String>,
    pub authorized_keys: Vec<String>,
    pub sudo_rules: Vec<String>,
}

/// # Errors
/// The first key that is not understood.
pub(super) fn read(path: String, value: &Value) -> Result<UserToMake, DataRefusal> {
    if value.is_string() {
        return Err(DataRefusal::unsupported(path, "a user by name alone is one of the image's"));
    }
    let section = Section::of(path, value, &KEYS)?;
    let name = section.text("name")?.filter(|name| is_account(name));
    let groups = section.words("groups", Some(','))?;
    let primary_group = section.text("primary_group")?.map(str::to_owned);
    if let Some(wrong) = groups.iter().chain(&primary_group).find(|group| !is_account(group)) {
        return Err(DataRefusal::value(section.at(&format!("groups: {wrong}")), "the name of a group"));
    }
    Ok(UserToMake {
        name: name.ok_or_else(|| DataRefusal::value(section.at("name"), "the name of a user"))?.to_owned(),
        gecos: line(&section, "gecos")?,
        groups,
        home: line(&section, "homedir")?,
        inactive: inactive(&section)?,
        is_locked: section.flag("lock_passwd")?.unwrap_or(true),
        password_hash: hash(&section)?,
        primary_group,
        shell: line(&section, "shell")?,
        authorized_keys: lines(&section, "ssh_authorized_keys")?,
        sudo_rules: lines(&section, "sudo")?,
    })
}

/// What `useradd` takes as a name.
fn is_account(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    name.len() <= 32 && name.starts_with(is_first) && name.chars().all(is_plain)
}

fn is_line(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

fn line(section: &Section<'_>, key: &str) -> Result<Option<String>, DataRefusal> {
    match section.text(key)? {
        Some(text) if !is_line(text) || text.contains(':') => {
            Err(DataRefusal::value(section.at(key), "a line without `:`"))
        }
        text => Ok(text.map(str::to_owned)),
    }
}

fn lines(section: &Section<'_>, key: &str) -> Result<Vec<String>, DataRefusal> {
    let lines = section.words(key, None)?;
    let lines: Vec<String> = lines.iter().map(|line| line.trim().to_owned()).collect();
    match lines.iter().all(|line| is_line(line)) {
        true => Ok(lines),
        false => Err(DataRefusal::value(section.at(key), "one line for each entry")),
    }
}

/// `KubeadmConfig` has a truth value here, which `useradd` does not take and cloud-init therefore leaves out.
fn inactive(section: &Section<'_>) -> Result<Option<String>, DataRefusal> {
    match section.get("inactive") {
        Some(Value::Number(days)) => Ok(Some(days.to_string())),
        Some(Value::String(days)) if days.parse::<i32>().is_ok() => Ok(Some(days.clone())),
        Some(Value::Bool(_)) | None => Ok(None),
        Some(_) => Err(DataRefusal::value(section.at("inactive"), "a number of days")),
    }
}

fn hash(section: &Section<'_>) -> Result<Option<String>, DataRefusal> {
    match section.text("passwd")? {
        Some(hash) if !is_line(hash) || hash.contains(':') => {
            Err(DataRefusal::value(section.at("passwd"), "a hashed password"))
        }
        hash => Ok(hash.filter(|hash| !hash.is_empty()).map(str::to_owned)),
    }
}
