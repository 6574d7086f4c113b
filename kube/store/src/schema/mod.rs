//! What an object may look like: the structural schema that decoding, pruning, defaulting, validation, strategic merge
//! and server-side apply all read.
//!
//! One shape serves built-in kinds (made from tables) and custom resources (made from `openAPIV3Schema`).

pub mod decode;
pub mod default;
pub mod duplicates;
pub mod formats;
pub mod metadata;
pub mod object_meta;
pub mod parse;
pub mod prune;
mod rule_types;
pub mod rules;
pub mod structural;
mod structural_values;
pub mod timestamps;
pub mod validate;

pub use kube_primitives::quantity;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// JSON type of a node. `Any` is a node without a type: int-or-string, or unknown content that is preserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    #[default]
    Any,
}

/// `x-kubernetes-list-type`: how the items of a list are told apart by server-side apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    Map,
}

/// One `x-kubernetes-validations` rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: String,
    pub field_path: String,
    pub optional_old_self: bool,
}

/// One node of a structural schema. Children are shared, so built-in kinds hold one `ObjectMeta` and one `PodSpec`.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Name of the definition this node was made from (`io.k8s.api.core.v1.PodSpec`); `None` in custom resources.
    pub name: Option<Arc<str>>,
    pub ty: Type,
    pub description: Option<Arc<str>>,
    pub format: Option<Arc<str>>,
    pub properties: BTreeMap<String, Arc<Schema>>,
    /// Schema of the values of a map; `None` for a struct.
    pub additional: Option<Arc<Schema>>,
    pub items: Option<Arc<Schema>>,
    pub required: Vec<String>,
    pub default: Option<Value>,
    pub nullable: bool,
    pub preserve_unknown: bool,
    /// A definition of a built-in table that stands for any JSON value; decoding looks no deeper.
    pub opaque: bool,
    /// A plain Go field with `omitempty`, of a built-in kind: its zero value (`""`, `false`, 0) is as good as absent.
    pub omit_zero: bool,
    pub embedded_resource: bool,
    pub int_or_string: bool,
    /// `x-kubernetes-map-type: atomic`.
    pub atomic_map: bool,
    pub list_type: ListType,
    pub list_map_keys: Vec<String>,
    /// `x-kubernetes-patch-strategy` contains `merge` (strategic merge patch of a list).
    pub patch_merge: bool,
    /// `x-kubernetes-patch-strategy` contains `retainKeys`.
    pub patch_retain_keys: bool,
    /// `x-kubernetes-patch-strategy` contains `replace`.
    pub patch_replace: bool,
    /// `x-kubernetes-patch-merge-key`.
    pub patch_merge_key: Option<String>,
    pub rules: Vec<Rule>,
    /// Whether this node or one below has `rules`; validation skips the rest of the tree.
    pub rules_below: bool,
    /// The programs of `rules`, compiled on first use.
    pub programs: rules::Programs,
    /// Value checks (enum, pattern, minimum, ...). Boxed: most nodes have none.
    pub checks: Option<Box<Checks>>,
}

/// Value checks of a node.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    pub enumeration: Vec<Value>,
    pub pattern: Option<parse::Pattern>,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub all_of: Vec<Arc<Schema>>,
    pub any_of: Vec<Arc<Schema>>,
    pub one_of: Vec<Arc<Schema>>,
    pub not: Option<Arc<Schema>>,
}

/// How many fields are told that a kind does not know or a text gives twice: as many as Kubernetes tells.
const TOLD_MAX: usize = 100;
/// How much of a path is told. A key may be as long as a request.
const TOLD_BYTES_MAX: usize = 4096;

/// Tells of a field, once and within bounds: what many fields are called together may be far longer than their object.
fn tell(told: &mut Vec<String>, path: impl FnOnce() -> String) {
    if told.len() >= TOLD_MAX {
        return;
    }
    let mut path = path();
    path.truncate(path.floor_char_boundary(TOLD_BYTES_MAX));
    if !told.contains(&path) {
        told.push(path);
    }
}
