//! `write_files`: what is written where. Owns encodings and modes; must not know how a file is written.
//! Source: cloud-init `cloudinit/config/cc_write_files.py`, 04eacd06 (2026-08).

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use super::reading::Section;
use super::refusal::DataRefusal;

/// Of one file, unpacked. A Secret has at most 1 MiB.
const CONTENT_BYTES_MAX: u64 = 16 * 1024 * 1024;
const MODE: u32 = 0o644;
const PATH_BYTES_MAX: usize = 4_000;
const KEYS: [&str; 7] = ["path", "content", "encoding", "owner", "permissions", "append", "defer"];

/// One file for a machine. Its content may be a key.
#[derive(Clone, PartialEq, Eq)]
pub struct FileToWrite {
    pub path: String,
    pub content: Vec<u8>,
    /// `USER:GROUP`.
    pub owner: String,
    pub mode: u32,
    /// Behind what is there.
    pub append: bool,
    /// After the users are made.
    pub is_deferred: bool,
}

/// # Errors
/// The first key that is not understood.
pub(super) fn read(path: String, value: &Value) -> Result<FileToWrite, DataRefusal> {
    if let Some(source) = value.get("source").filter(|source| !source.is_null()) {
        let key = if source.get("uri").is_some() { "source.uri" } else { "source" };
        return Err(DataRefusal::unsupported(
            format!("{path}.{key}"),
            "contents are not fetched from elsewhere",
        ));
    }
    let section = Section::of(path, value, &KEYS)?;
    let mode = mode_of(&section)?;
    let owner = section.text("owner")?.unwrap_or("root:root");
    Ok(FileToWrite {
        path: path_of(&section)?,
        content: content_of(&section)?,
        owner: owner_of(owner).ok_or_else(|| DataRefusal::value(section.at("owner"), "USER:GROUP"))?,
        mode,
        append: section.flag("append")?.unwrap_or(false),
        is_deferred: section.flag("defer")?.unwrap_or(false),
    })
}

fn path_of(section: &Section<'_>) -> Result<String, DataRefusal> {
    let expected =
        || DataRefusal::value(section.at("path"), "an absolute path without `..` and control characters");
    let path = section.text("path")?.ok_or_else(expected)?;
    let is_plain = path.len() <= PATH_BYTES_MAX && !path.chars().any(char::is_control);
    let is_path = path.starts_with('/') && !path.ends_with('/') && path.split('/').all(|part| part != "..");
    if is_plain && is_path { Ok(path.to_owned()) } else { Err(expected()) }
}

/// A text is octal, a number is taken as it is: `0644` and `"0644"` are the same, as YAML reads the first as octal.
fn mode_of(section: &Section<'_>) -> Result<u32, DataRefusal> {
    let expected = || DataRefusal::value(section.at("permissions"), "an octal mode such as \"0644\"");
    let mode = match section.get("permissions") {
        None => Some(MODE),
        Some(Value::Number(number)) => number.as_u64().and_then(|mode| u32::try_from(mode).ok()),
        Some(Value::String(text)) => {
            u32::from_str_radix(text.trim().strip_prefix("0o").unwrap_or(text.trim()), 8).ok()
        }
        Some(_) => None,
    };
    mode.filter(|mode| *mode <= 0o7777).ok_or_else(expected)
}

/// Without a group it is root's, as cloud-init has it.
fn owner_of(text: &str) -> Option<String> {
    let (user, group) = text.split_once(':').unwrap_or((text, "root"));
    let word = |text: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain)
    };
    (word(user) && word(group)).then(|| format!("{user}:{group}"))
}

fn content_of(section: &Section<'_>) -> Result<Vec<u8>, DataRefusal> {
    let content = section.text("content")?.unwrap_or_default();
    let encoding = section.text("encoding")?.unwrap_or_default().trim().to_lowercase();
    let base64 = || base64_of(content).ok_or_else(|| DataRefusal::value(section.at("content"), "base64"));
    let gzip = |bytes: &[u8]| {
        gzip_of(bytes).ok_or_else(|| DataRefusal::value(section.at("content"), "gzip of at most 16 MiB"))
    };
    match encoding.as_str() {
        "" | "text/plain" => Ok(content.as_bytes().to_vec()),
        "b64" | "base64" => base64(),
        "gz" | "gzip" => gzip(content.as_bytes()),
        "gz+b64" | "gzip+b64" | "gz+base64" | "gzip+base64" => gzip(&base64()?),
        _ => Err(DataRefusal::value(section.at("encoding"), "`base64`, `gzip` or `gzip+base64`")),
    }
}

/// Line breaks do not count.
fn base64_of(text: &str) -> Option<Vec<u8>> {
    let text: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    BASE64.decode(text).ok()
}

fn gzip_of(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let mut unpacked = flate2::read::MultiGzDecoder::new(bytes).take(CONTENT_BYTES_MAX + 1);
    unpacked.read_to_end(&mut content).ok()?;
    (content.len() as u64 <= CONTENT_BYTES_MAX).then_some(content)
}
