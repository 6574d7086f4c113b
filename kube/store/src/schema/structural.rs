//! Whether a CustomResourceDefinition is well formed, in the words of kube-apiserver: names, versions, printer columns,
//! conversion. The nodes of its schemas are judged in `structural_values`.

use super::{
    metadata::{label_1035_errors, subdomain_errors},
    structural_values,
};
use crate::{jsonpath::JsonPath, status::FieldError};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Fills in what a CustomResourceDefinition leaves out: names derived from the kind, and the conversion.
pub fn default_crd(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = text(names, "kind").to_owned();
        if !kind.is_empty() {
            if text(names, "singular").is_empty() {
                names.insert("singular".to_owned(), kind.to_lowercase().into());
            }
            if text(names, "listKind").is_empty() {
                names.insert("listKind".to_owned(), format!("{kind}List").into());
            }
        }
    }
    let conversion = spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(service) = conversion
        .pointer_mut("/webhook/clientConfig/service")
        .and_then(Value::as_object_mut)
    {
        service.entry("port").or_insert(json!(443));
    }
}

/// Warnings that a CustomResourceDefinition earns, and the unknown members of its schemas, which are removed:
/// `unrecognized format "foo"` and the paths of unknown fields.
pub fn tidy_schemas(crd: &mut Value) -> (Vec<String>, Vec<String>) {
    let (mut warnings, mut unknown) = (Vec::new(), Vec::new());
    let versions = crd
        .pointer_mut("/spec/versions")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten();
    for (at, version) in versions.enumerate() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            let path = format!("spec.versions[{at}].schema.openAPIV3Schema");
            structural_values::tidy(schema, &path, &mut warnings, &mut unknown);
        }
    }
    warnings.dedup();
    (warnings, unknown)
}

/// Errors of a CustomResourceDefinition. `default_crd` has run before.
pub fn check_crd(crd: &Value) -> Vec<FieldError> {
    let empty = Map::new();
    let mut errors = Vec::new();
    let Some(spec) = crd.get("spec").and_then(Value::as_object) else {
        return vec![FieldError::required("spec", "")];
    };
    let names = spec.get("names").and_then(Value::as_object).unwrap_or(&empty);
    let group = text(spec, "group");
    let name = crd.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("");
    if name != format!("{}.{group}", text(names, "plural")) {
        errors.push(FieldError::invalid(
            "metadata.name",
            &json!(name),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    check_group(crd, group, &mut errors);
    match text(spec, "scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported(
            "spec.scope",
            &json!(other),
            &["Cluster", "Namespaced"],
        )),
    }
    check_names(names, &mut errors);
    if spec.get("preserveUnknownFields") == Some(&json!(true)) {
        let text = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &json!(true), text));
    }
    check_conversion(spec, &mut errors);
    check_versions(spec, &mut errors);
    errors
}

/// Errors of an update: what may not change, versions that still hold data, and errors
/// that the old object did not have.
pub fn check_crd_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let had = check_crd(old);
    let mut errors: Vec<FieldError> = check_crd(new).into_iter().filter(|it| !had.contains(it)).collect();
    for (field, pointer) in [("spec.group", "/spec/group"), ("spec.scope", "/spec/scope")] {
        immutable(new, old, field, pointer, &mut errors);
    }
    let conditions = old
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    if conditions
        .iter()
        .any(|it| it["type"] == "Established" && it["status"] == "True")
    {
        for (field, pointer) in [
            ("spec.names.kind", "/spec/names/kind"),
            ("spec.names.plural", "/spec/names/plural"),
        ] {
            immutable(new, old, field, pointer, &mut errors);
        }
    }
    let versions = version_names(new);
    let stored = new
        .pointer("/status/storedVersions")
        .or_else(|| old.pointer("/status/storedVersions"));
    for (at, it) in stored
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .enumerate()
    {
        if !versions.contains(&it) {
            errors.push(FieldError::invalid(
                format!("status.storedVersions[{at}]"),
                &json!(it),
                format!(
                    "missing from spec.versions; {it} was previously a storage version, and must remain in spec.versions until a storage \
                     migration ensures no data remains persisted in {it} and removes {it} from status.storedVersions"
                ),
            ));
        }
    }
    errors
}

fn immutable(new: &Value, old: &Value, field: &str, pointer: &str, errors: &mut Vec<FieldError>) {
    if new.pointer(pointer) != old.pointer(pointer) {
        errors.push(FieldError::invalid(
            field,
            new.pointer(pointer).unwrap_or(&Value::Null),
            "field is immutable",
        ));
    }
}

fn version_names(crd: &Value) -> Vec<&str> {
    let versions = crd
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    versions.iter().filter_map(|it| it["name"].as_str()).collect()
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or("")
}

fn check_group(crd: &Value, group: &str, errors: &mut Vec<FieldError>) {
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
        return;
    }
    errors.extend(
        subdomain_errors(group)
            .iter()
            .map(|it| FieldError::invalid("spec.group", &json!(group), it)),
    );
    if !group.contains('.') {
        errors.push(FieldError::invalid(
            "spec.group",
            &json!(group),
            "should be a domain with at least one dot",
        ));
    }
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|it| group == *it || group.ends_with(&format!(".{it}")));
    if protected {
        const KEY: &str = "api-approved.kubernetes.io";
        let field = format!("metadata.annotations[{KEY}]");
        let note = crd
            .pointer("/metadata/annotations")
            .and_then(|it| it.get(KEY))
            .and_then(Value::as_str)
            .filter(|it| !it.is_empty());
        match note {
            None => errors.push(FieldError::required(
                field,
                "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
                 https://github.com/kubernetes/enhancements/pull/1111",
            )),
            Some(note) if note.starts_with("unapproved") || note.contains("://") => {}
            Some(note) => errors.push(FieldError::invalid(
                field,
                &json!(note),
                "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \
                 \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111",
            )),
        }
    }
}

fn check_names(names: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    for key in ["plural", "singular", "kind", "listKind"] {
        let field = format!("spec.names.{key}");
        let name = text(names, key);
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        if matches!(key, "kind" | "listKind") {
            let found = label_1035_errors(&name.to_lowercase());
            let shown = |it: &String| {
                FieldError::invalid(
                    &field,
                    &json!(name),
                    format!("may have mixed case, but should otherwise match: {it}"),
                )
            };
            errors.extend(found.iter().map(shown));
        } else {
            errors.extend(
                label_1035_errors(name)
                    .iter()
                    .map(|it| FieldError::invalid(&field, &json!(name), it)),
            );
        }
    }
    for key in ["shortNames", "categories"] {
        for (at, name) in names
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
        {
            let found = label_1035_errors(name.as_str().unwrap_or(""));
            errors.extend(
                found
                    .iter()
                    .map(|it| FieldError::invalid(format!("spec.names.{key}[{at}]"), name, it)),
            );
        }
    }
    let kind = text(names, "kind");
    if !kind.is_empty() && kind == text(names, "listKind") {
        errors.push(FieldError::invalid(
            "spec.names.listKind",
            &json!(kind),
            "kind and listKind may not be the same",
        ));
    }
}

fn check_conversion(spec: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let Some(conversion) = spec.get("conversion") else {
        return;
    };
    match conversion["strategy"].as_str().unwrap_or("") {
        "" => errors.push(FieldError::required("spec.conversion.strategy", "")),
        "None" => {
            let text = "should not be set when strategy is not set to Webhook";
            if conversion.pointer("/webhook/clientConfig").is_some() {
                errors.push(FieldError::forbidden("spec.conversion.webhookClientConfig", text));
            }
            let reviews = conversion.pointer("/webhook/conversionReviewVersions");
            if reviews.and_then(Value::as_array).is_some_and(|it| !it.is_empty()) {
                errors.push(FieldError::forbidden("spec.conversion.conversionReviewVersions", text));
            }
        }
        "Webhook" => {
            match conversion.pointer("/webhook/clientConfig") {
                None => errors.push(FieldError::required(
                    "spec.conversion.webhookClientConfig",
                    "required when strategy is set to Webhook",
                )),
                Some(config) => {
                    if config.get("url").is_some() == config.get("service").is_some() {
                        let text = "exactly one of url or service is required";
                        errors.push(FieldError::required("spec.conversion.webhookClientConfig", text));
                    } else if let Some(url) = config["url"].as_str() {
                        check_url(url, "spec.conversion.webhookClientConfig.url", errors);
                    }
                }
            }
            let reviews = conversion
                .pointer("/webhook/conversionReviewVersions")
                .and_then(Value::as_array);
            if reviews.is_none_or(Vec::is_empty) {
                errors.push(FieldError::required("spec.conversion.conversionReviewVersions", ""));
            } else if !reviews.into_iter().flatten().any(|it| it == "v1" || it == "v1beta1") {
                let shown = json!(reviews);
                let text = "must include at least one of v1, v1beta1";
                errors.push(FieldError::invalid(
                    "spec.conversion.conversionReviewVersions",
                    &shown,
                    text,
                ));
            }
        }
        other => {
            errors.push(FieldError::not_supported(
                "spec.conversion.strategy",
                &json!(other),
                &["None", "Webhook"],
            ));
        }
    }
}

/// An address that is called has a host and a path, and nothing else.
fn check_url(url: &str, field: &str, errors: &mut Vec<FieldError>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("", rest));
    let authority = match scheme {
        "" => "",
        _ => rest.split('/').next().unwrap_or_default(),
    };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut wrong = |value: &str, text: String| errors.push(FieldError::invalid(field, &json!(value), text));
    if scheme != "https" {
        wrong(scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() {
        wrong(host, format!("host must be specified{FORM}"));
    }
    for (part, what) in [
        (user, "user information is"),
        (fragment, "fragments are"),
        (query, "query parameters are"),
    ] {
        if !part.is_empty() {
            wrong(part, format!("{what} not permitted in the URL"));
        }
    }
}

fn check_versions(spec: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let versions = spec
        .get("versions")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    // What all versions share, Kubernetes keeps once, and errors name that place.
    let shared = |key: &str| versions.iter().all(|it| it.get(key) == versions[0].get(key));
    let mut seen = Vec::new();
    for (at, version) in versions.iter().enumerate() {
        let field = format!("spec.versions[{at}]");
        let name = version["name"].as_str().unwrap_or("");
        errors.extend(
            label_1035_errors(name)
                .iter()
                .map(|it| FieldError::invalid(format!("{field}.name"), &json!(name), it)),
        );
        if seen.contains(&name) {
            errors.push(FieldError::invalid(
                "spec.versions",
                &json!(name),
                "must contain unique version names",
            ));
        }
        seen.push(name);
        if let Some(text) = version["deprecationWarning"].as_str() {
            if version["deprecated"] != json!(true) {
                let detail = "can only be set for deprecated versions";
                errors.push(FieldError::invalid(
                    format!("{field}.deprecationWarning"),
                    &json!(text),
                    detail,
                ));
            } else if text.is_empty() || text.len() > 256 || text.contains('\n') {
                let detail = "must be non-empty, at most 256 characters and without line breaks";
                errors.push(FieldError::invalid(
                    format!("{field}.deprecationWarning"),
                    &json!(text),
                    detail,
                ));
            }
        }
        let once = |key: &str, top: &str, own: &str| match (shared(key), at) {
            (true, 0) => Some(top.to_owned()),
            (true, _) => None,
            (false, _) => Some(format!("{field}.{own}")),
        };
        match version.pointer("/schema/openAPIV3Schema") {
            None => errors.push(FieldError::required(format!("{field}.schema.openAPIV3Schema"), "")),
            Some(schema) => {
                if let Some(path) = once("schema", "spec.validation.openAPIV3Schema", "schema.openAPIV3Schema") {
                    if version.pointer("/subresources/status").is_some_and(|it| !it.is_null()) {
                        check_beside_status(schema, &path, errors);
                    }
                    structural_values::check_root(schema, &path, errors);
                }
            }
        }
        if let Some(path) = once(
            "additionalPrinterColumns",
            "spec.additionalPrinterColumns",
            "additionalPrinterColumns",
        ) {
            check_columns(version, &path, errors);
        }
        if let Some(path) = once("subresources", "spec.subresources", "subresources") {
            check_scale(version, &path, errors);
        }
        if let Some(path) = once("selectableFields", "spec.selectableFields", "selectableFields") {
            check_selectable(version, &path, errors);
        }
    }
    if versions.iter().filter(|it| it["storage"] == json!(true)).count() != 1 {
        let shown = Value::Array(versions.iter().map(|it| it["name"].clone()).collect());
        let text = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", &shown, text));
    }
}

/// Where the status is written apart from the rest, what judges the object as a whole could not be held to.
fn check_beside_status(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    const ALLOWED: &[&str] = &[
        "description",
        "type",
        "format",
        "title",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "multipleOf",
        "required",
        "items",
        "properties",
        "externalDocs",
        "example",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ];
    const WHERE: &str = "at the root of the schema if the status subresource is enabled";
    let ty = schema["type"].as_str().unwrap_or("object");
    if ty != "object" {
        let text =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(format!("{path}.type"), &json!(ty), text));
        return;
    }
    let is_given = |it: &Value| !it.is_null() && *it != json!(false) && *it != json!("") && *it != json!([]);
    let mut members = schema.as_object().into_iter().flatten();
    if members.any(|(key, value)| is_given(value) && !ALLOWED.contains(&key.as_str())) {
        // As Go names them.
        let names: Vec<String> = ALLOWED
            .iter()
            .map(|it| match it.strip_prefix("x-kubernetes-") {
                Some("validations") => "XValidations".to_owned(),
                Some(_) => "XPreserveUnknownFields".to_owned(),
                None => format!("{}{}", it[..1].to_uppercase(), &it[1..]),
            })
            .collect();
        let text = format!("only [{}] fields are allowed {WHERE}", names.join(" "));
        errors.push(FieldError::invalid(path, schema, text));
    }
}

const NO_PATH: &str = "must be a simple json path starting with .";

fn check_columns(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (at, column) in version["additionalPrinterColumns"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        if column["name"].as_str().unwrap_or("").is_empty() {
            errors.push(FieldError::required(format!("{path}[{at}].name"), ""));
        }
        const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
        match column["type"].as_str().unwrap_or("") {
            "" => errors.push(FieldError::required(
                format!("{path}[{at}].type"),
                &format!("must be one of {}", TYPES.join(",")),
            )),
            found if TYPES.contains(&found) => {}
            found => errors.push(FieldError::invalid(
                format!("{path}[{at}].type"),
                &json!(found),
                format!("must be one of {}", TYPES.join(",")),
            )),
        }
        const FORMATS: [&str; 8] = [
            "byte",
            "date",
            "date-time",
            "double",
            "float",
            "int32",
            "int64",
            "password",
        ];
        let format = column["format"].as_str().unwrap_or("");
        if !format.is_empty() && !FORMATS.contains(&format) {
            errors.push(FieldError::invalid(
                format!("{path}[{at}].format"),
                &json!(format),
                format!("must be one of {}", FORMATS.join(",")),
            ));
        }
        let json_path = column["jsonPath"].as_str().unwrap_or("");
        if json_path.is_empty() {
            errors.push(FieldError::required(format!("{path}[{at}].JSONPath"), ""));
        } else if !json_path.starts_with('.') {
            errors.push(FieldError::invalid(
                format!("{path}[{at}].JSONPath"),
                &json!(json_path),
                NO_PATH,
            ));
        } else if let Err(why) = JsonPath::parse(json_path) {
            let text = format!("is an invalid path: {why}");
            errors.push(FieldError::invalid(
                format!("{path}[{at}].JSONPath"),
                &json!(json_path),
                text,
            ));
        }
    }
}

fn check_scale(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(scale) = version.pointer("/subresources/scale") else {
        return;
    };
    for (key, required, roots) in [
        ("specReplicasPath", true, &[".spec"][..]),
        ("statusReplicasPath", true, &[".status"][..]),
        ("labelSelectorPath", false, &[".spec", ".status"][..]),
    ] {
        let field = format!("{path}.scale.{key}");
        let found = scale[key].as_str().unwrap_or("");
        if found.is_empty() {
            if required {
                errors.push(FieldError::required(field, ""));
            }
        } else if !found.starts_with('.') {
            errors.push(FieldError::invalid(field, &json!(found), NO_PATH));
        } else if !roots.iter().any(|it| found.starts_with(&format!("{it}."))) {
            let text = match roots {
                [only] => format!("should be a json path under {only}"),
                _ => format!("should be a json path under either {}", roots.join(" or ")),
            };
            errors.push(FieldError::invalid(field, &json!(found), text));
        }
    }
}

fn check_selectable(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    const FIELDS_MAX: usize = 8;
    let mut seen = BTreeSet::new();
    for (at, field) in version["selectableFields"].as_array().into_iter().flatten().enumerate() {
        let place = format!("{path}[{at}].jsonPath");
        let json_path = field["jsonPath"].as_str().unwrap_or("");
        if json_path.is_empty() {
            errors.push(FieldError::required(place, ""));
            continue;
        }
        let mut node = version.pointer("/schema/openAPIV3Schema");
        for part in json_path.trim_start_matches('.').split('.') {
            node = node.and_then(|it| it.get("properties")).and_then(|it| it.get(part));
        }
        match node.and_then(|it| it["type"].as_str()) {
            Some("string" | "boolean" | "integer") if json_path.starts_with('.') => {
                if !seen.insert(json_path) {
                    errors.push(FieldError::duplicate(place, &json!(json_path)));
                }
            }
            None => errors.push(FieldError::invalid(
                place,
                &json!(json_path),
                "is an invalid path: does not refer to a valid field",
            )),
            Some(_) => errors.push(FieldError::invalid(
                place,
                &json!(json_path),
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are \
                 allowed.",
            )),
        }
    }
    if seen.len() > FIELDS_MAX {
        errors.push(FieldError::too_many(path, seen.len(), FIELDS_MAX));
    }
}

#[cfg(test)]
mod tests;
