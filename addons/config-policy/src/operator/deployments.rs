//! The Deployments of an operator.
//! Upstream: config-policy-controller `handleDeployment`.

use serde_json::Value;

use super::{DEPLOYMENT as KIND, OperatorEvaluation, conditions, namespace, related, text};
use crate::evaluate::{COMPLIANT, EvaluationFailure};

impl OperatorEvaluation<'_> {
    /// Looks at the Deployments of the installed version.
    pub(super) async fn deployments(&mut self, version: Option<&Value>) -> Result<(), EvaluationFailure> {
        let unwanted = self.must_not_have();
        let Some(version) = version else {
            if unwanted {
                self.say(conditions::not_applicable(&KIND), Vec::new());
            } else {
                let none = related::inapplicable(&KIND, "No relevant deployments found");
                self.say(conditions::no_deployments(), vec![none]);
            }
            return Ok(());
        };
        let tolerated = self.spec.compliance_config.deployments_unavailable == COMPLIANT;
        let (mut objects, mut any, mut unavailable) = (Vec::new(), false, Vec::new());
        let deployments = version
            .pointer("/spec/install/spec/deployments")
            .and_then(Value::as_array);
        for name in deployments.into_iter().flatten().map(|it| text(it, "/name")) {
            let Some(deployment) = self.find(&KIND, namespace(version), name).await? else {
                objects.push(match unwanted {
                    true => related::absent(&KIND, namespace(version), name),
                    false => related::missing(&KIND, namespace(version), name),
                });
                continue;
            };
            any = true;
            let lacking = deployment["status"]["unavailableReplicas"].as_i64().unwrap_or_default();
            if lacking > 0 {
                unavailable.push(name);
            }
            objects.push(match unwanted {
                true => related::not_applicable(&KIND, &deployment),
                false => related::deployment(&KIND, &deployment, lacking == 0, tolerated),
            });
        }
        let condition = match unwanted {
            true => conditions::not_applicable(&KIND),
            false => conditions::deployments(tolerated, any, &unavailable),
        };
        self.say(condition, objects);
        Ok(())
    }
}
