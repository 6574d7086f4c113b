//! The entries of `metadata.managedFields`: reading, writing, order, and the cap on their number.

use super::set::FieldSet;
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::{cell::OnceCell, collections::HashMap};

/// More `Update` entries than this are merged, oldest first.
const UPDATE_ENTRIES_MAX: usize = 10;
/// Manager of the merged ones.
const ANCIENT: &str = "ancient-changes";

/// How a manager came to own fields. Sorts as Kubernetes sorts the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// One entry of `metadata.managedFields`.
#[derive(Clone, Debug)]
pub(crate) struct ManagerEntry<'a> {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
    pub(crate) time: Option<String>,
    /// The fields; read when they are first asked for.
    set: OnceCell<FieldSet>,
    /// The fields as they were read, as long as nothing changed: they are written back without being rebuilt.
    raw: Option<&'a Value>,
    seconds: i64,
}

impl<'a> ManagerEntry<'a> {
    pub(crate) fn new(
        manager: &str,
        operation: Operation,
        api_version: &str,
        subresource: &str,
        set: FieldSet,
    ) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager }.to_owned();
        let (api_version, subresource) = (api_version.to_owned(), subresource.to_owned());
        Self {
            manager,
            operation,
            api_version,
            subresource,
            time: None,
            set: OnceCell::from(set),
            raw: None,
            seconds: 0,
        }
    }

    pub(crate) fn set(&self) -> &FieldSet {
        self.set
            .get_or_init(|| self.raw.and_then(FieldSet::from_json).unwrap_or_default())
    }

    /// Whether the entry owns nothing.
    pub(crate) fn is_empty(&self) -> bool {
        match (self.set.get(), self.raw) {
            (None, Some(raw)) => raw.as_object().is_none_or(|it| it.keys().all(|key| key == ".")),
            _ => self.set().is_empty(),
        }
    }

    /// Replaces the fields, if they differ, and gives those that were there before.
    pub(crate) fn replace_set(&mut self, set: FieldSet) -> Option<FieldSet> {
        // Most applies are of the same fields again.
        let is_raw = self.set.get().is_none() && self.raw.is_some_and(|it| set.is_written_as(it));
        if is_raw || set == *self.set() {
            return None;
        }
        self.take_set(set)
    }

    fn take_set(&mut self, set: FieldSet) -> Option<FieldSet> {
        self.set();
        self.raw = None;
        std::mem::replace(&mut self.set, OnceCell::from(set)).into_inner()
    }

    pub(crate) fn set_time(&mut self, time: &str) {
        self.time = Some(time.to_owned());
        self.seconds = seconds(time);
    }

    /// Whether both name the same manager: an applier is the same in every version.
    pub(crate) fn is(&self, manager: &str, operation: Operation, api_version: &str, subresource: &str) -> bool {
        self.operation == operation
            && self.manager == manager
            && self.subresource == subresource
            && (operation == Operation::Apply || self.api_version == api_version)
    }

    /// As conflict messages name it: `"m1"`, `"kubectl" using v1`, `"m1" with subresource "status"`.
    pub(crate) fn title(&self) -> String {
        let mut title = Value::from(self.manager.as_str()).to_string();
        if !self.subresource.is_empty() {
            title = format!("{title} with subresource {}", Value::from(self.subresource.as_str()));
        }
        match self.operation {
            Operation::Apply => title,
            Operation::Update => format!("{title} using {}", self.api_version),
        }
    }

    fn decode(entry: &'a Value, is_stored: bool) -> Option<Self> {
        let entry = entry.as_object()?;
        let text = |name: &str| match entry.get(name) {
            None | Some(Value::Null) => Some(""),
            Some(value) => value.as_str(),
        };
        let operation = match text("operation")? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let api_version = text("apiVersion")?;
        if api_version.is_empty() || text("fieldsType")? != "FieldsV1" {
            return None;
        }
        let raw = entry.get("fieldsV1").filter(|it| !it.is_null());
        let mut result = Self::new(
            text("manager")?,
            operation,
            api_version,
            text("subresource")?,
            FieldSet::default(),
        );
        if let Some(fields) = raw {
            result.set = if is_stored {
                OnceCell::new()
            } else {
                OnceCell::from(FieldSet::from_json(fields)?)
            };
        }
        result.raw = raw;
        match text("time")? {
            "" => {}
            time => result.set_time(time),
        }
        Some(result)
    }

    fn encode(self) -> Value {
        let fields = self.raw.cloned().unwrap_or_else(|| self.set().to_json());
        let mut entry = Map::new();
        entry.insert("manager".into(), self.manager.into());
        entry.insert("operation".into(), self.operation.as_str().into());
        entry.insert("apiVersion".into(), self.api_version.into());
        entry.insert("fieldsType".into(), "FieldsV1".into());
        entry.insert("fieldsV1".into(), fields);
        if let Some(time) = self.time {
            entry.insert("time".into(), time.into());
        }
        if !self.subresource.is_empty() {
            entry.insert("subresource".into(), self.subresource.into());
        }
        Value::Object(entry)
    }
}

fn seconds(time: &str) -> i64 {
    time.parse::<Timestamp>().map(Timestamp::as_second).unwrap_or_default()
}

/// Reads `metadata.managedFields` as a client sends it; `None` if any entry is malformed. Absent is no entries.
pub(crate) fn decode(fields: Option<&Value>) -> Option<Vec<ManagerEntry<'_>>> {
    read(fields, false)
}

/// Reads the `metadata.managedFields` of a stored object, whose fields were read before it was stored: they are read
/// again only when they are asked for.
pub(crate) fn stored(fields: Option<&Value>) -> Vec<ManagerEntry<'_>> {
    read(fields, true).unwrap_or_default()
}

fn read(fields: Option<&Value>, is_stored: bool) -> Option<Vec<ManagerEntry<'_>>> {
    let fields = match fields {
        None | Some(Value::Null) => return Some(Vec::new()),
        Some(fields) => fields.as_array()?,
    };
    let mut entries: Vec<Option<ManagerEntry<'_>>> = Vec::with_capacity(fields.len());
    // Of two entries that are the same one the later counts. There may be as many as fit into a request.
    let mut places = HashMap::new();
    for field in fields {
        let entry = ManagerEntry::decode(field, is_stored)?;
        let version = match entry.operation {
            Operation::Apply => String::new(),
            Operation::Update => entry.api_version.clone(),
        };
        let same = (
            entry.operation,
            entry.manager.clone(),
            version,
            entry.subresource.clone(),
        );
        if let Some(before) = places.insert(same, entries.len()) {
            entries[before] = None;
        }
        entries.push(Some(entry));
    }
    Some(entries.into_iter().flatten().collect())
}

/// Writes the entries in Kubernetes' order; `None` when there are none.
pub(crate) fn encode(mut entries: Vec<ManagerEntry<'_>>) -> Option<Value> {
    entries.sort_by(|left, right| order(left).cmp(&order(right)));
    let encoded: Vec<Value> = entries.into_iter().map(ManagerEntry::encode).collect();
    (!encoded.is_empty()).then_some(Value::Array(encoded))
}

fn order<'a>(it: &'a ManagerEntry<'_>) -> (Operation, i64, &'a str, &'a str, &'a str) {
    (it.operation, it.seconds, &it.manager, &it.api_version, &it.subresource)
}

/// Merges the oldest `Update` entries, per version, until at most ten are left.
pub(crate) fn cap(entries: &mut Vec<ManagerEntry<'_>>) {
    let mut updates = entries.iter().filter(|it| it.operation == Operation::Update).count();
    if updates <= UPDATE_ENTRIES_MAX {
        return;
    }
    entries.sort_by(|left, right| order(left).cmp(&order(right)));
    // The first entry of a version becomes the one that the others of that version are merged into.
    let mut buckets: HashMap<String, (usize, Vec<FieldSet>)> = HashMap::new();
    let mut kept: Vec<ManagerEntry<'_>> = Vec::new();
    for mut entry in std::mem::take(entries) {
        if entry.operation == Operation::Apply || updates <= UPDATE_ENTRIES_MAX {
            kept.push(entry);
            continue;
        }
        match buckets.get_mut(&entry.api_version) {
            None => {
                buckets.insert(entry.api_version.clone(), (kept.len(), Vec::new()));
                kept.push(entry);
            }
            Some((bucket, sets)) => {
                let merged = &mut kept[*bucket];
                merged.manager = ANCIENT.to_owned();
                merged.subresource.clear();
                let set = entry.take_set(FieldSet::default());
                merged.time = entry.time;
                merged.seconds = entry.seconds;
                sets.extend(set);
                updates -= 1;
            }
        }
    }
    for (bucket, mut sets) in buckets.into_values().filter(|(_, sets)| !sets.is_empty()) {
        sets.extend(kept[bucket].take_set(FieldSet::default()));
        // Two and two: joining them one after the other would copy what there is for each.
        while sets.len() > 1 {
            sets = sets
                .chunks(2)
                .map(|it| it[0].union(it.last().unwrap_or(&it[0])))
                .collect();
        }
        kept[bucket].set = OnceCell::from(sets.pop().unwrap_or_default());
    }
    *entries = kept;
}
