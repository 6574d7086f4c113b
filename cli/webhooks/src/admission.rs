//! OCM's rules for writers, inside the embedded hub's API server. On a real Kubernetes the same rules are webhooks.
//! The rules themselves are plain functions of `registration` and `work`; here they only meet the server.

mod registration;
mod work;

pub(crate) use self::registration::{
    fill_cluster, validate_add_on, validate_cluster, validate_cluster_status, validate_set_binding,
};

use std::sync::Arc;

use kube_api::{admission::Admission, identity::Attributes};
use kube_store::{Store, status::Status};
use ocm_reconcile::access;

/// All rules of a hub.
pub struct HubAdmission {
    registration: Arc<registration::RegistrationAdmission>,
    work: Arc<work::WorkAdmission>,
}

impl HubAdmission {
    /// The rules of a hub with these options, which do not see the hub's objects yet.
    pub fn new(options: &hub::Options) -> Self {
        // With default sets, a cluster that names no set is put into the set `default`.
        let registration = registration::RegistrationAdmission::new(options.registration.default_sets);
        Self {
            registration: Arc::new(registration),
            work: Arc::new(work::WorkAdmission::new(options.works.rules())),
        }
    }

    /// For the server, in order.
    pub fn plugins(&self) -> Vec<Arc<dyn Admission>> {
        vec![self.registration.clone(), self.work.clone()]
    }

    /// Lets the rules see the hub's objects. The server that holds them does not exist yet when it is handed the rules.
    pub fn connect(&self, store: &Arc<Store>) {
        self.registration.connect(store);
    }
}

/// A refusal in the words in which an API server passes on the one of a webhook.
fn refusal(webhook: &str, code: u16, denial: &str) -> Status {
    let message = format!("admission webhook \"{webhook}\" denied the request: {denial}");
    match code {
        400 => Status::new(400, "BadRequest", message),
        403 => Status::new(403, "Forbidden", message),
        _ => Status::internal(message),
    }
}

/// A question about rights, in the server's words.
fn asked_of(asked: &access::Attributes) -> Attributes {
    Attributes {
        verb: asked.verb.clone(),
        is_resource: true,
        group: asked.group.clone(),
        version: "*".into(),
        resource: asked.resource.clone(),
        subresource: asked.subresource.clone().unwrap_or_default(),
        namespace: asked.namespace.clone().unwrap_or_default(),
        name: asked.name.clone().unwrap_or_default(),
        path: String::new(),
    }
}
