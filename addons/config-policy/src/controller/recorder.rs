//! What a controller says of a policy: events about the Policy that owns it, its status, and events about itself.
//! Upstream: config-policy-controller `sendComplianceEvent`, `updatePolicyStatus`.

use std::{fmt::Debug, sync::Arc, time::Duration};

use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{Event, ObjectReference, Secret},
    kube::{self, Api, Client, Resource, ResourceExt, api::PostParams, core::NamespaceResourceScope},
    ocm_api::policy::{
        ComplianceEvent, ENCRYPTION_KEY_SECRET, configuration_policy::ConfigurationPolicy,
        operator_policy::OperatorPolicy,
    },
    reconcile::{Cache, Clients, EventKind, EventStep, Plan, Site, Step, async_trait, execute},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use super::{counters, memory::PolicyMemory};
use crate::{
    evaluate::{COMPLIANT, Recorder, WantedObject},
    operator::OperatorRecorder,
};

/// Who says so, in events.
pub const COMPONENT: &str = "configuration-policy-controller";
/// How often a status is tried to be written.
const WRITES_MAX: usize = 3;

/// Says what there is to say of one policy, in one run.
pub struct PolicyRecorder<'a, K> {
    /// The API server where policies live.
    pub client: Client,
    /// The policies.
    pub policies: &'a Cache<K>,
    /// What is known of the policy.
    pub memory: Arc<PolicyMemory>,
    /// The host that events are said to come from.
    pub instance: &'a str,
}

/// What names an object in an event.
pub fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    object.object_ref(&())
}

/// An event about a policy itself.
pub async fn remark(
    client: &Client,
    about: &ObjectReference,
    component: &str,
    warning: bool,
    reason: &str,
    note: &str,
) {
    let action = match reason {
        "PolicyInfo" => format!("policy: {}", about.name.as_deref().unwrap_or_default()),
        "PolicyUpdate" => "Policy status updated".to_owned(),
        reason => reason.to_owned(),
    };
    let mut plan = Plan::new();
    plan.push(Step::Event(EventStep {
        site: Site::Cluster,
        namespace: about.namespace.clone().unwrap_or_default(),
        regarding: json!(about),
        related: None,
        kind: if warning { EventKind::Warning } else { EventKind::Normal },
        reason: reason.to_owned(),
        action,
        note: shortened(note),
        reporting_controller: component.to_owned(),
        at: Timestamp::now(),
    }));
    let _ = execute(&Clients::cluster(client.clone()), &plan).await;
}

/// The API server takes notes up to 1 KiB.
fn shortened(note: &str) -> String {
    const NOTE_MAX: usize = 1024;
    match note.len() > NOTE_MAX {
        true => format!("{}...", &note[..note.floor_char_boundary(NOTE_MAX - 3)]),
        false => note.to_owned(),
    }
}

/// The keys of encrypted values in a namespace.
///
/// # Errors
/// What the API server says.
pub async fn encryption_keys(client: &Client, namespace: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = api.get(ENCRYPTION_KEY_SECRET).await.map_err(said)?;
    let mut data = secret.data.unwrap_or_default();
    let mut key = |name: &str| data.remove(name).map(|it| it.0).unwrap_or_default();
    Ok((key("key"), key("previousKey")))
}

fn said(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}

impl<K> PolicyRecorder<'_, K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    /// Tells the Policy that owns this one, if there is one.
    async fn tell_owner(&self, policy: &K, compliant: bool, message: &str, at: Timestamp) -> Result<(), String> {
        let Some(owner) = policy.owner_references().first() else {
            return Ok(());
        };
        let (namespace, name) = (policy.namespace().unwrap_or_default(), policy.name_any());
        let event = ComplianceEvent {
            name: &owner.name,
            policy: ObjectReference {
                api_version: Some(owner.api_version.clone()),
                kind: Some(owner.kind.clone()),
                namespace: policy.namespace(),
                name: Some(owner.name.clone()),
                uid: Some(owner.uid.clone()),
                ..ObjectReference::default()
            },
            related: Some(reference(policy)),
            reason: format!("policy: {namespace}/{name}"),
            compliant,
            message: message.to_owned(),
            at,
            component: COMPONENT,
            instance: self.instance,
        };
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        match api.create(&PostParams::default(), &event.event()).await {
            Ok(_) => Ok(()),
            Err(error) => Err(said(error)),
        }
    }

    /// Writes the status. The spec may have hub templates filled in; the status is all that is written.
    async fn write_status(&self, policy: &mut K) -> Result<(), String> {
        let api: Api<K> = Api::namespaced(self.client.clone(), &policy.namespace().unwrap_or_default());
        let name = policy.name_any();
        for attempt in 1..=WRITES_MAX {
            match api.replace_status(&name, &PostParams::default(), policy).await {
                Ok(written) => {
                    let version = written.meta().resource_version.clone();
                    policy.meta_mut().resource_version.clone_from(&version);
                    self.memory.wrote(version);
                    self.policies.put(written);
                    return Ok(());
                }
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                Err(kube::Error::Api(status)) if status.code == 409 && attempt < WRITES_MAX => {
                    match api.get_opt(&name).await.map_err(said)? {
                        // Another policy of that name is evaluated anew.
                        Some(now) if now.uid() == policy.uid() => {
                            policy
                                .meta_mut()
                                .resource_version
                                .clone_from(&now.meta().resource_version);
                        }
                        _ => return Ok(()),
                    }
                }
                Err(error) => {
                    counters::system_error(policy, "status-update-failed");
                    return Err(said(error));
                }
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Recorder for PolicyRecorder<'_, ConfigurationPolicy> {
    async fn tell(&self, policy: &ConfigurationPolicy, message: &str, at: Timestamp) -> Result<(), String> {
        let compliant = policy.status.as_ref().is_some_and(|it| it.compliant == COMPLIANT);
        self.tell_owner(policy, compliant, message, at).await
    }

    async fn write(&self, policy: &mut ConfigurationPolicy) -> Result<(), String> {
        self.write_status(policy).await
    }

    async fn remark(&self, policy: &ConfigurationPolicy, warning: bool, reason: &str, note: &str) {
        remark(&self.client, &reference(policy), COMPONENT, warning, reason, note).await;
    }

    async fn keys(&self, policy: &ConfigurationPolicy) -> Result<(Vec<u8>, Vec<u8>), String> {
        encryption_keys(&self.client, &policy.namespace().unwrap_or_default()).await
    }

    fn compared(&self, policy: &str, object: &WantedObject<'_>, took: Duration) {
        let resource = format!("{}.{}", object.kind.plural, object.name);
        counters::compared(policy, object.namespace, &resource, took);
    }

    fn user_error(&self, policy: &ConfigurationPolicy, r#type: &'static str) {
        counters::user_error(policy, r#type);
    }
}

#[async_trait]
impl OperatorRecorder for PolicyRecorder<'_, OperatorPolicy> {
    async fn tell(&self, policy: &OperatorPolicy, message: &str, at: Timestamp) -> Result<(), String> {
        // What was so before something was done about it is told with what is so now.
        let compliant = message.starts_with(COMPLIANT);
        self.tell_owner(policy, compliant, message, at).await
    }

    async fn write(&self, policy: &mut OperatorPolicy) -> Result<(), String> {
        self.write_status(policy).await
    }
}
