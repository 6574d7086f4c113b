//! Objects of built-in kinds as JSON and YAML: read, completed, checked, shown, and owned by somebody.

use super::{part, text};
use jiff::Timestamp;
use kube_api::{
    builtin_schemas, kinds,
    table::{self, Form, IncludeObject},
};
use kube_store::{
    managed,
    schema::{decode, duplicates, metadata},
};
use serde_json::Value;

/// `GROUP/VERSION KIND` on the first line, and an object of it as JSON or YAML.
pub fn kinds(data: &[u8]) {
    let (line, body) = part(data);
    let Some((group_version, kind)) = text(line).split_once(' ') else {
        return;
    };
    let (group, version) = group_version.rsplit_once('/').unwrap_or(("", group_version));
    let twice = duplicates::duplicates(body);
    let as_json = serde_json::from_slice::<Value>(body);
    assert!(twice.len() <= body.len(), "what is said twice is said");
    let Some(value) = as_json.ok().or_else(|| kube_api::parse_yaml(body).ok()) else {
        return;
    };
    live_through((group, version, kind), value);
}

/// What the server does with an object of a built-in kind, without the server.
pub fn live_through((group, version, kind): (&str, &str, &str), mut value: Value) {
    let Some(schema) = builtin_schemas::schema(group, version, kind) else {
        return;
    };
    if decode::decode(&mut value, &schema, kind).is_err() {
        return;
    }
    let mut again = value.clone();
    let unknown = decode::decode(&mut again, &schema, kind).expect("what was read can be read again");
    assert!(unknown.is_empty(), "{unknown:?} is unknown only after it was read");
    assert_eq!(value, again, "it was in its canonical form");
    kinds::default(group, kind, &mut value);
    let mut again = value.clone();
    kinds::default(group, kind, &mut again);
    assert_eq!(value, again, "defaults are there after the first time");
    let rule = metadata::NameRule::Subdomain;
    let (mut errors, _) = metadata::validate_metadata(&value["metadata"], rule, true, true);
    errors.extend(kinds::validate(group, kind, &value, None));
    errors.extend(kinds::validate(group, kind, &value, Some(&again)));
    let printer = kinds::printer(group, kind);
    let form = Form {
        version: "v1",
        include: IncludeObject::Metadata,
    };
    let now = Timestamp::UNIX_EPOCH;
    assert_eq!(printer.cells(&value, now).len(), printer.columns().len());
    let _ = table::object_table(&printer, form, &value, now);
    if !errors.is_empty() {
        return;
    }
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let ctx = managed::Ctx {
        schema: &schema,
        manager: "fuzz",
        api_version: &api_version,
        subresource: "",
        now,
        reset_fields: &[&["status"]],
        built_in: true,
        served: &[&api_version],
        versions: None,
    };
    managed::update(None, &mut value, &ctx);
    let _ = managed::apply(Some(&value), &again, &ctx, false);
}
