//! What annotations say of a pod: that it is the picture of one that its node runs by itself, what it costs to lose it, and, as
//! before there were fields for that, the profiles that keep its containers in.

use super::{list, scheduling, text, volumes::descending};
use kube_store::status::FieldError;
use serde_json::{Value, json};

const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const LOCALHOST: &str = "localhost/";

/// The containers of a pod and their places.
pub(crate) fn containers<'p>(spec: &'p Value, place: &str) -> impl Iterator<Item = (&'p Value, String)> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(move |kind| {
            let place = format!("{place}.{kind}");
            list(spec, &format!("/{kind}"))
                .iter()
                .enumerate()
                .map(move |(at, it)| (it, format!("{place}[{at}]")))
        })
}

/// The texts of annotations.
fn texts(annotations: &Value) -> impl Iterator<Item = (&str, &str)> {
    let all = annotations.as_object().into_iter().flatten();
    all.map(|(key, it)| (key.as_str(), it.as_str().unwrap_or_default()))
}

/// Errors of the annotations that Kubernetes reads. `old` are those before an update.
pub(super) fn annotations(
    annotations: &Value,
    old: Option<&Value>,
    spec: &Value,
    place: &str,
    errors: &mut Vec<FieldError>,
) {
    let given = |key: &str| annotations[key].as_str();
    let of = |key: &str| format!("{place}[{key}]");
    if let Some(value) = given(MIRROR).filter(|_| text(spec, "/nodeName").is_empty()) {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(FieldError::invalid(of(MIRROR), &json!(value), detail));
    }
    if let Some(value) = given(TOLERATIONS).filter(|it| !it.is_empty()) {
        match serde_json::from_str::<Vec<Value>>(value) {
            Ok(all) => scheduling::tolerations(&all, &format!("{place}.{TOLERATIONS}"), errors),
            Err(error) => errors.push(FieldError::invalid(place, &json!(TOLERATIONS), error.to_string())),
        }
    }
    let cost = given(DELETION_COST).filter(|it| !is_cost(it));
    let kept = old.is_some_and(|it| it[DELETION_COST].as_str().is_some_and(|it| !is_cost(it)));
    if let Some(value) = cost.filter(|_| !kept) {
        let detail = "must be a 32bit integer";
        errors.push(FieldError::invalid(of(DELETION_COST), &json!(value), detail));
    }
    for (key, profile) in texts(annotations) {
        if key == SECCOMP_OF_POD || key.starts_with(SECCOMP) {
            seccomp(profile, &format!("{place}.{key}"), errors);
        }
    }
    for (key, profile) in texts(annotations) {
        let Some(name) = key.strip_prefix(APPARMOR) else {
            continue;
        };
        if !containers(spec, "").any(|it| text(it.0, "/name") == name) {
            errors.push(FieldError::invalid(of(key), &json!(name), "container not found"));
        }
        let known = ["", "runtime/default", "unconfined"].contains(&profile) || profile.starts_with(LOCALHOST);
        if !known {
            let detail = format!("invalid AppArmor profile name: {profile:?}");
            errors.push(FieldError::invalid(of(key), &json!(profile), detail));
        }
    }
}

/// Whether a text is what losing a pod costs: a number as it is usually written.
fn is_cost(text: &str) -> bool {
    let plain = text == "0" || !text.starts_with(['0', '+']);
    plain && text.parse::<i32>().is_ok()
}

fn seccomp(profile: &str, field: &str, errors: &mut Vec<FieldError>) {
    if let Some(path) = profile.strip_prefix(LOCALHOST) {
        descending(path, field, errors);
    } else if !["runtime/default", "docker/default", "unconfined"].contains(&profile) {
        let detail = "must be a valid seccomp profile";
        errors.push(FieldError::invalid(field, &json!(profile), detail));
    }
}

/// Errors of annotations that an update of a pod may neither add nor change nor take.
pub(super) fn kept(new: &Value, old: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let mut refuse = |key: &str, verb: &str| {
        let what = match key {
            MIRROR => "mirror pod annotation",
            key if key.starts_with(APPARMOR) => "AppArmor annotations",
            _ => return,
        };
        errors.push(FieldError::forbidden(
            format!("{place}[{key}]"),
            format!("may not {verb} {what}"),
        ));
    };
    for (key, value) in texts(old) {
        if new[key].as_str() != Some(value) {
            refuse(key, "remove or update");
        }
    }
    for (key, _) in texts(new).filter(|(key, _)| old[*key].is_null()) {
        refuse(key, "add");
    }
}

/// Errors of annotations that say something else than the fields that came for them. `place` is that of the pod's spec.
pub(super) fn as_fields(annotations: &Value, spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let mut compare = |key: &str, field: &Value, what: (&str, &str), place: &str| {
        let Some(annotation) = annotations[key].as_str().filter(|_| field.is_object()) else {
            return;
        };
        let (member, name) = what;
        let path = annotation.strip_prefix(LOCALHOST);
        let same = match text(field, "/type") {
            "Unconfined" => annotation == "unconfined",
            "RuntimeDefault" => annotation == "runtime/default" || name == "seccomp" && annotation == "docker/default",
            "Localhost" => path.is_some(),
            _ => return,
        };
        let (member, detail) = if !same {
            (
                format!("{member}.type"),
                format!("{name} type in annotation and field must match"),
            )
        } else if path.is_some() && field["localhostProfile"].as_str() != path {
            let detail = format!("{name} profile in annotation and field must match");
            (format!("{member}.localhostProfile"), detail)
        } else {
            return;
        };
        errors.push(FieldError::forbidden(
            format!("{place}.securityContext.{member}"),
            detail,
        ));
    };
    let own = &spec["securityContext"];
    let (seccomp, apparmor) = (("seccompProfile", "seccomp"), ("appArmorProfile", "apparmor"));
    compare(SECCOMP_OF_POD, &own[seccomp.0], seccomp, place);
    for (container, place) in containers(spec, place) {
        let key = format!("{SECCOMP}{}", text(container, "/name"));
        compare(&key, &container["securityContext"][seccomp.0], seccomp, &place);
    }
    if spec["os"]["name"] == "windows" {
        return;
    }
    for (container, place) in containers(spec, place) {
        let key = format!("{APPARMOR}{}", text(container, "/name"));
        let profile = match &container["securityContext"][apparmor.0] {
            Value::Null => &own[apparmor.0],
            profile => profile,
        };
        compare(&key, profile, apparmor, &place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_validation::said;

    #[test]
    fn annotations_that_kubernetes_reads_are_checked() {
        let spec = json!({"containers": [{"name": "c"}]});
        let place = "metadata.annotations";
        let wrong = |given: Value| said(|it| annotations(&given, None, &spec, place, it));
        assert_eq!(
            wrong(json!({
                "ex.io/own": "x", DELETION_COST: "-5", SECCOMP_OF_POD: "runtime/default", (format!("{SECCOMP}c")): "localhost/a/b",
                (format!("{APPARMOR}c")): "localhost/x", TOLERATIONS: r#"[{"operator":"Exists"}]"#,
            })),
            Vec::<String>::new()
        );
        assert_eq!(
            wrong(json!({MIRROR: "x"})),
            [format!(
                "{place}[{MIRROR}]: Invalid value: \"x\": must set spec.nodeName if mirror pod annotation is set"
            )]
        );
        assert_eq!(
            wrong(json!({(format!("{APPARMOR}c")): "foo", SECCOMP_OF_POD: "x"})),
            [
                format!("{place}.{SECCOMP_OF_POD}: Invalid value: \"x\": must be a valid seccomp profile"),
                format!("{place}[{APPARMOR}c]: Invalid value: \"foo\": invalid AppArmor profile name: \"foo\""),
            ]
        );
        assert_eq!(
            wrong(json!({(format!("{APPARMOR}d")): "unconfined"})),
            [format!(
                "{place}[{APPARMOR}d]: Invalid value: \"d\": container not found"
            )]
        );
        for cost in ["+1", "01", "x", "", "2147483648"] {
            let given = json!({ DELETION_COST: cost });
            assert_eq!(
                wrong(given.clone()),
                [format!(
                    "{place}[{DELETION_COST}]: Invalid value: {cost:?}: must be a 32bit integer"
                )]
            );
            // What was stored once may stay.
            assert_eq!(
                said(|it| annotations(&given, Some(&given), &spec, place, it)),
                Vec::<String>::new()
            );
        }
        let (before, after) = (json!({MIRROR: "x"}), json!({(format!("{APPARMOR}c")): ""}));
        assert_eq!(
            said(|it| kept(&after, &before, place, it)),
            [
                format!("{place}[{MIRROR}]: Forbidden: may not remove or update mirror pod annotation"),
                format!("{place}[{APPARMOR}c]: Forbidden: may not add AppArmor annotations"),
            ]
        );
        assert_eq!(said(|it| kept(&before, &before, place, it)), Vec::<String>::new());
    }

    #[test]
    fn annotations_say_what_the_fields_say() {
        let profile = |kind: &str| json!({"type": kind});
        let local = json!({"type": "Localhost", "localhostProfile": "a"});
        let spec = json!({
            "securityContext": {"seccompProfile": profile("RuntimeDefault"), "appArmorProfile": profile("Unconfined")},
            "containers": [{"name": "c", "securityContext": {"seccompProfile": local}}],
        });
        let wrong = |given: Value| said(|it| as_fields(&given, &spec, "spec", it));
        let good = json!({SECCOMP_OF_POD: "docker/default", (format!("{SECCOMP}c")): "localhost/a", (format!("{APPARMOR}c")): "unconfined"});
        assert_eq!(wrong(good), Vec::<String>::new());
        let bad = json!({SECCOMP_OF_POD: "unconfined", (format!("{SECCOMP}c")): "localhost/b", (format!("{APPARMOR}c")): "localhost/x"});
        assert_eq!(
            wrong(bad),
            [
                "spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match",
                "spec.containers[0].securityContext.seccompProfile.localhostProfile: Forbidden: seccomp profile in annotation and field \
                 must match",
                "spec.containers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match",
            ]
        );
    }
}
