//! Wall-clock time: no other module reads it. Owns the [`Clock`] and the borders between chrono
//! (ours), jiff (k8s-openapi's) and RFC 3339 text. Must not know any Kubernetes kind.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, SecondsFormat, TimeZone, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

use super::go_duration::{DAY_NS, unit_ns, unsigned_ns};

/// A moment in UTC.
pub type Timestamp = DateTime<Utc>;

/// Where `now` comes from. The system's clock in production; paused time in tests.
pub trait TimeSource: Send + Sync {
    fn now(&self) -> Timestamp;

    /// How long the machine slept so far: what a monotonic clock leaves out. It only grows.
    fn suspended(&self) -> Duration {
        Duration::ZERO
    }
}

/// A shared handle to one time source, made once in `cli` and passed down.
#[derive(Clone)]
pub struct Clock(Arc<dyn TimeSource>);

impl Clock {
    /// A clock over any source.
    pub fn new(source: impl TimeSource + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// The machine's wall clock.
    pub fn system() -> Self {
        Self::new(SystemTime)
    }

    /// A clock that stands at `at`: for pure tests and for dumps with a stated snapshot time.
    pub fn fixed(at: Timestamp) -> Self {
        Self::new(Fixed(at))
    }

    pub fn now(&self) -> Timestamp {
        self.0.now()
    }

    /// How long the machine slept so far. A monotonic clock and this together count suspension.
    pub fn suspended(&self) -> Duration {
        self.0.suspended()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

struct SystemTime;

impl TimeSource for SystemTime {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now(&self) -> Timestamp {
        Utc::now()
    }

    /// Linux's `CLOCK_BOOTTIME` without its `CLOCK_MONOTONIC`. Read one after the other: the difference is
    /// too large by the moment in between, never too small.
    #[cfg(target_os = "linux")]
    fn suspended(&self) -> Duration {
        use rustix::time::{ClockId, clock_gettime};
        let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
        let awake = read(ClockId::Monotonic);
        read(ClockId::Boottime).saturating_sub(awake)
    }
}

struct Fixed(Timestamp);

impl TimeSource for Fixed {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// A Kubernetes `Time`, cut to whole seconds as the API serialises it.
pub fn to_k8s(at: Timestamp) -> Time {
    Time(jiff::Timestamp::from_second(at.timestamp()).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

/// A Kubernetes `MicroTime` (leases), with microseconds.
pub fn to_k8s_micro(at: Timestamp) -> MicroTime {
    MicroTime(jiff::Timestamp::from_microsecond(at.timestamp_micros()).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

/// From a Kubernetes `Time`. Moments outside chrono's range become the epoch.
pub fn from_k8s(time: &Time) -> Timestamp {
    from_jiff(time.0)
}

/// From a Kubernetes `MicroTime`.
pub fn from_k8s_micro(time: &MicroTime) -> Timestamp {
    from_jiff(time.0)
}

fn from_jiff(at: jiff::Timestamp) -> Timestamp {
    // jiff counts fractions before 1970 as negative; they are left out.
    let nanos = u32::try_from(at.subsec_nanosecond()).unwrap_or(0);
    Utc.timestamp_opt(at.as_second(), nanos).single().unwrap_or_default()
}

/// RFC 3339 text, as in object metadata. `None` when it is not a moment.
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    parse_whole_seconds(text)
        .or_else(|| DateTime::parse_from_rfc3339(text).ok().map(|t| t.with_timezone(&Utc)))
}

/// The form of `metav1.Time`, `2026-11-20T10:00:00Z`, which nearly every text has. Reading it costs a
/// fraction of what the general parser takes; statuses read thousands.
fn parse_whole_seconds(text: &str) -> Option<Timestamp> {
    let bytes: &[u8; 20] = text.as_bytes().try_into().ok()?;
    let marks = [bytes[4], bytes[7], bytes[10], bytes[13], bytes[16], bytes[19]];
    if marks != *b"--T::Z" {
        return None;
    }
    let number = |digits: Range<usize>| {
        let digit = |sum: u32, byte: &u8| byte.is_ascii_digit().then(|| sum * 10 + u32::from(byte - b'0'));
        bytes[digits].iter().try_fold(0, digit)
    };
    let year = i32::try_from(number(0..4)?).ok()?;
    let date = NaiveDate::from_ymd_opt(year, number(5..7)?, number(8..10)?)?;
    Some(date.and_hms_opt(number(11..13)?, number(14..16)?, number(17..19)?)?.and_utc())
}

/// `2026-11-20T10:00:00Z`: whole seconds, the form of `metav1.Time`.
pub fn rfc3339(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Age as kubectl prints it (`duration.HumanDuration`): `5s`, `3m20s`, `2h`, `4d3h`, `2y30d`.
/// Source: apimachinery `util/duration/duration.go`, v0.35.
pub fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |big: i64, big_unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{big}{big_unit}") } else { format!("{big}{big_unit}{small}{small_unit}") }
    };
    match seconds {
        // Upstream lets two clocks differ by less than two seconds.
        s if s < -1 => "<invalid>".to_owned(),
        s if s < 0 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s % DAY / HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s % YEAR / DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

/// A duration as a person types it: `300ms`, `90s`, `5m`, `1h30m`, `2d`. `None` when it is none, negative, or has no unit (a
/// bare `0` is fine). Differs from Go's by days, and by having no sign.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let unit_ns = |unit: &str| if unit == "d" { Some(DAY_NS.unsigned_abs()) } else { unit_ns(unit) };
    unsigned_ns(text, unit_ns).map(Duration::from_nanos)
}

/// A moment as a person types it: RFC 3339, or `+2h` from `now`.
pub fn parse_moment(text: &str, now: Timestamp) -> Option<Timestamp> {
    match text.strip_prefix('+') {
        Some(offset) => now.checked_add_signed(chrono::Duration::from_std(parse_duration(offset)?).ok()?),
        None => parse_rfc3339(text),
    }
}

/// A moment before `now` as a person types it: RFC 3339, `2h` ago, or `09:00` (UTC) of this day or the day before.
pub fn parse_past(text: &str, now: Timestamp) -> Option<Timestamp> {
    let at = if let Some(ago) = parse_duration(text) {
        now.checked_sub_signed(chrono::Duration::from_std(ago).ok()?)?
    } else if let Ok(time) = chrono::NaiveTime::parse_from_str(text, "%H:%M") {
        let today = now.date_naive().and_time(time).and_utc();
        if today <= now { today } else { today - chrono::Duration::days(1) }
    } else {
        parse_rfc3339(text)?
    };
    (at <= now).then_some(at)
}

/// Age of something created at `then`, seen at `now`, as kubectl prints it.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    human_duration((now - then).num_seconds())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_of_the_past_is_ago_of_the_day_or_whole() {
        let now = parse_rfc3339("2026-11-20T10:00:00Z").unwrap();
        for (text, expected) in [
            ("2h", Some("2026-11-20T08:00:00Z")),
            ("3d", Some("2026-11-17T10:00:00Z")),
            ("09:00", Some("2026-11-20T09:00:00Z")),
            ("22:30", Some("2026-11-19T22:30:00Z")),
            ("2026-11-19T07:00:00Z", Some("2026-11-19T07:00:00Z")),
            ("2026-11-21T07:00:00Z", None),
            ("25:00", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(parse_past(text, now).map(rfc3339).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn human_duration_matches_kubectl() {
        for (seconds, expected) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (12_000, "3h20m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(human_duration(seconds), expected, "{seconds} s");
        }
    }

    #[test]
    fn durations_and_moments_as_people_type_them() {
        for (text, expected) in [
            ("90s", Some(90_000)),
            ("1h30m", Some(5_400_000)),
            ("300ms", Some(300)),
            ("1.5m", Some(90_000)),
            ("2d", Some(172_800_000)),
            ("0", Some(0)),
            ("", None),
            ("5", None),
            ("-5s", None),
            ("5 s", None),
            ("1e400s", None),
        ] {
            assert_eq!(parse_duration(text).map(|d| d.as_millis()), expected, "{text}");
        }
        let now = parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment");
        assert_eq!(parse_moment("+2h", now).map(rfc3339).as_deref(), Some("2026-11-20T12:00:00Z"));
        assert_eq!(
            parse_moment("2026-11-21T00:00:00+02:00", now).map(rfc3339).as_deref(),
            Some("2026-11-20T22:00:00Z")
        );
        assert_eq!(parse_moment("tomorrow", now), None);
    }

    #[test]
    fn the_usual_form_is_read_as_the_general_parser_reads_it() {
        for text in [
            "2026-11-20T10:00:00Z",
            "2024-02-29T23:59:59Z",
            "2026-02-29T10:00:00Z",
            "2026-13-20T10:00:00Z",
            "2026-11-20T24:00:00Z",
            "2026-12-31T23:59:60Z",
            "0000-01-01T00:00:00Z",
            "2026-11-20 10:00:00Z",
            "2026-11-20t10:00:00z",
            "2026-11-20T10:00:0aZ",
            "+026-11-20T10:00:00Z",
            "2026-11-20T10:00:00.5Z",
            "2026-11-20T10:00+01:00",
            "",
        ] {
            let general = DateTime::parse_from_rfc3339(text).ok().map(|at| at.with_timezone(&Utc));
            assert_eq!(parse_rfc3339(text), general, "{text}");
        }
    }

    #[test]
    fn kubernetes_times_survive_the_border() {
        let at = parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment");
        assert_eq!(from_k8s(&to_k8s(at)), at);
        assert_eq!(from_k8s_micro(&to_k8s_micro(at)), at);
        assert_eq!(rfc3339(at), "2026-11-20T10:00:00Z");
    }
}
