//! The confirmation of what is about to be written, on the terminal. Owns how an answer is read; what has to be answered is the
//! operation's.

use std::io::{BufRead, IsTerminal as _, Write};

use anyhow::bail;

use capstan_dashboard::operations::Confirmation;

/// A line on the terminal that is answered by a line.
pub struct LinePrompt<'a> {
    pub text: String,
    pub confirmation: Confirmation,
    /// Of the object, which has to be typed where much can break.
    pub name: &'a str,
    /// How one looks without writing.
    pub otherwise: &'static str,
}

impl LinePrompt<'_> {
    /// Asks, and reads a line.
    ///
    /// # Errors
    /// It was not confirmed, or there is nobody who could.
    pub fn ask(&self, out: &mut impl Write, answers: &mut impl BufRead) -> anyhow::Result<()> {
        out.write_all(self.text.as_bytes())?;
        out.flush()?;
        let mut answer = String::new();
        // The end of the input is not an empty line.
        let is_answered = answers.read_line(&mut answer)? > 0;
        // At a terminal the end is somebody's ^D: a plain no, which needs no advice.
        if !is_answered && !std::io::stdin().is_terminal() {
            bail!(
                "not confirmed: standard input has no answer; add --yes to do it without a question, or {}",
                self.otherwise
            );
        }
        if !is_answered || !self.confirmation.accepts(&answer, self.name) {
            bail!("not confirmed; nothing was written");
        }
        Ok(())
    }
}
