//! `mounts` and `ntp`: lines of `/etc/fstab`, and servers of time. Owns their defaults; must not know how they are put to use.
//! Source: cloud-init `cloudinit/config/cc_mounts.py`, `cc_ntp.py`, 04eacd06 (2026-08).

use serde_json::Value;

use super::reading::{Section, scalar};
use super::refusal::DataRefusal;

/// What stands for the third field and those after it.
const DEFAULTS: [&str; 4] = ["auto", "defaults,nofail,_netdev", "0", "2"];
/// By this a line is found again.
const MARK: &str = "comment=capstan";
/// Names that only a cloud can turn into a device.
const OF_CLOUDS: [&str; 4] = ["ami", "root", "ephemeral", "ebs"];

/// One line of `/etc/fstab`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountToMake {
    pub line: String,
    /// The folder; none for swap.
    pub folder: Option<String>,
}

/// # Errors
/// It is no line of `/etc/fstab`.
pub(super) fn read(path: &str, value: &Value) -> Result<MountToMake, DataRefusal> {
    let list = value.as_array().ok_or_else(|| DataRefusal::value(path, "a list"))?;
    let fields = list.iter().enumerate().map(|(at, field)| scalar(format!("{path}[{at}]"), field));
    let fields = fields.collect::<Result<Vec<String>, DataRefusal>>()?;
    let [device, folder, rest @ ..] = fields.as_slice() else {
        return Err(DataRefusal::value(path, "at least a device and a folder"));
    };
    if rest.len() > DEFAULTS.len() {
        return Err(DataRefusal::value(path, "at most six fields"));
    }
    if fields.iter().any(|field| field.is_empty() || field.chars().any(char::is_control)) {
        return Err(DataRefusal::value(path, "fields that are not empty"));
    }
    if OF_CLOUDS.iter().any(|name| device.starts_with(name)) {
        return Err(DataRefusal::unsupported(
            format!("{path}[0]"),
            "only a cloud knows this name of a device",
        ));
    }
    let field = |at: usize| rest.get(at).map_or(DEFAULTS[at], String::as_str);
    let options = format!("{},{MARK}", field(1));
    let (device, folder) = (escaped(&device_of(device)), normal(folder));
    let line = format!("{device}\t{}\t{}\t{options}\t{}\t{}", escaped(&folder), field(0), field(2), field(3));
    Ok(MountToMake { line, folder: folder.starts_with('/').then_some(folder) })
}

/// As the kernel names a folder in `/proc/mounts`: `//data/` is `/data`. By this name a reset finds what is mounted there.
fn normal(folder: &str) -> String {
    if !folder.starts_with('/') {
        return folder.to_owned();
    }
    let names: Vec<&str> = folder.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    format!("/{}", names.join("/"))
}

/// `sdb` is `/dev/sdb`.
fn device_of(name: &str) -> String {
    let is_short = !name.contains(['/', ':', '=']) && name != "swap" && name != "none" && name != "tmpfs";
    if is_short { format!("/dev/{name}") } else { name.to_owned() }
}

fn escaped(field: &str) -> String {
    field.replace('\\', "\\134").replace(' ', "\\040")
}

/// The servers and pools to ask for the time; none where it is switched off.
///
/// # Errors
/// A key that is not understood, or a server that is no word.
pub(super) fn read_ntp(value: &Value) -> Result<Option<TimeServers>, DataRefusal> {
    let section = Section::of("ntp".to_owned(), value, &["enabled", "servers", "pools"])?;
    let (servers, pools) = (section.words("servers", None)?, section.words("pools", None)?);
    let is_server = |name: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '_');
        !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
    };
    if !servers.iter().chain(&pools).all(|name| is_server(name)) {
        return Err(DataRefusal::value("ntp.servers", "names or addresses"));
    }
    let is_enabled = section.flag("enabled")?.unwrap_or(true);
    Ok((is_enabled && !(servers.is_empty() && pools.is_empty())).then_some(TimeServers { servers, pools }))
}

/// Whom a machine asks for the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeServers {
    pub servers: Vec<String>,
    pub pools: Vec<String>,
}
