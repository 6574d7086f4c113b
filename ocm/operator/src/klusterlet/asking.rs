//! Asks a hub what it lets an agent do, with each of the Secrets that lead there.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use credential::kubeconfig::{KubeconfigProblem, explain};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use ocm_api::{
    namespaces::{BOOTSTRAP_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET},
    operator::Klusterlet,
};
use ocm_reconcile::access::{Attributes, may_i};
use parking_lot::Mutex;

use super::{
    access::{self, Answer, BootstrapFinding, CredentialFinding, Findings},
    external::{self, Reached},
    ground::AgentOperator,
    pace::Pace,
    settings,
};

/// What was heard counts for so long when only our own write was late.
const HEARD: Duration = Duration::from_secs(2);

/// Who asks, and what was heard.
pub struct Asking {
    operator: Arc<AgentOperator>,
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

impl Asking {
    /// Of this operator.
    pub fn new(operator: Arc<AgentOperator>) -> Self {
        Self {
            operator,
            pace: Pace::new(),
            heard: Mutex::default(),
        }
    }

    /// Asks the hub, unless it has just said so.
    pub async fn find(&self, klusterlet: &Klusterlet) -> Findings {
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

    async fn ask_bootstrap(&self, secret: Option<&Secret>) -> BootstrapFinding {
        let Some(secret) = secret else {
            return BootstrapFinding::Missing;
        };
        match external::reach(secret).await {
            Err(problem) => BootstrapFinding::Unusable(problem.to_string()),
            Ok(reached) => BootstrapFinding::Asked {
                answer: self.ask(&reached, access::to_join()).await,
                server: reached.server,
            },
        }
    }

    async fn ask_hub(&self, secret: Option<&Secret>, cluster: &str) -> CredentialFinding {
        let Some(secret) = secret else {
            return CredentialFinding::SecretMissing;
        };
        let data = |key: &str| secret.data.as_ref()?.get(key);
        if data("kubeconfig").is_none() {
            return CredentialFinding::KubeconfigMissing;
        }
        let reached = match external::reach(secret).await {
            Err(problem) => return CredentialFinding::Unusable(problem.to_string()),
            Ok(reached) => reached,
        };
        let said = data("cluster-name").and_then(|it| std::str::from_utf8(&it.0).ok());
        let Some(cluster) = Some(cluster).filter(|it| !it.is_empty()).or(said) else {
            return CredentialFinding::NameMissing;
        };
        CredentialFinding::Asked {
            answer: self.ask(&reached, access::to_serve(cluster)).await,
            server: reached.server,
        }
    }

    /// One after the other, until the first that is refused.
    async fn ask(&self, reached: &Reached, all: Vec<Attributes>) -> Answer {
        for asked in all {
            self.pace.next().await;
            match may_i(&reached.client, &asked).await {
                Ok(true) => {}
                Ok(false) => return Answer::Denied(access::described(&asked)),
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

    /// Forgets what was heard for a Klusterlet that is gone.
    pub fn forget(&self, klusterlet: &str) {
        self.heard.lock().remove(klusterlet);
    }
}
