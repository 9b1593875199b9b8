//! Where one is in a list or a text. A list's cursor is remembered by key, so that it stays on its
//! item while others come, go and change places. Must not know what the items are.

/// A way to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    Up,
    Down,
    PageUp,
    PageDown,
    HalfUp,
    HalfDown,
    Top,
    Bottom,
}

impl Motion {
    /// The position after this motion from `at`, in `0..len`, on pages of `page` lines.
    pub fn apply(self, at: usize, len: usize, page: usize) -> usize {
        let page = page.max(1);
        let last = len.saturating_sub(1);
        let to = match self {
            Self::Up => at.saturating_sub(1),
            Self::Down => at + 1,
            Self::PageUp => at.saturating_sub(page),
            Self::PageDown => at + page,
            // Rounded up, so that half a page of one line moves as well.
            Self::HalfUp => at.saturating_sub(page.div_ceil(2)),
            Self::HalfDown => at + page.div_ceil(2),
            Self::Top => 0,
            Self::Bottom => last,
        };
        to.min(last)
    }
}

/// The selected item of a list, and the first one on screen.
#[derive(Clone, Debug)]
pub struct Cursor<K> {
    pub key: Option<K>,
    pub index: usize,
    pub offset: usize,
    /// Somebody chose the item. Until then the cursor is on the first one, whichever that is.
    chosen: bool,
}

impl<K> Default for Cursor<K> {
    fn default() -> Self {
        Self { key: None, index: 0, offset: 0, chosen: false }
    }
}

impl<K: Copy + PartialEq> Cursor<K> {
    /// Moves by `motion` among `len` items, `page` of which fit on screen.
    pub fn step(&mut self, motion: Motion, len: usize, page: usize, key_at: impl Fn(usize) -> Option<K>) {
        self.go(motion.apply(self.index, len, page), len, page, key_at);
    }

    pub fn go(&mut self, index: usize, len: usize, page: usize, key_at: impl Fn(usize) -> Option<K>) {
        self.chosen = true;
        self.index = index.min(len.saturating_sub(1));
        self.key = key_at(self.index);
        self.show(len, page);
    }

    /// To the item on this line of the page, where there is one.
    pub fn click(&mut self, line: usize, len: usize, page: usize, key_at: impl Fn(usize) -> Option<K>) {
        let at = self.offset + line;
        if at < len {
            self.go(at, len, page, key_at);
        }
    }

    /// Somebody does something with the selected item: the cursor stays on it from now on.
    pub fn choose(&mut self) {
        self.chosen = true;
    }

    /// After the list changed: finds the item again and keeps it on the same line of the screen; when
    /// it is gone, takes what stands in its place now.
    pub fn settle(
        &mut self,
        len: usize,
        page: usize,
        find: impl FnOnce(K) -> Option<usize>,
        key_at: impl Fn(usize) -> Option<K>,
    ) {
        match self.key.filter(|_| self.chosen).and_then(find) {
            Some(index) => {
                let line = self.index.saturating_sub(self.offset);
                self.index = index;
                self.offset = index.saturating_sub(line);
            }
            None => {
                self.index = self.index.min(len.saturating_sub(1));
                self.key = key_at(self.index);
            }
        }
        self.show(len, page);
    }

    /// Brings the selected item on screen, and leaves no empty lines below the last one.
    fn show(&mut self, len: usize, page: usize) {
        let page = page.max(1);
        self.offset = self.offset.min(self.index).min(len.saturating_sub(page));
        if self.index >= self.offset + page {
            self.offset = self.index + 1 - page;
        }
    }
}

/// The first visible line of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scroll(pub usize);

impl Scroll {
    /// Moves among `len` lines, `page` of which fit on screen. A text has no selected line: up and
    /// down move the picture.
    pub fn step(&mut self, motion: Motion, len: usize, page: usize) {
        let most = len.saturating_sub(page.max(1));
        self.0 = match motion {
            Motion::Bottom => most,
            other => other.apply(self.0.min(most), most + 1, page),
        };
    }

    /// Brings `line` on screen, with what stands before it.
    pub fn show(&mut self, line: usize, len: usize, page: usize) {
        let first = self.clamped(len, page);
        if !(first..first + page.max(1)).contains(&line) {
            self.0 = Self(line.saturating_sub(page / 3)).clamped(len, page);
        }
    }

    /// Brings `line` on screen, and moves the picture no more than it takes.
    pub fn follow(&mut self, line: usize, len: usize, page: usize) {
        let first = self.clamped(len, page);
        let least = (line + 1).saturating_sub(page.max(1));
        self.0 = Self(first.clamp(least, line.max(least))).clamped(len, page);
    }

    /// The first line to draw of a text that may have become shorter.
    pub fn clamped(self, len: usize, page: usize) -> usize {
        self.0.min(len.saturating_sub(page.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(cursor: &mut Cursor<u32>, items: &[u32], page: usize) {
        cursor.settle(items.len(), page, |k| items.iter().position(|i| *i == k), |at| items.get(at).copied());
    }

    #[test]
    fn the_selected_item_is_followed_and_keeps_its_line() {
        let mut cursor = Cursor::default();
        let items: Vec<u32> = (0..100).collect();
        settle(&mut cursor, &items, 10);
        assert_eq!(cursor.key, Some(0));
        settle(&mut cursor, &[7, 0, 1], 10);
        assert_eq!((cursor.key, cursor.index), (Some(7), 0), "on top until it is moved");
        settle(&mut cursor, &items, 10);
        cursor.go(50, 100, 10, |at| items.get(at).copied());
        assert_eq!((cursor.key, cursor.index, cursor.offset), (Some(50), 50, 41));
        let without_first: Vec<u32> = items[20..].to_vec();
        settle(&mut cursor, &without_first, 10);
        assert_eq!((cursor.key, cursor.index, cursor.offset), (Some(50), 30, 21));
    }

    #[test]
    fn a_vanished_item_gives_way_to_its_place() {
        let mut cursor = Cursor::default();
        settle(&mut cursor, &[1, 2, 3], 10);
        cursor.step(Motion::Bottom, 3, 10, |at| [1, 2, 3].get(at).copied());
        settle(&mut cursor, &[1, 2], 10);
        assert_eq!(cursor.key, Some(2));
        settle(&mut cursor, &[], 10);
        assert_eq!((cursor.key, cursor.index), (None, 0));
        settle(&mut cursor, &[7], 10);
        assert_eq!(cursor.key, Some(7));
    }

    #[test]
    fn an_item_that_something_is_done_with_is_followed() {
        let mut cursor = Cursor::default();
        settle(&mut cursor, &[1, 2], 10);
        cursor.choose();
        settle(&mut cursor, &[7, 1, 2], 10);
        assert_eq!((cursor.key, cursor.index), (Some(1), 1));
    }

    #[test]
    fn motions_stay_inside() {
        let mut cursor: Cursor<usize> = Cursor::default();
        for (motion, index, offset) in [
            (Motion::Up, 0, 0),
            (Motion::PageDown, 10, 1),
            (Motion::HalfDown, 15, 6),
            (Motion::Bottom, 24, 15),
            (Motion::Down, 24, 15),
            (Motion::PageUp, 14, 14),
            (Motion::Top, 0, 0),
        ] {
            cursor.step(motion, 25, 10, Some);
            assert_eq!((cursor.index, cursor.offset), (index, offset), "{motion:?}");
        }
        let mut scroll = Scroll::default();
        scroll.step(Motion::Bottom, 25, 10);
        assert_eq!(scroll, Scroll(15));
        scroll.step(Motion::Down, 25, 10);
        assert_eq!(scroll, Scroll(15));
        assert_eq!(scroll.clamped(3, 10), 0);
        for (line, first) in [(20, 15), (15, 15), (14, 14), (24, 15), (0, 0), (10, 1)] {
            scroll.follow(line, 25, 10);
            assert_eq!(scroll, Scroll(first), "{line}");
        }
    }
}
