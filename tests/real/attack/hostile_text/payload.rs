//! Text that would steer a terminal, or mislead who reads it. Each has a mark that shows where it was printed, and
//! sequences of each carry the number 6666, which the program itself never uses.

/// Printable, in every payload.
pub const MARK: &str = "mk7";

pub const PAYLOADS: &[&str] = &[
    "mk7\x1b[6666;6666Hcursor",
    "mk7\x1b[6666mcolour\x1b[?6666h\x1b[6666J",
    "mk7\x1b]0;6666 title\x07",
    "mk7\x1b]0;6666 title\x1b\\",
    "mk7\x1b]8;;http://6666.example/\x1b\\link\x1b]8;;\x1b\\",
    "mk7\x1b]52;c;NjY2Ng==\x07clip",
    "mk7\u{9b}6666Jc1",
    "mk7\u{9d}0;6666\u{9c}c1",
    "mk7\x1bP6666$q\"p\x1b\\dcs",
    "mk7\x1b_6666\x1b\\apc\x1b^6666\x1b\\pm",
    "mk7\u{202e}desrever\u{2066}isolate\u{2069}",
    "mk7z\u{200b}e\u{200d}r\u{2060}o\u{feff}w\u{ad}idth",
    "mk7\roverwritten\r\n",
    "mk7\x08\x08\x08\x08\x08back\x7f",
    "mk7\0nul\x07bell\x0b\x0c",
    "mk7\u{e0041}\u{e0042}\u{e007f}tags\u{fff9}a\u{fffb}",
    "mk7z\u{300}\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}\u{307}\u{308}\u{309}\u{30a}\u{30b}\u{30c}\u{30d}\u{30e}\u{30f}\u{310}\u{311}\u{312}\u{313}algo",
    "mk7\x1bc\x1b#8\x1b(0\x0e\x0freset",
    "mk7\u{2028}line\u{2029}paragraph\u{85}next",
];
