//! Questions asked by creating an object that is never stored: who is this token, what may this user do,
//! a token please.

use crate::{
    authn::Authenticator,
    authz::Rbac,
    identity::{AccessDecision, Attributes, User},
    pki::Pki,
    tokens::{self, ISSUER},
};
use kube_store::{
    selector::label_key_error,
    status::{FieldError, Status},
    store::Store,
};
use serde_json::{Map, Value, json};

/// What reviews are answered from.
#[derive(Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub pki: &'a Pki,
    pub authenticator: &'a Authenticator,
    pub rbac: &'a Rbac,
    pub now: jiff::Timestamp,
}

/// Answers a create of one of the review resources; `serviceaccounts/token` is named so. `name` and `namespace` are
/// those of the path. The caller has authorized the create itself, and sends the answer with 201.
///
/// # Errors
/// What the client asked wrongly.
pub fn create(
    deps: Deps<'_>,
    user: &User,
    resource: &str,
    namespace: &str,
    name: &str,
    body: Value,
) -> Result<Value, Status> {
    match resource {
        "serviceaccounts/token" => token_request(deps, namespace, name, body),
        "tokenreviews" => token_review(deps, body),
        "selfsubjectreviews" => Ok(self_subject_review(deps, user, body)),
        "subjectaccessreviews" => subject_access_review(deps, "", body),
        "localsubjectaccessreviews" => subject_access_review(deps, namespace, body),
        "selfsubjectaccessreviews" => self_subject_access_review(deps, user, body),
        "selfsubjectrulesreviews" => self_subject_rules_review(deps, user, body),
        _ => Err(Status::no_such_resource()),
    }
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The body with `kind`, `apiVersion`, an answered `status`, and metadata that holds what the client sent.
fn answer(mut body: Value, kind: &str, api_version: &str, status: Value) -> Value {
    if !body.is_object() {
        body = json!({});
    }
    body["kind"] = kind.into();
    body["apiVersion"] = api_version.into();
    if !body["metadata"].is_object() {
        body["metadata"] = json!({});
    }
    body["status"] = status;
    body
}

fn user_info(user: &User) -> Value {
    serde_json::to_value(user).expect("a user serializes")
}

const SECONDS_MIN: i64 = 600;
const SECONDS_DEFAULT: i64 = 3600;

fn token_request(deps: Deps<'_>, namespace: &str, name: &str, body: Value) -> Result<Value, Status> {
    let account = deps
        .store
        .newest("serviceaccounts", namespace, name)
        .ok_or_else(|| Status::not_found("serviceaccounts", "", name))?;
    let spec = &body["spec"];
    let seconds = match &spec["expirationSeconds"] {
        Value::Null => SECONDS_DEFAULT,
        it => it
            .as_i64()
            .ok_or_else(|| Status::bad_request("spec.expirationSeconds is not an integer"))?,
    };
    let out_of_range = if seconds < SECONDS_MIN {
        Some("may not specify a duration less than 10 minutes")
    } else if seconds > 1 << 32 {
        Some("may not specify a duration larger than 2^32 seconds")
    } else {
        None
    };
    if let Some(detail) = out_of_range {
        let error = FieldError::invalid("spec.expirationSeconds", &seconds.into(), detail);
        return Err(Status::invalid("TokenRequest", "authentication.k8s.io", "", &[error]));
    }
    let mut audiences = texts(&spec["audiences"]);
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }
    let reference = &spec["boundObjectRef"];
    let objects = if reference.is_null() {
        Vec::new()
    } else {
        bound_objects(deps.store, namespace, name, reference)?
    };
    let bound = tokens::Bound {
        namespace,
        account: name,
        account_uid: &account.uid,
        audiences: &audiences,
        seconds,
        objects: &objects,
    };
    let key = deps
        .pki
        .token_key()
        .map_err(|error| Status::internal(error.to_string()))?;
    let token = key.sign(&tokens::bound_claims(&bound, deps.now));
    let expiration = deps.now + jiff::SignedDuration::from_secs(seconds);
    let mut reply = answer(
        json!({"spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference}}),
        "TokenRequest",
        "authentication.k8s.io/v1",
        json!({"token": token, "expirationTimestamp": time(expiration)}),
    );
    reply["metadata"] =
        json!({"name": name, "namespace": namespace, "uid": account.uid, "creationTimestamp": time(deps.now)});
    Ok(reply)
}

/// RFC 3339 in whole seconds.
fn time(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What a token ends with, first, and what else it tells: claim, name and uid.
fn bound_objects(
    store: &Store,
    namespace: &str,
    account: &str,
    reference: &Value,
) -> Result<Vec<(&'static str, String, String)>, Status> {
    let (api_version, kind, name) = (
        text(reference, "apiVersion"),
        text(reference, "kind"),
        text(reference, "name"),
    );
    let (claim, resource, namespace) = match (api_version, kind) {
        ("v1" | "", "Pod") => ("pod", "pods", namespace),
        ("v1" | "", "Secret") => ("secret", "secrets", namespace),
        ("v1" | "", "Node") => ("node", "nodes", ""),
        _ => {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let text = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Status::bad_request(text));
        }
    };
    let Some(object) = store.newest(resource, namespace, name) else {
        return Err(Status::not_found(resource, "", name));
    };
    let mut objects = vec![(claim, name.to_owned(), object.uid.to_string())];
    if claim == "pod" {
        let pod = object.value();
        let runs_as = text(&pod["spec"], "serviceAccountName");
        if runs_as != account {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
            )));
        }
        // Where it runs is told as well, and with the node's uid, if there is that node.
        let node = text(&pod["spec"], "nodeName");
        if !node.is_empty() {
            let uid = store.newest("nodes", "", node).map(|it| it.uid.to_string());
            objects.push(("node", node.to_owned(), uid.unwrap_or_default()));
        }
    }
    let uid = text(reference, "uid");
    if !uid.is_empty() && *object.uid != *uid {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted \
             and then recreated"
        );
        return Err(Status::conflict(kind, "", name, why));
    }
    Ok(objects)
}

fn token_review(deps: Deps<'_>, body: Value) -> Result<Value, Status> {
    let token = text(&body["spec"], "token");
    if token.is_empty() {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let audiences = texts(&body["spec"]["audiences"]);
    let status = match deps.authenticator.authenticate_token(token, &audiences, deps.now) {
        Some(user) => {
            let audiences = match audiences.is_empty() {
                true => vec![ISSUER.to_owned()],
                false => token_audiences(token, audiences),
            };
            json!({"authenticated": true, "user": user_info(&user), "audiences": audiences})
        }
        None => json!({"user": {}, "error": "invalid bearer token"}),
    };
    Ok(answer(body, "TokenReview", "authentication.k8s.io/v1", status))
}

/// Those of `wanted` that a token, already known to be good, is meant for.
fn token_audiences(token: &str, wanted: Vec<String>) -> Vec<String> {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let claims = token.split('.').nth(1).and_then(|it| URL_SAFE_NO_PAD.decode(it).ok());
    let claims: Value = claims
        .and_then(|it| serde_json::from_slice(&it).ok())
        .unwrap_or_default();
    let held = match &claims["aud"] {
        Value::String(it) => vec![it.clone()],
        // Tokens that name no audience are for this server.
        Value::Null => vec![ISSUER.to_owned()],
        it => texts(it),
    };
    wanted.into_iter().filter(|it| held.contains(it)).collect()
}

fn self_subject_review(deps: Deps<'_>, user: &User, body: Value) -> Value {
    let status = json!({"userInfo": user_info(user)});
    let mut reply = answer(body, "SelfSubjectReview", "authentication.k8s.io/v1", status);
    reply["metadata"]["creationTimestamp"] = time(deps.now).into();
    reply
}

/// Kubernetes names no kind in these refusals.
fn invalid(errors: &[FieldError]) -> Status {
    Status::invalid("", "authorization.k8s.io", "", errors)
}

/// Reads what a review asks about.
fn asked(spec: &Value) -> Result<Attributes, FieldError> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    match (resource.is_object(), path.is_object()) {
        (true, false) => Ok(Attributes {
            verb: text(resource, "verb").to_owned(),
            is_resource: true,
            group: text(resource, "group").to_owned(),
            version: text(resource, "version").to_owned(),
            resource: text(resource, "resource").to_owned(),
            subresource: text(resource, "subresource").to_owned(),
            namespace: text(resource, "namespace").to_owned(),
            name: text(resource, "name").to_owned(),
            path: String::new(),
        }),
        (false, true) => Ok(Attributes {
            verb: text(path, "verb").to_owned(),
            path: text(path, "path").to_owned(),
            ..Attributes::default()
        }),
        (both, _) => {
            let detail = if both {
                "cannot be specified in combination with resourceAttributes"
            } else {
                "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            };
            let field = if both {
                "spec.nonResourceAttributes"
            } else {
                "spec.resourceAttributes"
            };
            let value = if both { path_in_go(path) } else { Value::Null };
            Err(FieldError::invalid(field, &value, detail))
        }
    }
}

/// What is wrong with the selectors that a question is about. No rule of ours looks at them; others may.
fn selector_errors(spec: &Value, errors: &mut Vec<FieldError>) {
    for kind in ["fieldSelector", "labelSelector"] {
        let selector = &spec["resourceAttributes"][kind];
        if selector.is_null() {
            continue;
        }
        let field = format!("spec.resourceAttributes.{kind}");
        let raw = text(selector, "rawSelector");
        let requirements = selector["requirements"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        match (raw.is_empty(), requirements.is_empty()) {
            (false, false) => errors.push(FieldError::invalid(
                format!("{field}.rawSelector"),
                &raw.into(),
                "may not specified at the same time as requirements",
            )),
            (true, true) => errors.push(FieldError::required(
                format!("{field}.requirements"),
                &format!("when {field} is specified, requirements or rawSelector is required"),
            )),
            _ => {}
        }
        for (at, it) in requirements.iter().enumerate() {
            let field = format!("{field}.requirements[{at}]");
            let key = text(it, "key");
            if kind == "labelSelector" {
                let wrong = label_key_error(key).unwrap_or_default();
                let wrong = wrong.split("; ").filter(|it| !it.is_empty());
                errors.extend(wrong.map(|it| FieldError::invalid(format!("{field}.key"), &key.into(), it)));
            } else if key.is_empty() {
                errors.push(FieldError::required(format!("{field}.key"), "must be specified"));
            }
            let has_values = it["values"].as_array().is_some_and(|it| !it.is_empty());
            match (text(it, "operator"), has_values) {
                ("In" | "NotIn", false) => errors.push(FieldError::required(
                    format!("{field}.values"),
                    "must be specified when `operator` is 'In' or 'NotIn'",
                )),
                ("Exists" | "DoesNotExist", true) => errors.push(FieldError::forbidden(
                    format!("{field}.values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                )),
                // A newer client may know others.
                _ => {}
            }
        }
    }
}

/// As errors show it: by the names of the struct.
fn path_in_go(path: &Value) -> Value {
    json!({"Path": text(path, "path"), "Verb": text(path, "verb")})
}

/// `*` in a review means the wildcard itself, as in a rule: only a rule with `*` allows it. Nothing to translate.
fn decide(rbac: &Rbac, user: &User, asked: &Attributes) -> Value {
    match rbac.authorize(user, asked) {
        AccessDecision::Allow(reason) if reason.is_empty() => json!({"allowed": true}),
        AccessDecision::Allow(reason) => json!({"allowed": true, "reason": reason}),
        AccessDecision::NoOpinion => json!({"allowed": false}),
    }
}

/// A question has no metadata, but for the namespace that it is asked in.
fn metadata_error(body: &Value, is_local: bool) -> Option<FieldError> {
    let is_given = |key: &str, value: &Value| {
        let is_empty = match value {
            Value::Null => true,
            Value::String(it) => it.is_empty(),
            Value::Object(it) => it.is_empty(),
            Value::Array(it) => it.is_empty(),
            Value::Number(it) => it.as_f64() == Some(0.0),
            Value::Bool(it) => !it,
        };
        !is_empty && key != "managedFields" && !(is_local && key == "namespace")
    };
    let metadata = body["metadata"].as_object()?;
    metadata.iter().find(|(key, value)| is_given(key, value))?;
    let detail = if is_local {
        "must be empty except for namespace"
    } else {
        "must be empty"
    };
    Some(FieldError::invalid("metadata", &body["metadata"], detail))
}

fn subject_access_review(deps: Deps<'_>, local_namespace: &str, body: Value) -> Result<Value, Status> {
    let is_local = !local_namespace.is_empty();
    let kind = if is_local {
        "LocalSubjectAccessReview"
    } else {
        "SubjectAccessReview"
    };
    let spec = &body["spec"];
    let mut errors = Vec::new();
    let asked = asked(spec).map_err(|error| errors.push(error)).unwrap_or_default();
    let (username, groups) = (text(spec, "user"), texts(&spec["groups"]));
    if username.is_empty() && groups.is_empty() {
        errors.push(FieldError::invalid(
            "spec.user",
            &"".into(),
            "at least one of user or group must be specified",
        ));
    }
    selector_errors(spec, &mut errors);
    errors.extend(metadata_error(&body, is_local));
    let namespace = text(&spec["resourceAttributes"], "namespace");
    if is_local && !spec["resourceAttributes"].is_null() && namespace != local_namespace {
        errors.push(FieldError::invalid(
            "spec.resourceAttributes.namespace",
            &namespace.into(),
            "must match metadata.namespace",
        ));
    }
    if is_local && !spec["nonResourceAttributes"].is_null() {
        let detail = "disallowed on this kind of request";
        errors.push(FieldError::invalid(
            "spec.nonResourceAttributes",
            &path_in_go(&spec["nonResourceAttributes"]),
            detail,
        ));
    }
    if !errors.is_empty() {
        return Err(invalid(&errors));
    }
    let extra = spec["extra"].as_object().cloned().unwrap_or_else(Map::new);
    let user = User {
        username: username.to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups,
        extra: extra.iter().map(|(key, value)| (key.clone(), texts(value))).collect(),
    };
    let status = decide(deps.rbac, &user, &asked);
    Ok(answer(body, kind, "authorization.k8s.io/v1", status))
}

fn self_subject_access_review(deps: Deps<'_>, user: &User, body: Value) -> Result<Value, Status> {
    let asked = asked(&body["spec"]).map_err(|error| invalid(&[error]))?;
    let mut errors = Vec::new();
    selector_errors(&body["spec"], &mut errors);
    errors.extend(metadata_error(&body, false));
    if !errors.is_empty() {
        return Err(invalid(&errors));
    }
    let status = decide(deps.rbac, user, &asked);
    Ok(answer(
        body,
        "SelfSubjectAccessReview",
        "authorization.k8s.io/v1",
        status,
    ))
}

fn self_subject_rules_review(deps: Deps<'_>, user: &User, body: Value) -> Result<Value, Status> {
    let namespace = text(&body["spec"], "namespace");
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in deps.rbac.rules_for(user, namespace) {
        let list = if rule.non_resource_urls.is_empty() {
            &mut resources
        } else {
            &mut paths
        };
        list.push(serde_json::to_value(rule).expect("a rule serializes"));
    }
    let status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    Ok(answer(
        body,
        "SelfSubjectRulesReview",
        "authorization.k8s.io/v1",
        status,
    ))
}

#[cfg(test)]
mod tests;
