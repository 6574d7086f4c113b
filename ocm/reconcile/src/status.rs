//! Who writes which status field: a table that every reconciler declares its part of, so that one field has one author.

/// A field of a kind's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StatusField {
    /// The kind.
    pub kind: &'static str,
    /// The field of `status`, such as `decisionGroups`.
    pub field: &'static str,
    /// The type of one of its conditions, where the field is `conditions`; empty otherwise.
    pub condition: &'static str,
    /// Who else writes it, and why that is well; empty for a field with one author.
    pub shared: &'static str,
}

impl StatusField {
    /// A condition.
    pub const fn condition(kind: &'static str, condition: &'static str) -> Self {
        Self {
            kind,
            field: "conditions",
            condition,
            shared: "",
        }
    }

    /// Any other field.
    pub const fn new(kind: &'static str, field: &'static str) -> Self {
        Self {
            kind,
            field,
            condition: "",
            shared: "",
        }
    }

    /// The same with a second author, and the reason.
    pub const fn shared(self, why: &'static str) -> Self {
        Self { shared: why, ..self }
    }
}

impl std::fmt::Display for StatusField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.condition {
            "" => write!(f, "{} `{}`", self.kind, self.field),
            condition => write!(f, "{} condition `{condition}`", self.kind),
        }
    }
}
