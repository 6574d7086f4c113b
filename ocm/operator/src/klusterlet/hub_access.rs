//! Whether the hub lets an agent do what it does.
//!
//! Root: Klusterlet. Reads: the Secret to join with and the agent's credential; the hub, with either of them.
//! Writes: condition HubConnectionDegraded.
//! Never: more to the hub than SelfSubjectAccessReviews; a credential.
//! Upstream: ocm `pkg/operator/operators/klusterlet/controllers/ssarcontroller/klusterlet_ssar_controller.go`.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use credential::kubeconfig::{KubeconfigProblem, explain};
use jiff::Timestamp;
use k8s_openapi::api::{authorization::v1::SelfSubjectAccessReview, core::v1::Secret};
use kube::{Api, ResourceExt, api::PostParams};
use ocm_api::{
    condition,
    conditions::klusterlet as conditions,
    namespaces::{BOOTSTRAP_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET},
    operator::Klusterlet,
};
use ocm_reconcile::{ObserveError, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right};
use parking_lot::Mutex;

use super::{
    access::{self, Answer, Bootstrap, Hub},
    external::{self, Reached},
    ground::Operator,
    pace::Pace,
    permissions, said, settings,
};

/// What was heard counts for so long when only our own write was late.
const HEARD: Duration = Duration::from_secs(2);
/// Who was let in is asked after so much more rarely.
const RARELY: u32 = 10;

/// The reconciler.
pub struct HubAccess {
    operator: Arc<Operator>,
    pace: Pace,
    heard: Mutex<HashMap<String, Heard>>,
}

/// What was found, of which Secrets, and when.
#[derive(Clone)]
struct Heard {
    of: [Option<String>; 2],
    at: Instant,
    findings: Findings,
}

/// What was found of both Secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Of the Secret to join with, if it matters.
    pub bootstrap: Option<Bootstrap>,
    /// Of the credential.
    pub hub: Hub,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The Klusterlet, unless it is gone or is going.
    pub klusterlet: Option<Arc<Klusterlet>>,
    /// What was found; nothing of a Klusterlet that asks for what cannot be done.
    pub findings: Option<Findings>,
    /// After how long a hub that refuses is asked again.
    pub interval: Duration,
}

impl HubAccess {
    /// Of this operator.
    pub fn new(operator: Arc<Operator>) -> Self {
        Self {
            operator,
            pace: Pace::new(),
            heard: Mutex::default(),
        }
    }

    async fn find(&self, klusterlet: &Klusterlet) -> Findings {
        let namespace = settings::agent_namespace(klusterlet);
        let credential = self.operator.credentials.get(&namespace, HUB_KUBECONFIG_SECRET);
        let bootstrap = self.operator.bootstrap.get(&namespace, BOOTSTRAP_KUBECONFIG_SECRET);
        let version = |it: &Option<Arc<Secret>>| it.as_ref().and_then(|it| it.resource_version());
        let of = [version(&credential), version(&bootstrap)];
        let name = klusterlet.name_any();
        if let Some(heard) = self.heard.lock().get(&name)
            && heard.of == of
            && heard.at.elapsed() < HEARD
        {
            return heard.findings.clone();
        }
        let hub = self.ask_hub(credential.as_deref(), &klusterlet.spec.cluster_name).await;
        let matters = !hub.is_functional() && !settings::has_multiple_hubs(klusterlet);
        let bootstrap = match matters {
            true => Some(self.ask_bootstrap(bootstrap.as_deref()).await),
            false => None,
        };
        let findings = Findings { bootstrap, hub };
        let heard = Heard {
            of,
            at: Instant::now(),
            findings: findings.clone(),
        };
        self.heard.lock().insert(name, heard);
        findings
    }

    async fn ask_bootstrap(&self, secret: Option<&Secret>) -> Bootstrap {
        let Some(secret) = secret else {
            return Bootstrap::Missing;
        };
        match external::reach(secret).await {
            Err(problem) => Bootstrap::Unusable(problem.to_string()),
            Ok(reached) => Bootstrap::Asked {
                answer: self.ask(&reached, access::to_join()).await,
                server: reached.server,
            },
        }
    }

    async fn ask_hub(&self, secret: Option<&Secret>, cluster: &str) -> Hub {
        let Some(secret) = secret else {
            return Hub::SecretMissing;
        };
        let data = |key: &str| secret.data.as_ref()?.get(key);
        if data("kubeconfig").is_none() {
            return Hub::KubeconfigMissing;
        }
        let reached = match external::reach(secret).await {
            Err(problem) => return Hub::Unusable(problem.to_string()),
            Ok(reached) => reached,
        };
        let said = data("cluster-name").and_then(|it| std::str::from_utf8(&it.0).ok());
        let Some(cluster) = Some(cluster).filter(|it| !it.is_empty()).or(said) else {
            return Hub::NameMissing;
        };
        Hub::Asked {
            answer: self.ask(&reached, access::to_serve(cluster)).await,
            server: reached.server,
        }
    }

    /// One after the other, until the first that is refused.
    async fn ask(&self, reached: &Reached, reviews: Vec<SelfSubjectAccessReview>) -> Answer {
        let api: Api<SelfSubjectAccessReview> = Api::all(reached.client.clone());
        for review in reviews {
            self.pace.next().await;
            match api.create(&PostParams::default(), &review).await {
                Ok(answer) if answer.status.as_ref().is_some_and(|it| it.allowed) => {}
                Ok(_) => return Answer::Denied(access::described(&review)),
                Err(error) => {
                    let problem = explain(&reached.server, &error);
                    return match problem {
                        KubeconfigProblem::Unauthorized { .. } => Answer::Unknown("401 Unauthorized".to_owned()),
                        other => Answer::Unreachable(other.to_string()),
                    };
                }
            }
        }
        Answer::Allowed
    }
}

#[async_trait]
impl Reconciler for HubAccess {
    const NAME: &'static str = "klusterlet-hub-access";
    /// A hub that does not answer keeps nobody else waiting.
    const WORKERS: usize = 16;
    const STATUS: &'static [StatusField] = &[StatusField::condition(
        Klusterlet::KIND,
        conditions::HUB_CONNECTION_DEGRADED,
    )];
    const RIGHTS: &'static [Right] = permissions::STATUS;
    type Seen = Seen;

    /// Of a Klusterlet, what is asked for; its status is written often, and by us.
    fn watches(&self, watches: &mut Watches) {
        watches.wakes(&self.operator.klusterlets, |old: Option<&Klusterlet>, new| {
            let new = new?;
            let is_same = old.is_some_and(|it| it.metadata.generation == new.metadata.generation);
            (!is_same).then(|| new.name_any())
        });
        self.operator.watch_secret(watches, &self.operator.bootstrap);
        self.operator.watch_secret(watches, &self.operator.credentials);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let klusterlet = self.operator.klusterlets.named(name);
        let klusterlet = klusterlet.filter(|it| it.metadata.deletion_timestamp.is_none());
        let asked = klusterlet.as_deref().filter(|it| settings::refusals(it).is_empty());
        let findings = match asked {
            Some(klusterlet) => Some(self.find(klusterlet).await),
            None => None,
        };
        if klusterlet.is_none() {
            self.heard.lock().remove(name);
        }
        Ok(Seen {
            now: Timestamp::now(),
            // It may have been written while the hub was asked.
            klusterlet: klusterlet.and_then(|_| self.operator.klusterlets.named(name)),
            findings,
            interval: self.operator.options.hub_access_check_interval,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let (Some(before), Some(findings)) = (seen.klusterlet.as_deref(), &seen.findings) else {
            return plan;
        };
        let namespace = settings::agent_namespace(before);
        let Findings { bootstrap, hub } = findings;
        let update = access::condition(&namespace, bootstrap.as_ref(), hub).at_generation(before.metadata.generation);
        let mut after = before.clone();
        let conditions = &mut after.status.get_or_insert_default().conditions;
        let is_new = condition::set(conditions, update.clone(), seen.now);
        plan.status(Site::Management, before, &after);
        if is_new && access::is_alarming(findings) {
            plan.push(said::warning(before, &update.reason, update.message, seen.now));
        }
        // A Secret that is missing or useless is heard of; a hub that changes its mind is not.
        match (bootstrap, hub) {
            (
                _,
                Hub::Asked {
                    answer: Answer::Allowed,
                    ..
                },
            ) => {
                plan.look_again(seen.interval * RARELY);
            }
            (Some(Bootstrap::Asked { .. }), _) | (_, Hub::Asked { .. }) => {
                plan.look_again(seen.interval);
            }
            _ => {}
        }
        plan
    }
}
