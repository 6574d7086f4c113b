//! One flag, as a row of a table.

/// One flag.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    pub name: &'static str,
    /// The letter that stands for it.
    pub short: Option<char>,
    pub kind: ValueKind,
    /// As it would be typed; for lists with commas.
    pub default: &'static str,
    pub help: &'static str,
    /// Taken, and not shown in the help.
    pub hidden: bool,
    /// What to do instead of using it.
    pub deprecated: Option<&'static str>,
}

/// What a flag's value is, by the name that pflag gives to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    Bool,
    Int,
    Int32,
    Int64,
    Uint64,
    Float32,
    Duration,
    Text,
    /// `a,b`, and again.
    List,
    /// Once for each, commas and all.
    Array,
    /// `a=b,c=d`.
    Pairs,
    /// `A=true,B=false`.
    Gates,
}

impl ValueKind {
    /// Its name in pflag.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Float32 => "float32",
            Self::Duration => "duration",
            Self::Text => "string",
            Self::List => "strings",
            Self::Array => "stringArray",
            Self::Pairs => "stringToString",
            Self::Gates => "mapStringBool",
        }
    }
}

/// One switch, and how upstream has it unless told otherwise.
#[derive(Debug, Clone, Copy)]
pub struct KnownGate {
    pub name: &'static str,
    pub default: bool,
    pub is_beta: bool,
}

/// A flag of the help.
pub const fn flag(name: &'static str, kind: ValueKind, default: &'static str, help: &'static str) -> Flag {
    Flag {
        name,
        short: None,
        kind,
        default,
        help,
        hidden: false,
        deprecated: None,
    }
}

/// A flag that is taken, and not shown in the help.
pub const fn hidden(name: &'static str, kind: ValueKind, default: &'static str, help: &'static str) -> Flag {
    Flag {
        hidden: true,
        ..flag(name, kind, default, help)
    }
}

impl Flag {
    /// The flag, with a letter that stands for it.
    #[must_use]
    pub const fn short(self, letter: char) -> Self {
        Self {
            short: Some(letter),
            ..self
        }
    }

    /// The flag, hidden, with what its users are told to do instead.
    #[must_use]
    pub const fn deprecated(self, instead: &'static str) -> Self {
        Self {
            hidden: true,
            deprecated: Some(instead),
            ..self
        }
    }

    /// The flag as errors name it.
    pub fn shown(&self) -> String {
        match self.short {
            Some(letter) => format!("-{letter}, --{}", self.name),
            None => format!("--{}", self.name),
        }
    }
}

/// A switch of the stage alpha.
pub const fn alpha(name: &'static str, default: bool) -> KnownGate {
    KnownGate {
        name,
        default,
        is_beta: false,
    }
}

/// A switch of the stage beta.
pub const fn beta(name: &'static str, default: bool) -> KnownGate {
    KnownGate {
        name,
        default,
        is_beta: true,
    }
}
