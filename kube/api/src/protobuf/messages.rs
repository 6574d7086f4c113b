//! The table of messages that the build script made.

use std::{collections::HashMap, sync::LazyLock};

static TABLE: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
    let text = include_str!(concat!(env!("OUT_DIR"), "/messages.txt"));
    text.lines()
        .map(|line| line.split_once('\t').unwrap_or((line, "")))
        .collect()
});

/// One message: its name and its fields as text, read when they are needed.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    name: &'static str,
    fields: &'static str,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind<'a> {
    Text,
    Bytes,
    Integer,
    Truth,
    Double,
    Message(&'a str),
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Name in lower case with underscores.
    pub name: &'a str,
    pub kind: FieldKind<'a>,
    pub repeated: bool,
    pub map: bool,
}

impl Message {
    /// Full name such as `api/core/v1.Pod`.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// A field by number.
    pub fn field(self, number: u32) -> Option<Field<'static>> {
        self.fields.split('\t').find_map(|field| {
            let mut parts = field.splitn(3, ':');
            let (name, its_number, kind) = (parts.next()?, parts.next()?, parts.next()?);
            if its_number.parse() != Ok(number) {
                return None;
            }
            let (repeated, map) = (kind.starts_with('*'), kind.starts_with('%'));
            let kind = match kind.trim_start_matches(['*', '%']) {
                "s" => FieldKind::Text,
                "b" => FieldKind::Bytes,
                "i" => FieldKind::Integer,
                "t" => FieldKind::Truth,
                "d" => FieldKind::Double,
                other => FieldKind::Message(other.strip_prefix("m=")?),
            };
            Some(Field {
                name,
                kind,
                repeated,
                map,
            })
        })
    }
}

/// A message by full name.
pub fn named(name: &str) -> Option<Message> {
    TABLE.get_key_value(name).map(|(name, fields)| Message { name, fields })
}

/// The message of a kind.
pub fn of_kind(api_version: &str, kind: &str) -> Option<Message> {
    let meta = || named(&format!("apimachinery/pkg/apis/meta/v1.{kind}"));
    // Every group registers the options of meta/v1 under its own name.
    if kind.ends_with("Options") {
        return meta();
    }
    let (group, version) = crate::group_version::split_api_version(api_version);
    let module = match group {
        "" => "api/core".to_owned(),
        "apiextensions.k8s.io" => "apiextensions_apiserver/pkg/apis/apiextensions".to_owned(),
        group => format!("api/{}", group.split('.').next().unwrap_or_default()),
    };
    named(&format!("{module}/{version}.{kind}"))
}
