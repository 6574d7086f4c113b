//! The agent of an earlier release of ours, which was a Deployment without an operator: `drover-agent` and what it was
//! allowed. It goes when the Klusterlet's agent is ready in the same namespace. Its Secrets stay, and with them who the
//! cluster is at the hub; works stay as they are.

use ocm_reconcile::{Plan, Site, Step, Target};
use serde_json::{Value, json};

use super::{
    settings::{AgentSettings, Place},
    wanted::reason,
};
use crate::objects::{self, Current};

const NAME: &str = "drover-agent";
const ROLE: &str = "open-cluster-management:drover-agent";
/// The namespace whose bindings have no namespace in their names.
const FIRST_NAMESPACE: &str = ocm_api::namespaces::AGENT;

/// Bindings, by the end of their names, and whether what they grant is a choice of the administrator's that the next
/// agent keeps.
const BINDINGS: [(&str, bool); 5] = [
    ("", false),
    (":works", false),
    (":execution-admin", false),
    (":metrics", false),
    (":administrator", true),
];
/// Roles, which the agents of all namespaces share.
const ROLES: [&str; 3] = ["", ":execution", ":works"];

fn deployment(settings: &AgentSettings) -> Target {
    objects::target(
        Site::Management,
        "Deployment",
        Some(&settings.klusterlet_namespace),
        NAME,
    )
}

fn account(settings: &AgentSettings) -> Target {
    objects::target(
        Site::Management,
        "ServiceAccount",
        Some(&settings.klusterlet_namespace),
        NAME,
    )
}

fn binding(settings: &AgentSettings, end: &str) -> Target {
    let suffix = match settings.klusterlet_namespace.as_str() {
        FIRST_NAMESPACE => String::new(),
        namespace => format!(":{namespace}"),
    };
    objects::target(
        Site::Management,
        "ClusterRoleBinding",
        None,
        &format!("{ROLE}{end}{suffix}"),
    )
}

fn role(end: &str) -> Target {
    objects::target(Site::Management, "ClusterRole", None, &format!("{ROLE}{end}"))
}

/// The binding that outlives such an agent, because what it grants was somebody's choice.
pub fn outliving(settings: &AgentSettings) -> Target {
    binding(settings, ":administrator")
}

/// What tells whether there is such an agent. Its account goes last, so that an operator which was killed meanwhile
/// finds the rest.
pub fn signs(settings: &AgentSettings) -> Vec<Target> {
    match settings.place {
        Place::Managed => vec![deployment(settings), account(settings)],
        Place::Hosting => Vec::new(),
    }
}

/// Whether there is such an agent.
pub fn is_there(settings: &AgentSettings, current: &Current) -> bool {
    signs(settings).iter().any(|it| current.get(it).is_some())
}

/// Everything else that belongs to it.
pub fn rest(settings: &AgentSettings) -> Vec<Target> {
    let bindings = BINDINGS.iter().map(|(end, _)| binding(settings, end));
    bindings.chain(ROLES.iter().map(|it| role(it))).collect()
}

/// Whether a binding is that of an agent in another namespace.
pub fn is_of_another(settings: &AgentSettings, name: &str) -> bool {
    name.starts_with(ROLE) && rest(settings).iter().all(|it| it.name != name)
}

/// Removes it. `others` says whether agents of other namespaces use the roles.
pub fn remove(plan: &mut Plan, settings: &AgentSettings, current: &Current, others: bool) {
    plan.stage();
    objects::remove(plan, reason::FAILED, &deployment(settings), current);
    plan.stage();
    for (end, is_chosen) in BINDINGS {
        let target = binding(settings, end);
        match (current.get(&target), is_chosen) {
            (Some(found), true) => keep_choice(plan, settings, target, found),
            _ => objects::remove(plan, reason::FAILED, &target, current),
        }
    }
    if !others {
        ROLES
            .iter()
            .for_each(|it| objects::remove(plan, reason::FAILED, &role(it), current));
    }
    plan.stage();
    objects::remove(plan, reason::FAILED, &account(settings), current);
}

/// Who let works contain anything has it so with the next agent.
fn keep_choice(plan: &mut Plan, settings: &AgentSettings, target: Target, found: &Value) {
    let subjects = json!([{
        "kind": "ServiceAccount",
        "name": settings.work_account(),
        "namespace": settings.klusterlet_namespace,
    }]);
    let metadata = json!({
        "uid": found["metadata"]["uid"],
        "resourceVersion": found["metadata"]["resourceVersion"],
        "labels": settings.labels,
    });
    let step = plan.push(Step::MergePatch {
        target,
        subresource: None,
        patch: json!({"metadata": metadata, "subjects": subjects}),
    });
    plan.name(reason::FAILED, step);
}
