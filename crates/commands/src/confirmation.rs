//! The confirmation of what is about to be written, on the terminal. Owns how an answer is read; what has to be answered is the
//! operation's.

use std::io::{BufRead, IsTerminal as _, Write};
use std::time::{Duration, Instant};

use anyhow::bail;

use capstan_base::text::sanitize_line;
use capstan_dashboard::operations::Confirmation;

/// A line on the terminal that is answered by a line.
pub struct LinePrompt<'a> {
    pub question: String,
    pub confirmation: Confirmation,
    /// Of the object, which has to be typed where much can break.
    pub name: &'a str,
    /// An answer that comes earlier is not one: the context's settings want what stands above read first.
    pub confirm_after_s: u32,
    /// How one looks without writing.
    pub otherwise: &'static str,
}

impl LinePrompt<'_> {
    /// Asks, and reads a line.
    ///
    /// # Errors
    /// It was not confirmed, or there is nobody who could.
    pub fn ask(&self, out: &mut impl Write, answers: &mut impl BufRead) -> anyhow::Result<()> {
        out.write_all(self.text().as_bytes())?;
        out.flush()?;
        let asked_at = Instant::now();
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
        if asked_at.elapsed() < Duration::from_secs(self.confirm_after_s.into()) {
            bail!(
                "not confirmed: answered sooner than {} s after the question, which this context's settings do not \
                 allow; read it, and do it again; nothing was written",
                self.confirm_after_s
            );
        }
        Ok(())
    }

    fn text(&self) -> String {
        let Self { question, name, .. } = self;
        match self.confirmation {
            Confirmation::Enter => format!("{question} [Y/n] "),
            Confirmation::Yes => format!("{question} [y/N] "),
            Confirmation::Name => {
                format!("{question} Much can break here. Type {} to do it: ", sanitize_line(name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(confirmation: Confirmation, confirm_after_s: u32, answer: &str) -> (String, Option<String>) {
        let question = "Do it?".to_owned();
        let prompt = LinePrompt {
            question,
            confirmation,
            name: "md-0\x1b[2J",
            confirm_after_s,
            otherwise: "--dry-run to look",
        };
        let mut out = Vec::new();
        let refusal = prompt.ask(&mut out, &mut answer.as_bytes()).err().map(|error| error.to_string());
        (String::from_utf8_lossy(&out).into_owned(), refusal)
    }

    #[test]
    fn the_question_says_what_has_to_be_typed() {
        let said = |confirmation| asked(confirmation, 0, "\n").0;
        assert_eq!(said(Confirmation::Enter), "Do it? [Y/n] ");
        assert_eq!(said(Confirmation::Yes), "Do it? [y/N] ");
        let name = said(Confirmation::Name);
        assert!(
            name.starts_with("Do it? Much can break here. Type md-0") && !name.contains('\x1b'),
            "{name:?}"
        );
    }

    #[test]
    fn an_answer_that_was_typed_ahead_is_not_one_where_time_to_read_is_wanted() {
        assert_eq!(asked(Confirmation::Yes, 0, "yes\n").1, None);
        let refusal = asked(Confirmation::Yes, 3600, "yes\n").1.expect("it is too early");
        assert!(
            refusal.contains("sooner than 3600 s") && refusal.contains("nothing was written"),
            "{refusal}"
        );
        let refusal = asked(Confirmation::Yes, 3600, "no\n").1.expect("it is a no");
        assert!(refusal.starts_with("not confirmed; "), "{refusal}");
    }
}
