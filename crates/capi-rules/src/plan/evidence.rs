//! Where a reason for waiting can be seen: an object, and a condition or field of it. Data only; who shows a
//! plan looks it up.

/// One place to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The object that shows it.
    pub subject: Subject,
    /// Which part of it.
    pub sign: Sign,
}

/// The object that shows it, in the namespace of the planned one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The planned object itself.
    Own,
    /// The one that the planned object belongs to.
    Cluster,
    /// What its Cluster's `controlPlaneRef` names.
    ControlPlane,
    /// Of this name.
    Machine(String),
}

/// What is to be read of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A condition, by type.
    Condition(&'static str),
    /// A field, dotted.
    Field(&'static str),
}

impl Evidence {
    /// A condition by type, whatever its status.
    pub fn condition(subject: Subject, type_: &'static str) -> Self {
        Self { subject, sign: Sign::Condition(type_) }
    }

    /// A field of `subject`, dotted.
    pub fn field(subject: Subject, path: &'static str) -> Self {
        Self { subject, sign: Sign::Field(path) }
    }

    /// One condition of the planned object.
    pub fn own(type_: &'static str) -> Vec<Self> {
        vec![Self::condition(Subject::Own, type_)]
    }

    /// One field of the planned object.
    pub fn own_field(path: &'static str) -> Vec<Self> {
        vec![Self::field(Subject::Own, path)]
    }

    /// The same condition of several Machines.
    pub fn machines(names: &[String], type_: &'static str) -> Vec<Self> {
        names.iter().map(|name| Self::condition(Subject::Machine(name.clone()), type_)).collect()
    }
}
