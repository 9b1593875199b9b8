//! Test support: the only way in which a rule table records which condition it has just seen, so that
//! `reasons` can count what tables really hold. Owns the words between the two; must not know any rule.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use capi_types::condition::find;

/// Set by `reasons` for the process in which it runs the tables.
pub const ASKED: &str = "CAPSTAN_WITNESS";
/// Begins each report on standard output; test names may stand before it on the line.
pub const MARK: &str = "\u{1}saw ";

/// Status, reason and message.
pub type Triple<'a> = (&'a str, &'a str, &'a str);

/// One condition of a list is exactly this. `of` is the kind, and who writes it where several do.
#[track_caller]
pub fn expect(of: &str, conditions: &[Condition], type_: &str, expected: Triple<'_>) {
    let got = find(conditions, type_);
    let got = got.map_or(("", "", ""), |c| (c.status.as_str(), c.reason.as_str(), c.message.as_str()));
    assert_eq!(got, expected, "{of} {type_}");
    if std::env::var_os(ASKED).is_some() {
        println!("{MARK}{of}/{type_}/{}/{}", expected.0, expected.1);
    }
}

/// The same of one condition, its type included.
#[track_caller]
pub fn expect_one(of: &str, condition: &Condition, type_: &str, expected: Triple<'_>) {
    assert_eq!(condition.type_, type_, "{of}");
    expect(of, std::slice::from_ref(condition), type_, expected);
}
