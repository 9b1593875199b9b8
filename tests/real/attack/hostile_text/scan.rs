//! What in the bytes for a terminal does not come from the program itself. Owns its own list of what is hostile, so
//! that a mistake in the program's list cannot hide here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// Last characters of the CSI sequences that the program uses: where to write, how, and modes.
const CSI_OWN: &str = "HJKhlmu";
/// Parameters that only payloads have.
const PAYLOAD_PARAMETER: &str = "6666";
/// More marks than any script puts on one letter cover the lines above and below.
const MARKS_MAX: usize = 8;
/// The longest address of a link.
const ADDRESS_MAX: usize = 2_048;
/// Characters around one that is found.
const CONTEXT: usize = 24;

/// Characters that steer, reorder or hide, besides controls.
fn misleads(c: char) -> bool {
    matches!(u32::from(c),
        0x7f..=0x9f
        | 0x061c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff
        | 0xfff9..=0xfffb | 0xe0000..=0xe0fff)
}

fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// Everything foreign, with what stands around it.
pub fn foreign(bytes: &[u8]) -> Vec<String> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return vec![format!("not UTF-8: {error}")],
    };
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let length = match chars[at] {
            '\x1b' => own_sequence(&chars[at..]),
            '\n' | '\r' => Some(1),
            c if u32::from(c) < 0x20 || misleads(c) => None,
            c if is_mark(c) => {
                let marks = chars[at..].iter().take_while(|&&c| is_mark(c)).count();
                (marks <= MARKS_MAX).then_some(marks)
            }
            _ => Some(1),
        };
        if length.is_none() {
            let around: String =
                chars[at.saturating_sub(CONTEXT)..chars.len().min(at + CONTEXT)].iter().collect();
            found.push(around.escape_debug().to_string());
        }
        at += length.unwrap_or(1);
    }
    found
}

/// The length of an escape sequence that the program may send.
fn own_sequence(chars: &[char]) -> Option<usize> {
    match chars.get(1)? {
        '[' => {
            let end = chars[2..].iter().position(|c| ('\x40'..='\x7e').contains(c))? + 2;
            let parameters: String = chars[2..end].iter().collect();
            let is_own = CSI_OWN.contains(chars[end])
                && parameters.chars().all(|c| ('\x20'..='\x3f').contains(&c))
                && !parameters.contains(PAYLOAD_PARAMETER);
            is_own.then_some(end + 1)
        }
        ']' => clipboard(chars).or_else(|| link(chars)),
        _ => None,
    }
}

/// OSC 52, with text that is harmless: what `copy` sends.
fn clipboard(chars: &[char]) -> Option<usize> {
    let end = chars.iter().position(|&c| c == '\x07' || c == '\\')?;
    let body: String = chars[2..end].iter().filter(|&&c| c != '\x1b').collect();
    let copied = BASE64.decode(body.strip_prefix("52;c;")?).ok()?;
    let copied = String::from_utf8(copied).ok()?;
    let is_harmless = copied.chars().all(|c| c == '\n' || !(c.is_control() || misleads(c)));
    (is_harmless && copied != PAYLOAD_PARAMETER).then_some(end + 1)
}

/// OSC 8: the end of a link, or the beginning of one to an address of plain characters.
fn link(chars: &[char]) -> Option<usize> {
    let end = chars.windows(2).skip(2).position(|pair| pair == ['\x1b', '\\'])? + 2;
    let body: String = chars[2..end].iter().collect();
    let (id, address) = body.strip_prefix("8;")?.split_once(';')?;
    let is_id = id.strip_prefix("id=").is_some_and(|id| id.chars().all(|c| c.is_ascii_hexdigit()));
    let is_address = (address.starts_with("https://") || address.starts_with("http://"))
        && address.len() <= ADDRESS_MAX
        && address.chars().all(|c| c.is_ascii_graphic())
        && !address.contains(PAYLOAD_PARAMETER);
    ((id.is_empty() && address.is_empty()) || (is_id && is_address)).then_some(end + 2)
}

#[cfg(test)]
mod tests {
    use super::super::payload::PAYLOADS;
    use super::*;

    #[test]
    fn every_payload_is_found() {
        for payload in PAYLOADS {
            let is_found = !foreign(payload.as_bytes()).is_empty();
            // A line of its own is what a dashboard writes as well.
            let is_a_line = payload.contains("\roverwritten");
            assert!(is_found != is_a_line, "{payload:?}");
        }
    }

    #[test]
    fn own_sequences_are_not_foreign() {
        let own = "\x1b[?1049h\x1b[2J\x1b[1;1H\x1b[38;5;1mtext\x1b[0m\r\n\x1b]52;c;YXVyb3Jh\x1b\\\x1b[?25l";
        assert_eq!(foreign(own.as_bytes()), Vec::<String>::new());
        let link = |address: &str| format!("\x1b]8;id=0a1b2c;{address}\x1b\\text\x1b]8;;\x1b\\");
        for (address, is_own) in [
            ("https://wiki.example/etcd", true),
            ("http://6666.example/", false),
            ("file:///etc/passwd", false),
            ("https://wiki.example/ a", false),
            (&format!("https://wiki.example/{}", "x".repeat(ADDRESS_MAX)), false),
        ] {
            assert_eq!(foreign(link(address).as_bytes()).is_empty(), is_own, "{address}");
        }
    }
}
