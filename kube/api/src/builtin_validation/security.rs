//! As whom pods and containers run, and what keeps them in.

use super::{invalid_shown, list, pod_annotations::containers, supported, text, volumes::descending, windows};
use kube_store::status::FieldError;
use serde_json::{Value, json};
use std::collections::HashSet;

/// Errors of the number of a user or a group.
fn id(number: &Value, field: impl Into<String>, errors: &mut Vec<FieldError>) {
    if number
        .as_i64()
        .is_some_and(|it| !(0..=i64::from(i32::MAX)).contains(&it))
    {
        let detail = "must be between 0 and 2147483647, inclusive";
        errors.push(FieldError::invalid(field, number, detail));
    }
}

/// Errors of what holds for all containers of a pod.
pub(super) fn of_pod(spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let context = &spec["securityContext"];
    let field = |name: &str| format!("{place}.securityContext.{name}");
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&context[key], field(key), errors);
    }
    for (at, group) in list(context, "/supplementalGroups").iter().enumerate() {
        id(group, field(&format!("supplementalGroups[{at}]")), errors);
    }
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(
            field("shareProcessNamespace"),
            &json!(true),
            detail,
        ));
    }
    sysctls(context, &field("sysctls"), errors);
    if !context["fsGroupChangePolicy"].is_null() {
        let known = ["Always", "OnRootMismatch"];
        supported(
            &context["fsGroupChangePolicy"],
            field("fsGroupChangePolicy"),
            &known,
            errors,
        );
    }
    let own = format!("{place}.securityContext");
    windows::options(context, &own, errors);
    profiles(context, &own, errors);
    for (key, known) in [
        ("supplementalGroupsPolicy", ["Merge", "Strict"]),
        ("seLinuxChangePolicy", ["MountOption", "Recursive"]),
    ] {
        if !context[key].is_null() {
            supported(&context[key], field(key), &known, errors);
        }
    }
}

/// A pod with users of its own shares nothing else with its node either.
pub(super) fn own_users(spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    if spec["hostUsers"] != false {
        return;
    }
    let detail = "when `hostUsers` is false";
    // Upstream writes two of them otherwise than clients do.
    for (key, shown) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if spec[key] == true {
            errors.push(FieldError::forbidden(format!("{place}.{shown}"), detail));
        }
    }
    for (container, place) in containers(spec, place) {
        if !list(container, "/volumeDevices").is_empty() {
            errors.push(FieldError::forbidden(format!("{place}.volumeDevices"), detail));
        }
    }
}

fn sysctls(context: &Value, place: &str, errors: &mut Vec<FieldError>) {
    const LENGTH_MAX: usize = 253;
    const SHAPE: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    let is_edge = |it: Option<&u8>| it.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        let inner = |it: &u8| is_edge(Some(it)) || b"-_".contains(it);
        is_edge(bytes.first()) && is_edge(bytes.last()) && bytes.iter().all(inner)
    };
    let mut names = HashSet::new();
    for (at, sysctl) in list(context, "/sysctls").iter().enumerate() {
        let (name, field) = (text(sysctl, "/name"), format!("{place}[{at}].name"));
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if name.len() > LENGTH_MAX || !name.split(['.', '/']).all(is_part) {
            let detail = format!("must have at most {LENGTH_MAX} characters and match regex {SHAPE}");
            errors.push(FieldError::invalid(field, &json!(name), detail));
        } else if !names.insert(name) {
            errors.push(FieldError::duplicate(field, &json!(name)));
        }
    }
}

/// Errors of the profiles of seccomp and AppArmor.
fn profiles(context: &Value, place: &str, errors: &mut Vec<FieldError>) {
    const KINDS: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
    for (key, what) in [("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")] {
        let profile = &context[key];
        if !profile.is_object() {
            continue;
        }
        let field = |name: &str| format!("{place}.{key}.{name}");
        let kind = text(profile, "/type");
        let path = profile["localhostProfile"].as_str();
        if kind.is_empty() {
            let detail = format!("type is required when {key} is set");
            errors.push(FieldError::required(field("type"), &detail));
        } else {
            supported(&json!(kind), field("type"), &KINDS, errors);
        }
        let field = field("localhostProfile");
        match (kind, path) {
            ("Localhost", None) => {
                let detail = format!("must be set when {what} type is Localhost");
                errors.push(FieldError::required(field, &detail));
            }
            ("Localhost", Some(path)) if what == "seccomp" => descending(path, &field, errors),
            ("Localhost", Some(path)) if path.trim() != path => {
                let detail = "must not be padded with whitespace";
                errors.push(FieldError::invalid(field, &json!(path), detail));
            }
            ("Localhost", Some("")) => {
                let detail = format!("must be set when {what} type is Localhost");
                errors.push(FieldError::required(field, &detail));
            }
            ("Localhost", _) | (_, None) => {}
            (kind, Some(path)) => {
                if what == "seccomp" {
                    let shown = format!(r#"{{"Type":{kind:?},"LocalhostProfile":{path:?}}}"#);
                    let detail = "can only be set when seccomp type is Localhost";
                    errors.push(invalid_shown(field, &shown, detail));
                } else if KINDS.contains(&kind) {
                    let detail = "can only be set when AppArmor type is Localhost";
                    errors.push(FieldError::invalid(field, &json!(path), detail));
                }
            }
        }
    }
}

/// Errors of what holds for one container. `host_users` says that its users are those of the node.
pub(super) fn of_container(container: &Value, host_users: bool, place: &str, errors: &mut Vec<FieldError>) {
    let context = &container["securityContext"];
    if !context.is_object() {
        return;
    }
    let place = format!("{place}.securityContext");
    for key in ["runAsUser", "runAsGroup"] {
        id(&context[key], format!("{place}.{key}"), errors);
    }
    let mount = &context["procMount"];
    if !mount.is_null() {
        let field = format!("{place}.procMount");
        supported(mount, &field, &["Default", "Unmasked"], errors);
        if host_users && mount == "Unmasked" {
            let detail = "`hostUsers` must be false to use `Unmasked`";
            errors.push(FieldError::invalid(field, mount, detail));
        }
    }
    if context["allowPrivilegeEscalation"] == false {
        let mut contradiction = |what: &str| {
            let detail = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
            errors.push(invalid_shown(&place, &internal(context), &detail));
        };
        if context["privileged"] == true {
            contradiction("`privileged` to true");
        }
        let added = list(context, "/capabilities/add").iter();
        for _ in added.filter(|it| *it == "CAP_SYS_ADMIN") {
            contradiction("`capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    profiles(context, &place, errors);
    windows::options(context, &place, errors);
}

/// The context as the server within Kubernetes has it, which is what its message shows.
fn internal(context: &Value) -> String {
    const MEMBERS: [&str; 12] = [
        "capabilities",
        "privileged",
        "seLinuxOptions",
        "windowsOptions",
        "runAsUser",
        "runAsGroup",
        "runAsNonRoot",
        "readOnlyRootFilesystem",
        "allowPrivilegeEscalation",
        "procMount",
        "seccompProfile",
        "appArmorProfile",
    ];
    let inner = |key: &str| -> &[&str] {
        match key {
            "capabilities" => &["add", "drop"],
            "seLinuxOptions" => &["user", "role", "type", "level"],
            "seccompProfile" | "appArmorProfile" => &["type", "localhostProfile"],
            "windowsOptions" => &[
                "gmsaCredentialSpecName",
                "gmsaCredentialSpec",
                "runAsUserName",
                "hostProcess",
            ],
            _ => &[],
        }
    };
    let name = |key: &str| match key {
        "seLinuxOptions" => "SELinuxOptions".to_owned(),
        "gmsaCredentialSpecName" => "GMSACredentialSpecName".to_owned(),
        "gmsaCredentialSpec" => "GMSACredentialSpec".to_owned(),
        key => key[..1].to_uppercase() + &key[1..],
    };
    let shown = |of: &Value, keys: &[&str], each: &dyn Fn(&str, &Value) -> String| {
        let members: Vec<_> = keys
            .iter()
            .map(|key| format!("{:?}:{}", name(key), each(key, &of[*key])))
            .collect();
        format!("{{{}}}", members.join(","))
    };
    shown(context, &MEMBERS, &|key, value| match value {
        Value::Object(_) => shown(value, inner(key), &|key, value| match (key, value) {
            ("user" | "role" | "level", Value::Null) => "\"\"".to_owned(),
            (_, value) => value.to_string(),
        }),
        value => value.to_string(),
    })
}
