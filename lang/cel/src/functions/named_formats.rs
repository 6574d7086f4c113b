//! The named formats (`format.dns1123Label()`).
//! Upstream: k8s.io/apiserver pkg/cel/library/format.go over k8s.io/apimachinery pkg/api/validate/content and
//! kube-openapi's strfmt, of which the messages are. Those show regular expressions, which here are loops over bytes.

use std::sync::Arc;

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, Value,
    extractors::This,
    objects::{Opaque, OptionalValue},
};

use super::urls;
use crate::charge::pay;

const FORMATS: [(&str, Format); 13] = [
    ("dns1123Label", Format::Dns1123Label),
    ("dns1123LabelPrefix", Format::Dns1123LabelPrefix),
    ("dns1123Subdomain", Format::Dns1123Subdomain),
    ("dns1123SubdomainPrefix", Format::Dns1123SubdomainPrefix),
    ("dns1035Label", Format::Dns1035Label),
    ("dns1035LabelPrefix", Format::Dns1035LabelPrefix),
    ("qualifiedName", Format::QualifiedName),
    ("labelValue", Format::LabelValue),
    ("uri", Format::Uri),
    ("uuid", Format::Uuid),
    ("byte", Format::Byte),
    ("date", Format::Date),
    ("datetime", Format::DateTime),
];

const LABEL_BYTES_MAX: usize = 63;
const SUBDOMAIN_BYTES_MAX: usize = 253;

/// Takes the place of the engine's own.
pub fn replace(root: &mut Context<'static>) {
    for (name, format) in FORMATS {
        root.add_function(&format!("format.{name}"), move || Ok(Value::Opaque(Arc::new(format))));
    }
    root.add_function("format.named", |name: Arc<String>| {
        let found = FORMATS.iter().find(|it| it.0 == *name);
        Ok(optional(found.map(|it| Value::Opaque(Arc::new(it.1)))))
    });
    root.add_function(
        "validate",
        |ftx: &FunctionContext, This(this): This<Value>, text: Arc<String>| {
            let format = match &this {
                Value::Opaque(it) => it.downcast_ref::<Format>(),
                _ => None,
            };
            let format = format.ok_or(ExecutionError::NoSuchOverload)?;
            pay(ftx, text.len() as u64 / 10)?;
            let wrong: Vec<_> = format.faults(&text).into_iter().map(Value::from).collect();
            let wrong = (!wrong.is_empty()).then(|| Value::List(Arc::new(wrong)));
            Ok(optional(wrong))
        },
    );
}

fn optional(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Dns1123Label,
    Dns1123LabelPrefix,
    Dns1123Subdomain,
    Dns1123SubdomainPrefix,
    Dns1035Label,
    Dns1035LabelPrefix,
    QualifiedName,
    LabelValue,
    Uri,
    Uuid,
    Byte,
    Date,
    DateTime,
}

impl Opaque for Format {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.NamedFormat"
    }
}

impl Format {
    /// What is wrong with a text, in Kubernetes' words.
    fn faults(self, text: &str) -> Vec<String> {
        let bytes = text.as_bytes();
        let unless = |holds: bool, fault: &str| if holds { Vec::new() } else { vec![fault.to_owned()] };
        match self {
            Self::Dns1123Label => dns1123_label(bytes),
            Self::Dns1123LabelPrefix => dns1123_label(&begun(bytes)),
            Self::Dns1123Subdomain => dns1123_subdomain(bytes, "characters"),
            Self::Dns1123SubdomainPrefix => dns1123_subdomain(&begun(bytes), "characters"),
            Self::Dns1035Label => dns1035_label(bytes),
            Self::Dns1035LabelPrefix => dns1035_label(&begun(bytes)),
            Self::QualifiedName => qualified_name(text),
            Self::LabelValue => label_value(bytes),
            Self::Uri => urls::request(text).err().into_iter().collect(),
            Self::Uuid => unless(is_uuid(bytes), "does not match the UUID format"),
            Self::Byte => unless(is_base64(bytes), "invalid base64"),
            Self::Date => unless(is_date(bytes), "invalid date"),
            Self::DateTime => unless(is_date_time(text), "invalid datetime"),
        }
    }
}

/// The beginning of a name, as Kubernetes completes it: it puts a letter in the place of two bytes.
fn begun(text: &[u8]) -> Vec<u8> {
    match text {
        [before @ .., _, b'-'] => [before, b"a"].concat(),
        _ => text.to_owned(),
    }
}

/// Upstream counts bytes wherever it says so, and where it says characters too.
fn too_long(text: &[u8], most: usize, unit: &str) -> Option<String> {
    (text.len() > most).then(|| format!("must be no more than {most} {unit}"))
}

fn mismatch(meant: &str, examples: &[&str], pattern: &str) -> String {
    let examples: Vec<_> = examples.iter().map(|it| format!("'{it}', ")).collect();
    let examples = examples.join(" or ");
    format!("{meant} (e.g. {examples}regex used for validation is '{pattern}')")
}

fn dns1123_label(text: &[u8]) -> Vec<String> {
    let mut faults = Vec::from_iter(too_long(text, LABEL_BYTES_MAX, "characters"));
    if is_dns1123_label(text) {
        return faults;
    }
    faults.push(if is_dns1123_subdomain(text) {
        "must not contain dots".to_owned()
    } else {
        mismatch(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character",
            &["my-name", "123-abc"],
            "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
        )
    });
    faults
}

fn dns1123_subdomain(text: &[u8], unit: &str) -> Vec<String> {
    let mut faults = Vec::from_iter(too_long(text, SUBDOMAIN_BYTES_MAX, unit));
    if !is_dns1123_subdomain(text) {
        faults.push(mismatch(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            &["example.com"],
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
        ));
    }
    faults
}

fn dns1035_label(text: &[u8]) -> Vec<String> {
    let mut faults = Vec::from_iter(too_long(text, LABEL_BYTES_MAX, "characters"));
    if !(is_dns1123_label(text) && text[0].is_ascii_lowercase()) {
        faults.push(mismatch(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            &["my-name", "abc-123"],
            "[a-z]([-a-z0-9]*[a-z0-9])?",
        ));
    }
    faults
}

fn qualified_name(text: &str) -> Vec<String> {
    let name_mismatch = || {
        mismatch(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
             character",
            &["MyName", "my.name", "123-abc"],
            "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
        )
    };
    let (prefix, name) = match text.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            let name = name_mismatch();
            return vec![format!(
                "a valid label key {name} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let mut faults = match prefix {
        Some("") => vec!["prefix part must be non-empty".to_owned()],
        Some(prefix) => dns1123_subdomain(prefix.as_bytes(), "bytes")
            .into_iter()
            .map(|it| format!("prefix part {it}"))
            .collect(),
        None => Vec::new(),
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if let Some(it) = too_long(name.as_bytes(), LABEL_BYTES_MAX, "bytes") {
        faults.push(format!("name part {it}"));
    }
    if !is_name(name.as_bytes()) {
        faults.push(format!("name part {}", name_mismatch()));
    }
    faults
}

fn label_value(text: &[u8]) -> Vec<String> {
    let mut faults = Vec::from_iter(too_long(text, LABEL_BYTES_MAX, "bytes"));
    if !text.is_empty() && !is_name(text) {
        faults.push(mismatch(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            &["MyValue", "my_value", "12345"],
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
        ));
    }
    faults
}

/// Whether it begins and ends with some bytes, and has some more inside.
fn is_within(text: &[u8], ends: impl Fn(u8) -> bool, inside: &[u8]) -> bool {
    match (text.first(), text.last()) {
        (Some(first), Some(last)) => {
            ends(*first) && ends(*last) && text.iter().all(|it| ends(*it) || inside.contains(it))
        }
        _ => false,
    }
}

fn is_dns1123_label(text: &[u8]) -> bool {
    is_within(text, |it| it.is_ascii_lowercase() || it.is_ascii_digit(), b"-")
}

fn is_dns1123_subdomain(text: &[u8]) -> bool {
    text.split(|it| *it == b'.').all(is_dns1123_label)
}

fn is_name(text: &[u8]) -> bool {
    is_within(text, |it| it.is_ascii_alphanumeric(), b"-_.")
}

/// Groups of hexadecimal digits; each hyphen may be left out.
fn is_uuid(text: &[u8]) -> bool {
    let mut rest = text;
    for (at, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(digits) else {
            return false;
        };
        if !group.iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// Padded, and not empty.
fn is_base64(text: &[u8]) -> bool {
    let digits = text.strip_suffix(b"=").unwrap_or(text);
    let digits = digits.strip_suffix(b"=").unwrap_or(digits);
    let is_digit = |it: &u8| it.is_ascii_alphanumeric() || b"+/".contains(it);
    !text.is_empty() && text.len().is_multiple_of(4) && digits.iter().all(is_digit)
}

fn two_digits(text: &[u8]) -> Option<u8> {
    match text {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => Some((tens - b'0') * 10 + (ones - b'0')),
        _ => None,
    }
}

/// A day of the calendar, as `2006-01-02`.
fn is_date(text: &[u8]) -> bool {
    let [c1, c2, y1, y2, b'-', m1, m2, b'-', d1, d2] = text else {
        return false;
    };
    let numbers = [[*c1, *c2], [*y1, *y2], [*m1, *m2], [*d1, *d2]].map(|it| two_digits(&it));
    let [Some(century), Some(year), Some(month), Some(day)] = numbers else {
        return false;
    };
    let leap = (if year == 0 { century } else { year }).is_multiple_of(4);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// A date and a time with a zone. What follows another `t` does not count, and whatever begins a fraction does.
fn is_date_time(text: &str) -> bool {
    let mut parts = text.split(['t', 'T']);
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    let Some((clock, rest)) = time.split_at_checked(8) else {
        return false;
    };
    let &[h1, h2, b':', m1, m2, b':', s1, s2] = clock.as_bytes() else {
        return false;
    };
    let below = |number: [u8; 2], end: u8| two_digits(&number).is_some_and(|it| it < end);
    if !(is_date(date.as_bytes()) && below([h1, h2], 24) && below([m1, m2], 60) && below([s1, s2], 60)) {
        return false;
    }
    let fraction = rest.strip_suffix(['z', 'Z']).or_else(|| {
        let (fraction, offset) = rest.split_at_checked(rest.len().checked_sub(6)?)?;
        let &[b'+' | b'-', h1, h2, b':', m1, m2] = offset.as_bytes() else {
            return None;
        };
        two_digits(&[h1, h2]).and(two_digits(&[m1, m2])).map(|_| fraction)
    });
    let Some(fraction) = fraction else {
        return false;
    };
    let mut fraction = fraction.chars();
    match fraction.next() {
        None => true,
        Some(point) => {
            let digits = fraction.as_str();
            point != '\n' && !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_completed_before_validation() {
        let prefix = Format::Dns1123LabelPrefix;
        for text in ["a-", "--", "a--", &("a".repeat(63) + "-")] {
            assert_eq!(prefix.faults(text), Vec::<String>::new(), "{text}");
            assert!(!Format::Dns1123Label.faults(text).is_empty(), "{text}");
        }
        for text in ["", "-", "é-", "-a-", &("a".repeat(64) + "-")] {
            assert!(!prefix.faults(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn each_part_of_a_qualified_name_is_validated() {
        let faults = |text| Format::QualifiedName.faults(text).len();
        for (text, count) in [
            ("a/b", 0),
            ("", 2),
            ("/", 3),
            ("A/b", 1),
            ("a/b/c", 1),
            (&"a".repeat(64), 1),
        ] {
            assert_eq!(faults(text), count, "{text}");
        }
    }

    #[test]
    fn a_day_is_one_of_the_calendar() {
        for text in ["2000-02-29", "2004-02-29", "0000-02-29", "9999-12-31"] {
            assert!(is_date(text.as_bytes()), "{text}");
        }
        for text in [
            "1900-02-29",
            "2001-02-29",
            "2001-00-01",
            "2001-13-01",
            "2001-01-00",
            "2001-1-01",
            "+001-01-01",
        ] {
            assert!(!is_date(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_time_has_a_zone_and_may_have_a_fraction() {
        for end in [
            "00:00:00Z",
            "23:59:59z",
            "00:00:00.1Z",
            "00:00:00é12+99:99",
            "00:00:00+01-01:00",
            "00:00:00ztt",
        ] {
            assert!(is_date_time(&format!("2021-01-01t{end}")), "{end}");
        }
        for end in [
            "",
            "24:00:00Z",
            "00:60:00Z",
            "00:00:60Z",
            "00:00:00",
            "00:00:00.Z",
            "00:00:00\n1Z",
            "00:00:0éZ",
        ] {
            assert!(!is_date_time(&format!("2021-01-01T{end}")), "{end}");
        }
    }
}
