//! What `.` is at the beginning of a template.

use std::any::Any;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use gotemplate::{Elem, Map, Numbers, Object, Value};
use serde_json::Value as Json;

/// What `.` is at the beginning of a template: a struct of Go's, whose type messages about missing fields name.
#[derive(Clone, Debug, Default)]
pub struct TemplateContext {
    type_name: String,
    fields: Vec<(&'static str, Field)>,
}

#[derive(Clone, Debug)]
enum Field {
    Text(String),
    Strings(BTreeMap<String, String>),
    Document(Arc<Json>),
    Metadata(PolicyMetadata),
}

#[derive(Clone, Debug)]
struct PolicyMetadata {
    annotations: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    name: String,
    namespace: String,
}

impl TemplateContext {
    /// Nothing: any field is an error.
    pub fn none() -> Self {
        TemplateContext {
            type_name: "struct {}".to_owned(),
            fields: Vec::new(),
        }
    }

    /// That of hub templates: `.ManagedClusterName`, `.ManagedClusterLabels` and `.PolicyMetadata` of the root policy
    /// (propagator: `templateCtx`). `labels` may be left empty where the text does not say `ManagedClusterLabels`.
    pub fn hub(cluster: &str, labels: BTreeMap<String, String>, root_policy: &Json) -> Self {
        let metadata = &root_policy["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        let strings = |field: &str| {
            let entries = metadata[field].as_object().into_iter().flatten();
            let text = |(key, value): (&String, &Json)| Some((key.clone(), value.as_str()?.to_owned()));
            entries.filter_map(text).collect()
        };
        TemplateContext {
            type_name: "propagator.templateCtx".to_owned(),
            fields: vec![
                ("ManagedClusterName", Field::Text(cluster.to_owned())),
                ("ManagedClusterLabels", Field::Strings(labels)),
                (
                    "PolicyMetadata",
                    Field::Metadata(PolicyMetadata {
                        annotations: strings("annotations"),
                        labels: strings("labels"),
                        name: text("name"),
                        namespace: text("namespace"),
                    }),
                ),
            ],
        }
    }

    /// That of hub templates which a cluster fills in (config-policy-controller: `templateCtx`).
    pub fn standalone_hub(cluster: &str, labels: BTreeMap<String, String>) -> Self {
        TemplateContext {
            type_name: "controllers.templateCtx".to_owned(),
            fields: vec![
                ("ManagedClusterName", Field::Text(cluster.to_owned())),
                ("ManagedClusterLabels", Field::Strings(labels)),
            ],
        }
    }

    /// That of an object of a ConfigurationPolicy (config-policy-controller: `getTemplateContext`): `.Object` and
    /// `.ObjectName` where it has a name, `.ObjectNamespace` where it has a namespace; nothing where it has neither.
    /// `object` is the one of the cluster, or null.
    pub fn object(object: &Arc<Json>, namespace: &str, name: &str) -> Self {
        let mut types = Vec::new();
        let mut fields = Vec::new();
        if !name.is_empty() {
            types.push("Object map[string]interface {}");
            fields.push(("Object", Field::Document(Arc::clone(object))));
        }
        if !namespace.is_empty() {
            types.push("ObjectNamespace string");
            fields.push(("ObjectNamespace", Field::Text(namespace.to_owned())));
        }
        if !name.is_empty() {
            types.push("ObjectName string");
            fields.push(("ObjectName", Field::Text(name.to_owned())));
        }
        if types.is_empty() {
            return TemplateContext::none();
        }
        TemplateContext {
            type_name: format!("struct {{ {} }}", types.join("; ")),
            fields,
        }
    }

    pub(crate) fn value(&self) -> Value {
        let fields = self.fields.iter().map(|(name, field)| (*name, field.value()));
        Value::Object(Rc::new(Struct {
            type_name: self.type_name.clone(),
            fields: fields.collect(),
        }))
    }
}

impl Field {
    fn value(&self) -> Value {
        match self {
            Field::Text(text) => Value::str(text.as_str()),
            Field::Strings(strings) => map_of_strings(strings),
            Field::Document(document) => match &**document {
                // A nil map is a map without entries.
                Json::Null => Value::Map(Map::nil()),
                document => Value::from_json(document, Numbers::Int64),
            },
            Field::Metadata(it) => Value::map([
                ("annotations", map_of_strings(&it.annotations)),
                ("labels", map_of_strings(&it.labels)),
                ("name", Value::str(it.name.as_str())),
                ("namespace", Value::str(it.namespace.as_str())),
            ]),
        }
    }
}

fn map_of_strings(strings: &BTreeMap<String, String>) -> Value {
    let entries = strings
        .iter()
        .map(|(key, value)| (key.as_str().into(), Value::str(value.as_str())));
    Value::Map(Map::new(entries.collect(), Elem::Str))
}

/// A struct of Go's.
struct Struct {
    type_name: String,
    fields: Vec<(&'static str, Value)>,
}

impl Object for Struct {
    fn type_name(&self) -> &str {
        &self.type_name
    }

    fn field(&self, name: &str) -> Option<Value> {
        let (_, value) = self.fields.iter().find(|(it, _)| *it == name)?;
        Some(value.clone())
    }

    fn display(&self) -> String {
        let fields: Vec<_> = self
            .fields
            .iter()
            .map(|(_, value)| gotemplate::encodings::display(value))
            .collect();
        format!("{{{}}}", fields.join(" "))
    }

    fn to_json(&self) -> Json {
        let fields = self
            .fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.to_json().unwrap_or_default()));
        Json::Object(fields.collect())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
