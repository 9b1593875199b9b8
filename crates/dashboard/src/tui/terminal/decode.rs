//! Bytes from the terminal → keys, mouse, pasted text. Owns where a key, a control sequence or a reply of the
//! terminal ends, also when it comes in pieces. A reply (OSC, DCS, APC, PM, SOS, a CSI that is not a key) is eaten
//! whole: what is left of it would be taken for typed letters. Pure: time comes in as "it was silent for so long".
//! Must not know a file descriptor. What a whole control sequence means is in [`super::sequence`].
//!
//! Parsers made for output (`vte`) report neither that they wait for more nor where an APC string ends, and the
//! reader of crossterm 0.29 takes a reply that it does not know for keys; so this is our own. States and final bytes
//! are those of ECMA-48 and of xterm's ctlseqs.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::sequence::{self, Input};

/// A lone ESC is a key after this long.
const ESC_MS: u64 = 50;
/// What may begin a sequence is a key after this long: alt-[ or alt-].
const BEGUN_MS: u64 = 500;
/// A sequence that stops in its middle is given up after this long.
const BROKEN_MS: u64 = 2_000;
/// A paste whose end does not come is over after this long.
const PASTE_MS: u64 = 10_000;

/// Longest control sequence that can be a key; what is longer is eaten.
const SEQUENCE_BYTES_MAX: usize = 64;
/// So much of a paste is kept; a field takes far less.
const PASTE_BYTES_MAX: usize = 64 * 1_024;
const PASTE_END: &[u8] = b"\x1b[201~";

const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const ESC: u8 = 0x1b;
/// The string terminator as one byte.
const ST: u8 = 0x9c;

/// What has begun and is not over.
#[derive(Debug, Default)]
enum State {
    #[default]
    Ground,
    /// A character of several bytes; `is_alt`: ESC stood before it.
    Character { bytes: Vec<u8>, length: usize, is_alt: bool },
    /// ESC came.
    Escape,
    /// ESC O came, and perhaps numbers.
    Single { is_empty: bool },
    /// ESC [ came, and these parameters.
    Sequence(Vec<u8>),
    /// ESC [ [ came: a function key of the Linux console.
    Console,
    /// ESC [ M came: three bytes of a mouse report follow.
    Report { missing: u8 },
    /// A string has begun that only its end ends.
    Text { introducer: u8, is_empty: bool, is_escaped: bool, is_one_byte: bool },
    /// Pasted text, and how much of its end mark has come.
    Paste { bytes: Vec<u8>, matched: usize },
}

/// Keeps what has begun between two reads.
#[derive(Debug, Default)]
pub struct Decoder {
    state: State,
}

impl Decoder {
    /// Takes bytes as they came, in pieces of any size.
    pub fn feed(&mut self, bytes: &[u8], inputs: &mut Vec<Input>) {
        for byte in bytes {
            self.take(*byte, inputs);
        }
    }

    /// How long to wait for more bytes before [`Decoder::silence`]; `None`: nothing has begun.
    pub fn patience(&self) -> Option<Duration> {
        let ms = match &self.state {
            State::Ground => return None,
            State::Escape => ESC_MS,
            State::Single { is_empty: true } | State::Text { is_empty: true, .. } => BEGUN_MS,
            State::Sequence(parameters) if parameters.is_empty() => BEGUN_MS,
            State::Character { .. }
            | State::Single { .. }
            | State::Sequence(_)
            | State::Console
            | State::Report { .. }
            | State::Text { .. } => BROKEN_MS,
            State::Paste { .. } => PASTE_MS,
        };
        Some(Duration::from_millis(ms))
    }

    /// No byte came for as long as [`Decoder::patience`]: what could be a key is one, the rest is given up.
    pub fn silence(&mut self, inputs: &mut Vec<Input>) {
        match std::mem::take(&mut self.state) {
            State::Escape => inputs.push(key(KeyCode::Esc)),
            State::Single { is_empty: true } => inputs.push(alt(b'O')),
            State::Sequence(parameters) if parameters.is_empty() => inputs.push(alt(b'[')),
            // A key with alt sends the form with ESC; a control character of one byte is not a key.
            State::Text { introducer, is_empty: true, is_escaped, is_one_byte: false } => {
                inputs.push(alt(introducer));
                if is_escaped {
                    inputs.push(key(KeyCode::Esc));
                }
            }
            State::Paste { bytes, .. } => inputs.push(pasted(&bytes)),
            _ => {}
        }
    }

    fn take(&mut self, byte: u8, inputs: &mut Vec<Input>) {
        match std::mem::take(&mut self.state) {
            State::Ground => self.begin(byte, false, inputs),
            State::Character { bytes, length, is_alt } => {
                self.in_character(bytes, length, is_alt, byte, inputs);
            }
            State::Escape => self.after_escape(byte, inputs),
            State::Single { is_empty } => self.in_single(is_empty, byte, inputs),
            State::Sequence(parameters) => self.in_sequence(parameters, byte, inputs),
            State::Console => inputs.extend(sequence::console_key(byte).map(Input::Key)),
            State::Report { missing } if missing > 1 => self.state = State::Report { missing: missing - 1 },
            State::Report { .. } => {}
            State::Text { introducer, is_empty, is_escaped, is_one_byte } => match byte {
                b'\\' if is_escaped => {}
                // ESC and anything else: the string was broken off, and something new begins.
                _ if is_escaped => self.after_escape(byte, inputs),
                // xterm ends a string with BEL as with ST; CAN and SUB cancel whatever has begun.
                BEL | CAN | SUB => {}
                // In UTF-8 this byte is part of characters, so that it ends only what one byte
                // began.
                ST if is_one_byte => {}
                ESC => self.state = State::Text { introducer, is_empty, is_escaped: true, is_one_byte },
                _ => self.state = State::Text { introducer, is_empty: false, is_escaped: false, is_one_byte },
            },
            State::Paste { bytes, matched } => self.in_paste(bytes, matched, byte, inputs),
        }
    }

    /// A byte that begins something. Alone it is a key, or a control of one byte (C1).
    fn begin(&mut self, byte: u8, is_alt: bool, inputs: &mut Vec<Input>) {
        let length = match byte {
            ESC => {
                self.state = State::Escape;
                return;
            }
            0x00..=0x7f => {
                let KeyEvent { code, modifiers, .. } = sequence::typed(byte);
                let modifiers = if is_alt { modifiers | KeyModifiers::ALT } else { modifiers };
                inputs.push(Input::Key(KeyEvent::new(code, modifiers)));
                return;
            }
            // Controls of one byte (C1): no character of UTF-8 begins so.
            0x80..=0x9f => {
                self.state = match byte {
                    0x8f => State::Single { is_empty: true },
                    0x9b => State::Sequence(Vec::new()),
                    0x90 | 0x98 | 0x9d..=0x9f => {
                        State::Text { introducer: byte, is_empty: true, is_escaped: false, is_one_byte: true }
                    }
                    _ => State::Ground,
                };
                return;
            }
            // 0xc0 and 0xc1 begin no character in its shortest form.
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            // No character begins so.
            _ => return,
        };
        self.state = State::Character { bytes: vec![byte], length, is_alt };
    }

    fn in_character(
        &mut self,
        mut bytes: Vec<u8>,
        length: usize,
        is_alt: bool,
        byte: u8,
        inputs: &mut Vec<Input>,
    ) {
        // The character was broken off: this byte begins something of its own.
        if !matches!(byte, 0x80..=0xbf) {
            self.begin(byte, false, inputs);
            return;
        }
        bytes.push(byte);
        if bytes.len() < length {
            self.state = State::Character { bytes, length, is_alt };
            return;
        }
        // The lengths alone do not make a character: overlong forms and surrogates are refused
        // here.
        let character = std::str::from_utf8(&bytes).ok().and_then(|text| text.chars().next());
        if let Some(character) = character.filter(|c| !c.is_control()) {
            let modifiers = if is_alt { KeyModifiers::ALT } else { KeyModifiers::empty() };
            inputs.push(Input::Key(sequence::character(character, modifiers)));
        }
    }

    fn after_escape(&mut self, byte: u8, inputs: &mut Vec<Input>) {
        match byte {
            ESC => {
                inputs.push(key(KeyCode::Esc));
                self.state = State::Escape;
            }
            b'[' => self.state = State::Sequence(Vec::new()),
            b'O' => self.state = State::Single { is_empty: true },
            b']' | b'P' | b'X' | b'^' | b'_' => {
                self.state =
                    State::Text { introducer: byte, is_empty: true, is_escaped: false, is_one_byte: false };
            }
            _ => self.begin(byte, true, inputs),
        }
    }

    fn in_single(&mut self, is_empty: bool, byte: u8, inputs: &mut Vec<Input>) {
        match byte {
            b'0'..=b'9' | b';' => self.state = State::Single { is_empty: false },
            0x21..=0x7e => inputs.extend(sequence::single_key(byte).map(Input::Key)),
            _ => {
                if is_empty {
                    inputs.push(alt(b'O'));
                }
                self.begin(byte, false, inputs);
            }
        }
    }

    fn in_sequence(&mut self, mut parameters: Vec<u8>, byte: u8, inputs: &mut Vec<Input>) {
        match byte {
            0x20..=0x3f => {
                // One more than fits: too long to be a key, and eaten to its end.
                if parameters.len() <= SEQUENCE_BYTES_MAX {
                    parameters.push(byte);
                }
                self.state = State::Sequence(parameters);
            }
            b'[' if parameters.is_empty() => self.state = State::Console,
            b'M' if parameters.is_empty() => self.state = State::Report { missing: 3 },
            b'~' if parameters == b"200" => self.state = State::Paste { bytes: Vec::new(), matched: 0 },
            0x40..=0x7e if parameters.len() > SEQUENCE_BYTES_MAX => {}
            0x40..=0x7e => inputs.extend(sequence::read(&parameters, byte)),
            CAN | SUB => {}
            _ => {
                if parameters.is_empty() {
                    inputs.push(alt(b'['));
                }
                self.begin(byte, false, inputs);
            }
        }
    }

    fn in_paste(&mut self, mut bytes: Vec<u8>, matched: usize, byte: u8, inputs: &mut Vec<Input>) {
        let mut keep = |more: &[u8]| {
            // What is too long is dropped, not the end mark,
            // or keys would count as pasted for ever.
            let room = PASTE_BYTES_MAX.saturating_sub(bytes.len());
            bytes.extend_from_slice(&more[..more.len().min(room)]);
        };
        let matched = match PASTE_END.get(matched) {
            Some(expected) if *expected == byte => matched + 1,
            _ => {
                // What looked like the end was not; only its first byte can begin another.
                keep(&PASTE_END[..matched]);
                if byte == ESC {
                    1
                } else {
                    keep(&[byte]);
                    0
                }
            }
        };
        if matched == PASTE_END.len() {
            inputs.push(pasted(&bytes));
        } else {
            self.state = State::Paste { bytes, matched };
        }
    }
}

fn key(code: KeyCode) -> Input {
    Input::Key(KeyEvent::new(code, KeyModifiers::empty()))
}

fn alt(byte: u8) -> Input {
    Input::Key(sequence::character(char::from(byte), KeyModifiers::ALT))
}

fn pasted(bytes: &[u8]) -> Input {
    Input::Paste(String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tui::keymap::KeyPress;

    /// What comes of bytes that arrive in these pieces, as words; silence after the last.
    fn words(pieces: &[&[u8]]) -> String {
        let mut decoder = Decoder::default();
        let mut inputs = Vec::new();
        for piece in pieces {
            decoder.feed(piece, &mut inputs);
        }
        rest(&mut decoder, &mut inputs);
        inputs.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    fn rest(decoder: &mut Decoder, inputs: &mut Vec<Input>) {
        for _ in 0..2 {
            if decoder.patience().is_some() {
                decoder.silence(inputs);
            }
        }
        assert_eq!(decoder.patience(), None, "one silence ends whatever has begun");
    }

    fn word(input: &Input) -> String {
        match input {
            Input::Key(event) => KeyPress::from(*event).to_string(),
            Input::Mouse(event) => format!("{:?}@{},{}", event.kind, event.column, event.row),
            Input::Paste(text) => format!("paste({text})"),
            Input::Hangup => "hangup".to_owned(),
        }
    }

    #[test]
    fn keys_are_read() {
        for (bytes, expected) in [
            (&b"jG?/"[..], "j G ? /"),
            (b"\r\t\x7f \x03\x1a\x00\n", "enter tab backspace space ctrl-c ctrl-z ctrl-space ctrl-j"),
            (b"\x1b", "esc"),
            (b"\x1b\x1b", "esc esc"),
            (b"\x1bx\x1b\r\x1b\x7f", "alt-x alt-enter alt-backspace"),
            (b"\x1b[A\x1b[B\x1b[C\x1b[D\x1b[H\x1b[F\x1b[Z", "up down right left home end backtab"),
            (b"\x1bOA\x1bOB\x1bOH\x1bOP\x1bOS", "up down home f1 f4"),
            (b"\x1b[1;5A\x1b[1;3C\x1b[1;2D", "ctrl-up alt-right shift-left"),
            (b"\x1b[1~\x1b[2~\x1b[3~\x1b[4~\x1b[5~\x1b[6~", "home insert delete end pageup pagedown"),
            (b"\x1b[5;5~\x1b[15~\x1b[24~", "ctrl-pageup f5 f12"),
            (b"\x1b[[A\x1b[[E", "f1 f5"),
            (b"\x1b[106u\x1b[99;5u\x1b[27;5;99~\x1b[13u", "j ctrl-c ctrl-c enter"),
            ("é→日".as_bytes(), "é → 日"),
            ("\u{1b}é".as_bytes(), "alt-é"),
            (
                b"\x1b[<0;11;5M\x1b[<0;11;5m\x1b[<64;1;1M\x1b[<65;1;1M",
                "Down(Left)@10,4 ScrollUp@0,0 ScrollDown@0,0",
            ),
            (b"\x1b[200~quit\r\x1b[A\x1b[201~j", "paste(quit\r\x1b[A) j"),
        ] {
            assert_eq!(words(&[bytes]), expected, "{bytes:?}");
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(words(&single), expected, "byte by byte: {bytes:?}");
        }
    }

    /// A reply between two keys leaves the two keys, wherever it is split.
    #[test]
    fn replies_are_not_typed() {
        for reply in [
            &b"\x1b]11;rgb:0000/0000/0000\x1b\\"[..],
            b"\x1b]11;rgb:0000/0000/0000\x07",
            b"\x1b]52;c;cGF1c2U=\x1b\\",
            b"\x1b]lp\x1b\\",
            b"\x1b_Gi=1;OK\x1b\\",
            b"\x1b_Gi=1;OK\x07",
            b"\x1bP>|XTerm(390)\x1b\\",
            b"\x1bP1+r544e=787465726d\x1b\\",
            b"\x1bP1$r0m\x1b\\",
            b"\x1bXstatus\x1b\\",
            b"\x1b^private\x1b\\",
            b"\x1b[?1;2c",
            b"\x1b[>41;390;0c",
            b"\x1b[=0c",
            b"\x1b[?2026;2$y",
            b"\x1b[12;40R",
            b"\x1b[0n",
            b"\x1b[8;24;80t",
            b"\x1b[?1u",
            b"\x1b[I",
            b"\x1b[O",
            b"\x1b[?1;2S",
            b"\x1b[M !!",
            b"\x9d11;rgb:0/0/0\x9c",
            b"\x9b?1;2c",
            b"\x90q\x9c",
        ] {
            let whole = [b"j", reply, b"G"].concat();
            assert_eq!(words(&[&whole]), "j G", "{}", reply.escape_ascii());
            for at in 0..=whole.len() {
                assert_eq!(words(&[&whole[..at], &whole[at..]]), "j G", "{} at {at}", reply.escape_ascii());
            }
        }
    }

    #[test]
    fn what_a_person_types_is_a_key_after_a_silence() {
        for (bytes, expected) in [
            (&b"\x1b]"[..], "alt-]"),
            (b"\x1b[", "alt-["),
            (b"\x1bO", "alt-O"),
            (b"\x1bP", "alt-P"),
            (b"\x1b]\x1b", "alt-] esc"),
            (b"\x1b[\rj", "alt-[ enter j"),
            (b"\x1b[1;5", ""),
            (b"\x1b]11;rgb", ""),
            (b"\xe2\x86", ""),
            (b"\xe2j", "j"),
            (b"\x1b[200~half", "paste(half)"),
            (b"\x1b[200~\x1b[20\x1b[201~j", "paste(\x1b[20) j"),
            (b"\x1b]broken\x1b]11;x\x07j", "j"),
            (b"\x1b]broken\x1b[Aj", "up j"),
            (b"\x1b[12\x18j", "j"),
        ] {
            assert_eq!(words(&[bytes]), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_long_reply_takes_no_memory_and_a_long_paste_little() {
        let mut decoder = Decoder::default();
        let mut inputs = Vec::new();
        decoder.feed(b"\x1b[", &mut inputs);
        decoder.feed(&[b'1'; 100_000], &mut inputs);
        assert!(matches!(&decoder.state, State::Sequence(p) if p.len() <= SEQUENCE_BYTES_MAX + 1));
        decoder.feed(b"A\x1b[200~", &mut inputs);
        assert!(inputs.is_empty(), "too long to be a key");
        decoder.feed(&[b'x'; 200_000], &mut inputs);
        decoder.feed(PASTE_END, &mut inputs);
        assert!(matches!(&inputs[..], [Input::Paste(text)] if text.len() == PASTE_BYTES_MAX));
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_end_in_rest(
            bytes in proptest::collection::vec(
                prop_oneof![any::<u8>(), proptest::sample::select(b"\x1b\x1b[]OPX^_\\\x07~M;0129?<\x9c\x9b".to_vec())],
                0..120,
            ),
            size in 1usize..9,
        ) {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(words(&[&bytes]), words(&pieces));
        }

        #[test]
        fn keys_outside_of_replies_survive(
            parts in proptest::collection::vec(("[a-zA-Z/:?]{0,5}", "[ -~]{0,30}", 0usize..7), 0..8),
        ) {
            let mut bytes = Vec::new();
            let mut typed = Vec::new();
            for (keys, body, kind) in &parts {
                bytes.extend_from_slice(keys.as_bytes());
                typed.extend(keys.chars().map(|c| c.to_string()));
                let (begin, end) = [
                    ("\x1b]", "\x07"), ("\x1b]", "\x1b\\"), ("\x1bP", "\x1b\\"), ("\x1b_", "\x1b\\"),
                    ("\x1b^", "\x07"), ("\x1bX", "\x1b\\"), ("\x1b[?", "c"),
                ][*kind];
                let body: String = if *kind == 6 { body.chars().filter(char::is_ascii_digit).collect() } else { body.clone() };
                bytes.extend_from_slice(format!("{begin}{body}{end}").as_bytes());
            }
            prop_assert_eq!(words(&[&bytes]), typed.join(" "));
        }
    }
}
