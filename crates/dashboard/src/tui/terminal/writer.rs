//! One thread that writes frames, one at a time. On a slow link the loop sees that the last frame
//! has not left and drops the next one instead of queueing it.

use std::io::{self, Write};
use std::sync::mpsc as blocking;
use std::time::Duration;

use tokio::sync::mpsc;

/// What became of a frame.
#[derive(Debug)]
pub enum Written {
    /// It left; here is the buffer back.
    Drained(Vec<u8>),
    /// The terminal is gone or refuses.
    Failed(io::Error),
}

/// The writing half of a terminal.
pub struct FrameWriter {
    frames: blocking::SyncSender<Vec<u8>>,
    /// Told after every frame, besides `Written`: for waiting without the loop.
    done: blocking::Receiver<()>,
    in_flight: bool,
    spare: Vec<u8>,
}

impl FrameWriter {
    /// Starts the thread over `out`. It ends when the writer is dropped.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(out: impl Write + Send + 'static, written: mpsc::Sender<Written>) -> io::Result<Self> {
        let (frames, work) = blocking::sync_channel::<Vec<u8>>(1);
        let (tell, done) = blocking::channel();
        std::thread::Builder::new()
            .name("frames".to_owned())
            .spawn(move || write_frames(out, &work, &tell, &written))?;
        Ok(Self { frames, done, in_flight: false, spare: Vec::new() })
    }

    pub fn is_idle(&self) -> bool {
        !self.in_flight
    }

    /// An empty buffer for the next frame.
    pub fn buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.spare)
    }

    /// Takes a buffer back after [`Written::Drained`], or one that was not needed.
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.spare = buffer;
        if self.done.try_recv().is_ok() {
            self.in_flight = false;
        }
    }

    /// Sends one frame. Only when [`FrameWriter::is_idle`]; a frame too many is dropped.
    pub fn send(&mut self, frame: Vec<u8>) {
        // Never blocks: a full channel means that the terminal
        // is behind, and a later frame says more.
        self.in_flight = self.frames.try_send(frame).is_ok() || self.in_flight;
    }

    /// Waits until the last frame has left. False when it has not after `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        if self.in_flight && self.done.recv_timeout(timeout).is_ok() {
            self.in_flight = false;
        }
        !self.in_flight
    }
}

fn write_frames(
    mut out: impl Write,
    work: &blocking::Receiver<Vec<u8>>,
    tell: &blocking::Sender<()>,
    written: &mpsc::Sender<Written>,
) {
    while let Ok(frame) = work.recv() {
        let result = out.write_all(&frame).and_then(|()| out.flush());
        let failed = result.is_err();
        // Before the report: an exit waits here without the loop, which takes no reports any more.
        let _ = tell.send(());
        let report = match result {
            Ok(()) => Written::Drained(frame),
            Err(error) => Written::Failed(error),
        };
        if written.blocking_send(report).is_err() || failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a frame only when told to.
    struct Slow {
        go: blocking::Receiver<()>,
        seen: blocking::Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.go.recv().map_err(io::Error::other)?;
            self.seen.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_frame_in_flight_makes_the_writer_busy_until_it_has_left() {
        let (go, wait_for_go) = blocking::channel();
        let (seen, frames) = blocking::channel();
        let (tell, mut written) = mpsc::channel(4);
        let mut writer = FrameWriter::start(Slow { go: wait_for_go, seen }, tell).expect("a thread");
        assert!(writer.is_idle());
        writer.send(b"one".to_vec());
        assert!(!writer.is_idle());
        assert!(!writer.wait(Duration::from_millis(1)), "the terminal did not read it");
        go.send(()).expect("writer runs");
        let Some(Written::Drained(buffer)) = written.blocking_recv() else { panic!("should drain") };
        writer.recycle(buffer);
        assert!(writer.is_idle());
        assert_eq!(frames.recv().expect("one frame"), b"one");
    }

    #[test]
    fn a_dead_terminal_is_told() {
        let (go, wait_for_go) = blocking::channel();
        let (seen, _) = blocking::channel();
        drop(go);
        let (tell, mut written) = mpsc::channel(4);
        let mut writer = FrameWriter::start(Slow { go: wait_for_go, seen }, tell).expect("a thread");
        writer.send(b"one".to_vec());
        assert!(matches!(written.blocking_recv(), Some(Written::Failed(_))));
        assert!(writer.wait(Duration::from_secs(5)), "a failure ends the waiting too");
    }
}
