//! The order of objects that `sortOptions` asks for. Without it they stay in the order in which they were read.
//! Upstream: api/internal/builtins/SortOrderTransformer.go.

use crate::{
    error::{KustomizeError, Result},
    identity::{Gvk, ObjectId},
    kustomization::SortRule,
    resource::BuildObject,
};

const FIRST: &[&str] = &[
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];
const LAST: &[&str] = &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

pub(crate) fn sort(resources: &mut Vec<BuildObject>, rule: Option<&SortRule>) -> Result<()> {
    let Some(rule) = rule else {
        return Ok(());
    };
    let (first, last) = match (rule.order.as_str(), &rule.legacy) {
        ("fifo", None) => return Ok(()),
        ("fifo", Some(_)) => {
            return Err(
                KustomizeError::wrong("it is only for the order legacy").in_field("sortOptions.legacySortOptions")
            );
        }
        ("legacy", Some((first, last))) => (first.clone(), last.clone()),
        ("legacy", None) => {
            let owned = |kinds: &[&str]| kinds.iter().map(|it| (*it).to_owned()).collect();
            (owned(FIRST), owned(LAST))
        }
        _ => return Err(KustomizeError::wrong("the order is legacy or fifo").in_field("sortOptions.order")),
    };
    let rank = |kind: &str| {
        let position = |kinds: &[String]| kinds.iter().rposition(|it| it == kind).map(|it| it as i64);
        match (position(&first), position(&last)) {
            (_, Some(at)) => at + 1,
            (Some(at), None) => at - first.len() as i64,
            (None, None) => 0,
        }
    };
    let mut keyed: Vec<_> = std::mem::take(resources)
        .into_iter()
        .map(|it| {
            let id = it.id();
            ((rank(&id.gvk.kind), gvk_text(&id.gvk), id_text(&id)), id, it)
        })
        .collect();
    keyed.sort_by(|(a, a_id, _), (b, b_id, _)| {
        let kinds = a.1.cmp(&b.1);
        // Kubernetes' own Namespaces come in front of others' of that name.
        let of_namespaces = a_id.gvk.kind == "Namespace"
            && b_id.gvk.kind == "Namespace"
            && (a_id.gvk.group.is_empty() || b_id.gvk.group.is_empty());
        let kinds = if of_namespaces { kinds.reverse() } else { kinds };
        a.0.cmp(&b.0).then(kinds).then_with(|| a.2.cmp(&b.2))
    });
    resources.extend(keyed.into_iter().map(|it| it.2));
    Ok(())
}

fn gvk_text(gvk: &Gvk) -> String {
    let or = |text: &str, other: &str| {
        if text.is_empty() {
            other.to_owned()
        } else {
            text.to_owned()
        }
    };
    format!(
        "{}_{}_{}",
        or(&gvk.group, "~G"),
        or(&gvk.version, "~V"),
        or(&gvk.kind, "~K")
    )
}

fn id_text(id: &ObjectId) -> String {
    let or = |text: &str, other: &str| {
        if text.is_empty() {
            other.to_owned()
        } else {
            text.to_owned()
        }
    };
    format!("{}|{}|{}", id.gvk, or(&id.namespace, "~X"), or(&id.name, "~N"))
}
