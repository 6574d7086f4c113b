//! OCM's rules for who writes clusters, as a webhook has them on a real Kubernetes:
//! they ask what the writer may do beside.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use kube_api::{
    admission::{Admission, AdmissionOperation as Verb, Review},
    identity,
};
use kube_store::status::Status;
use ocm_api::cluster::ManagedCluster;
use ocm_reconcile::access::Attributes;
use registration::admission::{self, AdmissionContext, Denial, WriteOperation};
use serde_json::{Value, json};
use testkit::{Ask, Asked};

const CLUSTERS: &str = "managedclusters.cluster.open-cluster-management.io";

/// The rules. They hold while they are switched on, and what the hub is asked about is heard.
pub struct Writers {
    pub on: Arc<AtomicBool>,
    pub of_hub: Asked,
}

fn refusal(it: &Denial) -> Status {
    Status::new(403, "Forbidden", it.message.clone())
}

fn read(object: &Value) -> ManagedCluster {
    serde_json::from_value(object.clone()).expect("a cluster that its schema lets in")
}

fn operation(old: Option<&ManagedCluster>) -> WriteOperation<'_, ManagedCluster> {
    old.map_or(WriteOperation::Create, WriteOperation::Update)
}

impl Admission for Writers {
    fn wants(&self, resource: &str) -> bool {
        resource == CLUSTERS && self.on.load(Ordering::SeqCst)
    }

    fn admit(&self, review: &Review<'_>, object: &mut Value) -> Result<Vec<String>, Status> {
        if review.operation == Verb::Delete || !review.subresource.is_empty() {
            return Ok(Vec::new());
        }
        let old = review.old.map(read);
        let filled =
            admission::mutate_managed_cluster(&read(object), operation(old.as_ref()), true, jiff::Timestamp::now());
        let filled = filled.map_err(|it| refusal(&it))?;
        object["metadata"]["labels"] = json!(filled.metadata.labels);
        if !filled.spec.taints.is_empty() {
            object["spec"]["taints"] = json!(filled.spec.taints);
        }
        Ok(Vec::new())
    }

    fn validate(&self, review: &Review<'_>, object: &Value) -> Result<Vec<String>, Status> {
        if !review.subresource.is_empty() {
            return Ok(Vec::new());
        }
        let old = review.old.map(read);
        let world = Seen {
            review,
            of_hub: &self.of_hub,
        };
        let user = &review.user.username;
        admission::validate_managed_cluster(user, &read(object), operation(old.as_ref()), &world)
            .map_err(|it| refusal(&it))?;
        Ok(Vec::new())
    }
}

struct Seen<'a> {
    review: &'a Review<'a>,
    of_hub: &'a Asked,
}

impl AdmissionContext for Seen<'_> {
    fn may(&self, asked: &Attributes) -> Result<bool, String> {
        let subresource = asked.subresource.clone().unwrap_or_default();
        if self.review.user.username.ends_with(hub::rbac::SERVICE_ACCOUNT) {
            let resource = format!("{}/{subresource}", asked.resource);
            self.of_hub.hear(Ask::new(&asked.group, &resource, &asked.verb));
        }
        Ok((self.review.may)(&identity::Attributes {
            verb: asked.verb.clone(),
            is_resource: true,
            group: asked.group.clone(),
            version: "*".to_owned(),
            resource: asked.resource.clone(),
            subresource,
            namespace: asked.namespace.clone().unwrap_or_default(),
            name: asked.name.clone().unwrap_or_default(),
            path: String::new(),
        }))
    }

    fn is_terminating(&self, _: &str) -> Result<bool, String> {
        Ok(false)
    }
}
