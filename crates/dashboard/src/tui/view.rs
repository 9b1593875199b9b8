//! The model → cells. A router: header, the open screen, the last line, dialogs on top. Changes
//! nothing but the buffer.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget as _};

use super::hints::hints;
use super::keymap::Lookup;
use super::layout::{HEIGHT_MIN, Layout, WIDTH_MIN, layout};
use super::links::Links;
use super::model::{Model, Toast, Tone};
use super::paint::{Paint, put, put_ends};
use super::screen::header::{self, Header};
use super::screen::pane::{self, Pane};
use super::theme::Scope;
use super::widget::scrubber::{self, Scrubber};

/// What a drawn frame says besides its cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    pub cursor: Option<Position>,
    /// Seconds until an age on it reads differently.
    pub next_change_s: Option<i64>,
    /// Where its links lead to.
    pub links: Links,
}

/// Draws everything into `area`. [`Model::refresh`] comes first.
pub fn view(model: &Model, area: Rect, buffer: &mut Buffer) -> Drawn {
    let paint = Paint::new(&model.look.theme, model.now);
    if area.is_empty() {
        return Drawn::default();
    }
    buffer.set_style(area, paint.style(Scope::Text));
    let Some(parts) = layout(area) else {
        too_small(&paint, area, buffer);
        return Drawn::default();
    };
    let shown = Header {
        fleet: &model.fleet,
        session: &model.session,
        screens: &model.screens,
        namespace: model.preferences.namespace.as_deref(),
        wide: model.preferences.wide,
        is_replay: model.replay.is_some(),
    };
    if let Some(wallboard) = &model.wallboard {
        wallboard.view(shown, &model.known.plans, &paint, area, buffer);
        let cursor = overlays(model, &paint, area, buffer);
        underline_words_only(buffer);
        return Drawn { cursor, next_change_s: paint.next_change_s(), links: paint.links() };
    }
    header::view(shown, &paint, &parts, buffer);
    let parts = model.screen().arrange(parts);
    model.screen().view(&model.fleet, &model.known.plans, &paint, &parts, buffer);
    beside(model, &paint, &parts, buffer);
    footer(model, &paint, parts.footer, buffer);
    let cursor = overlays(model, &paint, area, buffer);
    underline_words_only(buffer);
    Drawn { cursor, next_change_s: paint.next_change_s(), links: paint.links() }
}

/// Takes the lines from below blanks that follow the last word of what is underlined: a label is padded to the width of
/// its column.
fn underline_words_only(buffer: &mut Buffer) {
    let width = usize::from(buffer.area().width).max(1);
    for row in buffer.content.chunks_mut(width) {
        let mut is_behind_word = true;
        for cell in row.iter_mut().rev() {
            let is_underlined = cell.modifier.contains(Modifier::UNDERLINED);
            is_behind_word = !is_underlined || (is_behind_word && cell.symbol() == " ");
            if is_underlined && is_behind_word {
                cell.modifier.remove(Modifier::UNDERLINED);
            }
        }
    }
}

fn overlays(model: &Model, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let mut cursor = None;
    for overlay in &model.overlays {
        // The last dialog has the keys, so its cursor counts.
        cursor = overlay.view(&model.look.keymap, paint, area, buffer);
    }
    cursor
}

/// The pane that follows the cursor: beside a list, or in a higher foot.
fn beside(model: &Model, paint: &Paint<'_>, parts: &Layout, buffer: &mut Buffer) {
    let (fleet, plans, item) = (&model.fleet, &model.known.plans, model.selected());
    if parts.has_high_foot() {
        let area = Rect { x: parts.foot.x + 2, width: parts.foot.width.saturating_sub(4), ..parts.foot };
        pane::view(Pane { fleet, plans, item, keys: &[] }, paint, area, buffer);
    } else if !parts.pane.is_empty() {
        let line = Line::from(paint.span(Scope::Rule, paint.glyphs().border.vertical_left));
        (parts.pane.y..parts.pane.bottom()).for_each(|y| put(buffer, parts.pane.x - 1, y, &line, 1));
        let area = Rect { x: parts.pane.x + 1, width: parts.pane.width - 1, ..parts.pane };
        let keys: Vec<_> = hints(model).0.into_iter().map(|hint| (hint.keys, hint.word)).collect();
        pane::view(Pane { fleet, plans, item, keys: &keys }, paint, area, buffer);
    }
}

fn too_small(paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
    let long = format!("too small: {WIDTH_MIN}x{HEIGHT_MIN} needed, this is {}x{}", area.width, area.height);
    let texts = [long, format!("too small, {WIDTH_MIN}x{HEIGHT_MIN} needed"), "too small".to_owned()];
    let text = texts.into_iter().find(|t| t.len() <= usize::from(area.width)).unwrap_or_default();
    let line = Line::from(paint.span(Scope::Stale, text));
    put(buffer, area.x, area.y + area.height / 2, &line, area.width);
}

/// A toast has this many lines at most.
const TOAST_LINES_MAX: usize = 4;

/// A sentence in the last line, and above it where one line is too short for it.
fn toast(toast: &Toast, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
    let (glyph, scope) = match toast.tone {
        Tone::Info => (paint.glyphs().ok, Scope::NoticeInfo),
        Tone::Warning => (paint.glyphs().unknown, Scope::NoticeWarning),
        Tone::Error => (paint.glyphs().degraded, Scope::NoticeError),
    };
    let room = usize::from(area.width.saturating_sub(4)).max(1);
    let lines = paint.in_lines(&toast.text, room, TOAST_LINES_MAX);
    let above = u16::try_from(lines.len().saturating_sub(1)).unwrap_or(0).min(area.y);
    let lines = paint.wrapped(scope, &toast.text, lines);
    for (at, text) in (area.y - above..=area.y).zip(lines) {
        let line = Rect { y: at, height: 1, ..area };
        Clear.render(line, buffer);
        buffer.set_style(line, paint.style(Scope::Text));
        let glyph = if at == area.y - above { glyph } else { " " };
        let line = Line::from_iter(std::iter::once(paint.span(scope, format!("{glyph} "))).chain(text));
        put(buffer, area.x + 1, at, &line, area.width);
    }
}

/// The last line: a toast, the keys of a chord that has begun, or hints.
fn footer(model: &Model, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
    if let Some(shown) = &model.toast {
        toast(shown, paint, area, buffer);
        return;
    }
    if !model.overlays.is_empty() {
        // Dialogs carry their own.
        return;
    }
    let mut spans = Vec::new();
    if let Lookup::Pending(follow) = model.look.keymap.lookup(model.mode(), &model.typing.pending)
        && !model.typing.pending.is_empty()
    {
        let begun = super::keymap::chord_text(&model.typing.pending);
        for (keys, line) in follow {
            hint(&mut spans, &format!("{begun} {keys}"), &line, paint, area.width);
        }
        put(buffer, area.x, area.y, &Line::from(spans), area.width);
        return;
    }
    if let Some(replay) = &model.replay {
        let (first_ms, last_ms) = replay.span_ms();
        let plays = replay.is_playing().then(|| replay.speed());
        let shown = Scrubber { at_ms: replay.at_ms(), first_ms, last_ms, turns: replay.turns(), plays };
        scrubber::view(shown, &replay_keys(model), paint, area, buffer);
        return;
    }
    let (here, always) = hints(model);
    let mut last = Vec::new();
    always.iter().for_each(|h| hint(&mut last, &h.keys, h.word, paint, area.width));
    let last = Line::from(last);
    let room = area.width.saturating_sub(u16::try_from(last.width()).unwrap_or(u16::MAX).saturating_add(2));
    here.iter().for_each(|h| hint(&mut spans, &h.keys, h.word, paint, room));
    put_ends(buffer, area, &Line::from(spans), &last);
}

/// The keys of a replay, the most useful first.
fn replay_keys(model: &Model) -> Vec<(String, &'static str)> {
    let key =
        |line: &str| model.look.keymap.keys_for(model.mode(), line).into_iter().next().unwrap_or_default();
    let both = |back: &str, on: &str| format!("{} {}", key(back), key(on)).trim().to_owned();
    let all = [
        (key("play"), "play"),
        (both("previous-turn", "next-turn"), "turn"),
        (both("previous-change", "next-change"), "step"),
        (both("backward", "forward"), "jump"),
        (key("faster"), "speed"),
        (key("help"), "help"),
    ];
    all.into_iter().filter(|(keys, _)| !keys.is_empty()).collect()
}

/// Adds a hint as long as it fits whole.
fn hint(spans: &mut Vec<Span<'static>>, keys: &str, word: &str, paint: &Paint<'_>, room: u16) {
    let used: usize = spans.iter().map(Span::width).sum();
    let text = [format!(" {keys} "), format!("{word} ")];
    let more: usize = text.iter().map(|t| capstan_base::text::width(t)).sum();
    if used + more <= usize::from(room) {
        let [keys, word] = text;
        spans.push(paint.span(Scope::Key, keys));
        spans.push(paint.span(Scope::KeyText, word));
    }
}
