//! Versions and ranges as Masterminds/semver reads them: coerced, with `~`, `^`, wildcards and hyphens.

use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::OnceLock;

use regex::Regex;

use crate::functions::Functions;
use crate::gofmt::display;
use crate::value::{IntType, Object, Value};

/// A parsed version.
#[derive(Clone, Debug, PartialEq)]
pub struct SemanticVersion {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    pub pre: String,
    pub metadata: String,
    original: String,
}

/// A range of versions: any of these lists has to hold as a whole.
pub struct VersionConstraints(Vec<Vec<Constraint>>);

struct Constraint {
    operator: String,
    version: SemanticVersion,
    /// Parts of the version were not said or are wildcards.
    dirty: bool,
    minor_dirty: bool,
    patch_dirty: bool,
}

const LENGTH_MAX: usize = 256;
const CONSTRAINT_LENGTH_MAX: usize = 512;
const GROUPS_MAX: usize = 32;
const PART: &str = r"v?([0-9|x|X|\*]+)(\.[0-9|x|X|\*]+)?(\.[0-9|x|X|\*]+)?(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?";
const OPERATORS: &str = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";

fn compiled(cell: &'static OnceLock<Regex>, pattern: &str) -> &'static Regex {
    cell.get_or_init(|| Regex::new(pattern).expect("the pattern is a constant"))
}

impl SemanticVersion {
    /// Reads a version; parts that are missing are zero, and a leading `v` counts for nothing.
    pub fn parse(text: &str) -> Result<SemanticVersion, String> {
        static PATTERN: OnceLock<Regex> = OnceLock::new();
        if text.len() > LENGTH_MAX {
            return Err(format!("version string is too long (max {LENGTH_MAX} bytes)"));
        }
        let pattern = compiled(
            &PATTERN,
            r"^v?([0-9]+)(\.[0-9]+)?(\.[0-9]+)?(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?$",
        );
        let Some(found) = pattern.captures(text) else {
            return Err("invalid semantic version".to_owned());
        };
        let part = |at: usize| found.get(at).map_or("", |it| it.as_str());
        let number = |at: usize| -> Result<u64, String> {
            let digits = part(at).trim_start_matches('.');
            if digits.is_empty() {
                return Ok(0);
            }
            digits.parse().map_err(|_| {
                let digits = crate::strconv::quote(digits);
                format!("error parsing version segment: strconv.ParseUint: parsing {digits}: value out of range")
            })
        };
        let version = SemanticVersion {
            major: number(1)?,
            minor: number(2)?,
            patch: number(3)?,
            pre: part(5).to_owned(),
            metadata: part(8).to_owned(),
            original: text.to_owned(),
        };
        for segment in version.pre.split('.') {
            let numeric = !segment.is_empty() && segment.bytes().all(|it| it.is_ascii_digit());
            if numeric && segment.len() > 1 && segment.starts_with('0') {
                return Err("version segment starts with 0".to_owned());
            }
        }
        Ok(version)
    }

    /// The version with all its parts.
    pub fn show(&self) -> String {
        let mut text = format!("{}.{}.{}", self.major, self.minor, self.patch);
        if !self.pre.is_empty() {
            text.push('-');
            text.push_str(&self.pre);
        }
        if !self.metadata.is_empty() {
            text.push('+');
            text.push_str(&self.metadata);
        }
        text
    }

    /// Which of two is newer; what is after a `+` does not count.
    pub fn compare(&self, other: &SemanticVersion) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| compare_pre(&self.pre, &other.pre))
    }
}

fn compare_pre(a: &str, b: &str) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let (a, b) = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(a), Some(b)) => (a, b),
        };
        let order = match (a.parse::<u64>(), b.parse::<u64>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

impl VersionConstraints {
    /// Reads a range, as `^1.2 || >=3 <4`.
    pub fn parse(text: &str) -> Result<VersionConstraints, String> {
        static RANGE: OnceLock<Regex> = OnceLock::new();
        static VALID: OnceLock<Regex> = OnceLock::new();
        static FIND: OnceLock<Regex> = OnceLock::new();
        if text.len() > CONSTRAINT_LENGTH_MAX {
            return Err(format!(
                "constraint string is too long (max {CONSTRAINT_LENGTH_MAX} bytes)"
            ));
        }
        let range = compiled(&RANGE, &format!(r"\s*({PART})\s+-\s+({PART})\s*"));
        let text = range.replace_all(text, |found: &regex::Captures<'_>| {
            format!(">={} <={} ", &found[1], &found[11])
        });
        let groups: Vec<&str> = text.split("||").collect();
        if groups.len() > GROUPS_MAX {
            return Err(format!("too many constraint groups (max {GROUPS_MAX})"));
        }
        let valid = compiled(
            &VALID,
            &format!(r"^(\s*({OPERATORS})\s*({PART})\s*)((?:\s+|,\s*)({OPERATORS})\s*({PART})\s*)*$"),
        );
        let find = compiled(&FIND, &format!(r"({OPERATORS})\s*({PART})"));
        let mut all = Vec::new();
        for group in groups {
            if !valid.is_match(group) {
                return Err(format!("improper constraint: {}", crate::strconv::quote(group)));
            }
            let list = find.find_iter(group).map(|it| Constraint::parse(it.as_str()));
            all.push(list.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(VersionConstraints(all))
    }

    /// Whether a version is in the range. One before its release is only where the range names such a one.
    pub fn allow(&self, version: &SemanticVersion) -> bool {
        self.0.iter().any(|list| {
            let with_pre = list.iter().any(|it| !it.version.pre.is_empty());
            list.iter().all(|it| it.allows(version, with_pre))
        })
    }
}

fn is_wild(text: &str) -> bool {
    matches!(text, "x" | "*" | "X" | "")
}

impl Constraint {
    fn parse(text: &str) -> Result<Constraint, String> {
        static PATTERN: OnceLock<Regex> = OnceLock::new();
        let pattern = compiled(&PATTERN, &format!(r"^\s*({OPERATORS})\s*({PART})\s*$"));
        let Some(found) = pattern.captures(text) else {
            return Err(format!("improper constraint: {}", crate::strconv::quote(text)));
        };
        let part = |at: usize| found.get(at).map_or("", |it| it.as_str());
        let (major, minor, patch, pre) = (part(3), part(4), part(5), part(6));
        let mut constraint = Constraint {
            operator: part(1).to_owned(),
            version: SemanticVersion::parse("0.0.0")?,
            dirty: true,
            minor_dirty: false,
            patch_dirty: false,
        };
        let version = if is_wild(major) {
            format!("0.0.0{pre}")
        } else if is_wild(minor.trim_start_matches('.')) {
            constraint.minor_dirty = true;
            format!("{major}.0.0{pre}")
        } else if is_wild(patch.trim_start_matches('.')) {
            constraint.patch_dirty = true;
            format!("{major}{minor}.0{pre}")
        } else {
            constraint.dirty = false;
            part(2).to_owned()
        };
        constraint.version = SemanticVersion::parse(&version).map_err(|_| "constraint parser error".to_owned())?;
        Ok(constraint)
    }

    fn allows(&self, version: &SemanticVersion, with_pre: bool) -> bool {
        if !version.pre.is_empty() && !with_pre {
            return false;
        }
        let mine = &self.version;
        let order = version.compare(mine);
        match self.operator.as_str() {
            "!=" => self.differs(version),
            ">" if !self.dirty => order == Ordering::Greater,
            ">" => {
                if version.major != mine.major {
                    version.major > mine.major
                } else if self.minor_dirty {
                    false
                } else if self.patch_dirty {
                    version.minor > mine.minor
                } else {
                    order == Ordering::Greater
                }
            }
            "<" => order == Ordering::Less,
            ">=" | "=>" => order != Ordering::Less,
            "<=" | "=<" if !self.dirty => order != Ordering::Greater,
            "<=" | "=<" => {
                let above = version.major > mine.major
                    || version.major == mine.major && version.minor > mine.minor && !self.minor_dirty;
                !above
            }
            "~" | "~>" => self.tilde(version),
            "^" => self.caret(version),
            _ if self.dirty => self.tilde(version),
            _ => order == Ordering::Equal,
        }
    }

    fn differs(&self, version: &SemanticVersion) -> bool {
        let mine = &self.version;
        if self.dirty {
            if mine.major != version.major {
                return true;
            }
            if self.minor_dirty {
                return false;
            }
            if mine.minor != version.minor {
                return true;
            }
            if self.patch_dirty {
                return (!version.pre.is_empty() || !mine.pre.is_empty())
                    && compare_pre(&version.pre, &mine.pre) != Ordering::Equal;
            }
            if mine.patch != version.patch {
                return true;
            }
        }
        version.compare(mine) != Ordering::Equal
    }

    fn tilde(&self, version: &SemanticVersion) -> bool {
        let mine = &self.version;
        if version.compare(mine) == Ordering::Less {
            return false;
        }
        if (mine.major, mine.minor, mine.patch) == (0, 0, 0) && !self.minor_dirty && !self.patch_dirty {
            return true;
        }
        version.major == mine.major && (version.minor == mine.minor || self.minor_dirty)
    }

    fn caret(&self, version: &SemanticVersion) -> bool {
        let mine = &self.version;
        if version.compare(mine) == Ordering::Less {
            return false;
        }
        if mine.major > 0 || self.minor_dirty {
            return version.major == mine.major;
        }
        if version.major > 0 {
            return false;
        }
        if mine.minor > 0 || self.patch_dirty {
            return version.minor == mine.minor;
        }
        version.minor == 0 && version.patch == mine.patch
    }
}

impl Object for SemanticVersion {
    fn type_name(&self) -> &str {
        "*semver.Version"
    }
    fn kind(&self) -> &'static str {
        "ptr"
    }
    fn method(&self, name: &str) -> Option<&'static str> {
        match name {
            "Major" | "Minor" | "Patch" | "Prerelease" | "Metadata" | "String" | "Original" | "IncMajor"
            | "IncMinor" | "IncPatch" => Some(""),
            "Compare" | "LessThan" | "GreaterThan" | "Equal" => Some("any"),
            "SetPrerelease" | "SetMetadata" => Some("string"),
            _ => None,
        }
    }
    fn call(&self, name: &str, args: &[Value]) -> Result<Value, String> {
        let number = |it: u64| Value::Int(it as i64, IntType::Uint64);
        let bumped = |major: u64, minor: u64, patch: u64| {
            Value::Object(Rc::new(SemanticVersion {
                major,
                minor,
                patch,
                pre: String::new(),
                metadata: String::new(),
                original: format!("{major}.{minor}.{patch}"),
            }))
        };
        let other = || match args.first() {
            Some(Value::Object(it)) => it.as_any().downcast_ref::<SemanticVersion>().ok_or_else(wrong),
            _ => Err(wrong()),
        };
        fn wrong() -> String {
            "wrong type for value; expected *semver.Version".to_owned()
        }
        Ok(match name {
            "Major" => number(self.major),
            "Minor" => number(self.minor),
            "Patch" => number(self.patch),
            "Prerelease" => Value::from(self.pre.as_str()),
            "Metadata" => Value::from(self.metadata.as_str()),
            "Original" => Value::from(self.original.as_str()),
            "IncMajor" => bumped(self.major.saturating_add(1), 0, 0),
            "IncMinor" => bumped(self.major, self.minor.saturating_add(1), 0),
            // A pre-release is below its version already.
            "IncPatch" if !self.pre.is_empty() => bumped(self.major, self.minor, self.patch),
            "IncPatch" => bumped(self.major, self.minor, self.patch.saturating_add(1)),
            "Compare" => Value::int(self.compare(other()?) as i64),
            "LessThan" => Value::Bool(self.compare(other()?) == Ordering::Less),
            "GreaterThan" => Value::Bool(self.compare(other()?) == Ordering::Greater),
            "Equal" => Value::Bool(self.compare(other()?) == Ordering::Equal),
            "SetPrerelease" | "SetMetadata" => {
                let mut version = self.clone();
                let text = display(&args[0]);
                if name == "SetPrerelease" {
                    version.pre = text;
                } else {
                    version.metadata = text;
                }
                version.original = version.show();
                Value::Object(Rc::new(version))
            }
            _ => Value::from(self.show()),
        })
    }
    fn display(&self) -> String {
        self.show()
    }
    fn to_json(&self) -> serde_json::Value {
        self.show().into()
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

pub(crate) fn add(functions: &mut Functions) {
    functions.add("semver", "string", |_, args| {
        Ok(Value::Object(Rc::new(SemanticVersion::parse(&display(&args[0]))?)))
    });
    functions.add("semverCompare", "string string", |_, args| {
        let range = VersionConstraints::parse(&display(&args[0]))?;
        let version = SemanticVersion::parse(&display(&args[1]))?;
        Ok(Value::Bool(range.allow(&version)))
    });
}
