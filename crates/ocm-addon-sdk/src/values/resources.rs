//! Which containers a resource requirement is for.
//!
//! A requirement names containers as `type:workload:container`, each of which may be `*`. The last requirement that fits a
//! container counts.

use k8s_openapi::api::core::v1::ResourceRequirements;
use ocm_api::addon::ContainerResourceRequirements;

/// The regular expression that charts and templates compare with `type:workload:container`.
///
/// ```
/// use ocm_addon_sdk::values::resources;
///
/// assert_eq!(resources::pattern("deployments:*:agent"), "^deployments:.+:agent$");
/// ```
pub fn pattern(container_id: &str) -> String {
    let parts: Vec<&str> = container_id
        .split(':')
        .map(|it| if it == "*" { ".+" } else { it })
        .collect();
    format!("^{}$", parts.join(":"))
}

/// What a container asks for and may use, if a requirement says so. `workloads` is the plural of its kind.
pub fn of_container<'a>(
    requirements: &'a [ContainerResourceRequirements],
    workloads: &str,
    workload: &str,
    container: &str,
) -> Option<&'a ResourceRequirements> {
    let id = [workloads, workload, container];
    let fits = |it: &&ContainerResourceRequirements| {
        let wanted: Vec<&str> = it.container_id.splitn(3, ':').collect();
        wanted.len() == id.len()
            && wanted
                .iter()
                .zip(id)
                .all(|(wanted, is)| *wanted == "*" || *wanted == is)
    };
    requirements.iter().rev().find(fits).map(|it| &it.resources)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    use super::*;

    fn requirement(container_id: &str, cpu: &str) -> ContainerResourceRequirements {
        ContainerResourceRequirements {
            container_id: container_id.to_owned(),
            resources: ResourceRequirements {
                limits: Some([("cpu".to_owned(), Quantity(cpu.to_owned()))].into()),
                ..Default::default()
            },
        }
    }

    #[test]
    fn the_last_requirement_that_fits_counts() {
        let all = [
            requirement("*:*:*", "1"),
            requirement("deployments:*:agent", "2"),
            requirement("deployments:web:*", "3"),
            requirement("daemonsets:web:agent", "4"),
        ];
        let cpu = |workloads, workload, container| {
            let found = of_container(&all, workloads, workload, container).unwrap();
            found.limits.as_ref().unwrap()["cpu"].0.clone()
        };
        assert_eq!(cpu("statefulsets", "web", "agent"), "1");
        assert_eq!(cpu("deployments", "other", "agent"), "2");
        assert_eq!(cpu("deployments", "web", "agent"), "3");
        assert_eq!(cpu("daemonsets", "web", "agent"), "4");
        assert!(of_container(&all[1..], "pods", "web", "agent").is_none());
    }

    #[test]
    fn a_name_is_no_pattern() {
        let all = [requirement("deployments:w.b:agent", "1")];
        assert!(of_container(&all, "deployments", "web", "agent").is_none());
        assert_eq!(pattern("*:*:*"), "^.+:.+:.+$");
    }
}
