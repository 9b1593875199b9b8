//! The terminal: raw mode and alternate screen as a guard, frames as bytes, suspend and restore.
//! Owns every byte that is written to the tty. Must not know what is drawn.

mod decode;
mod encode;
mod input;
mod sequence;
mod writer;

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use tokio::sync::mpsc;

pub use decode::Decoder;
use encode::END_LINK;
pub use encode::encode;
pub use input::{InputGate, InputThread};
pub use sequence::Input;
pub use writer::{FrameWriter, Written};

use super::links::Links;
use super::theme::is_dec_terminal;

/// Everything we may have switched on, off again, in an order that leaves no trace: end of a frame,
/// mouse, bracketed paste, attributes, cursor, alternate screen.
const LEAVE: &[u8] =
    b"\x1b[?2026l\x1b[?1006l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l";
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?2004h";
const MOUSE_ON: &[u8] = b"\x1b[?1000h\x1b[?1002h\x1b[?1006h";
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1002l\x1b[?1000l";

/// How long an exit waits for a frame that the terminal does not take.
const DRAIN_MS: u64 = 500;

/// How soon a stop signal has stopped every thread.
const STOP_WITHIN: Duration = Duration::from_millis(100);

/// Whether the one terminal of this process is ours. A static because a panic hook has no other way
/// to know.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A frame that was cut by an end may have left a link open. A static for the same reason.
static LINKED: AtomicBool = AtomicBool::new(false);

/// Why the dashboard cannot use this terminal.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    #[error(
        "the dashboard needs a terminal, but {0} is not one; use `capstan get` or `capstan describe` in scripts"
    )]
    NotATerminal(&'static str),
    #[error("the terminal says it is dumb (TERM={0}); set TERM, or use `capstan get` and `capstan describe`")]
    Dumb(String),
    #[error("cannot {what} the terminal: {source}")]
    Io { what: &'static str, source: io::Error },
}

/// The terminal while it is ours. Dropping it gives it back.
pub struct Terminal {
    writer: FrameWriter,
    /// What the terminal shows, as far as it was sent.
    shown: Buffer,
    /// Reused for the next frame.
    next: Buffer,
    cursor: Option<Position>,
    /// Nothing on the screen can be relied on.
    clear: bool,
    mouse: bool,
    links: bool,
    input: InputGate,
    /// Another program has it.
    is_lent: bool,
}

impl Terminal {
    /// Takes the terminal: raw mode, alternate screen, bracketed paste, no cursor, no mouse.
    ///
    /// # Errors
    /// When standard input or output is not a terminal, or it refuses.
    pub fn take(written: mpsc::Sender<Written>, input: InputGate) -> Result<Self, TerminalError> {
        usable(std::env::var("TERM").ok().as_deref())?;
        // Colours are decided by the theme. crossterm's own switch would also wipe attributes.
        crossterm::style::force_color_output(true);
        restore_on_panic();
        let writer = FrameWriter::start(io::stdout(), written)
            .map_err(|source| TerminalError::Io { what: "write to", source })?;
        let mut terminal = Self {
            writer,
            shown: Buffer::default(),
            next: Buffer::default(),
            cursor: None,
            clear: true,
            mouse: false,
            links: false,
            input,
            is_lent: false,
        };
        terminal.enter()?;
        Ok(terminal)
    }

    fn enter(&mut self) -> Result<(), TerminalError> {
        // Set first: what fails half way below has to be undone as well.
        TAKEN.store(true, Ordering::SeqCst);
        crossterm::terminal::enable_raw_mode()
            .map_err(|source| TerminalError::Io { what: "take", source })?;
        let mut bytes = ENTER.to_vec();
        if self.mouse {
            bytes.extend_from_slice(MOUSE_ON);
        }
        write_now(&bytes).map_err(|source| TerminalError::Io { what: "write to", source })?;
        // What the alternate screen holds is not known.
        self.clear = true;
        Ok(())
    }

    /// Columns and rows now.
    pub fn size() -> (u16, u16) {
        crossterm::terminal::size().unwrap_or((80, 24))
    }

    /// The next frame is drawn in full.
    pub fn invalidate(&mut self) {
        self.clear = true;
    }

    /// True when the previous frame has left; while it has not, frames are dropped.
    pub fn is_ready(&self) -> bool {
        !self.is_lent && self.writer.is_idle()
    }

    /// Another program has it now.
    pub fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// The writer has finished: takes its buffer back.
    pub fn drained(&mut self, buffer: Vec<u8>) {
        self.writer.recycle(buffer);
    }

    /// Draws one frame of this size; sends nothing when nothing changed. `draw` answers where the
    /// cursor belongs and where links lead to.
    pub fn draw(
        &mut self,
        size: (u16, u16),
        draw: impl FnOnce(Rect, &mut Buffer) -> (Option<Position>, Links),
    ) {
        let area = Rect::new(0, 0, size.0, size.1);
        self.next.resize(area);
        self.next.reset();
        let (cursor, links) = draw(area, &mut self.next);
        // Everything counts as blank then, so that every other cell is drawn.
        if self.shown.area != area || self.clear {
            self.shown.resize(area);
            self.shown.reset();
            self.clear = true;
        }
        let mut bytes = self.writer.buffer();
        let links = Some(&links).filter(|_| self.links);
        encode(&mut bytes, &self.shown, &self.next, links, self.clear, self.cursor, cursor);
        if bytes.is_empty() {
            self.writer.recycle(bytes);
        } else {
            self.writer.send(bytes);
        }
        self.clear = false;
        self.cursor = cursor;
        std::mem::swap(&mut self.shown, &mut self.next);
    }

    /// Switches mouse reporting; the terminal's own selection works while it is off.
    pub fn set_mouse(&mut self, on: bool) {
        if self.mouse != on {
            self.mouse = on;
            self.out_of_band(if on { MOUSE_ON } else { MOUSE_OFF });
        }
    }

    /// Switches links (OSC 8); what is on the screen is drawn again.
    pub fn set_links(&mut self, on: bool) {
        if self.links != on {
            self.links = on;
            self.clear = true;
            LINKED.fetch_or(on, Ordering::SeqCst);
        }
    }

    /// Hands text to the terminal's clipboard (OSC 52). The text must be sanitised.
    pub fn copy(&mut self, text: &str) {
        use base64::Engine as _;
        let payload = base64::engine::general_purpose::STANDARD.encode(text);
        self.out_of_band(format!("\x1b]52;c;{payload}\x07").as_bytes());
    }

    /// Rings the bell; what it does is the terminal's affair.
    pub fn ring(&mut self) {
        self.out_of_band(b"\x07");
    }

    fn out_of_band(&mut self, bytes: &[u8]) {
        if self.is_lent {
            return;
        }
        // Bytes in the middle of a frame would break its control sequences.
        self.writer.wait(Duration::from_millis(DRAIN_MS));
        // A failure shows at the next frame, where it ends the program.
        let _ = write_now(bytes);
    }

    /// Gives the terminal back, stops the process group, and takes the terminal again when it is
    /// continued.
    ///
    /// # Errors
    /// When the terminal cannot be taken again.
    pub fn suspend(&mut self) -> Result<(), TerminalError> {
        self.give_back();
        stop_process_group();
        self.enter()
    }

    /// Gives the terminal to another program; nothing is written until it is taken back.
    pub fn lend(&mut self) {
        self.input.close();
        self.give_back();
        self.is_lent = true;
    }

    /// Takes the terminal again after the other program has ended.
    ///
    /// # Errors
    /// When it cannot be taken.
    pub fn take_back(&mut self) -> Result<(), TerminalError> {
        self.is_lent = false;
        let entered = self.enter();
        self.input.open();
        entered
    }

    /// Stops with the program that has the terminal, as it stopped itself.
    pub fn stop_with_program(&self) {
        stop_process_group();
    }

    /// Takes the terminal again after another program may have changed its modes.
    ///
    /// # Errors
    /// When it cannot be taken.
    pub fn retake(&mut self) -> Result<(), TerminalError> {
        self.writer.wait(Duration::from_millis(DRAIN_MS));
        // crossterm takes raw mode only when it believes not to have it.
        let _ = crossterm::terminal::disable_raw_mode();
        self.enter()
    }

    fn give_back(&mut self) {
        // A terminal that takes nothing would hold the exit up for as long as its queue is full.
        if !self.writer.wait(Duration::from_millis(DRAIN_MS)) {
            discard_output();
        }
        restore();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// A session leader has no shell to come back to: stopping it would hang the terminal.
pub fn can_suspend() -> bool {
    // SAFETY: both calls only read ids of this process.
    #[allow(unsafe_code, reason = "libc has the only access to session ids")]
    unsafe {
        libc::getsid(0) != libc::getpid()
    }
}

/// Whether this terminal has links, as far as its environment says: one that does not know them leaves them out, but for consoles and
/// terminals of old, which print them, and GNU screen, which keeps them to itself. `FORCE_HYPERLINK` says it outright, as for
/// other programs; `is_plain`: the person wants no colour, which comes with wanting no more than text.
pub fn has_links(env: impl Fn(&str) -> Option<String>, is_plain: bool) -> bool {
    if let Some(forced) = env("FORCE_HYPERLINK").filter(|value| !value.is_empty()) {
        return forced != "0";
    }
    let term = env("TERM").unwrap_or_default();
    // tmux has TERM=screen in its older settings, and knows links.
    let is_screen = term.starts_with("screen") && env("TMUX").is_none_or(|value| value.is_empty());
    let is_old = is_dec_terminal(&term)
        || ["dumb", "linux", "ansi", "cons25", "sun"].iter().any(|old| term.starts_with(old));
    !(is_plain || term.is_empty() || is_screen || is_old)
}

fn usable(term: Option<&str>) -> Result<(), TerminalError> {
    if !io::stdin().is_terminal() {
        return Err(TerminalError::NotATerminal("standard input"));
    }
    if !io::stdout().is_terminal() {
        return Err(TerminalError::NotATerminal("standard output"));
    }
    match term {
        Some(name @ ("dumb" | "")) => Err(TerminalError::Dumb(name.to_owned())),
        _ => Ok(()),
    }
}

fn write_now(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Puts the terminal back as it was found; does nothing the second time.
fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        if LINKED.load(Ordering::SeqCst) {
            let _ = write_now(END_LINK);
        }
        // A terminal that refuses these is gone, and needs nothing back.
        let _ = write_now(LEAVE);
        let _ = crossterm::terminal::disable_raw_mode();
    }
}

fn restore_on_panic() {
    static HOOKED: AtomicBool = AtomicBool::new(false);
    if HOOKED.swap(true, Ordering::SeqCst) {
        return;
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        restore();
        before(info);
    }));
}

fn discard_output() {
    // SAFETY: drops what is queued for our own standard output; the descriptor is open for as long
    // as the process runs.
    #[allow(unsafe_code, reason = "libc has the only access to the tty's queue")]
    unsafe {
        libc::tcflush(libc::STDOUT_FILENO, libc::TCOFLUSH);
    }
}

/// SIGSTOP rather than SIGTSTP: the latter is handled by us, so it would not stop anything. Returns
/// when the group has been continued.
fn stop_process_group() {
    // SAFETY: sends a signal to our own process group.
    #[allow(unsafe_code, reason = "libc has the only access to process groups")]
    unsafe {
        libc::kill(0, libc::SIGSTOP);
    }
    // Another thread may take the signal, and until it has, this one goes on and would set up the
    // terminal again. The pause is over as soon as we are continued.
    std::thread::sleep(STOP_WITHIN);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_written_where_a_terminal_is_not_known_to_print_them() {
        for (env, is_plain, expected) in [
            (&[("TERM", "xterm-256color")][..], false, true),
            (&[("TERM", "xterm-256color")], true, false),
            (&[("TERM", "tmux-256color"), ("TMUX", "/tmp/x")], false, true),
            (&[("TERM", "screen-256color"), ("TMUX", "/tmp/x")], false, true),
            (&[("TERM", "screen.xterm-256color")], false, false),
            (&[("TERM", "linux")], false, false),
            (&[("TERM", "vt220")], false, false),
            (&[("TERM", "vte-256color")], false, true),
            (&[], false, false),
            (&[("TERM", "linux"), ("FORCE_HYPERLINK", "1")], true, true),
            (&[("TERM", "xterm-kitty"), ("FORCE_HYPERLINK", "0")], false, false),
        ] {
            let value =
                |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
            assert_eq!(has_links(value, is_plain), expected, "{env:?}, plain {is_plain}");
        }
    }
}
