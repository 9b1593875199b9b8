//! Durations as Go reads and writes them: the one reader and the one writer for fields, flags and messages of Kubernetes. Owns
//! the text form; must not know what lasts so long. What people type is [`crate::time::parse_duration`].
//! Source: Go `time.ParseDuration` and `time.Duration.String`, 1.25.

use std::fmt;
use std::time::Duration;

use chrono::TimeDelta;

const SECOND_NS: i64 = 1_000_000_000;
/// 24 hours: Go has no days.
pub const DAY_NS: i64 = 24 * 60 * 60 * SECOND_NS;

/// Go's `time.Duration`: nanoseconds, at most some 292 years either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration {
    ns: i64,
}

impl GoDuration {
    /// `1h30m`, `-1.5s`, `250ms`, `0`. `None` when Go would not read it, or when it is too long.
    pub fn parse(text: &str) -> Option<Self> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let ns = unsigned_ns(rest, unit_ns)?;
        let ns = if is_negative { 0_i64.checked_sub_unsigned(ns) } else { i64::try_from(ns).ok() };
        ns.map(Self::from_ns)
    }

    pub const fn from_ns(ns: i64) -> Self {
        Self { ns }
    }

    /// As many seconds as fit.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self::from_ns(seconds.saturating_mul(SECOND_NS))
    }

    /// As many days as fit.
    pub const fn from_days(days: i64) -> Self {
        Self::from_ns(days.saturating_mul(DAY_NS))
    }

    pub const fn ns(self) -> i64 {
        self.ns
    }

    /// `None` when it is negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.ns).ok().map(Duration::from_nanos)
    }
}

impl From<TimeDelta> for GoDuration {
    /// As long as fits.
    fn from(delta: TimeDelta) -> Self {
        let bound = if delta < TimeDelta::zero() { i64::MIN } else { i64::MAX };
        Self::from_ns(delta.num_nanoseconds().unwrap_or(bound))
    }
}

impl fmt::Display for GoDuration {
    /// `0s`, `20ms`, `1.5s`, `5m0s`, `1h0m0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.ns < 0 { "-" } else { "" };
        let ns = self.ns.unsigned_abs();
        match ns {
            0 => return f.write_str("0s"),
            1..1_000 => return write!(f, "{sign}{ns}ns"),
            1_000..1_000_000 => return write!(f, "{sign}{}µs", Decimal { value: ns, places: 3 }),
            1_000_000..1_000_000_000 => return write!(f, "{sign}{}ms", Decimal { value: ns, places: 6 }),
            _ => {}
        }
        let minutes = ns / (60 * SECOND_NS.unsigned_abs());
        let seconds = Decimal { value: ns % (60 * SECOND_NS.unsigned_abs()), places: 9 };
        match (minutes / 60, minutes % 60) {
            (0, 0) => write!(f, "{sign}{seconds}s"),
            (0, minutes) => write!(f, "{sign}{minutes}m{seconds}s"),
            (hours, minutes) => write!(f, "{sign}{hours}h{minutes}m{seconds}s"),
        }
    }
}

/// A number of `10^-places`, without zeros at its end.
struct Decimal {
    value: u64,
    places: u32,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10_u64.pow(self.places);
        let (whole, fraction) = (self.value / one, self.value % one);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{fraction:0places$}", places = self.places as usize);
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

/// Go's units.
pub(crate) fn unit_ns(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // Go reads the micro sign and the Greek letter alike.
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Numbers with units, one after the other, added up; a bare `0` needs no unit. `None` when it is none of that, or beyond
/// the bound of [`GoDuration`].
pub(crate) fn unsigned_ns(text: &str, unit_ns: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    if text.is_empty() {
        return None;
    }
    let mut total = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split_at_end(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, next) = split_at_end(after, |c| !(c.is_ascii_digit() || c == '.'));
        total = total.checked_add(part_ns(number, unit_ns(unit)?)?)?;
        rest = next;
    }
    // The smallest negative one has no positive counterpart.
    (total <= i64::MIN.unsigned_abs()).then_some(total)
}

/// The beginning whose letters are all `belongs`, and the rest.
fn split_at_end(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// `1.5` of a unit, cut to whole nanoseconds.
fn part_ns(number: &str, unit_ns: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    // The largest unit has 13 digits: what comes after so many decimals is less than a nanosecond.
    let decimals = &fraction[..fraction.len().min(13)];
    let scale = 10_u128.pow(u32::try_from(decimals.len()).ok()?);
    let decimals = if decimals.is_empty() { 0 } else { decimals.parse::<u128>().ok()? };
    let below = u64::try_from(decimals * u128::from(unit_ns) / scale).ok()?;
    whole.checked_mul(unit_ns)?.checked_add(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(text: &str) -> Option<i64> {
        GoDuration::parse(text).map(GoDuration::ns)
    }

    #[test]
    fn durations_as_go_reads_them() {
        for (text, expected) in [
            ("0", 0),
            ("-0", 0),
            ("10s", 10 * SECOND_NS),
            ("4m0s", 240 * SECOND_NS),
            ("1h30m", 5_400 * SECOND_NS),
            ("1.5h", 5_400 * SECOND_NS),
            ("+250ms", 250_000_000),
            ("-1.5s", -1_500_000_000),
            (".5s", 500_000_000),
            ("5.s", 5 * SECOND_NS),
            ("1us", 1_000),
            ("1µs", 1_000),
            ("1.9999999999999999999999ns", 1),
            ("0.3333333333333333333h", 1_200 * SECOND_NS - 1),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
        ] {
            assert_eq!(ns(text), Some(expected), "{text}");
        }
        for wrong in [
            "",
            "-",
            "10",
            "s",
            ".s",
            "1..5s",
            "10x",
            "1h-",
            "1e3s",
            "5 s",
            "2d",
            "9223372036854775808ns",
            "2562048h",
        ] {
            assert_eq!(ns(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_as_go_writes_them() {
        for (ns, expected) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (20_000_000, "20ms"),
            (2_200_000, "2.2ms"),
            (1_500_000_000, "1.5s"),
            (45 * SECOND_NS, "45s"),
            (300 * SECOND_NS, "5m0s"),
            (3_600 * SECOND_NS, "1h0m0s"),
            (-90 * SECOND_NS, "-1m30s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            let duration = GoDuration::from_ns(ns);
            assert_eq!(duration.to_string(), expected);
            assert_eq!(GoDuration::parse(expected), Some(duration), "{expected}");
        }
    }

    #[test]
    fn what_does_not_fit_is_as_long_as_fits() {
        assert_eq!(GoDuration::from(TimeDelta::days(-200_000)).ns(), i64::MIN);
        assert_eq!(GoDuration::from_seconds(i64::MAX).ns(), i64::MAX);
        assert_eq!(GoDuration::from_ns(-1).to_std(), None);
    }
}
