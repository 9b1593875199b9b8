//! Keys from the terminal, read by a thread of their own, so that a terminal that hangs up can
//! never hold the loop. Owns the waiting and the reading; what the bytes mean is in [`super::decode`].

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::mpsc;

use super::decode::Decoder;
use super::sequence::Input;

/// How many inputs may wait; a paste is one.
const INPUT_QUEUE: usize = 256;
const READ_BYTES: usize = 4_096;

/// The reading half of a terminal. The thread ends with the process or the terminal.
pub struct InputThread;

impl InputThread {
    /// # Errors
    /// When the system gives no thread.
    pub fn start(gate: InputGate) -> io::Result<mpsc::Receiver<Input>> {
        let (tell, inputs) = mpsc::channel(INPUT_QUEUE);
        std::thread::Builder::new().name("input".to_owned()).spawn(move || {
            if read_inputs(&tell, &gate).is_err() {
                let _ = tell.blocking_send(Input::Hangup);
            }
        })?;
        Ok(inputs)
    }
}

/// Whether keys are read: while it is closed they are left to another program.
#[derive(Clone, Default)]
pub struct InputGate(Arc<Gate>);

#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    opened: Condvar,
}

impl InputGate {
    /// Returns when nothing is being read.
    pub fn close(&self) {
        *self.0.is_closed.lock() = true;
    }

    pub fn open(&self) {
        *self.0.is_closed.lock() = false;
        self.0.opened.notify_all();
    }

    /// Waits until it is open. It cannot be closed while the guard lives.
    fn pass(&self) -> MutexGuard<'_, bool> {
        let mut is_closed = self.0.is_closed.lock();
        while *is_closed {
            self.0.opened.wait(&mut is_closed);
        }
        is_closed
    }
}

fn read_inputs(tell: &mpsc::Sender<Input>, gate: &InputGate) -> io::Result<()> {
    // Not `Stdin`, which reads ahead: bytes in its buffer would not wake the poll.
    let mut terminal = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut decoder = Decoder::default();
    let mut bytes = [0; READ_BYTES];
    let mut inputs = Vec::new();
    loop {
        if wait_for_bytes(decoder.patience())? {
            let passed = gate.pass();
            // Another program may have read them while the gate was closed.
            if !wait_for_bytes(Some(Duration::ZERO))? {
                continue;
            }
            let read = terminal.read(&mut bytes);
            drop(passed);
            match read {
                // The end of a terminal's input is a hang-up.
                Ok(0) => return Err(io::Error::from(io::ErrorKind::BrokenPipe)),
                Ok(count) => decoder.feed(&bytes[..count], &mut inputs),
                Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        } else {
            decoder.silence(&mut inputs);
        }
        for input in inputs.drain(..) {
            if tell.blocking_send(input).is_err() {
                return Ok(());
            }
        }
    }
}

/// Blocks until standard input can be read, or for as long as `patience`: then false.
fn wait_for_bytes(patience: Option<Duration>) -> io::Result<bool> {
    let timeout_ms = patience.map_or(-1, |p| i32::try_from(p.as_millis()).unwrap_or(i32::MAX));
    let mut descriptor = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one valid entry, and the count says one.
        #[allow(unsafe_code, reason = "libc has the only poll that reports a hang-up")]
        let ready = unsafe { libc::poll(&raw mut descriptor, 1, timeout_ms) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        // Asked before reading: on some systems a read of
        // a terminal that is gone answers nothing for ever.
        if descriptor.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        return Ok(ready > 0);
    }
}
