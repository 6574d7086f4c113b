//! Webhook configurations, admission policies and their bindings.

use super::{
    defaults::{entry, items, member, set},
    strategy::{Columns, Strategy},
    validation::{
        fields::{FAIL_OR_IGNORE, FieldRule::*, FieldRules, MATCHES, SCOPES},
        list, qualified_name,
        scheduling::label_selector,
        subdomain, text,
    },
};
use crate::{
    admission::{
        expressions::{self, CONDITION_VARIABLES},
        policy,
    },
    call::Call,
    table::cells,
};
use kube_store::{
    schema::metadata::{label_1035_errors, path_segment_errors, subdomain_errors},
    status::{FieldError, Status},
};
use safe_cel::{CompileError, Tree};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// MutatingWebhookConfiguration and ValidatingWebhookConfiguration.
pub struct WebhookConfigurations {
    pub mutating: bool,
}

impl Strategy for WebhookConfigurations {
    fn columns(&self) -> Columns {
        Columns::new("Name|Webhooks:integer|Age", |it, now| {
            vec![
                cells::name(it),
                cells::count(it, &["webhooks"]).into(),
                cells::age(it, now),
            ]
        })
    }

    fn default(&self, object: &mut Map<String, Value>) {
        defaults_of_webhooks(object, self.mutating);
    }

    fn fields(&self) -> FieldRules {
        WEBHOOKS
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let mut names = HashSet::new();
        for (at, it) in list(new, "/webhooks").iter().enumerate() {
            let field = format!("webhooks[{at}]");
            webhook(it, &field, errors);
            let name = text(it, "/name");
            if !names.insert(name) {
                errors.push(FieldError::duplicate(format!("{field}.name"), &json!(name)));
            }
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>, warnings: &mut Vec<String>) {
        reserved_name(new, warnings);
    }
}

/// ValidatingAdmissionPolicy.
pub struct AdmissionPolicies;

impl Strategy for AdmissionPolicies {
    fn columns(&self) -> Columns {
        Columns::new("Name|Validations:integer|ParamKind|Age", |it, now| {
            vec![
                cells::name(it),
                cells::count(it, &["spec", "validations"]).into(),
                param_kind_cell(it),
                cells::age(it, now),
            ]
        })
    }

    fn default(&self, object: &mut Map<String, Value>) {
        let spec = entry(object, "spec");
        set(spec, "failurePolicy", "Fail");
        if let Some(constraints) = member(spec, "matchConstraints") {
            match_resources(constraints);
        }
    }

    fn fields(&self) -> FieldRules {
        &[
            ("spec.failurePolicy", FAIL_OR_IGNORE),
            ("spec.matchConstraints.matchPolicy", MATCHES),
            (
                "spec.matchConstraints.resourceRules[]|excludeResourceRules[].scope",
                SCOPES,
            ),
            (
                "spec.validations[].reason",
                OneOf(&["Forbidden", "Invalid", "RequestEntityTooLarge"]),
            ),
        ]
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let spec = &new["spec"];
        if spec["paramKind"].is_object() {
            param_kind(&spec["paramKind"], errors);
        }
        match spec.get("matchConstraints").filter(|it| !it.is_null()) {
            None => errors.push(FieldError::required("spec.matchConstraints", "")),
            Some(constraints) => {
                resources(constraints, "spec.matchConstraints", errors);
                if list(constraints, "/resourceRules").is_empty() {
                    errors.push(FieldError::required("spec.matchConstraints.resourceRules", ""));
                }
            }
        }
        let mut expressions = Names::of(spec, policy::VARIABLES);
        let mut messages = Names::of(spec, policy::MESSAGE_VARIABLES);
        let of_conditions = Names::of(spec, policy::CONDITION_VARIABLES);
        conditions(spec, "spec", &of_conditions.variables, errors);
        for (at, variable) in list(spec, "/variables").iter().enumerate() {
            let field = format!("spec.variables[{at}]");
            let name = text(variable, "/name");
            let is_name = !name.starts_with(|it: char| it.is_ascii_digit())
                && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
                && !safe_cel::RESERVED_WORDS.contains(&name);
            if name.is_empty() {
                errors.push(FieldError::required(format!("{field}.name"), "name is not specified"));
            } else if !is_name {
                errors.push(FieldError::invalid(
                    format!("{field}.name"),
                    &json!(name),
                    "must be a valid CEL identifier",
                ));
            }
            let place = format!("{field}.expression");
            expressions.check(
                &variable["expression"],
                &place,
                &[],
                "expression is not specified",
                errors,
            );
            expressions.declared.insert(name);
            messages.declared.insert(name);
        }
        let (validations, audits) = (list(spec, "/validations"), list(spec, "/auditAnnotations"));
        if validations.is_empty() && audits.is_empty() {
            let detail = "validations or auditAnnotations must contain at least one item";
            errors.push(FieldError::required("spec.validations", detail));
            errors.push(FieldError::required("spec.auditAnnotations", detail));
        }
        for (at, validation) in validations.iter().enumerate() {
            let field = format!("spec.validations[{at}]");
            let place = format!("{field}.expression");
            let lacking = "expression is not specified";
            expressions.check(&validation["expression"], &place, &["bool"], lacking, errors);
            let (message, computed) = (text(validation, "/message"), text(validation, "/messageExpression"));
            for (key, given) in [("message", message), ("messageExpression", computed)] {
                if !given.is_empty() && given.trim().is_empty() {
                    let detail = "must be non-empty if specified";
                    errors.push(FieldError::invalid(format!("{field}.{key}"), &json!(given), detail));
                }
            }
            if !computed.trim().is_empty() {
                let place = format!("{field}.messageExpression");
                messages.check(&json!(computed), &place, &["string"], "", errors);
            }
            if message.trim().contains(['\n', '\r']) {
                let detail = "must not contain line breaks";
                errors.push(FieldError::invalid(format!("{field}.message"), &json!(message), detail));
            }
        }
        if audits.len() > AUDIT_ANNOTATIONS_MAX {
            // As Go prints its structs.
            let shown: Value = audits
                .iter()
                .map(|it| json!({"Key": text(it, "/key"), "ValueExpression": text(it, "/valueExpression")}))
                .collect();
            let detail = format!("must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations");
            errors.push(FieldError::invalid("spec.auditAnnotations", &shown, detail));
        }
        let mut keys = HashSet::new();
        for (at, audit) in audits.iter().enumerate() {
            let field = format!("spec.auditAnnotations[{at}]");
            let key = text(audit, "/key");
            // As it would be written down.
            let whole = format!("{}/{key}", text(new, "/metadata/name"));
            qualified_name(&whole, &format!("{field}.key"), errors);
            if !keys.insert(key) {
                errors.push(FieldError::duplicate(format!("{field}.key"), &json!(key)));
            }
            let place = format!("{field}.valueExpression");
            let lacking = "valueExpression is not specified";
            expressions.check(
                &audit["valueExpression"],
                &place,
                &["string", "null_type"],
                lacking,
                errors,
            );
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>, warnings: &mut Vec<String>) {
        reserved_name(new, warnings);
    }

    fn prepare_for_create(&self, _call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
        // Its expressions are checked before it is stored: what a controller would say later is known now.
        value["status"] = json!({"observedGeneration": 1, "typeChecking": {}});
        Ok(())
    }

    fn finish_update(&self, call: &Call<'_>, new: &mut Value) {
        if call.subresource.is_empty() {
            new["status"]["observedGeneration"] = new["metadata"]["generation"].clone();
        }
    }

    fn status_metadata(&self) -> &'static [&'static str] {
        &["managedFields"]
    }
}

/// ValidatingAdmissionPolicyBinding.
pub struct AdmissionPolicyBindings;

impl Strategy for AdmissionPolicyBindings {
    fn columns(&self) -> Columns {
        Columns::new("Name|PolicyName|ParamRef|Age", |it, now| {
            vec![
                cells::name(it),
                cells::text(it, &["spec", "policyName"]).into(),
                param_ref_cell(it),
                cells::age(it, now),
            ]
        })
    }

    fn default(&self, object: &mut Map<String, Value>) {
        if let Some(resources) = member(entry(object, "spec"), "matchResources") {
            match_resources(resources);
        }
    }

    fn fields(&self) -> FieldRules {
        &[
            ("spec.policyName", Subdomain),
            ("spec.matchResources.matchPolicy", MATCHES),
            (
                "spec.matchResources.resourceRules[]|excludeResourceRules[].scope",
                SCOPES,
            ),
            ("spec.paramRef.parameterNotFoundAction", OneOf(&["Deny", "Allow"])),
        ]
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, errors: &mut Vec<FieldError>) {
        const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
        let spec = &new["spec"];
        if text(spec, "/policyName").is_empty() {
            errors.push(FieldError::required("spec.policyName", ""));
        }
        if spec["paramRef"].is_object() {
            param_ref(&spec["paramRef"], errors);
        }
        if let Some(resources_of) = spec.get("matchResources").filter(|it| !it.is_null()) {
            resources(resources_of, "spec.matchResources", errors);
        }
        let actions = list(spec, "/validationActions");
        let mut seen = HashSet::new();
        for (at, action) in actions.iter().enumerate() {
            let field = format!("spec.validationActions[{at}]");
            if !ACTIONS.iter().any(|it| action == it) {
                errors.push(FieldError::not_supported(&field, action, &ACTIONS));
            }
            if !seen.insert(action) {
                errors.push(FieldError::duplicate(field, action));
            }
        }
        if actions.iter().any(|it| it == "Deny") && actions.iter().any(|it| it == "Warn") {
            let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and \
                          headers serves no purpose)";
            errors.push(FieldError::invalid("spec.validationActions", &json!(actions), detail));
        }
        if actions.is_empty() {
            let detail = "at least one validation action is required";
            errors.push(FieldError::required("spec.validationActions", detail));
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>, warnings: &mut Vec<String>) {
        reserved_name(new, warnings);
    }
}

const CONDITIONS_MAX: usize = 64;
const AUDIT_ANNOTATIONS_MAX: usize = 20;

fn webhook(webhook: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let name = text(webhook, "/name");
    if name.is_empty() {
        errors.push(FieldError::required(format!("{field}.name"), ""));
    } else {
        subdomain(name, &format!("{field}.name"), errors);
        if name.split('.').count() < 3 {
            let detail = "should be a domain with at least three segments separated by dots";
            errors.push(FieldError::invalid(format!("{field}.name"), &json!(name), detail));
        }
    }
    for (at, it) in list(webhook, "/rules").iter().enumerate() {
        rule(it, &format!("{field}.rules[{at}]"), errors);
    }
    if text(webhook, "/sideEffects").is_empty() {
        errors.push(FieldError::required(
            format!("{field}.sideEffects"),
            "must specify one of None, NoneOnDryRun",
        ));
    }
    if let Some(seconds) = webhook
        .get("timeoutSeconds")
        .filter(|it| it.as_i64().is_some_and(|it| !(1..=30).contains(&it)))
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(format!("{field}.timeoutSeconds"), seconds, detail));
    }
    selectors(webhook, field, errors);
    client_config(&webhook["clientConfig"], &format!("{field}.clientConfig"), errors);
    review_versions(webhook, &format!("{field}.admissionReviewVersions"), errors);
    conditions(webhook, field, CONDITION_VARIABLES, errors);
}

fn review_versions(webhook: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let versions = list(webhook, "/admissionReviewVersions");
    if versions.is_empty() {
        errors.push(FieldError::required(field, "must specify one of v1, v1beta1"));
        return;
    }
    let mut seen = HashSet::new();
    for (at, version) in versions.iter().enumerate() {
        if !seen.insert(version) {
            errors.push(FieldError::invalid(
                format!("{field}[{at}]"),
                version,
                "duplicate version",
            ));
            continue;
        }
        let wrong = label_1035_errors(version.as_str().unwrap_or_default()).into_iter();
        errors.extend(wrong.map(|it| FieldError::invalid(format!("{field}[{at}]"), version, it)));
    }
    if !versions.iter().any(|it| it == "v1" || it == "v1beta1") {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(field, &json!(versions), detail));
    }
}

fn rule(rule: &Value, field: &str, errors: &mut Vec<FieldError>) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    for (key, others) in [
        ("operations", "operations"),
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
        ("resources", "resources"),
    ] {
        let place = format!("{field}.{key}");
        let items = list(rule, &format!("/{key}"));
        if items.is_empty() {
            errors.push(FieldError::required(place, ""));
            continue;
        }
        let star = if key == "resources" { "*/*" } else { "*" };
        if items.len() > 1 && items.iter().any(|it| it == star) {
            let detail = format!("if '{star}' is present, must not specify other {others}");
            errors.push(FieldError::invalid(&place, &json!(items), detail));
        }
        for (at, item) in items.iter().enumerate() {
            let item = item.as_str().unwrap_or("");
            if item.is_empty() && key != "apiGroups" && key != "operations" {
                errors.push(FieldError::required(format!("{place}[{at}]"), ""));
            }
            if key == "operations" && !OPERATIONS.contains(&item) {
                errors.push(FieldError::not_supported(
                    format!("{place}[{at}]"),
                    &json!(item),
                    &OPERATIONS,
                ));
            }
        }
    }
}

fn selectors(value: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for key in ["namespaceSelector", "objectSelector"] {
        label_selector(&value[key], &format!("{field}.{key}"), errors);
    }
}

fn client_config(config: &Value, field: &str, errors: &mut Vec<FieldError>) {
    match (config.get("url"), config.get("service").filter(|it| !it.is_null())) {
        (Some(given), None) => url(given.as_str().unwrap_or(""), &format!("{field}.url"), errors),
        (None, Some(given)) => service(given, &format!("{field}.service"), errors),
        _ => errors.push(FieldError::required(field, "exactly one of url or service is required")),
    }
}

fn url(given: &str, field: &str, errors: &mut Vec<FieldError>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let mut wrong = |shown: &str, detail: String| errors.push(FieldError::invalid(field, &json!(shown), detail));
    let scheme = given.split_once("://").map_or("", |(it, _)| it);
    if scheme != "https" {
        wrong(scheme, format!("'https' is the only allowed URL scheme{FORM}"));
        return;
    }
    match url::Url::parse(given) {
        Err(url::ParseError::EmptyHost) => wrong("", format!("host must be specified{FORM}")),
        Err(why) => errors.push(FieldError::required(
            field,
            &format!("url must be a valid URL: {why}{FORM}"),
        )),
        Ok(it) => {
            if !it.username().is_empty() || it.password().is_some() {
                // It may be a password.
                wrong("", "user information is not permitted in the URL".to_owned());
            }
            if let Some(fragment) = it.fragment() {
                wrong(fragment, "fragments are not permitted in the URL".to_owned());
            }
            if let Some(query) = it.query() {
                wrong(query, "query parameters are not permitted in the URL".to_owned());
            }
        }
    }
}

fn service(service: &Value, field: &str, errors: &mut Vec<FieldError>) {
    // Upstream takes the one for the other.
    for (key, told) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, &format!("/{key}")).is_empty() {
            errors.push(FieldError::required(format!("{field}.{told}"), ""));
        }
    }
    if let Some(port) = service
        .get("port")
        .filter(|it| !it.as_i64().is_some_and(|it| (1..=65535).contains(&it)))
    {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{field}.port"), port, detail));
    }
    let Some(path) = service.get("path").and_then(Value::as_str) else {
        return;
    };
    let place = format!("{field}.path");
    if path.is_empty() {
        return;
    }
    if !path.starts_with('/') {
        errors.push(FieldError::invalid(&place, &json!(path), "must start with a '/'"));
    }
    if path == "/" {
        return;
    }
    let inner = path.strip_prefix('/').unwrap_or(path);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    for (at, segment) in inner.split('/').enumerate() {
        if segment.is_empty() {
            let detail = format!("segment[{at}] may not be empty");
            errors.push(FieldError::invalid(&place, &json!(path), detail));
            continue;
        }
        let wrong = subdomain_errors(segment).into_iter();
        errors.extend(wrong.map(|it| FieldError::invalid(&place, &json!(path), format!("segment[{at}]: {it}"))));
    }
}

/// `matchConditions` of a webhook or a policy.
fn conditions(value: &Value, field: &str, variables: &[&str], errors: &mut Vec<FieldError>) {
    let conditions = list(value, "/matchConditions");
    let field = format!("{field}.matchConditions");
    if conditions.len() > CONDITIONS_MAX {
        errors.push(FieldError::too_many(&field, conditions.len(), CONDITIONS_MAX));
    }
    let mut names = HashSet::new();
    for (at, condition) in conditions.iter().enumerate() {
        let place = format!("{field}[{at}].expression");
        expression(&condition["expression"], &place, variables, "bool", errors);
        let (name, place) = (text(condition, "/name"), format!("{field}[{at}].name"));
        if name.is_empty() {
            errors.push(FieldError::required(place, ""));
            continue;
        }
        qualified_name(name, &place, errors);
        if !names.insert(name) {
            errors.push(FieldError::duplicate(place, &json!(name)));
        }
    }
}

/// An expression that has to be there and to give a value of a type; of any, where none is said.
fn expression(given: &Value, field: &str, variables: &[&str], kind: &str, errors: &mut Vec<FieldError>) {
    let names = Names {
        variables: variables.to_vec(),
        declared: HashSet::new(),
    };
    // Of conditions the blanks around them do not count; an error names its place without them.
    let text = given.as_str().unwrap_or("").trim();
    names.check(&json!(text), field, &[kind], "", errors);
}

/// What expressions of a policy may name.
struct Names<'a> {
    variables: Vec<&'a str>,
    /// What may follow `variables.`.
    declared: HashSet<&'a str>,
}

impl<'a> Names<'a> {
    /// Those of a policy: its parameters and variables are there if it has any.
    fn of(spec: &Value, all: &[&'a str]) -> Self {
        let has = |name: &str| match name {
            "params" => spec["paramKind"].is_object(),
            "variables" => !list(spec, "/variables").is_empty(),
            _ => true,
        };
        Self {
            variables: all.iter().copied().filter(|it| has(it)).collect(),
            declared: HashSet::new(),
        }
    }

    /// An expression that gives one of these types; of any, where none is said.
    fn check(&self, given: &Value, field: &str, kinds: &[&str], lacking: &str, errors: &mut Vec<FieldError>) {
        let text = given.as_str().unwrap_or("");
        if text.trim().is_empty() {
            errors.push(FieldError::required(field, lacking));
            return;
        }
        let detail = match expressions::library().read(text, &self.variables) {
            Err(error) => error.to_string(),
            Ok(tree) => match (self.undeclared(text, &tree), expressions::kind(&tree)) {
                (Some(error), _) => error.to_string(),
                (None, Some(found)) if !kinds.is_empty() && !kinds.contains(&found) => match kinds {
                    [kind] => format!("must evaluate to {kind} but got {found}"),
                    _ => format!("must evaluate to one of [{}] but got {found}", kinds.join(" ")),
                },
                _ => return,
            },
        };
        errors.push(FieldError::invalid(field, &json!(text), detail));
    }

    /// The first variable of the policy that it names and that is not declared before it.
    fn undeclared(&self, text: &str, tree: &Tree) -> Option<CompileError> {
        let mut used = Vec::new();
        if self.variables.contains(&"variables") {
            tree.look(|it| policy::variables_of(it, &mut used));
        }
        let name = used.into_iter().find(|it| !self.declared.contains(it.as_str()))?;
        let error = format!("undefined field '{name}'");
        // Told at the dot, as Kubernetes does.
        let use_of = format!("variables.{name}");
        let uses = text.match_indices(&use_of).map(|(at, found)| (at, at + found.len()));
        let is_whole = |end: usize| !text[end..].starts_with(|it: char| it.is_ascii_alphanumeric() || it == '_');
        let dot = uses
            .filter(|(_, end)| is_whole(*end))
            .map(|(at, _)| at + "variables".len())
            .next();
        Some(CompileError::at_byte(text, dot.unwrap_or(0), &error))
    }
}

/// Errors of the kind of what a policy takes its parameters from.
fn param_kind(given: &Value, errors: &mut Vec<FieldError>) {
    let (api_version, kind) = (text(given, "/apiVersion"), text(given, "/kind"));
    let mut wrong = |key: &str, shown: &str, detail: String| {
        errors.push(FieldError::invalid(
            format!("spec.paramKind.{key}"),
            &json!(shown),
            detail,
        ));
    };
    let (group, version) = match api_version {
        "/" => ("", ""),
        it => it.split_once('/').unwrap_or(("", it)),
    };
    if version.contains('/') {
        wrong(
            "apiVersion",
            api_version,
            format!("unexpected GroupVersion string: {api_version}"),
        );
    } else if !api_version.is_empty() {
        let of_group = subdomain_errors(group);
        if !group.is_empty() && !of_group.is_empty() {
            wrong("apiVersion", group, of_group.join(","));
        }
        let of_version = label_1035_errors(version);
        if version.is_empty() {
            wrong("apiVersion", api_version, "version must be specified".to_owned());
        } else if !of_version.is_empty() {
            wrong("apiVersion", version, of_version.join(","));
        }
    }
    let of_kind = label_1035_errors(&kind.to_lowercase());
    if !kind.is_empty() && !of_kind.is_empty() {
        let detail = "may have mixed case, but should otherwise match: ";
        wrong("kind", kind, format!("{detail}{}", of_kind.join(",")));
    }
    for key in ["apiVersion", "kind"] {
        if text(given, &format!("/{key}")).is_empty() {
            errors.push(FieldError::required(format!("spec.paramKind.{key}"), ""));
        }
    }
}

fn resource_names(rule: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    for (at, name) in list(rule, "/resourceNames").iter().enumerate() {
        let place = format!("{field}.resourceNames[{at}]");
        let wrong = path_segment_errors(name.as_str().unwrap_or_default()).into_iter();
        errors.extend(wrong.map(|it| FieldError::invalid(&place, name, it)));
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(place, name));
        }
    }
}

/// `matchConstraints` or `matchResources`.
fn resources(constraints: &Value, field: &str, errors: &mut Vec<FieldError>) {
    selectors(constraints, field, errors);
    for key in ["resourceRules", "excludeResourceRules"] {
        for (at, it) in list(constraints, &format!("/{key}")).iter().enumerate() {
            let place = format!("{field}.{key}[{at}]");
            resource_names(it, &place, errors);
            rule(it, &place, errors);
        }
    }
}

/// Errors of which parameters a binding takes.
fn param_ref(param: &Value, errors: &mut Vec<FieldError>) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let (name, selector) = (text(param, "/name"), &param["selector"]);
    let has_selector = !selector.is_null();
    if !name.is_empty() {
        let wrong = path_segment_errors(name).into_iter();
        errors.extend(wrong.map(|it| FieldError::invalid("spec.paramRef.name", &json!(name), it)));
        if has_selector {
            errors.push(FieldError::forbidden("spec.paramRef.name", EXCLUSIVE));
        }
    }
    label_selector(selector, "spec.paramRef.selector", errors);
    if has_selector && !name.is_empty() {
        errors.push(FieldError::forbidden("spec.paramRef.selector", EXCLUSIVE));
    }
    if !has_selector && name.is_empty() {
        let detail = "one of name or selector must be specified";
        errors.push(FieldError::required("spec.paramRef", detail));
    }
    if text(param, "/parameterNotFoundAction").is_empty() {
        errors.push(FieldError::required("spec.paramRef.parameterNotFoundAction", ""));
    }
}

#[rustfmt::skip]
const WEBHOOKS: FieldRules = &[
    ("webhooks[].failurePolicy", FAIL_OR_IGNORE),
    ("webhooks[].matchPolicy", MATCHES),
    ("webhooks[].reinvocationPolicy", OneOf(&["IfNeeded", "Never"])),
    ("webhooks[].sideEffects", OneOf(&["None", "NoneOnDryRun"])),
    ("webhooks[].rules[].scope", SCOPES),
];

/// Names that are not for those who write through the API.
fn reserved_name(new: &Value, warnings: &mut Vec<String>) {
    let suffix = ".static.k8s.io";
    if text(new, "/metadata/name").ends_with(suffix) {
        warnings.push(format!(
            "metadata.name: names ending with {suffix:?} are reserved for static manifest-based configurations and cannot be \
             managed via the API"
        ));
    }
}

fn defaults_of_webhooks(object: &mut Map<String, Value>, mutating: bool) {
    for webhook in items(object, "webhooks") {
        set(webhook, "failurePolicy", "Fail");
        set(webhook, "timeoutSeconds", 10);
        match_resources(webhook);
        if mutating {
            set(webhook, "reinvocationPolicy", "Never");
        }
        items(webhook, "rules").for_each(|rule| set(rule, "scope", "*"));
        if let Some(service) = member(webhook, "clientConfig").and_then(|it| member(it, "service")) {
            set(service, "port", 443);
        }
    }
}

fn match_resources(map: &mut Map<String, Value>) {
    set(map, "matchPolicy", "Equivalent");
    set(map, "namespaceSelector", json!({}));
    set(map, "objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        items(map, list).for_each(|rule| set(rule, "scope", "*"));
    }
}

fn param_kind_cell(it: &Value) -> Value {
    match cells::at(it, &["spec", "paramKind"]) {
        Value::Null => cells::UNSET.into(),
        kind => format!(
            "{}/{}",
            cells::text(kind, &["apiVersion"]),
            cells::text(kind, &["kind"])
        )
        .into(),
    }
}

fn param_ref_cell(it: &Value) -> Value {
    match cells::at(it, &["spec", "paramRef"]) {
        Value::Null => cells::UNSET.into(),
        to => {
            let namespace = cells::or(cells::text(to, &["namespace"]), "*").to_owned();
            match cells::text(to, &["name"]) {
                "" => format!("{namespace}/{}", cells::selector(cells::at(to, &["selector"]))).into(),
                name => format!("{namespace}/{name}").into(),
            }
        }
    }
}
