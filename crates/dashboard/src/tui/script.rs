//! The dashboard without a terminal: keys in, screen out, as text or SVG. For tests, for the
//! documentation, and for whoever wants to see what somebody else saw.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use super::effect::Effect;
use super::keymap::parse_chord;
use super::model::Model;
use super::msg::Msg;
use super::update::update;
use super::view::view;

/// Presses keys written as in keymap files, separated by spaces; what is in quotes is typed letter
/// by letter: `j j enter "filter prod" enter`. Returns the effects that nobody performed.
///
/// # Errors
/// A key that cannot be read.
pub fn press(model: &mut Model, keys: &str) -> Result<Vec<Effect>, String> {
    let mut effects = Vec::new();
    for (at, part) in keys.split('"').enumerate() {
        let presses = if at % 2 == 0 {
            if part.trim().is_empty() { Vec::new() } else { parse_chord(part)? }
        } else {
            let letters = part.chars().map(|c| if c == ' ' { "space".to_owned() } else { c.to_string() });
            letters.map(|key| key.parse()).collect::<Result<_, _>>()?
        };
        for press in presses {
            effects.extend(update(model, Msg::Key(press.event())));
        }
    }
    Ok(effects)
}

/// The picture as cells.
pub fn draw(model: &mut Model) -> Buffer {
    model.refresh();
    let area = Rect::new(0, 0, model.area.width, model.area.height);
    let mut buffer = Buffer::empty(area);
    view(model, area, &mut buffer);
    model.was_drawn();
    buffer
}

/// The picture as lines of text without trailing spaces.
pub fn text(model: &mut Model) -> String {
    let buffer = draw(model);
    let mut out = String::new();
    for line in lines(&buffer) {
        let text: String = line.iter().map(|(_, cell)| cell.symbol()).collect();
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out
}

/// Writes the picture into a new file that only its owner can read: as SVG where its name ends so, else as text.
///
/// # Errors
/// The file is there already, or cannot be written.
pub fn save(model: &mut Model, path: &Path) -> std::io::Result<()> {
    let is_svg = path.extension().is_some_and(|extension| extension == "svg");
    write_new(path, &if is_svg { svg(model) } else { text(model) })
}

/// Writes a text into a new file that only its owner can read.
///
/// # Errors
/// The file is there already, or cannot be written.
pub fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// Cells line by line with their column, without those hidden behind a wide character.
fn lines(buffer: &Buffer) -> Vec<Vec<(u16, &Cell)>> {
    let area = *buffer.area();
    (area.y..area.bottom())
        .map(|y| {
            let mut line = Vec::new();
            let mut x = area.x;
            while let Some(cell) = buffer.cell((x, y)).filter(|_| x < area.right()) {
                line.push((x, cell));
                x += u16::try_from(capstan_base::text::width(cell.symbol())).unwrap_or(1).max(1);
            }
            line
        })
        .collect()
}

const CELL_WIDTH: f32 = 8.4;
const LINE_HEIGHT: f32 = 18.0;
const MARGIN: f32 = 12.0;

/// The picture as an SVG document with real text, for the README.
pub fn svg(model: &mut Model) -> String {
    let buffer = draw(model);
    let area = *buffer.area();
    let width = f32::from(area.width) * CELL_WIDTH + 2.0 * MARGIN;
    let height = f32::from(area.height) * LINE_HEIGHT + 2.0 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" \
         font-size=\"14\">\n<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{}\"/>\n",
        css(Color::Reset, false)
    );
    for (y, line) in lines(&buffer).iter().enumerate() {
        let top = MARGIN + LINE_HEIGHT * y as f32;
        for run in line.chunk_by(|(_, a), (_, b)| a.style() == b.style()) {
            let Some((x, first)) = run.first() else { continue };
            let text: String = run.iter().map(|(_, cell)| cell.symbol()).collect();
            svg_run(&mut out, MARGIN + f32::from(*x) * CELL_WIDTH, top, run.len(), &text, first);
        }
    }
    out.push_str("</svg>\n");
    out
}

fn svg_run(out: &mut String, x: f32, top: f32, cells: usize, text: &str, cell: &Cell) {
    let reversed = cell.modifier.contains(Modifier::REVERSED);
    let (ink, paper) = if reversed {
        (css(cell.bg, false), css(cell.fg, true))
    } else {
        (css(cell.fg, true), css(cell.bg, false))
    };
    let width = cells as f32 * CELL_WIDTH;
    if reversed || cell.bg != Color::Reset {
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{LINE_HEIGHT}\" fill=\"{paper}\"/>"
        );
    }
    if text.trim().is_empty() {
        return;
    }
    let weight = if cell.modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
    let line =
        if cell.modifier.contains(Modifier::UNDERLINED) { " text-decoration=\"underline\"" } else { "" };
    let dim = if cell.modifier.contains(Modifier::DIM) { " fill-opacity=\"0.6\"" } else { "" };
    // The ampersand first, because the others bring one in.
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let y = top + 13.5;
    let _ = writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\" textLength=\"{width}\" xml:space=\"preserve\" fill=\"{ink}\"{dim}{weight}{line}>{text}</text>"
    );
}

/// A colour for the web; named ones in a palette of their own.
fn css(colour: Color, is_ink: bool) -> String {
    super::theme::web_colour(colour, is_ink)
}
