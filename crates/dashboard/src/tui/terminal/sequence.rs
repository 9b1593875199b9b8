//! Whole control sequences → keys and mouse. Owns which are keys; whatever is not listed here is a reply of the
//! terminal and means nothing. Must not know where a sequence ends.
//!
//! The codes are those of xterm's ctlseqs ("PC-Style Function Keys", "VT220-Style Function Keys", "SGR" mouse mode,
//! modifyOtherKeys) and of kitty's keyboard protocol (`u`).

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

/// What the terminal sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Key(KeyEvent),
    Mouse(MouseEvent),
    Paste(String),
    /// The terminal is gone.
    Hangup,
}

/// A key that is one byte below 0x80.
pub fn typed(byte: u8) -> KeyEvent {
    let control = |letter: u8| KeyEvent::new(KeyCode::Char(char::from(letter)), KeyModifiers::CONTROL);
    match byte {
        // In raw mode enter sends a carriage return; a line feed is ctrl-j.
        b'\r' => plain(KeyCode::Enter),
        b'\t' => plain(KeyCode::Tab),
        0x7f => plain(KeyCode::Backspace),
        0x00 => control(b' '),
        0x01..=0x1a => control(byte - 0x01 + b'a'),
        0x1b => plain(KeyCode::Esc),
        // Ctrl-4 to ctrl-7 send these bytes since the VT220.
        0x1c..=0x1f => control(byte - 0x1c + b'4'),
        _ => character(char::from(byte), KeyModifiers::empty()),
    }
}

/// A character; shift is part of it where it is a capital.
pub fn character(c: char, modifiers: KeyModifiers) -> KeyEvent {
    let shift = if c.is_uppercase() { KeyModifiers::SHIFT } else { KeyModifiers::empty() };
    KeyEvent::new(KeyCode::Char(c), modifiers | shift)
}

fn plain(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::empty())
}

/// ESC O and this byte.
pub fn single_key(last: u8) -> Option<KeyEvent> {
    let code = match last {
        b'M' => KeyCode::Enter,
        b'R' => KeyCode::F(3),
        _ => cursor_key(last)?,
    };
    Some(plain(code))
}

/// ESC [ [ and this byte, as the Linux console sends F1 to F5.
pub fn console_key(last: u8) -> Option<KeyEvent> {
    matches!(last, b'A'..=b'E').then(|| plain(KeyCode::F(1 + last - b'A')))
}

/// ESC [, the parameters, and the last byte.
pub fn read(parameters: &[u8], last: u8) -> Option<Input> {
    let text = std::str::from_utf8(parameters).ok()?;
    if let Some(report) = text.strip_prefix('<') {
        return mouse(report, last).map(Input::Mouse);
    }
    let numbers = numbers(text)?;
    let first = numbers.first().copied().unwrap_or(1);
    let modifiers = modifiers(numbers.get(1).copied().unwrap_or(1));
    let code = match (last, numbers.as_slice()) {
        (b'Z', []) => KeyCode::BackTab,
        // modifyOtherKeys of xterm: 27, the modifiers, the code of the character.
        (b'~', [27, _, code]) => return lettered(*code, modifiers).map(Input::Key),
        (b'~', [_] | [_, _]) => numbered_key(first)?,
        (b'u', [_] | [_, _]) => return lettered(first, modifiers).map(Input::Key),
        (_, [] | [1] | [1, _]) => cursor_key(last)?,
        _ => return None,
    };
    Some(Input::Key(KeyEvent::new(code, modifiers)))
}

/// Numbers between semicolons; none from anything with other marks, as replies have them.
fn numbers(text: &str) -> Option<Vec<u32>> {
    if text.is_empty() { Some(Vec::new()) } else { text.split(';').map(|part| part.parse().ok()).collect() }
}

/// xterm's code: one more than the sum of shift 1, alt 2, control 4.
fn modifiers(code: u32) -> KeyModifiers {
    let bits = code.saturating_sub(1);
    [(1, KeyModifiers::SHIFT), (2, KeyModifiers::ALT), (4, KeyModifiers::CONTROL)]
        .into_iter()
        .filter(|(bit, _)| bits & bit != 0)
        .fold(KeyModifiers::empty(), |all, (_, modifier)| all | modifier)
}

/// Keys with a letter of their own. R is left out: with numbers it is where the cursor is.
fn cursor_key(last: u8) -> Option<KeyCode> {
    Some(match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        b'P' => KeyCode::F(1),
        b'Q' => KeyCode::F(2),
        b'S' => KeyCode::F(4),
        _ => return None,
    })
}

/// Keys with a number before `~`.
fn numbered_key(number: u32) -> Option<KeyCode> {
    Some(match number {
        // 1 and 4 are those of xterm and of the Linux console, 7 and 8 those of rxvt.
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        // 16 and 22 are left out: the keyboard of the VT220 had gaps there.
        11..=15 => function_key(number - 10),
        17..=21 => function_key(number - 11),
        23 | 24 => function_key(number - 12),
        _ => return None,
    })
}

fn function_key(number: u32) -> KeyCode {
    KeyCode::F(u8::try_from(number).unwrap_or(1))
}

/// A key by its Unicode code point. Kitty's private ones are not keys of ours.
fn lettered(code: u32, modifiers: KeyModifiers) -> Option<KeyEvent> {
    let c = char::from_u32(code).filter(|c| !matches!(c, '\u{e000}'..='\u{f8ff}'))?;
    let code = match c {
        '\r' => KeyCode::Enter,
        '\t' => KeyCode::Tab,
        '\x1b' => KeyCode::Esc,
        '\x7f' => KeyCode::Backspace,
        c if c.is_control() => return None,
        c => return Some(character(c, modifiers)),
    };
    Some(KeyEvent::new(code, modifiers))
}

/// A mouse report (SGR): what the dashboard answers to, which is the left button going down and the wheel.
fn mouse(report: &str, last: u8) -> Option<MouseEvent> {
    let numbers: Vec<u16> = report.split(';').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [button, column, row] = numbers.as_slice() else { return None };
    // Bits 4, 8 and 16 are shift, alt and control.
    let kind = match (button & !0b1_1100, last) {
        // A small m at the end would be the release of a button.
        (0, b'M') => MouseEventKind::Down(MouseButton::Left),
        (64, b'M') => MouseEventKind::ScrollUp,
        (65, b'M') => MouseEventKind::ScrollDown,
        _ => return None,
    };
    let (column, row) = (column.saturating_sub(1), row.saturating_sub(1));
    Some(MouseEvent { kind, column, row, modifiers: KeyModifiers::empty() })
}
