//! An area → where everything goes. Pure: drawing uses it, and so do page sizes and the mouse.

use ratatui::layout::Rect;

/// Below this the screen says that it is too small.
pub const WIDTH_MIN: u16 = 40;
pub const HEIGHT_MIN: u16 = 8;

/// From here on there is room to explain the selected row.
const FOOT_HEIGHT_MIN: u16 = 16;
const FOOT_LINES: u16 = 2;

/// The parts of the screen, top to bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Who we are, what we are connected to, how it stands.
    pub header: Rect,
    /// Where we are.
    pub crumbs: Rect,
    pub rule: Rect,
    pub body: Rect,
    /// The rule above the foot, and the foot; empty on low screens.
    pub foot_rule: Rect,
    pub foot: Rect,
    /// Key hints, a toast, or the command line.
    pub footer: Rect,
}

/// `None` when the area is too small to be useful.
#[must_use]
pub fn layout(area: Rect) -> Option<Layout> {
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        return None;
    }
    let line = |y: u16, height: u16| Rect { x: area.x, y, width: area.width, height };
    let foot_height = if area.height < FOOT_HEIGHT_MIN { 0 } else { FOOT_LINES };
    let bottom = area.bottom();
    let foot = line(bottom - 1 - foot_height, foot_height);
    let foot_rule = if foot_height == 0 { line(foot.y, 0) } else { line(foot.y - 1, 1) };
    let top = area.y + 3;
    Some(Layout {
        header: line(area.y, 1),
        crumbs: line(area.y + 1, 1),
        rule: line(area.y + 2, 1),
        body: line(top, foot_rule.y - top),
        foot_rule,
        foot,
        footer: line(bottom - 1, 1),
    })
}

/// Rows of a list on a screen of this size: the body without its column headings.
#[must_use]
pub fn page(area: Rect) -> usize {
    layout(area).map_or(1, |l| usize::from(l.body.height.saturating_sub(1)).max(1))
}

/// A dialog of at most `width` × `height`, in the middle, never larger than the area.
#[must_use]
pub fn dialog(area: Rect, width: u16, height: u16) -> Rect {
    let width = width.min(area.width);
    let height = height.min(area.height);
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_the_screen_without_overlap() {
        for width in 0..130 {
            for height in 0..60 {
                let area = Rect::new(0, 0, width, height);
                let Some(l) = layout(area) else {
                    assert!(width < WIDTH_MIN || height < HEIGHT_MIN);
                    continue;
                };
                let parts = [l.header, l.crumbs, l.rule, l.body, l.foot_rule, l.foot, l.footer];
                let mut y = 0;
                for part in parts {
                    assert_eq!((part.x, part.y, part.width), (0, y, width), "{width}×{height}");
                    y += part.height;
                }
                assert_eq!(y, height);
                assert!(l.body.height >= 3);
            }
        }
    }

    #[test]
    fn a_dialog_fits() {
        assert_eq!(dialog(Rect::new(0, 0, 80, 24), 60, 10), Rect::new(10, 7, 60, 10));
        assert_eq!(dialog(Rect::new(0, 0, 5, 2), 60, 10), Rect::new(0, 0, 5, 2));
    }
}
