//! Logs as they are written: of the controllers, as far as they name an object, or of a Pod of a workload cluster. Owns which lines are kept,
//! chosen and shown; must not read any.

use std::collections::VecDeque;

use ratatui::buffer::Buffer;
use ratatui::text::{Line, Span};

use super::{Context, foot};
use crate::fleet::{Fleet, Item, SourceId, Uid};
use crate::operations::{LogLine, LogNews, LogPlace};
use crate::tui::cursor::{Motion, Scroll};
use crate::tui::layout::{Layout, layout};
use crate::tui::links::letters;
use crate::tui::paint::{Paint, put};
use crate::tui::reads::Reading;
use crate::tui::subject::{LogSubject, Subject, Want};
use crate::tui::theme::Scope;
use capstan_base::text;

/// What is kept of all logs together; the oldest lines go first.
const LINES_MAX: usize = 5_000;
const BYTES_MAX: usize = 2 << 20;
/// Cells for the name of a pod, where there are several.
const SOURCE_CELLS: usize = 20;
/// For what is read, or why nothing is.
const HEAD_LINES: usize = 3;
/// Of the time, hours to seconds.
const CLOCK: std::ops::Range<usize> = 11..19;

pub const FILTER_HINT: &str = "words that a line must have; !word: must not";

pub struct LogsScreen {
    subject: LogSubject,
    /// The object from which it was opened.
    about: Option<(SourceId, Uid)>,
    /// In the order of time, as far as the lines have one.
    lines: VecDeque<LogLine>,
    bytes: usize,
    /// Lines that went to make room.
    dropped: u64,
    followed: Vec<String>,
    /// Why nothing comes.
    trouble: Option<String>,
    /// Nothing will come any more.
    is_over: bool,
    filter: String,
    scroll: Scroll,
    /// The newest line stays in sight.
    follows: bool,
    is_wrapped: bool,
}

impl LogsScreen {
    pub fn of(subject: LogSubject, about: Option<(SourceId, Uid)>) -> Self {
        Self {
            subject,
            about,
            lines: VecDeque::new(),
            bytes: 0,
            dropped: 0,
            followed: Vec::new(),
            trouble: None,
            is_over: false,
            filter: String::new(),
            scroll: Scroll::default(),
            follows: true,
            is_wrapped: false,
        }
    }

    pub fn title(&self) -> String {
        match &self.subject.place {
            LogPlace::Controllers(about) => format!("logs about {}", about.name),
            LogPlace::Workload { pod, .. } => format!("log of {}", pod.name),
            LogPlace::HostRun(host) => format!("run on {}", host.name),
        }
    }

    pub fn want(&self) -> Want {
        Want::now(Subject::Logs(self.subject.clone()))
    }

    /// News. Those about another object are late.
    pub fn take(&mut self, of: &Subject, reading: &Reading) {
        let (Subject::Logs(of), Reading::Logs(news)) = (of, reading) else { return };
        if self.subject != *of {
            return;
        }
        match news {
            Ok(news) => news.iter().for_each(|one| self.take_one(one)),
            Err(why) => (self.trouble, self.is_over) = (Some(text::sanitize_line(why)), true),
        }
    }

    fn take_one(&mut self, news: &LogNews) {
        match news {
            LogNews::Followed(pods) => {
                self.followed.clone_from(pods);
                self.trouble = None;
            }
            LogNews::Trouble(why) => self.trouble = Some(why.clone()),
            LogNews::Line(line) => self.keep(line.clone()),
        }
    }

    fn keep(&mut self, line: LogLine) {
        self.bytes += size(&line);
        // Pods are read side by side: what one wrote earlier may come later.
        let later =
            self.lines.iter().rev().take_while(|kept| !line.at.is_empty() && kept.at > line.at).count();
        self.lines.insert(self.lines.len() - later, line);
        while self.lines.len() > LINES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.lines.pop_front() else { return };
            self.bytes -= size(&oldest);
            self.dropped += 1;
            // What somebody reads stays where it is.
            if !self.follows && self.is_chosen(&oldest) {
                self.scroll.0 = self.scroll.0.saturating_sub(1);
            }
        }
    }

    pub fn selected(&self, fleet: &Fleet) -> Option<Item> {
        let (source, uid) = self.about?;
        fleet.find(source, uid).map(Item::Row)
    }

    pub fn filter(&self) -> &str {
        &self.filter
    }

    pub fn set_filter(&mut self, words: &str) {
        words.clone_into(&mut self.filter);
    }

    pub fn refresh(&mut self, context: &Context<'_>) {
        self.is_wrapped = context.wide;
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let Some(parts) = layout(context.area) else { return };
        let (_, width, page) = self.parts(&parts);
        let len = self.rows(width).len();
        let most = len.saturating_sub(page);
        if self.follows {
            self.scroll = Scroll(most);
        }
        self.scroll.step(motion, len, page);
        // At the end again, one wants to see what comes.
        self.follows = self.scroll.0 >= most;
    }

    /// Does a line have all words of the filter, and none of those that it must not have?
    fn is_chosen(&self, line: &LogLine) -> bool {
        if self.filter.is_empty() {
            return true;
        }
        let text = format!("{} {}", line.source, line.text).to_lowercase();
        self.filter.to_lowercase().split_whitespace().all(|word| match word.strip_prefix('!') {
            Some("") | None => text.contains(word),
            Some(word) => !text.contains(word),
        })
    }

    /// Each row with the line that it is of, and how many letters of that stand before it.
    fn rows(&self, width: usize) -> Vec<(&LogLine, String, usize)> {
        let room = width.saturating_sub(self.lead_cells()).max(1);
        let mut rows = Vec::new();
        for line in self.lines.iter().filter(|line| self.is_chosen(line)) {
            if self.is_wrapped {
                let mut before = 0;
                for part in text::wrap(&line.text, room) {
                    let own = letters(&part);
                    rows.push((line, part, before));
                    before += own;
                }
            } else {
                rows.push((line, text::truncate(&line.text, room, "…"), 0));
            }
        }
        rows
    }

    /// The time, and the pod where there are several. A run does not date its lines.
    fn lead_cells(&self) -> usize {
        if matches!(self.subject.place, LogPlace::HostRun(_)) {
            return 0;
        }
        let clock = CLOCK.len() + 1;
        if self.followed.len() > 1 { clock + SOURCE_CELLS + 1 } else { clock }
    }

    fn lead(&self, line: &LogLine, paint: &Paint<'_>) -> Vec<Span<'static>> {
        if self.lead_cells() == 0 {
            return Vec::new();
        }
        let clock = line.at.get(CLOCK).unwrap_or("        ").to_owned();
        let mut lead = vec![paint.span(Scope::Muted, format!("{clock} "))];
        if self.followed.len() > 1 {
            let name = paint.cut_name(&line.source, SOURCE_CELLS);
            let blanks = " ".repeat(SOURCE_CELLS.saturating_sub(text::width(&name)) + 1);
            lead.push(paint.span(Scope::Muted, name + &blanks));
        }
        lead
    }

    pub fn view(&self, fleet: &Fleet, paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
        paint.rule(layout.rule, buffer);
        let (body, room) = (layout.body, layout.body.width.saturating_sub(3));
        let (head, width, page) = self.parts(layout);
        let scope = if self.trouble.is_some() { Scope::Stale } else { Scope::Muted };
        let rows = self.rows(width);
        let end = rows.len().saturating_sub(page);
        let first = if self.follows { end } else { self.scroll.clamped(rows.len(), page) };
        let head = head.into_iter().map(|words| Line::from(paint.span(scope, words)));
        let shown = rows.iter().skip(first).map(|(line, part, before)| {
            let mut spans = if *before == 0 {
                self.lead(line, paint)
            } else {
                vec![Span::raw(" ".repeat(self.lead_cells()))]
            };
            spans.extend(paint.part(Scope::Text, &line.text, *before, part.clone()));
            Line::from(spans)
        });
        for (y, line) in (body.y..body.bottom()).zip(head.chain(shown)) {
            put(buffer, body.x + 2, y, &line, room);
        }
        foot::view(None, false, None, fleet, paint, layout, buffer);
        foot::position(first, page, rows.len(), paint, layout, buffer);
    }

    /// What stands above the lines of logs, the cells of a line, and how many lines fit.
    fn parts(&self, layout: &Layout) -> (Vec<String>, usize, usize) {
        let (width, height) =
            (usize::from(layout.body.width.saturating_sub(4)), usize::from(layout.body.height));
        let mut head = text::wrap(&self.state(), width);
        head.truncate(HEAD_LINES);
        let page = height.saturating_sub(head.len());
        (head, width, page)
    }

    /// What is read, or why nothing is, in a sentence.
    fn state(&self) -> String {
        let mut words = match (&self.trouble, self.followed.as_slice()) {
            (Some(why), _) if self.is_over => why.clone(),
            (Some(why), _) => format!("{why}; it is tried again"),
            (None, []) => match self.subject.place {
                LogPlace::HostRun(_) => "asking which run the Host has".to_owned(),
                LogPlace::Controllers(_) | LogPlace::Workload { .. } => {
                    "asking which Pods there are".to_owned()
                }
            },
            (None, [one]) => format!("following {one}"),
            (None, several) => format!("following {} Pods", several.len()),
        };
        if let (LogPlace::Controllers(about), false) = (&self.subject.place, self.followed.is_empty()) {
            words = format!("{words}, lines that name {about}");
        }
        if !self.follows {
            words += "; stopped, the end goes on";
        }
        if self.dropped > 0 {
            words = format!("{words}; {} older lines were dropped", self.dropped);
        }
        words
    }
}

fn size(line: &LogLine) -> usize {
    line.at.len() + line.text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::key::ObjectKey;

    fn screen() -> LogsScreen {
        let place = LogPlace::Controllers(ObjectKey::new("prod", "edge-7"));
        LogsScreen::of(LogSubject { source: SourceId(0), place }, None)
    }

    fn line(at: &str, text: &str) -> LogNews {
        LogNews::Line(LogLine { at: at.to_owned(), source: "core-1".into(), text: text.to_owned() })
    }

    fn take(screen: &mut LogsScreen, news: Vec<LogNews>) {
        let Subject::Logs(subject) = screen.want().subject else { panic!("logs") };
        screen.take(&Subject::Logs(subject), &Reading::Logs(Ok(news)));
    }

    fn texts(screen: &LogsScreen) -> Vec<String> {
        screen.rows(80).into_iter().map(|(_, text, _)| text).collect()
    }

    #[test]
    fn lines_of_several_pods_stand_in_the_order_of_time() {
        let mut screen = screen();
        take(
            &mut screen,
            vec![
                line("2", "b"),
                line("4", "d"),
                line("3", "c"),
                line("1", "a"),
                line("", "e"),
                line("5", "f"),
            ],
        );
        assert_eq!(texts(&screen), ["a", "b", "c", "d", "e", "f"]);
    }

    #[test]
    fn what_is_kept_is_bounded_by_lines_and_by_bytes() {
        let mut screen = screen();
        take(&mut screen, (0..LINES_MAX + 10).map(|at| line(&format!("{at:08}"), "x")).collect());
        assert_eq!((screen.lines.len(), screen.dropped), (LINES_MAX, 10));
        assert_eq!(screen.lines[0].at, "00000010");
        let long = "x".repeat(4_096);
        take(&mut screen, (0..2_000).map(|at| line(&format!("9{at:07}"), &long)).collect());
        assert!(screen.bytes <= BYTES_MAX && screen.lines.len() < 2_000, "{}", screen.lines.len());
        assert_eq!(screen.bytes, screen.lines.iter().map(size).sum::<usize>());
    }

    #[test]
    fn words_choose_lines_and_wide_shows_them_whole() {
        let mut screen = screen();
        let long = "drain ".repeat(40);
        take(&mut screen, vec![line("1", "Drained node"), line("2", "created"), line("3", &long)]);
        for (filter, count) in [("", 3), ("drain", 2), ("drain !node", 1), ("core-1", 3), ("nothing", 0)] {
            screen.set_filter(filter);
            assert_eq!(texts(&screen).len(), count, "{filter}");
        }
        screen.set_filter("drain !node");
        screen.is_wrapped = true;
        let whole = texts(&screen);
        assert!(whole.len() > 2 && whole.join(" ").matches("drain").count() == 40, "{whole:?}");
    }

    #[test]
    fn late_news_about_another_object_and_troubles_are_told_apart() {
        let mut screen = screen();
        let other =
            LogSubject { source: SourceId(0), place: LogPlace::Controllers(ObjectKey::new("prod", "x")) };
        screen.take(&Subject::Logs(other), &Reading::Logs(Ok(vec![line("1", "a")])));
        assert!(texts(&screen).is_empty());
        take(&mut screen, vec![LogNews::Trouble("no Pod runs".to_owned())]);
        assert_eq!(screen.state(), "no Pod runs; it is tried again");
        take(&mut screen, vec![LogNews::Followed(vec!["a".to_owned(), "b".to_owned()])]);
        assert_eq!(screen.state(), "following 2 Pods, lines that name prod/edge-7");
        let Subject::Logs(subject) = screen.want().subject else { panic!("logs") };
        screen.take(&Subject::Logs(subject), &Reading::Logs(Err("no Secret".to_owned())));
        assert!(
            screen.state().starts_with("no Secret") && !screen.state().contains("again"),
            "{}",
            screen.state()
        );
    }
}
