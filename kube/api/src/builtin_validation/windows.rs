//! What only pods on Windows may say, and what they may not.

use super::{list, pod_annotations::containers, subdomain, text};
use kube_store::status::FieldError;
use serde_json::{Value, json};

/// Errors of the options of one security context.
pub(super) fn options(context: &Value, place: &str, errors: &mut Vec<FieldError>) {
    const CREDENTIALS_KIB_MAX: usize = 64;
    let options = &context["windowsOptions"];
    let field = |key: &str| format!("{place}.windowsOptions.{key}");
    if let Some(name) = options["gmsaCredentialSpecName"].as_str() {
        subdomain(name, &field("gmsaCredentialSpecName"), errors);
    }
    for key in ["gmsaCredentialSpec", "runAsUserName"] {
        let given = &options[key];
        let detail = match given.as_str() {
            Some("") => format!("{key} cannot be an empty string"),
            Some(it) if key == "gmsaCredentialSpec" && it.len() > CREDENTIALS_KIB_MAX * 1024 => {
                format!("{key} size must be under {CREDENTIALS_KIB_MAX} KiB")
            }
            _ => continue,
        };
        errors.push(FieldError::invalid(field(key), given, detail));
    }
}

/// A pod with containers that are processes of the host consists of such, and is in the host's network.
pub(super) fn host_processes(spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let of = |it: &Value| it["securityContext"]["windowsOptions"]["hostProcess"].as_bool();
    let whole = of(spec);
    let (mut all, mut of_host) = (0, 0);
    for (container, place) in containers(spec, place) {
        let own = of(container);
        if let (Some(whole), Some(own)) = (whole, own)
            && whole != own
        {
            let detail = format!("pod hostProcess value must be identical if both are specified, was {whole}");
            let field = format!("{place}.securityContext.windowsOptions.hostProcess");
            errors.push(FieldError::invalid(field, &json!(own), detail));
        }
        all += 1;
        of_host += u32::from(own.or(whole) == Some(true));
    }
    if of_host == 0 {
        return;
    }
    if of_host != all {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(FieldError::invalid(place, &json!(""), detail));
    }
    if spec["hostNetwork"] != true {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(FieldError::invalid(
            format!("{place}.hostNetwork"),
            &json!(false),
            detail,
        ));
    }
}

/// Errors of what a pod may not say on the system that it names.
pub(super) fn system(spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let mut refuse = |is_there: bool, field: String, detail: &str| {
        if is_there {
            errors.push(FieldError::forbidden(field, detail));
        }
    };
    let context = &spec["securityContext"];
    match text(spec, "/os/name") {
        "linux" => {
            let detail = "windows options cannot be set for a linux pod";
            let of = |it: &Value| !it["windowsOptions"].is_null();
            let field = |place: &str| format!("{place}.securityContext.windowsOptions");
            refuse(of(context), field(place), detail);
            for (container, place) in containers(spec, place) {
                refuse(of(&container["securityContext"]), field(&place), detail);
            }
        }
        "windows" => {
            let detail = "cannot be set for a windows pod";
            let given = |it: &Value| !it.is_null();
            let inside = |key: &str| (given(&context[key]), format!("{place}.securityContext.{key}"));
            let beside = |key: &str, is_there: bool| (is_there, format!("{place}.{key}"));
            for (is_there, field) in [
                inside("appArmorProfile"),
                inside("seLinuxOptions"),
                beside("hostUsers", given(&spec["hostUsers"])),
                beside("hostPID", spec["hostPID"] == true),
                beside("hostIPC", spec["hostIPC"] == true),
                inside("seccompProfile"),
                inside("fsGroup"),
                inside("fsGroupChangePolicy"),
                (
                    !list(context, "/sysctls").is_empty(),
                    format!("{place}.securityContext.sysctls"),
                ),
                beside("shareProcessNamespace", given(&spec["shareProcessNamespace"])),
                inside("runAsUser"),
                inside("runAsGroup"),
                inside("supplementalGroups"),
                inside("supplementalGroupsPolicy"),
                inside("seLinuxChangePolicy"),
            ] {
                refuse(is_there, field, detail);
            }
            for (container, place) in containers(spec, place) {
                for key in [
                    "appArmorProfile",
                    "seLinuxOptions",
                    "seccompProfile",
                    "capabilities",
                    "readOnlyRootFilesystem",
                    "privileged",
                    "allowPrivilegeEscalation",
                    "procMount",
                    "runAsUser",
                    "runAsGroup",
                ] {
                    let field = format!("{place}.securityContext.{key}");
                    refuse(given(&container["securityContext"][key]), field, detail);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_validation::said;

    #[test]
    fn processes_of_the_host_are_in_its_network() {
        let host = |it: bool| json!({"windowsOptions": {"hostProcess": it}});
        let good = json!({"hostNetwork": true, "securityContext": host(true), "containers": [{"name": "c"}]});
        assert_eq!(said(|it| host_processes(&good, "spec", it)), Vec::<String>::new());
        let bad = json!({"securityContext": host(true), "containers": [{"name": "c"}, {"name": "d", "securityContext": host(false)}]});
        assert_eq!(
            said(|it| host_processes(&bad, "spec", it)),
            [
                "spec.containers[1].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must be \
                 identical if both are specified, was true",
                "spec: Invalid value: \"\": If pod contains any hostProcess containers then all containers must be HostProcess containers",
                "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
            ]
        );
    }

    #[test]
    fn a_pod_says_what_its_system_knows() {
        let pod = |os: &str, context: Value| json!({"os": {"name": os}, "securityContext": context, "containers": []});
        let options = json!({"windowsOptions": {"runAsUserName": ""}});
        assert_eq!(
            said(|it| system(&pod("linux", options.clone()), "spec", it)),
            ["spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"]
        );
        assert_eq!(
            said(|it| system(&pod("windows", json!({"runAsUser": 0})), "spec", it)),
            ["spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod"]
        );
        assert_eq!(
            said(|it| system(&pod("windows", options.clone()), "spec", it)),
            Vec::<String>::new()
        );
        assert_eq!(
            said(|it| super::options(&options, "spec.securityContext", it)),
            [
                "spec.securityContext.windowsOptions.runAsUserName: Invalid value: \"\": runAsUserName cannot be an empty string"
            ]
        );
    }
}
