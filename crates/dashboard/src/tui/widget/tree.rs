//! A tree of any size, drawn by tui-tree-widget from only the rows on screen.
//!
//! The widget flattens everything it is given on every frame: 8–40 ms at 100,000 nodes. So it is
//! given the visible rows and, above them, the chain of ancestors of the first one; it draws into a
//! scratch buffer that is taller by that chain, and the part below it is copied. A node whose
//! children are closed or cut off gets one stand-in child, so that its symbol stays right. Cursor
//! and scroll position are ours.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::StatefulWidget as _;
use tui_tree_widget::{Tree, TreeItem, TreeState};

use crate::tui::theme::Glyphs;

/// What the drawing must know of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub depth: u16,
    pub has_children: bool,
    pub open: bool,
}

/// Rows of a window: the ancestors of the first visible row, then the visible rows.
struct Window<'a> {
    rows: Vec<(Shape, Line<'a>)>,
    /// How many of them are ancestors above the window.
    above: usize,
}

/// Draws `visible` into `area`, one row per line. `ancestors` are the rows above the first one, from
/// the root down.
pub fn draw<'a>(
    ancestors: Vec<(Shape, Line<'a>)>,
    visible: Vec<(Shape, Line<'a>)>,
    glyphs: &Glyphs,
    area: Rect,
    buffer: &mut Buffer,
) {
    if area.is_empty() || visible.is_empty() {
        return;
    }
    let above = ancestors.len();
    let shown = visible.len().min(usize::from(area.height));
    let rows = ancestors.into_iter().chain(visible.into_iter().take(shown)).collect();
    let window = Window { rows, above };
    let mut opened = Vec::new();
    let mut next = 0;
    let items = window.items(&mut next, 0, &mut Vec::new(), &mut opened);
    let height = u16::try_from(above + shown).unwrap_or(u16::MAX);
    let mut scratch = Buffer::empty(Rect::new(0, 0, area.width, height));
    let mut state = TreeState::default();
    for path in opened {
        state.open(path);
    }
    let Ok(tree) = Tree::new(&items) else { return };
    let tree = tree
        .node_closed_symbol(glyphs.fold_closed)
        .node_open_symbol(glyphs.fold_open)
        .node_no_children_symbol(glyphs.leaf);
    tree.render(scratch.area, &mut scratch, &mut state);
    let skip = u16::try_from(above).unwrap_or(u16::MAX);
    for y in 0..u16::try_from(shown).unwrap_or(area.height) {
        for x in 0..area.width {
            if let (Some(from), Some(to)) =
                (scratch.cell((x, y + skip)), buffer.cell_mut((area.x + x, area.y + y)))
            {
                *to = from.clone();
            }
        }
    }
}

impl<'a> Window<'a> {
    /// Items of the rows from `next` on that are at `depth`, with what is below them. Paths of nodes
    /// to be shown open are collected in `opened`.
    fn items(
        &self,
        next: &mut usize,
        depth: u16,
        path: &mut Vec<usize>,
        opened: &mut Vec<Vec<usize>>,
    ) -> Vec<TreeItem<'a, usize>> {
        let mut items = Vec::new();
        while let Some((shape, line)) = self.rows.get(*next) {
            if shape.depth < depth {
                break;
            }
            let id = *next;
            *next += 1;
            path.push(id);
            let mut children = self.items(next, shape.depth + 1, path, opened);
            // Ancestors are open although nothing of them but one branch is in the window.
            if !children.is_empty() || (shape.open && shape.has_children) || id < self.above {
                opened.push(path.clone());
            }
            if children.is_empty() && shape.has_children {
                // Only for the symbol: below a closed node, or below the last line of the window.
                children.push(TreeItem::new_leaf(usize::MAX, Line::default()));
            }
            path.pop();
            if let Ok(item) = TreeItem::new(id, line.clone(), children) {
                items.push(item);
            }
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tui::theme::Theme;

    /// A random forest in preorder: depths that grow by at most one.
    fn shapes() -> impl Strategy<Value = Vec<(Shape, usize)>> {
        proptest::collection::vec((0u16..4, any::<bool>()), 1..60).prop_map(|steps| {
            let mut depths: Vec<u16> = Vec::new();
            for (at, (depth, _)) in steps.iter().enumerate() {
                let most = if at == 0 { 0 } else { depths[at - 1] + 1 };
                depths.push((*depth).min(most));
            }
            steps
                .iter()
                .enumerate()
                .map(|(at, (_, open))| {
                    let has_children = depths.get(at + 1).is_some_and(|d| *d > depths[at]);
                    (Shape { depth: depths[at], has_children, open: *open && has_children }, at)
                })
                .collect()
        })
    }

    /// Those whose ancestors are all open.
    fn visible(all: &[(Shape, usize)]) -> Vec<(Shape, usize)> {
        let mut shown = Vec::new();
        let mut closed_at: Option<u16> = None;
        for (shape, id) in all {
            if closed_at.is_some_and(|d| shape.depth > d) {
                continue;
            }
            closed_at = (shape.has_children && !shape.open).then_some(shape.depth);
            shown.push((*shape, *id));
        }
        shown
    }

    fn ancestors(shown: &[(Shape, usize)], first: usize) -> Vec<(Shape, usize)> {
        let mut chain: Vec<(Shape, usize)> = Vec::new();
        let mut depth = shown[first].0.depth;
        for row in shown[..first].iter().rev() {
            if row.0.depth < depth {
                depth = row.0.depth;
                chain.insert(0, *row);
            }
        }
        chain
    }

    fn lines(rows: &[(Shape, usize)]) -> Vec<(Shape, Line<'static>)> {
        rows.iter().map(|(shape, id)| (*shape, Line::from(format!("node {id}")))).collect()
    }

    fn picture(above: &[(Shape, usize)], rows: &[(Shape, usize)], height: u16) -> Buffer {
        let theme = Theme::load("default", None, crate::tui::theme::Tier::None, false).expect("shipped");
        let mut buffer = Buffer::empty(Rect::new(0, 0, 30, height));
        draw(lines(above), lines(rows), theme.glyphs, buffer.area, &mut buffer);
        buffer
    }

    proptest! {
        #[test]
        fn a_window_is_the_part_of_the_whole_picture(all in shapes(), first in 0usize..60, height in 1u16..20) {
            let shown = visible(&all);
            let first = first % shown.len();
            let whole = picture(&[], &shown, u16::try_from(shown.len()).expect("small"));
            let window = picture(&ancestors(&shown, first), &shown[first..], height);
            for y in 0..height {
                for x in 0..30 {
                    let expected = whole.cell((x, y + u16::try_from(first).expect("small")))
                        .map_or(" ", |c| c.symbol());
                    prop_assert_eq!(window.cell((x, y)).expect("inside").symbol(), expected, "{} {}", x, y);
                }
            }
        }
    }
}
