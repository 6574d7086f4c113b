//! What is written for a GitOpsCluster, step by step, and what its conditions say of it: plain functions.
//!
//! Up to the AddOnTemplate a step that fails ends the run. From the Placement on what fails for one cluster keeps
//! nothing from others.

use std::collections::BTreeMap;

use ocm_addon_sdk::{
    k8s_openapi::api::{
        core::v1::Secret,
        rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    kube::{ResourceExt, core::ObjectMeta},
    ocm_api::{
        Status,
        cluster::{Placement, Toleration},
        condition::{ConditionUpdate, wanted},
        gitops::{
            GitOpsCluster,
            conditions::{self, reason},
        },
    },
    reconcile::{Outcome, Plan, Site, Step, StepId, Target, execute::sentence, plan::typed},
};
use serde_json::json;

use super::{
    argo_cd, certificates,
    certificates::DueCredential,
    clusters::{self, listed},
    discovery::PrincipalServer,
    labels,
    reconciler::Seen,
    template,
};

/// Taints of clusters that are to keep their agents.
const TOLERATED: [&str; 2] = [
    "cluster.open-cluster-management.io/unreachable",
    "cluster.open-cluster-management.io/unavailable",
];

/// One step that was planned, and its condition.
pub struct GitOpsStep {
    condition: &'static str,
    expected: Expected,
}

enum Expected {
    /// True when all of these are done.
    Writes {
        steps: Vec<StepId>,
        done: String,
        failed: &'static str,
    },
    /// True when they are done for every cluster.
    Clusters {
        all: Vec<OfCluster>,
        done: String,
        failed: &'static str,
    },
    /// Nothing is written.
    Known {
        status: Status,
        reason: &'static str,
        message: String,
        is_retried: bool,
    },
}

struct OfCluster {
    name: String,
    steps: Vec<StepId>,
    problem: Option<String>,
}

/// All of the steps of a GitOpsCluster.
#[derive(Default)]
pub struct GitOpsSteps(Vec<GitOpsStep>);

impl GitOpsSteps {
    /// Why the run is to be tried again although nothing that was written has failed.
    pub fn problem(&self) -> Option<String> {
        self.0.iter().find_map(|it| match &it.expected {
            Expected::Known {
                message,
                is_retried: true,
                ..
            } => Some(message.clone()),
            Expected::Clusters { all, .. } => all.iter().find_map(|it| it.problem.clone()),
            _ => None,
        })
    }

    /// The conditions of the steps that were tried.
    pub fn conditions(&self, outcome: &Outcome) -> Vec<ConditionUpdate> {
        self.0.iter().filter_map(|it| it.update(outcome)).collect()
    }

    fn known(&mut self, condition: &'static str, status: Status, reason: &'static str, message: String) {
        let is_retried = status != Status::True;
        self.0.push(GitOpsStep {
            condition,
            expected: Expected::Known {
                status,
                reason,
                message,
                is_retried,
            },
        });
    }

    fn failed(&mut self, condition: &'static str, message: String) {
        self.known(condition, Status::False, reason::FAILED, message);
    }

    fn writes(&mut self, condition: &'static str, steps: Vec<StepId>, done: &str, failed: &'static str) {
        let done = done.to_owned();
        let expected = Expected::Writes { steps, done, failed };
        self.0.push(GitOpsStep { condition, expected });
    }

    fn clusters(&mut self, condition: &'static str, all: Vec<OfCluster>, done: String, failed: &'static str) {
        let expected = Expected::Clusters { all, done, failed };
        self.0.push(GitOpsStep { condition, expected });
    }
}

impl GitOpsStep {
    fn update(&self, outcome: &Outcome) -> Option<ConditionUpdate> {
        let error = |steps: &[StepId]| {
            let mut results = steps.iter().filter_map(|it| outcome.get(*it));
            results.find_map(|it| it.as_ref().err().map(sentence))
        };
        let was_tried = |steps: &[StepId]| steps.iter().all(|it| outcome.get(*it).is_some());
        match &self.expected {
            Expected::Known {
                status,
                reason,
                message,
                ..
            } => Some(wanted(self.condition, *status, reason, message.clone())),
            Expected::Writes { steps, done, failed } => match error(steps) {
                Some(error) => {
                    let message = format!("{failed}: {error}");
                    Some(wanted(self.condition, false, reason::FAILED, message))
                }
                None => was_tried(steps).then(|| wanted(self.condition, true, reason::SUCCESS, done.clone())),
            },
            Expected::Clusters { all, done, failed } => {
                if !all.iter().all(|it| was_tried(&it.steps)) {
                    return None;
                }
                let broken = all
                    .iter()
                    .filter(|it| it.problem.is_some() || error(&it.steps).is_some());
                let broken: Vec<&str> = broken.map(|it| it.name.as_str()).collect();
                Some(if broken.is_empty() {
                    wanted(self.condition, true, reason::SUCCESS, done.clone())
                } else {
                    let message = format!("{failed}: {}", listed(&broken));
                    wanted(self.condition, false, reason::FAILED, message)
                })
            }
        }
    }
}

/// Puts all that is to be written into the plan, behind what is there, and says what it is.
pub fn plan(plan: &mut Plan, of: &GitOpsCluster, seen: &Seen) -> GitOpsSteps {
    let mut all = GitOpsSteps::default();
    if let Some(server) = on_hub(plan, &mut all, of, seen) {
        plan.stage();
        for_clusters(plan, &mut all, of, seen, &server);
    }
    all
}

/// What is there once. `None` when a step cannot be done.
fn on_hub(plan: &mut Plan, all: &mut GitOpsSteps, of: &GitOpsCluster, seen: &Seen) -> Option<PrincipalServer> {
    let namespace = of.namespace().unwrap_or_default();
    let (role, binding) = rbac(&namespace);
    let steps = vec![plan.stage().create(Site::Hub, &role), plan.create(Site::Hub, &binding)];
    let done = "RBAC resources created successfully";
    all.writes(conditions::RBAC_READY, steps, done, "Failed to ensure RBAC");

    let server = match &seen.server {
        Ok(server) => server.clone(),
        Err(why) => {
            let (condition, reason) = (conditions::SERVER_DISCOVERED, reason::SERVER_NOT_DISCOVERED);
            all.known(condition, Status::False, reason, why.clone());
            return None;
        }
    };
    let said = &of.spec.argo_cd_agent_addon;
    let mut steps = Vec::new();
    if said.principal_server_address != server.address || said.principal_server_port != server.port {
        let server = json!({"principalServerAddress": server.address, "principalServerPort": server.port});
        plan.stage();
        steps.push(plan.push(Step::MergePatch {
            target: Target::of(Site::Hub, of),
            subresource: None,
            patch: json!({"metadata": {"uid": of.metadata.uid}, "spec": {"argoCDAgentAddon": server}}),
        }));
    }
    let done = format!("Server at {}:{}", server.address, server.port);
    all.writes(conditions::SERVER_DISCOVERED, steps, &done, "Server discovery failed");

    let made = seen.material.as_ref()?;
    let failed = "Failed to create JWT secret";
    match &made.jwt {
        Ok(due) => {
            let steps = due.iter().map(|it| plan.stage().create(Site::Hub, it)).collect();
            all.writes(
                conditions::JWT_SECRET_READY,
                steps,
                "JWT secret created successfully",
                failed,
            );
        }
        Err(why) => {
            all.failed(conditions::JWT_SECRET_READY, format!("{failed}: {why}"));
            return None;
        }
    }
    let failed = "Failed to create CA certificate";
    match &made.authority {
        Ok(known) => {
            plan.stage();
            let mut steps: Vec<StepId> = known.due.iter().map(|it| write(plan, it)).collect();
            if let Some(bundle) = &made.bundle {
                steps.extend(plan.keep(Site::Hub, made.present_bundle.as_ref(), bundle));
            }
            let done = "CA certificate created successfully";
            all.writes(conditions::CA_CERTIFICATE_READY, steps, done, failed);
        }
        Err(why) => {
            all.failed(conditions::CA_CERTIFICATE_READY, format!("{failed}: {why}"));
            return None;
        }
    }
    let of_principal = (
        conditions::PRINCIPAL_CERTIFICATE_READY,
        "Principal certificate generated successfully",
        "Failed to generate principal certificate",
    );
    let of_proxy = (
        conditions::RESOURCE_PROXY_CERTIFICATE_READY,
        "Resource proxy certificate generated successfully",
        "Failed to generate resource proxy certificate",
    );
    for ((condition, done, failed), due) in [(of_principal, &made.principal), (of_proxy, &made.resource_proxy)] {
        match due {
            Ok(due) => {
                plan.stage();
                let mut steps: Vec<StepId> = due.iter().map(|it| write(plan, it)).collect();
                // Who runs already reads its certificate when it starts.
                let is_replaced = due.as_ref().is_some_and(|it| it.present.is_some());
                if is_replaced && condition == conditions::PRINCIPAL_CERTIFICATE_READY {
                    steps.extend(seen.principal.iter().map(|it| plan.push(restart(it, seen))));
                }
                all.writes(condition, steps, done, failed);
            }
            Err(why) => {
                all.failed(condition, format!("{failed}: {why}"));
                return None;
            }
        }
    }
    let failed = "Failed to ensure AddOnTemplate";
    match template::template(of, &seen.settings, seen.template.as_deref()) {
        Ok(template) => {
            plan.stage();
            let step = match seen.template.as_deref() {
                Some(present) => plan.change(Site::Hub, present, &template),
                None => Some(plan.create(Site::Hub, &template)),
            };
            let (steps, done) = (step.into_iter().collect(), "AddOnTemplate created/updated successfully");
            all.writes(conditions::ADD_ON_TEMPLATE_READY, steps, done, failed);
        }
        Err(why) => {
            all.failed(conditions::ADD_ON_TEMPLATE_READY, format!("{failed}: {why}"));
            return None;
        }
    }
    Some(server)
}

/// From the Placement on.
fn for_clusters(plan: &mut Plan, all: &mut GitOpsSteps, of: &GitOpsCluster, seen: &Seen, server: &PrincipalServer) {
    let tolerates = (
        conditions::PLACEMENT_TOLERATION_CONFIGURED,
        "Failed to configure placement tolerations",
    );
    match &seen.placement {
        Err(why) => {
            all.failed(tolerates.0, format!("{}: {why}", tolerates.1));
            let message = format!("Failed to evaluate placement: {why}");
            all.failed(conditions::PLACEMENT_EVALUATED, message);
            return;
        }
        Ok(placement) => {
            let step = plan.change(Site::Hub, &**placement, &tolerating(placement));
            let done = "Placement tolerations configured successfully";
            all.writes(tolerates.0, step.into_iter().collect(), done, tolerates.1);
        }
    }
    let chosen = &seen.clusters;
    let count = chosen.len();
    let authority = seen.material.as_ref().and_then(|it| it.authority.as_ref().ok());
    if count == 0 {
        let message = "No managed clusters selected by placement".to_owned();
        all.known(
            conditions::PLACEMENT_EVALUATED,
            Status::True,
            reason::NO_CLUSTERS,
            message,
        );
    } else {
        let message = format!("Evaluated {count} managed clusters");
        all.known(conditions::PLACEMENT_EVALUATED, Status::True, reason::SUCCESS, message);
        let imported = chosen.iter().map(|cluster| {
            let due = cluster.secrets.as_deref().unwrap_or_default();
            OfCluster {
                name: cluster.name.clone(),
                steps: due.iter().map(|it| write(plan, it)).collect(),
                problem: cluster.secrets.as_ref().err().cloned(),
            }
        });
        let imported = imported.collect();
        let done = format!("Imported {count} clusters to ArgoCD");
        all.clusters(
            conditions::CLUSTERS_IMPORTED,
            imported,
            done,
            "Failed to import clusters",
        );
    }
    let remote: Vec<_> = chosen.iter().filter(|it| !it.is_local()).collect();
    if count > 0 {
        let pem = authority.map(|it| it.pem.as_slice()).unwrap_or_default();
        let sent = remote.iter().map(|cluster| {
            let work = clusters::authority_work(of, cluster, pem);
            let step = work.and_then(|work| match cluster.authority_work.as_deref() {
                Some(present) => plan.change(Site::Hub, present, &work),
                None => Some(plan.create(Site::Hub, &work)),
            });
            of_cluster(&cluster.name, step)
        });
        let sent = sent.collect();
        let done = format!("Created ManifestWorks for {} clusters", remote.len());
        let failed = "Failed to create ManifestWorks for clusters";
        all.clusters(conditions::MANIFEST_WORK_CREATED, sent, done, failed);
    }
    let manifests = match argo_cd::manifests(of, server, seen.image.as_deref()) {
        Ok(manifests) => manifests,
        Err(why) => {
            // The user has to change it, and then we look again.
            all.0.push(GitOpsStep {
                condition: conditions::ARGO_CD_CR_DELIVERED,
                expected: Expected::Known {
                    status: Status::False,
                    reason: reason::FAILED,
                    message: format!("Invalid ArgoCDCRManifestWork: {why}"),
                    is_retried: false,
                },
            });
            return;
        }
    };
    if remote.is_empty() {
        let message = "No non-local clusters to deliver ArgoCD CR to".to_owned();
        all.known(
            conditions::ARGO_CD_CR_DELIVERED,
            Status::True,
            reason::NO_CLUSTERS,
            message,
        );
    } else {
        let sent = remote.iter().map(|cluster| {
            let present = cluster.argo_cd_work.as_deref();
            let work = argo_cd::work(of, &cluster.name, &manifests, present);
            let step = match present {
                Some(present) => plan.change(Site::Hub, present, &work),
                None => Some(plan.create(Site::Hub, &work)),
            };
            of_cluster(&cluster.name, step)
        });
        let sent = sent.collect();
        let done = format!("Delivered ArgoCD CR to {} clusters", remote.len());
        let failed = "Failed to deliver ArgoCD CR to clusters";
        all.clusters(conditions::ARGO_CD_CR_DELIVERED, sent, done, failed);
    }
    if count > 0 {
        let template = template::name(of);
        let configured = chosen.iter().map(|cluster| {
            let (config, add_on) = (clusters::config(of, cluster), clusters::add_on(&template, cluster));
            let mut of_it = match cluster.config.as_deref() {
                Some(present) => of_cluster(&cluster.name, plan.change(Site::Hub, present, &config)),
                None => of_cluster(&cluster.name, Some(plan.create(Site::Hub, &config))),
            };
            of_it.steps.extend(match cluster.add_on.as_deref() {
                Some(present) => plan.change(Site::Hub, present, &add_on),
                None => Some(plan.create(Site::Hub, &add_on)),
            });
            of_it
        });
        let configured = configured.collect();
        let done = format!("Addon configured for {count} clusters");
        let failed = "Failed to configure addon for clusters";
        all.clusters(conditions::ADD_ON_CONFIGURED, configured, done, failed);
    }
    removed(plan, all, of, seen);
}

fn removed(plan: &mut Plan, all: &mut GitOpsSteps, of: &GitOpsCluster, seen: &Seen) {
    if seen.removed.is_empty() {
        return;
    }
    let namespace = of.namespace().unwrap_or_default();
    let mut steps = Vec::new();
    for cluster in &seen.removed {
        steps.extend(plan.delete(Site::Hub, &*cluster.add_on));
        let works = cluster.works.iter();
        steps.extend(works.filter_map(|it| plan.delete(Site::Hub, &**it)));
        let name = cluster.add_on.namespace().unwrap_or_default();
        steps.push(plan.push(Step::Delete {
            target: Target::namespaced::<Secret>(Site::Hub, &namespace, &clusters::secret_name(&name)),
            uid: None,
            propagation: None,
        }));
    }
    let done = format!("Cleaned up {} removed cluster(s)", seen.removed.len());
    let failed = "Failed to cleanup removed clusters";
    all.writes(conditions::REMOVED_CLUSTERS_CLEANED_UP, steps, &done, failed);
}

fn of_cluster(name: &str, step: Option<StepId>) -> OfCluster {
    OfCluster {
        name: name.to_owned(),
        steps: step.into_iter().collect(),
        problem: None,
    }
}

/// Creates a Secret, or replaces the data of the one that is there and adds labels.
fn write(plan: &mut Plan, due: &DueCredential) -> StepId {
    let Some(present) = &due.present else {
        return plan.create(Site::Hub, &due.wanted);
    };
    let mut new = present.clone();
    new.data = due.wanted.data.clone();
    let labels: BTreeMap<String, String> = due.wanted.labels().clone();
    new.metadata.labels.get_or_insert_default().extend(labels);
    let target = Target::of(Site::Hub, &new);
    let object = typed(&new, &target.api_resource);
    plan.push(Step::Replace {
        target,
        subresource: None,
        object,
    })
}

fn restart(deployment: &ocm_addon_sdk::k8s_openapi::api::apps::v1::Deployment, seen: &Seen) -> Step {
    let annotations = json!({"kubectl.kubernetes.io/restartedAt": format!("{:.0}", seen.now)});
    Step::MergePatch {
        target: Target::of(Site::Hub, deployment),
        subresource: None,
        patch: json!({"spec": {"template": {"metadata": {"annotations": annotations}}}}),
    }
}

fn tolerating(placement: &Placement) -> Placement {
    let mut new = placement.clone();
    for key in TOLERATED {
        if !new.spec.tolerations.iter().any(|it| it.key == key) {
            new.spec.tolerations.push(Toleration {
                key: key.to_owned(),
                operator: "Exists".to_owned(),
                ..Toleration::default()
            });
        }
    }
    new
}

/// Who signs the certificates of agents reads the authority.
fn rbac(namespace: &str) -> (Role, RoleBinding) {
    const ROLE: &str = "addon-manager-controller-role";
    let metadata = |name: &str| ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some(labels("rbac")),
        ..ObjectMeta::default()
    };
    let words = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let role = Role {
        metadata: metadata(ROLE),
        rules: Some(vec![PolicyRule {
            api_groups: Some(words(&[""])),
            resources: Some(words(&["secrets"])),
            verbs: words(&["get", "list", "watch"]),
            ..PolicyRule::default()
        }]),
    };
    let binding = RoleBinding {
        metadata: metadata("addon-manager-controller-rolebinding"),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "Role".to_owned(),
            name: ROLE.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: "addon-manager-controller-sa".to_owned(),
            namespace: Some("open-cluster-management-hub".to_owned()),
            ..Subject::default()
        }]),
    };
    (role, binding)
}

/// The names of the Secrets whose changes concern a GitOpsCluster in their namespace.
pub const SECRETS: [&str; 4] = [
    certificates::JWT,
    super::AUTHORITY,
    certificates::PRINCIPAL,
    certificates::RESOURCE_PROXY,
];
