//! Conditions as data: lookup and three-valued status. Setting, merging and judging them is `status`.

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The three values of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// The condition holds; whether that is good says its [`Polarity`](crate::condition_types::Polarity).
    True,
    /// The condition does not hold.
    False,
    /// It is not known whether the condition holds.
    Unknown,
}

impl Status {
    /// `None` for every other word.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "True" => Some(Self::True),
            "False" => Some(Self::False),
            "Unknown" => Some(Self::Unknown),
            _ => None,
        }
    }

    /// As it stands in a status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// `True` or `False`.
    pub fn of(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// A kind whose status has conditions.
pub trait Conditioned {
    /// Empty when there is no status yet.
    fn conditions(&self) -> &[Condition];
    /// Makes an empty status when there is none.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;
}

/// The condition of type `type_`, if the list has one.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// `True`. A missing condition is not true.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|c| c.status == "True")
}

/// `False`. A missing condition is not false either.
pub fn is_false(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|c| c.status == "False")
}
