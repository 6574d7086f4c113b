//! What does not fit, as a tree, and how Helm's library writes it down.

use crate::strconv::format_float;

/// How long a refusal gets: it is for somebody to read, in a condition that holds no more than 32 KiB.
const BYTES_MAX: usize = 8 << 10;

/// A value that a schema does not allow.
pub(super) struct SchemaFailure {
    /// The JSON pointer of the value.
    pub at: String,
    pub what: What,
    pub causes: Vec<SchemaFailure>,
}

const MORE: &str = "- and more\n";

pub(super) enum What {
    /// Several things are wrong with one value.
    Group,
    /// A reference led to a schema that does not allow it. With one cause it is not worth a line.
    Reference,
    Said(String),
}

impl SchemaFailure {
    pub fn said(at: &str, text: String) -> SchemaFailure {
        SchemaFailure {
            at: at.to_owned(),
            what: What::Said(text),
            causes: Vec::new(),
        }
    }

    /// The lines of a whole refusal.
    pub fn text(self) -> String {
        let mut out = String::new();
        match self.what {
            What::Group => self.causes.iter().for_each(|it| it.write(&mut out, 0)),
            _ => self.write(&mut out, 0),
        }
        out
    }

    fn write(&self, out: &mut String, depth: usize) {
        if out.len() > BYTES_MAX {
            if !out.ends_with(MORE) {
                out.push_str(MORE);
            }
            return;
        }
        let mut depth = depth;
        if !matches!((&self.what, self.causes.len()), (What::Reference, 1)) {
            let said = match &self.what {
                What::Group | What::Reference => "validation failed",
                What::Said(text) => text,
            };
            out.push_str(&format!("{}- at {}: {said}\n", "  ".repeat(depth), quoted(&self.at)));
            depth += 1;
        }
        for cause in &self.causes {
            cause.write(out, depth);
        }
    }
}

/// In single quotes, with the escapes of Go's `%q`.
pub(super) fn quoted(text: &str) -> String {
    let quoted = crate::strconv::quote(text).replace("\\\"", "\"").replace('\'', "\\'");
    format!("'{}'", &quoted[1..quoted.len() - 1])
}

pub(super) fn quoted_all<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(quoted).collect();
    quoted.join(", ")
}

/// A count as English writes it: `1,200`.
pub(super) fn count(it: usize) -> String {
    grouped(&it.to_string())
}

/// A number as Go's English printer writes it: `1,200.5`, `1×10³⁰`.
pub(super) fn number(it: f64) -> String {
    let text = format_float(it, 'g', -1);
    let Some((digits, exponent)) = text.split_once('e') else {
        return grouped(&text);
    };
    let raised = exponent.chars().filter_map(|it| match it {
        '-' => Some('⁻'),
        '0'..='9' => "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(it as usize - '0' as usize),
        _ => None,
    });
    format!("{digits}×10{}", raised.collect::<String>())
}

fn grouped(text: &str) -> String {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => ("-", text),
        None => ("", text),
    };
    let (whole, fraction) = match text.find('.') {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let mut out = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}
