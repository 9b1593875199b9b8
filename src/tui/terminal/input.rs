//! Keys from the terminal, read by a thread of their own, so that a terminal that hangs up can
//! never hold the loop: crossterm's reader spins when reading fails.

use std::io;
use std::time::Duration;

use crossterm::event::{self, Event};
use tokio::sync::mpsc;

/// What the terminal sent.
#[derive(Debug)]
pub enum Input {
    Event(Event),
    /// The terminal is gone.
    Hangup,
}

/// How many events may wait; a paste is one event.
pub const INPUT_QUEUE: usize = 256;

/// The reading half of a terminal. The thread ends with the process or the terminal.
pub struct InputThread;

impl InputThread {
    /// # Errors
    /// When the system gives no thread.
    pub fn start() -> io::Result<mpsc::Receiver<Input>> {
        let (tell, inputs) = mpsc::channel(INPUT_QUEUE);
        std::thread::Builder::new().name("input".to_owned()).spawn(move || {
            if read_inputs(&tell).is_err() {
                let _ = tell.blocking_send(Input::Hangup);
            }
        })?;
        Ok(inputs)
    }
}

fn read_inputs(tell: &mpsc::Sender<Input>) -> io::Result<()> {
    loop {
        wait_for_bytes()?;
        while event::poll(Duration::ZERO)? {
            if tell.blocking_send(Input::Event(event::read()?)).is_err() {
                return Ok(());
            }
        }
    }
}

/// Blocks until standard input can be read.
fn wait_for_bytes() -> io::Result<()> {
    let mut descriptor = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one valid entry, and the count says one.
        #[allow(unsafe_code, reason = "libc has the only poll that reports a hang-up")]
        let ready = unsafe { libc::poll(&raw mut descriptor, 1, -1) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        if descriptor.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        return Ok(());
    }
}
