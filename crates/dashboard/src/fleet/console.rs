//! Where the console of a provider shows the machine behind a Machine, by its provider id. Owns the table and how its files are read; a
//! file of the configuration folder adds to the one that is built in. Must not know objects nor screens.
//!
//! ```toml
//! [vsphere]
//! provider-id = "vsphere://{uuid}"
//! console = "https://vcenter.example/ui/app/search?query={uuid}"
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use capstan_base::text::did_you_mean;
use capstan_base::toml_file::{FileError, Library, Source};
use capstan_base::web_address::is_web_address;

/// The table in the binary.
pub const EMBEDDED: &[(&str, &str)] = &[("default", include_str!("../../../../consoles/default.toml"))];

const FIELDS: [&str; 2] = ["provider-id", "console"];
/// Everything in a value of an address but letters, digits and the four marks that mean nothing there.
/// Source: RFC 3986, section 2.3.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Behind the name of a part: only what comes first in it up to a number.
const REGION: &str = "region";

/// The whole table by the names of its entries. A clone shares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consoles(Arc<BTreeMap<String, Console>>);

/// How provider ids of one kind are made, and the page about one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Console {
    provider_id: Vec<Piece>,
    /// Empty: there is none.
    page: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Letters(String),
    Part { name: String, is_region: bool },
}

impl Consoles {
    /// The table in the binary.
    pub fn built_in() -> &'static Self {
        // A test reads the file, so that an error in it never comes so far.
        static BUILT_IN: LazyLock<Consoles> = LazyLock::new(|| Consoles::load(None).unwrap_or_default());
        &BUILT_IN
    }

    /// The table in the binary with what `consoles/default.toml` of the configuration folder adds or changes.
    ///
    /// # Errors
    /// File, line and what was expected.
    pub fn load(config_dir: Option<&Path>) -> Result<Self, FileError> {
        let library = Library::new("console", EMBEDDED, config_dir);
        let mut table = BTreeMap::new();
        read(&library.open("default", true)?, &mut table)?;
        if config_dir.is_some() {
            read(&library.open("default", false)?, &mut table)?;
        }
        Ok(Self(Arc::new(table)))
    }

    /// The page about the machine with this provider id. Values of the id are encoded, so that none of them changes what the page is; `None` where
    /// one of them is missing, or no page is known.
    pub fn page(&self, provider_id: &str) -> Option<String> {
        let fitting = self.0.values().filter_map(|console| Some((console, console.parts(provider_id)?)));
        // Of the same number of letters the first by name.
        let (console, parts) =
            fitting.reduce(|best, other| if other.0.letters() > best.0.letters() { other } else { best })?;
        let page: String = console.page.iter().map(|piece| piece.written(&parts)).collect::<Option<_>>()?;
        is_web_address(&page).then_some(page)
    }
}

impl Console {
    fn letters(&self) -> usize {
        self.provider_id
            .iter()
            .map(|piece| if let Piece::Letters(text) = piece { text.len() } else { 0 })
            .sum()
    }

    /// The parts of a provider id that is made so.
    fn parts<'a>(&'a self, provider_id: &'a str) -> Option<BTreeMap<&'a str, &'a str>> {
        let mut parts = BTreeMap::new();
        let (mut rest, mut part) = (provider_id, None::<&str>);
        for piece in &self.provider_id {
            match (piece, part.take()) {
                (Piece::Part { name, .. }, _) => part = Some(name),
                (Piece::Letters(text), None) => rest = without_start(rest, text)?,
                (Piece::Letters(text), Some(name)) => {
                    let goes_on =
                        |at: &usize| rest.get(*at..).is_some_and(|r| without_start(r, text).is_some());
                    let end = (1..rest.len()).find(goes_on)?;
                    parts.insert(name, &rest[..end]);
                    rest = &rest[end + text.len()..];
                }
            }
        }
        if let Some(name) = part {
            parts.insert(name, rest);
        } else if !rest.is_empty() {
            return None;
        }
        parts.values().all(|value| is_part(value)).then_some(parts)
    }
}

/// Letters of an id are the same in both cases: Azure writes `resourceGroups` as it likes.
fn without_start<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    let head = text.get(..start.len())?;
    head.eq_ignore_ascii_case(start).then(|| &text[start.len()..])
}

/// Dots alone would lead to another page.
fn is_part(value: &str) -> bool {
    !value.is_empty() && !value.contains('/') && value.chars().any(|c| c != '.')
}

impl Piece {
    fn written(&self, parts: &BTreeMap<&str, &str>) -> Option<String> {
        match self {
            Self::Letters(text) => Some(text.clone()),
            Self::Part { name, is_region } => {
                let value = parts.get(name.as_str())?;
                let value = if *is_region { region(value)? } else { value };
                Some(utf8_percent_encode(value, ENCODED).to_string())
            }
        }
    }
}

/// `eu-west-1` of `eu-west-1a`, and of what is named after a zone of it.
fn region(zone: &str) -> Option<&str> {
    let first = zone.find(|c: char| c.is_ascii_digit())?;
    let length = zone[first..].find(|c: char| !c.is_ascii_digit()).unwrap_or(zone.len() - first);
    Some(&zone[..first + length])
}

fn read(source: &Source, table: &mut BTreeMap<String, Console>) -> Result<(), FileError> {
    let document = source.parse()?;
    for (name, value) in document.get_ref() {
        let entry = format!("`{}`, a console,", name.get_ref());
        let fields = source.table(value, &entry)?;
        let console = read_fields(source, fields, value)?;
        table.insert(name.get_ref().to_string(), console);
    }
    Ok(())
}

fn read_fields(
    source: &Source,
    fields: &DeTable<'_>,
    entry: &Spanned<DeValue<'_>>,
) -> Result<Console, FileError> {
    let mut read = BTreeMap::new();
    for (key, value) in fields {
        let key_text = key.get_ref().as_ref();
        let Some(field) = FIELDS.into_iter().find(|field| *field == key_text) else {
            let hint = did_you_mean(key_text, FIELDS.into_iter());
            let message = format!("unknown entry `{key_text}`{hint}; known: {}", FIELDS.join(", "));
            return Err(source.error(&key.span(), message));
        };
        let text = source.string(value, &format!("`{field}`"))?;
        let pieces = pieces(text).map_err(|why| source.error(&value.span(), format!("`{field}`: {why}")))?;
        read.insert(field, (pieces, value.span()));
    }
    let mut take = |field: &str| {
        read.remove(field).ok_or_else(|| source.error(&entry.span(), format!("`{field}` is missing")))
    };
    let ((provider_id, _), (page, page_at)) = (take(FIELDS[0])?, take(FIELDS[1])?);
    check_page(&provider_id, &page).map_err(|why| source.error(&page_at, format!("`console` {why}")))?;
    Ok(Console { provider_id, page })
}

/// A part with a name stands between braces.
fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((letters, behind)) = rest.split_once('{') {
        let (part, after) = behind.split_once('}').ok_or("a brace is not closed")?;
        let (name, is_region) = match part.split_once(':') {
            None => (part, false),
            Some((name, REGION)) => (name, true),
            Some((_, other)) => return Err(format!("`{other}` is not known; a part may end in `:{REGION}`")),
        };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(format!("`{{{part}}}` is not the name of a part"));
        }
        if letters.is_empty() && matches!(pieces.last(), Some(Piece::Part { .. })) {
            return Err("between two parts there must be a letter".to_owned());
        }
        if !letters.is_empty() {
            pieces.push(Piece::Letters(letters.to_owned()));
        }
        pieces.push(Piece::Part { name: name.to_owned(), is_region });
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Letters(rest.to_owned()));
    }
    Ok(pieces)
}

/// The host stands in the file: what a server says must not choose where a link leads to.
fn check_page(provider_id: &[Piece], page: &[Piece]) -> Result<(), String> {
    let Some(first) = page.first() else { return Ok(()) };
    let host = if let Piece::Letters(text) = first { text.splitn(4, '/').nth(3) } else { None };
    if host.is_none() {
        return Err("must begin with https:// or http://, a host without parts, and a slash".to_owned());
    }
    let is_known = |wanted: &str| {
        provider_id.iter().any(|piece| matches!(piece, Piece::Part { name, .. } if name == wanted))
    };
    let mut written = String::new();
    for piece in page {
        match piece {
            Piece::Letters(text) => written.push_str(text),
            Piece::Part { name, .. } if is_known(name) => written.push('x'),
            Piece::Part { name, .. } => {
                return Err(format!("has a part `{name}` that `provider-id` has not"));
            }
        }
    }
    if is_web_address(&written) {
        Ok(())
    } else {
        Err("must be an address of printable letters without blanks or quotes".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Consoles, String> {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join("consoles")).expect("a folder");
        let path = dir.path().join("consoles/default.toml");
        std::fs::write(&path, text).expect("a file");
        let path = path.display().to_string();
        Consoles::load(Some(dir.path())).map_err(|error| error.to_string().replace(&path, "FILE"))
    }

    #[test]
    fn provider_ids_lead_to_the_pages_of_their_providers() {
        let ec2 = |host: &str, region: &str| {
            format!("https://{host}/ec2/home?region={region}#InstanceDetails:instanceId=i-0abc")
        };
        let azure = "/subscriptions/s-1/resourceGroups/g/providers/Microsoft.Compute";
        for (id, page) in [
            ("aws:///eu-west-1a/i-0abc", Some(ec2("console.aws.amazon.com", "eu-west-1"))),
            // A local zone, and a wavelength zone, are of their region.
            ("aws:///us-west-2-lax-1a/i-0abc", Some(ec2("console.aws.amazon.com", "us-west-2"))),
            ("aws:///us-gov-west-1b/i-0abc", Some(ec2("console.amazonaws-us-gov.com", "us-gov-west-1"))),
            ("aws:///cn-north-1a/i-0abc", Some(ec2("console.amazonaws.cn", "cn-north-1"))),
            (
                &format!("azure://{azure}/virtualMachines/vm-1").replace("resourceGroups", "resourcegroups"),
                Some(format!("https://portal.azure.com/#resource{azure}/virtualMachines/vm-1")),
            ),
            (
                &format!("azure://{azure}/virtualMachineScaleSets/set/virtualMachines/0"),
                Some(format!(
                    "https://portal.azure.com/#resource{azure}/virtualMachineScaleSets/set/virtualMachines/0"
                )),
            ),
            (
                "gce://proj-1/europe-west1-b/node-1",
                Some(
                    "https://console.cloud.google.com/compute/instancesDetail/zones/europe-west1-b/instances/node-1?project=proj-1"
                        .to_owned(),
                ),
            ),
            ("digitalocean://123", Some("https://cloud.digitalocean.com/droplets/123".to_owned())),
            ("vsphere://4210-aa", None),
            ("metal3://ns/host/machine", None),
            ("aws:///eu-west-1a/", None),
            ("aws:////i-0abc", None),
            ("aws:///eu-west-1a/i-0abc/more", None),
            ("gce://proj-1//node-1", None),
            ("", None),
        ] {
            assert_eq!(Consoles::built_in().page(id), page, "{id}");
        }
    }

    #[test]
    fn what_a_server_says_stays_one_value_of_the_address() {
        let page = |id: &str| Consoles::built_in().page(id);
        for (id, part) in [
            ("digitalocean://1?a=b#c&d", "/droplets/1%3Fa%3Db%23c%26d"),
            ("digitalocean://\u{1b}]8;;x", "/droplets/%1B%5D8%3B%3Bx"),
            ("digitalocean://\u{202e}1", "/droplets/%E2%80%AE1"),
            ("digitalocean://@evil.example", "/droplets/%40evil.example"),
        ] {
            let page = page(id).expect("a page");
            assert!(page.starts_with("https://cloud.digitalocean.com/") && page.ends_with(part), "{page}");
        }
        // Dots would lead elsewhere, and so would a slash.
        assert_eq!(page("digitalocean://.."), None);
        assert_eq!(page("digitalocean://a/b"), None);
        // Longer than terminals take.
        assert_eq!(page(&format!("digitalocean://{}", "x".repeat(4_000))), None);
    }

    #[test]
    fn a_file_adds_to_the_table_and_takes_away() {
        let all = load(
            "[vsphere]\nprovider-id = \"vsphere://{uuid}\"\nconsole = \"https://vc.example/ui/search?q={uuid}\"\n\
             [gcp]\nprovider-id = \"gce://{rest}\"\nconsole = \"\"",
        )
        .expect("it loads");
        assert_eq!(all.page("vsphere://42-a").as_deref(), Some("https://vc.example/ui/search?q=42-a"));
        assert_eq!(all.page("gce://proj-1/europe-west1-b/node-1"), None);
        assert!(all.page("aws:///eu-west-1a/i-0abc").is_some());
    }

    #[test]
    fn an_error_names_file_line_and_what_was_expected() {
        let of = |id: &str, console: &str| format!("[a]\nprovider-id = \"{id}\"\nconsole = \"{console}\"");
        for (text, expected) in [
            (of("a://{x", "https://h/"), "FILE:2: `provider-id`: a brace is not closed"),
            (
                of("a://{x}{y}", "https://h/"),
                "FILE:2: `provider-id`: between two parts there must be a letter",
            ),
            (
                of("a://{x:y}", "https://h/"),
                "FILE:2: `provider-id`: `y` is not known; a part may end in `:region`",
            ),
            (of("a://{x}", "https://h/{y}"), "FILE:3: `console` has a part `y` that `provider-id` has not"),
            (
                of("a://{x}", "https://{x}.example/"),
                "FILE:3: `console` must begin with https:// or http://, a host without parts, and a slash",
            ),
            (
                of("a://{x}", "javascript:a/b/c/{x}"),
                "FILE:3: `console` must be an address of printable letters without blanks or quotes",
            ),
            ("[a]\nconsole = \"\"".to_owned(), "FILE:1: `provider-id` is missing"),
            (
                "[a]\nprovider = \"\"".to_owned(),
                "FILE:2: unknown entry `provider`; did you mean `provider-id`?; known: provider-id, console",
            ),
            ("a = 1".to_owned(), "FILE:1: `a`, a console, must be a table, not integer"),
        ] {
            assert_eq!(load(&text).expect_err(&text), expected);
        }
    }
}
