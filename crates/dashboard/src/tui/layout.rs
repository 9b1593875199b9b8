//! An area → where everything goes. Pure: drawing uses it, and so do page sizes and the mouse. A screen may ask for a pane
//! beside its body, or for a higher foot.

use ratatui::layout::Rect;

/// Below this the screen says that it is too small.
pub const WIDTH_MIN: u16 = 40;
pub const HEIGHT_MIN: u16 = 8;

/// From here on there is room to explain the selected row.
const FOOT_HEIGHT_MIN: u16 = 16;
const FOOT_LINES: u16 = 2;

/// From here on there is room for a pane beside a list, and for texts side by side.
pub const PANE_WIDTH_MIN: u16 = 140;
/// Cells of the pane: so many of 25, and no fewer than that.
const PANE_SHARE: u16 = 7;
const PANE_CELLS_MIN: u16 = 46;

/// The parts of the screen, top to bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Who we are, what we are connected to, how it stands.
    pub header: Rect,
    /// Where we are.
    pub crumbs: Rect,
    pub rule: Rect,
    pub body: Rect,
    /// To the right of the body; empty without one.
    pub pane: Rect,
    /// The rule above the foot, and the foot; empty on low screens.
    pub foot_rule: Rect,
    pub foot: Rect,
    /// Key hints, a toast, or the command line.
    pub footer: Rect,
}

/// `None` when the area is too small to be useful.
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
        pane: Rect::default(),
        foot_rule,
        foot,
        footer: line(bottom - 1, 1),
    })
}

impl Layout {
    /// With a pane beside the body where the screen is wide enough. It explains what the foot explains elsewhere.
    pub fn with_pane(self) -> Self {
        if self.body.width < PANE_WIDTH_MIN {
            return self;
        }
        let width = (self.body.width / 25 * PANE_SHARE).max(PANE_CELLS_MIN);
        let height = self.body.height + self.foot.height;
        // A line and a blank between them.
        let body = Rect { width: self.body.width - width - 3, height, ..self.body };
        let pane = Rect { x: body.right() + 2, width, ..body };
        let foot = Rect { y: self.foot.bottom(), height: 0, ..self.foot };
        Self { body, pane, foot_rule: Rect { y: body.bottom(), ..self.foot_rule }, foot, ..self }
    }

    /// With a third of the room for the foot, where the list has so many lines less than its share.
    pub fn with_high_foot(self, lines: usize) -> Self {
        let room = self.body.height + self.foot.height;
        let high = room / 3;
        let body = Rect { height: room - high, ..self.body };
        if self.foot.height == 0 || high <= self.foot.height || page(body) < lines {
            return self;
        }
        let foot_rule = Rect { y: body.bottom(), ..self.foot_rule };
        Self { body, foot_rule, foot: Rect { y: foot_rule.bottom(), height: high, ..self.foot }, ..self }
    }

    /// The foot is high enough for more than a sentence.
    pub fn has_high_foot(&self) -> bool {
        self.foot.height > FOOT_LINES
    }
}

/// Rows of a list in a body: what is left below its column headings.
pub fn page(body: Rect) -> usize {
    usize::from(body.height.saturating_sub(1)).max(1)
}

/// A dialog of at most `width` × `height`, in the middle, never larger than the area.
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
    fn a_pane_and_a_high_foot_take_their_room_from_the_body() {
        for width in WIDTH_MIN..260 {
            for height in HEIGHT_MIN..60 {
                let base = layout(Rect::new(0, 0, width, height)).expect("large enough");
                let with_pane = base.with_pane();
                if with_pane == base {
                    assert!(width < PANE_WIDTH_MIN);
                } else {
                    assert!(with_pane.body.width >= 80 && with_pane.body.right() + 2 == with_pane.pane.x);
                    assert_eq!((with_pane.pane.right(), with_pane.foot.height), (width - 1, 0));
                }
                for lines in [0, 5, 100] {
                    let high = base.with_high_foot(lines);
                    assert!(high == base || page(high.body) >= lines);
                    for l in [with_pane, high] {
                        let heights = l.body.height + l.foot_rule.height + l.foot.height;
                        assert_eq!((l.body.y, heights), (3, height - 4), "{width}×{height}");
                        assert_eq!(l.foot_rule.y, l.body.bottom());
                    }
                }
            }
        }
    }

    #[test]
    fn a_dialog_fits() {
        assert_eq!(dialog(Rect::new(0, 0, 80, 24), 60, 10), Rect::new(10, 7, 60, 10));
        assert_eq!(dialog(Rect::new(0, 0, 5, 2), 60, 10), Rect::new(0, 0, 5, 2));
    }
}
