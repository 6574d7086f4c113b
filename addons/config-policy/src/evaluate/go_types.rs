//! What Go's `encoding/json` makes of a document for a struct: which fields it refuses, and in which words.
//! A policy of a file is read strictly, as `sigs.k8s.io/yaml` does it; of other objects the metadata and what is text
//! are checked.
//! Upstream: config-policy-controller `api/v1/configurationpolicy_types.go`, apimachinery `meta/v1`.

use policy_template::{base64_error, printed};
use serde_json::{Map, Value};

/// A type of Go that JSON is read into.
#[derive(Clone, Copy)]
enum GoType {
    /// A text, of the named type.
    Text(&'static str),
    /// A truth.
    Truth,
    /// A whole number.
    Whole,
    /// A struct, in place or behind a pointer.
    Struct(&'static GoStruct),
    /// Texts by their names; numbers and truths are taken for texts.
    Texts,
    /// Texts by their names, where only texts are taken.
    OnlyTexts,
    /// A list of this type, and what Go calls it.
    List(&'static GoType, &'static str),
    /// Whatever somebody else reads.
    Any,
}

struct GoStruct {
    name: &'static str,
    fields: &'static [(&'static str, GoType)],
}

use GoType::{Any, List, OnlyTexts, Struct, Text, Texts, Truth, Whole};

const STRING: GoType = Text("string");
const STRINGS: GoType = List(&STRING, "[]string");

const OWNER: GoStruct = GoStruct {
    name: "OwnerReference",
    fields: &[
        ("apiVersion", STRING),
        ("kind", STRING),
        ("name", STRING),
        ("uid", Text("types.UID")),
        ("controller", Truth),
        ("blockOwnerDeletion", Truth),
    ],
};

const METADATA: GoStruct = GoStruct {
    name: "ObjectMeta",
    fields: &[
        ("name", STRING),
        ("generateName", STRING),
        ("namespace", STRING),
        ("selfLink", STRING),
        ("uid", Text("types.UID")),
        ("resourceVersion", STRING),
        ("generation", Whole),
        ("creationTimestamp", Any),
        ("deletionTimestamp", Any),
        ("deletionGracePeriodSeconds", Whole),
        ("labels", Texts),
        ("annotations", Texts),
        ("ownerReferences", List(&Struct(&OWNER), "[]v1.OwnerReference")),
        ("finalizers", STRINGS),
        ("managedFields", Any),
    ],
};

const REQUIREMENT: GoStruct = GoStruct {
    name: "LabelSelectorRequirement",
    fields: &[
        ("key", STRING),
        ("operator", Text("v1.LabelSelectorOperator")),
        ("values", STRINGS),
    ],
};

const REQUIREMENTS: GoType = List(&Struct(&REQUIREMENT), "[]v1.LabelSelectorRequirement");

const LABEL_SELECTOR: GoStruct = GoStruct {
    name: "LabelSelector",
    fields: &[("matchLabels", Texts), ("matchExpressions", REQUIREMENTS)],
};

const PATTERNS: GoType = List(&Text("v1.NonEmptyString"), "[]v1.NonEmptyString");

const TARGET: GoStruct = GoStruct {
    name: "Target",
    fields: &[
        // They are of an embedded struct, where the library does not find the type.
        ("matchLabels", OnlyTexts),
        ("matchExpressions", REQUIREMENTS),
        ("include", PATTERNS),
        ("exclude", PATTERNS),
        ("terminatingInclusion", STRING),
    ],
};

const OBJECT_TEMPLATE: GoStruct = GoStruct {
    name: "ObjectTemplate",
    fields: &[
        ("complianceType", Text("v1.ComplianceType")),
        ("metadataComplianceType", Text("v1.ComplianceType")),
        ("recreateOption", Text("v1.RecreateOption")),
        ("objectDefinition", Any),
        ("recordDiff", Text("v1.RecordDiff")),
        ("objectSelector", Struct(&LABEL_SELECTOR)),
    ],
};

const OBJECT_TEMPLATES: GoType = List(&Struct(&OBJECT_TEMPLATE), "[]*v1.ObjectTemplate");

const MESSAGE: GoStruct = GoStruct {
    name: "CustomMessage",
    fields: &[("compliant", STRING), ("noncompliant", STRING)],
};

const INTERVAL: GoStruct = GoStruct {
    name: "EvaluationInterval",
    fields: &[("compliant", STRING), ("noncompliant", STRING)],
};

const SPEC: GoStruct = GoStruct {
    name: "ConfigurationPolicySpec",
    fields: &[
        ("customMessage", Struct(&MESSAGE)),
        ("severity", Text("v1.Severity")),
        ("remediationAction", Text("v1.RemediationAction")),
        ("evaluationInterval", Struct(&INTERVAL)),
        ("pruneObjectBehavior", Text("v1.PruneObjectBehavior")),
        ("namespaceSelector", Struct(&TARGET)),
        ("object-templates", OBJECT_TEMPLATES),
        ("object-templates-raw", STRING),
    ],
};

const CONDITION: GoStruct = GoStruct {
    name: "Condition",
    fields: &[
        ("type", STRING),
        ("status", Text("v1.ConditionStatus")),
        ("lastTransitionTime", Any),
        ("reason", STRING),
        ("message", STRING),
    ],
};

const VALIDITY: GoStruct = GoStruct {
    name: "Validity",
    fields: &[("valid", Truth), ("reason", STRING)],
};

const TEMPLATE_STATUS: GoStruct = GoStruct {
    name: "TemplateStatus",
    fields: &[
        ("Compliant", Text("v1.ComplianceState")),
        ("conditions", List(&Struct(&CONDITION), "[]v1.Condition")),
        ("Validity", Struct(&VALIDITY)),
    ],
};

const PROPERTIES: GoStruct = GoStruct {
    name: "ObjectProperties",
    fields: &[
        ("createdByPolicy", Truth),
        ("uid", STRING),
        ("diff", STRING),
        ("matchesAfterDryRun", Truth),
    ],
};

const RELATED_NAME: GoStruct = GoStruct {
    name: "ObjectMetadata",
    fields: &[("name", STRING), ("namespace", STRING)],
};

const RELATED_OBJECT: GoStruct = GoStruct {
    name: "ObjectResource",
    fields: &[
        ("metadata", Struct(&RELATED_NAME)),
        ("apiVersion", STRING),
        ("kind", STRING),
    ],
};

const RELATED: GoStruct = GoStruct {
    name: "RelatedObject",
    fields: &[
        ("properties", Struct(&PROPERTIES)),
        ("object", Struct(&RELATED_OBJECT)),
        ("compliant", STRING),
        ("reason", STRING),
    ],
};

const HISTORY: GoStruct = GoStruct {
    name: "HistoryEvent",
    fields: &[("lastTimestamp", Any), ("message", STRING)],
};

const STATUS: GoStruct = GoStruct {
    name: "ConfigurationPolicyStatus",
    fields: &[
        ("compliant", Text("v1.ComplianceState")),
        (
            "compliancyDetails",
            List(&Struct(&TEMPLATE_STATUS), "[]v1.TemplateStatus"),
        ),
        ("lastEvaluated", STRING),
        ("lastEvaluatedGeneration", Whole),
        ("relatedObjects", List(&Struct(&RELATED), "[]v1.RelatedObject")),
        ("history", List(&Struct(&HISTORY), "[]v1.HistoryEvent")),
    ],
};

const POLICY: GoStruct = GoStruct {
    name: "ConfigurationPolicy",
    fields: &[
        ("kind", STRING),
        ("apiVersion", STRING),
        ("metadata", Struct(&METADATA)),
        ("spec", Struct(&SPEC)),
        ("status", Struct(&STATUS)),
    ],
};

/// A ConfigurationPolicy as Go reads it strictly: fields have their own names, numbers are texts where texts are
/// wanted.
///
/// # Errors
/// When it has a field that a ConfigurationPolicy has not, or a value that does not fit.
pub fn policy(document: &Value) -> Result<Value, String> {
    let mut reader = Reader {
        strict: true,
        coerces: true,
        error: None,
    };
    let mut read = reader.structure(document, &POLICY, "");
    complete(&mut read["spec"]["object-templates"]);
    match reader.error {
        Some(error) => Err(error),
        None => Ok(read),
    }
}

/// Object templates as Go reads them out of YAML, where numbers are texts if texts are wanted, or out of JSON.
///
/// # Errors
/// When a value does not fit.
pub fn object_templates(document: &Value, is_yaml: bool) -> Result<Value, String> {
    let mut reader = Reader {
        strict: false,
        coerces: is_yaml,
        error: None,
    };
    let mut read = reader.read(document, OBJECT_TEMPLATES, "", "");
    complete(&mut read);
    match reader.error {
        Some(error) => Err(error),
        None => Ok(read),
    }
}

/// What a template must have is missed where it is used.
fn complete(templates: &mut Value) {
    for template in templates.as_array_mut().into_iter().flatten() {
        if template.is_null() {
            *template = Value::Object(Map::new());
        }
        for (field, nothing) in [("complianceType", "".into()), ("objectDefinition", Value::Null)] {
            if template.get(field).is_none() {
                template[field] = nothing;
            }
        }
    }
}

/// Whether an object of a file has texts where Kubernetes' own kinds have texts: in its metadata, in ConfigMaps and in
/// Secrets.
///
/// # Errors
/// When it has not.
pub fn check(object: &Value) -> Result<(), String> {
    let mut reader = Reader {
        strict: false,
        coerces: false,
        error: None,
    };
    let kind = match (object["apiVersion"].as_str(), object["kind"].as_str()) {
        (Some("v1"), Some("ConfigMap")) => "ConfigMap",
        (Some("v1"), Some("Secret")) => "Secret",
        _ => "",
    };
    let texts: &[&str] = match kind {
        "" => &[],
        "Secret" => &["data", "stringData"],
        _ => &["data"],
    };
    for field in texts {
        reader.read(&object[*field], OnlyTexts, kind, field);
    }
    reader.read(&object["metadata"], Struct(&METADATA), "", "metadata");
    if let Some(error) = reader.error {
        return Err(error);
    }
    if kind == "Secret" {
        for value in object["data"].as_object().into_iter().flat_map(Map::values) {
            let at = base64_error(value.as_str().unwrap_or_default());
            if at > 0 || !is_base64_start(value) {
                return Err(format!("illegal base64 data at input byte {at}"));
            }
        }
    }
    Ok(())
}

/// The place of an error at the very start cannot be told from none.
fn is_base64_start(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default().as_bytes();
    let first = text.iter().find(|it| !matches!(it, b'\n' | b'\r'));
    first.is_none_or(|it| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'/'))
}

/// What Go calls a value of JSON that does not fit.
pub fn json_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

struct Reader {
    /// Fields that the struct does not have are refused.
    strict: bool,
    /// Numbers and truths are texts where texts are wanted.
    coerces: bool,
    /// The first one, as Go keeps it.
    error: Option<String>,
}

impl Reader {
    fn refuse(&mut self, error: String) {
        self.error.get_or_insert(error);
    }

    fn misfit(&mut self, value: &str, of: &str, path: &str, r#type: &str) {
        let whole = match of {
            "" => format!("json: cannot unmarshal {value} into Go value of type {type}"),
            of => format!("json: cannot unmarshal {value} into Go struct field {of}.{path} of type {type}"),
        };
        self.refuse(whole);
    }

    /// `of` is the struct that the value is in, `path` the fields that lead to it.
    fn read(&mut self, value: &Value, r#type: GoType, of: &str, path: &str) -> Value {
        match (r#type, value) {
            (_, Value::Null) => Value::Null,
            (Any, value) => value.clone(),
            (Text(_), Value::String(_)) | (Truth, Value::Bool(_)) => value.clone(),
            (Text(_), Value::Number(_) | Value::Bool(_)) if self.coerces => printed(value).into(),
            (Text(name), value) => self.wrong(value, of, path, name),
            (Truth, value) => self.wrong(value, of, path, "bool"),
            (Whole, Value::Number(number)) if number.is_i64() => value.clone(),
            (Whole, Value::Number(number)) => {
                self.misfit(&format!("number {number}"), of, path, "int64");
                Value::Null
            }
            (Whole, value) => self.wrong(value, of, path, "int64"),
            (Struct(structure), Value::Object(_)) => self.structure(value, structure, path),
            (Struct(structure), value) => self.wrong(value, of, path, &format!("v1.{}", structure.name)),
            (Texts | OnlyTexts, Value::Object(entries)) => {
                let takes_all = self.coerces && matches!(r#type, Texts);
                self.texts(entries, takes_all, of, path)
            }
            (Texts | OnlyTexts, value) => self.wrong(value, of, path, "map[string]string"),
            (List(item, _), Value::Array(items)) => items.iter().map(|it| self.read(it, *item, of, path)).collect(),
            (List(_, name), value) => self.wrong(value, of, path, name),
        }
    }

    fn wrong(&mut self, value: &Value, of: &str, path: &str, r#type: &str) -> Value {
        self.misfit(json_name(value), of, path, r#type);
        Value::Null
    }

    fn texts(&mut self, entries: &Map<String, Value>, takes_all: bool, of: &str, path: &str) -> Value {
        let mut texts = Map::new();
        for (key, value) in entries {
            let text = match value {
                Value::String(_) => value.clone(),
                Value::Null => "".into(),
                Value::Number(_) | Value::Bool(_) if takes_all => printed(value).into(),
                value => self.wrong(value, of, path, "string"),
            };
            texts.insert(key.clone(), text);
        }
        Value::Object(texts)
    }

    fn structure(&mut self, value: &Value, structure: &GoStruct, path: &str) -> Value {
        let mut read = Map::new();
        for (key, value) in value.as_object().into_iter().flatten() {
            let exact = structure.fields.iter().find(|(name, _)| name == key);
            let found = exact.or_else(|| structure.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)));
            let Some((name, r#type)) = found else {
                if self.strict {
                    self.refuse(format!("json: unknown field {key:?}"));
                }
                continue;
            };
            let embedded = match structure.name == TARGET.name && LABEL_SELECTOR.fields.iter().any(|(it, _)| it == name)
            {
                true => "LabelSelector.",
                false => "",
            };
            let inner = match path {
                "" => (*name).to_owned(),
                path => format!("{path}.{embedded}{name}"),
            };
            let value = self.read(value, *r#type, structure.name, &inner);
            if !value.is_null() {
                read.insert((*name).to_owned(), value);
            }
        }
        Value::Object(read)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_policy_is_read_as_go_reads_it() {
        let read = policy(&json!({
            "metadata": {"name": 5, "labels": {"a": true}},
            "Spec": {"severity": 1.5, "object-templates": [{"objectDefinition": {"a": 1}}]}
        }));
        assert_eq!(
            read,
            Ok(json!({
                "metadata": {"name": "5", "labels": {"a": "true"}},
                "spec": {
                    "severity": "1.5",
                    "object-templates": [{"complianceType": "", "objectDefinition": {"a": 1}}]
                }
            }))
        );
    }

    #[test]
    fn what_does_not_fit_is_told_as_go_does() {
        let refused = |document: Value| policy(&document).unwrap_err();
        assert_eq!(
            refused(json!({"spec": {"foo": 1, "bar": 2}})),
            "json: unknown field \"bar\""
        );
        assert_eq!(
            refused(json!({"spec": {"object-templates": {}}})),
            "json: cannot unmarshal object into Go struct field ConfigurationPolicySpec.spec.object-templates of type \
             []*v1.ObjectTemplate"
        );
        assert_eq!(
            refused(json!({"metadata": {"generation": "x"}})),
            "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.generation of type int64"
        );
        assert_eq!(
            refused(json!({"spec": {"namespaceSelector": {"matchLabels": {"a": 1}}}})),
            "json: cannot unmarshal number into Go struct field Target.spec.namespaceSelector.LabelSelector.matchLabels of \
             type string"
        );
        assert_eq!(
            object_templates(&json!({"a": 1}), true).unwrap_err(),
            "json: cannot unmarshal object into Go value of type []*v1.ObjectTemplate"
        );
    }

    #[test]
    fn objects_of_files_have_texts_where_they_must() {
        let of = |kind: &str, data: Value| {
            check(&json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, "data": data}))
        };
        assert_eq!(
            of("ConfigMap", json!({"a": 1})).unwrap_err(),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
        );
        assert_eq!(of("Secret", json!({"a": "YQ=="})), Ok(()));
        assert_eq!(
            of("Secret", json!({"a": "%%%"})).unwrap_err(),
            "illegal base64 data at input byte 0"
        );
        assert_eq!(of("Thing", json!({"a": 1})), Ok(()));
    }
}
