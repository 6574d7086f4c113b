//! Which containers a resource requirement is for.
//!
//! A requirement names containers as `type:workload:container`, each of which may be `*` or a regular expression. The
//! last requirement that fits a container counts.

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
    let fits = |it: &&ContainerResourceRequirements| fits(&it.container_id, id);
    requirements.iter().rev().find(fits).map(|it| &it.resources)
}

fn fits(container_id: &str, id: [&str; 3]) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | ':' | '*');
    let parts: Vec<&str> = container_id.splitn(3, ':').collect();
    let are_names = container_id.chars().all(is_plain) && parts.iter().all(|it| *it == "*" || !it.contains('*'));
    // Most are names and asterisks, for which no expression has to be made for each container of each cluster.
    let pattern = (!are_names).then(|| go_regex::compile(&pattern(container_id)));
    match pattern {
        Some(Ok(pattern)) => pattern.is_match(&id.join(":")),
        // What is no expression can still be a name.
        Some(Err(_)) | None => {
            parts.len() == id.len() && parts.iter().zip(id).all(|(wanted, is)| *wanted == "*" || *wanted == is)
        }
    }
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
    fn each_part_of_a_name_may_be_an_expression() {
        let fits = |container_id: &str, id: [&str; 3]| {
            let all = [requirement(container_id, "1")];
            of_container(&all, id[0], id[1], id[2]).is_some()
        };
        let web = ["deployments", "web-1", "agent"];
        assert!(fits("deployments:web-[0-9]+:agent", web));
        assert!(fits("deployments:web.*:(agent|proxy)", web));
        assert!(fits("*:w.b-1:agent", web));
        assert!(!fits("deployments:web-[a-z]+:agent", web));
        // It is the whole name, and what is no expression is a name.
        assert!(!fits("deployments:web:agent", web));
        assert!(!fits("deployments:we[b]:agent", web));
        assert!(!fits("deployments:(:agent", web));
        assert!(fits("deployments:(:*", ["deployments", "(", "agent"]));
        // As in Go, a repetition is not repeated; for each of them the compiler of the expression would go deeper.
        assert!(!fits(&format!("deployments:web{}:agent", "+".repeat(250)), web));
        assert_eq!(pattern("*:*:*"), "^.+:.+:.+$");
    }
}
