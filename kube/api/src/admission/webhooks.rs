//! Calls the webhooks that want to see a write: those that may change it one after the other,
//! those that may not at once.

use super::{
    attributes::AdmissionAttributes,
    configuration::{AdmissionWebhook, Hooks},
    expressions::{self, Holds, MatchCondition},
    failure_policy::FailurePolicy,
    json_patch,
    review::{self, Patch, ReviewedObjects, Role},
};
use crate::{context::ServerContext, convert};
use kube_store::status::Status;
use serde_json::Value;
use std::{borrow::Cow, sync::Arc};

/// A write on its way through the webhooks.
pub struct WebhookRequest<'a> {
    pub server: &'a ServerContext,
    pub hooks: &'a Hooks,
    pub write: &'a AdmissionAttributes<'a>,
    pub old: Option<&'a Value>,
}

impl WebhookRequest<'_> {
    /// The version in which a webhook wants to see the write; `None` when it does not.
    async fn wanted<'w>(
        &'w self,
        webhook: &AdmissionWebhook,
        object: Option<&Value>,
    ) -> Result<Option<&'w str>, Status> {
        let Some(version) = webhook.constraints.version(self.write) else {
            return Ok(None);
        };
        if !webhook
            .constraints
            .selects(self.write, &self.server.store, self.old, object)
        {
            return Ok(None);
        }
        if webhook.conditions.is_empty() {
            return Ok(Some(version));
        }
        let old = self.in_version(version, self.old).await?;
        let object = self.in_version(version, object).await?;
        match (
            self.hold(webhook, version, old.as_deref(), object.as_deref()),
            webhook.failure,
        ) {
            (Holds::Yes, _) => Ok(Some(version)),
            (Holds::No, _) | (Holds::Unknown(_), FailurePolicy::Ignore) => Ok(None),
            (Holds::Unknown(why), FailurePolicy::Fail) => Err(self.write.forbidden(&why)),
        }
    }

    fn hold(&self, webhook: &AdmissionWebhook, version: &str, old: Option<&Value>, object: Option<&Value>) -> Holds {
        let context = expressions::context(self.write, version, old, object, &self.server.rbac);
        MatchCondition::all_hold(&webhook.conditions, &context)
    }

    /// The object in the version that a rule matches.
    pub(super) async fn in_version<'v>(
        &self,
        version: &str,
        value: Option<&'v Value>,
    ) -> Result<Option<Cow<'v, Value>>, Status> {
        let Some(value) = value else { return Ok(None) };
        if version == self.write.version {
            return Ok(Some(Cow::Borrowed(value)));
        }
        let mut value = value.clone();
        convert::between(self.write.resource, version, &mut value).await?;
        Ok(Some(Cow::Owned(value)))
    }

    async fn ask(
        &self,
        webhook: &AdmissionWebhook,
        role: Role,
        version: &str,
        object: Option<&Value>,
    ) -> (Vec<String>, Result<Patch, Status>) {
        let old = match self.in_version(version, self.old).await {
            Ok(it) => it,
            Err(status) => return (Vec::new(), Err(status)),
        };
        let object = match self.in_version(version, object).await {
            Ok(it) => it,
            Err(status) => return (Vec::new(), Err(status)),
        };
        let objects = ReviewedObjects {
            object: object.as_deref(),
            old: old.as_deref(),
        };
        review::ask(self.server, webhook, role, self.write, version, objects).await
    }

    /// Lets the mutating webhooks change the object; `tidy` reads it again after each change. Whether it changed.
    ///
    /// # Errors
    /// The status of the first that refuses.
    pub async fn mutate(
        &self,
        mut object: Option<&mut Value>,
        warnings: &mut Vec<String>,
        tidy: &(dyn Fn(&mut Value) -> Result<(), Status> + Sync),
    ) -> Result<bool, Status> {
        let webhooks: Vec<&Arc<AdmissionWebhook>> = self.hooks.mutating().collect();
        let mut changed = false;
        // Those that asked to be called again, and those of them that have a reason by now.
        let mut called: Vec<usize> = Vec::new();
        let mut again: Vec<usize> = Vec::new();
        for pass in 0..2 {
            for (at, webhook) in webhooks.iter().enumerate() {
                if pass == 1 && !again.contains(&at) {
                    continue;
                }
                let Some(version) = self.wanted(webhook, object.as_deref()).await? else {
                    continue;
                };
                let (said, answer) = self.ask(webhook, Role::Mutating, version, object.as_deref()).await;
                warnings.extend(said);
                if let Some(patch) = answer?
                    && self
                        .change(webhook, version, object.as_deref_mut(), &patch, tidy)
                        .await?
                {
                    changed = true;
                    again.append(&mut called);
                }
                if webhook.reinvocation {
                    called.push(at);
                }
            }
            if again.is_empty() {
                break;
            }
        }
        Ok(changed)
    }

    async fn change(
        &self,
        webhook: &AdmissionWebhook,
        version: &str,
        object: Option<&mut Value>,
        patch: &[u8],
        tidy: &(dyn Fn(&mut Value) -> Result<(), Status> + Sync),
    ) -> Result<bool, Status> {
        let Some(object) = object else {
            let text = "attempted to modify the object, which is not supported for this operation";
            return Err(review::internal(&format!(
                "admission webhook {:?} {text}",
                webhook.name
            )));
        };
        let before = self.in_version(version, Some(object)).await?.unwrap_or_default();
        let mut after = json_patch::apply(&before, patch)?;
        if after == *before {
            return Ok(false);
        }
        if version != self.write.version {
            convert::between(self.write.resource, self.write.version, &mut after).await?;
        }
        tidy(&mut after)?;
        let changed = after != *object;
        *object = after;
        Ok(changed)
    }

    /// Asks all validating webhooks at once.
    ///
    /// # Errors
    /// The status of the first, in order, that refuses.
    pub async fn validate(&self, object: Option<&Value>, warnings: &mut Vec<String>) -> Result<(), Status> {
        let mut asked = Vec::new();
        for webhook in self.hooks.validating() {
            if let Some(version) = self.wanted(webhook, object).await? {
                asked.push(self.ask(webhook, Role::Validating, version, object));
            }
        }
        let mut refused = Ok(());
        for (said, answer) in futures::future::join_all(asked).await {
            warnings.extend(said);
            refused = refused.and(answer.map(|_| ()));
        }
        refused
    }
}
