//! How the lists of Kubernetes' built-in kinds are merged, from a table that is made of kyaml's definitions.

use std::{collections::HashMap, sync::OnceLock};

const TABLE: &str = include_str!("merge_keys.txt");

/// What is known of a place in an object. Below a place of a known kind nothing else is looked up, even where nothing
/// is said about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergeSchema {
    definition: Option<usize>,
    way: Way,
    /// The keys of the list that is here, when it is one that is merged.
    list: Option<&'static [&'static str]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Object,
    List,
    Map,
}

struct Field {
    way: Way,
    definition: Option<usize>,
    keys: Option<Vec<&'static str>>,
}

struct Table {
    kinds: HashMap<(&'static str, &'static str), usize>,
    fields: HashMap<usize, HashMap<&'static str, Field>>,
}

fn table() -> &'static Table {
    static READ: OnceLock<Table> = OnceLock::new();
    READ.get_or_init(|| read(TABLE))
}

fn read(text: &'static str) -> Table {
    let mut table = Table {
        kinds: HashMap::new(),
        fields: HashMap::new(),
    };
    for line in text.lines().filter(|it| !it.starts_with('#')) {
        let words: Vec<_> = line.split(' ').collect();
        match words.as_slice() {
            [version, kind, "=", number] => {
                table
                    .kinds
                    .insert((version, kind), number.parse().unwrap_or(usize::MAX));
            }
            [number, field, way, definition, merge @ ..] => {
                let keys = match merge {
                    [] => None,
                    [_] => Some(Vec::new()),
                    [_, keys, ..] => Some(keys.split(',').collect()),
                };
                let way = match *way {
                    "[]" => Way::List,
                    "{}" => Way::Map,
                    _ => Way::Object,
                };
                let definition = definition.parse().ok();
                let fields = table.fields.entry(number.parse().unwrap_or(usize::MAX)).or_default();
                fields.insert(field, Field { way, definition, keys });
            }
            _ => {}
        }
    }
    table
}

impl MergeSchema {
    /// What is known of a kind.
    pub(crate) fn of_kind(api_version: &str, kind: &str) -> Option<MergeSchema> {
        let definition = *table().kinds.get(&(api_version, kind))?;
        Some(MergeSchema {
            definition: Some(definition),
            way: Way::Object,
            list: None,
        })
    }

    /// What is known of a field of the object or map that is here.
    pub(crate) fn field(&self, name: &str) -> Option<MergeSchema> {
        let definition = self.definition?;
        match self.way {
            Way::List => None,
            Way::Map => Some(MergeSchema {
                way: Way::Object,
                list: None,
                ..*self
            }),
            Way::Object => {
                let field = table().fields.get(&definition)?.get(name)?;
                Some(MergeSchema {
                    definition: field.definition,
                    way: field.way,
                    list: field.keys.as_deref(),
                })
            }
        }
    }

    /// What is known of the items of the list that is here.
    pub(crate) fn items(&self) -> Option<MergeSchema> {
        (self.way == Way::List).then_some(MergeSchema {
            definition: self.definition,
            way: Way::Object,
            list: None,
        })
    }

    /// The keys by which the items are told apart, when the list that is here is merged; none for single values.
    pub(crate) fn merged_list(&self) -> Option<&'static [&'static str]> {
        self.list
    }
}
