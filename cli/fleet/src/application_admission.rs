//! What the add-on application-manager refuses and fills in when it is written, inside the embedded hub's API server.
//! On a real Kubernetes its program serves the same rules as webhooks.

use std::sync::{Arc, OnceLock};

use addon_application::hub::{
    admission::{CHANNEL_WEBHOOK, validate_channel},
    identity::{self, ObjectWriter},
};
use kube_api::{
    admission::{Admission, AdmissionOperation, Review},
    identity::Attributes,
};
use kube_store::{Store, status::Status};
use serde_json::{Value, json};

const CHANNELS: &str = "channels.apps.open-cluster-management.io";
const SUBSCRIPTIONS: &str = "subscriptions.apps.open-cluster-management.io";
const PLACEMENT_RULES: &str = "placementrules.apps.open-cluster-management.io";

/// The rules for Channels, and who has written Subscriptions and PlacementRules.
#[derive(Default)]
pub struct ApplicationAdmission {
    /// The hub's objects; the server that holds them does not exist yet when the rules are handed to it.
    store: OnceLock<Arc<Store>>,
}

impl ApplicationAdmission {
    /// Lets the rules see the hub's objects.
    pub fn connect(&self, store: &Arc<Store>) {
        let _ = self.store.set(store.clone());
    }

    fn judge(&self, review: &Review<'_>, object: &Value) -> Result<(), String> {
        let store = self.store.get().ok_or("the hub cluster state is unknown")?;
        let (found, _) = store.list(CHANNELS, review.namespace);
        let present: Vec<_> = found
            .iter()
            .filter_map(|it| serde_json::from_value(it.value().clone()).ok())
            .map(Arc::new)
            .collect();
        let request = json!({
            "operation": review.operation.text(), "namespace": review.namespace, "object": object,
            "oldObject": review.old,
        });
        validate_channel(&request, &present)
    }
}

impl Admission for ApplicationAdmission {
    fn wants(&self, resource: &str) -> bool {
        [CHANNELS, SUBSCRIPTIONS, PLACEMENT_RULES].contains(&resource)
    }

    fn admit(&self, review: &Review<'_>, object: &mut Value) -> Result<Vec<String>, Status> {
        let is_written = matches!(
            review.operation,
            AdmissionOperation::Create | AdmissionOperation::Update
        );
        if !is_written || !review.subresource.is_empty() || review.resource == CHANNELS {
            return Ok(Vec::new());
        }
        let by = ObjectWriter {
            user: &review.user.username,
            groups: &review.user.groups,
        };
        let is_believed = identity::is_claimed(object, review.old)
            && identity::IMPERSONATED.iter().all(|it| may_impersonate(review, it));
        if let Some(annotations) = identity::attributed(object, review.old, by, is_believed) {
            object["metadata"]["annotations"] = annotations;
        }
        Ok(Vec::new())
    }

    fn validate(&self, review: &Review<'_>, object: &Value) -> Result<Vec<String>, Status> {
        if review.resource != CHANNELS || !review.subresource.is_empty() {
            return Ok(Vec::new());
        }
        match self.judge(review, object) {
            Ok(()) => Ok(Vec::new()),
            Err(denial) => {
                let message = format!("admission webhook \"{CHANNEL_WEBHOOK}\" denied the request: {denial}");
                Err(Status::new(403, "Forbidden", message))
            }
        }
    }
}

fn may_impersonate(review: &Review<'_>, resource: &str) -> bool {
    (review.may)(&Attributes {
        verb: "impersonate".to_owned(),
        is_resource: true,
        version: "*".to_owned(),
        resource: resource.to_owned(),
        ..Attributes::default()
    })
}

#[cfg(test)]
mod tests {
    use kube::{
        Api, Client,
        api::{Patch, PatchParams, PostParams},
    };
    use ocm_api::{
        apps::{Channel, GROUP, Subscription, annotations},
        crds,
    };
    use ocm_reconcile::install::install_crds;
    use testkit::Site;

    use super::*;

    async fn site() -> Site {
        let rules = Arc::new(ApplicationAdmission::default());
        let site = Site::start_with(vec![rules.clone()]).await.unwrap();
        rules.connect(site.server.store());
        install_crds(&site.client(), crds::add_on(GROUP)).await.unwrap();
        site
    }

    fn subscription(annotations: Value) -> Subscription {
        let metadata = json!({"name": "s", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"channel": "a/b"}})).unwrap()
    }

    fn identity(it: &Subscription) -> [Option<&str>; 2] {
        [annotations::USER_IDENTITY, annotations::USER_GROUP].map(|name| it.annotation(name))
    }

    /// Somebody who may do with Subscriptions what he likes, and nothing else.
    async fn eve(site: &Site) -> Client {
        let rule = json!({"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]});
        let rules = [serde_json::from_value(rule).unwrap()];
        let user = site.user_with(("default", "eve"), "eve", &rules).await;
        Client::new(site.server.service(user), "default")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_namespace_has_one_channel_that_is_no_git_repository() {
        let site = site().await;
        let api: Api<Channel> = Api::namespaced(site.client(), "default");
        let create = async |name: &str, kind: &str| {
            let object = json!({"metadata": {"name": name}, "spec": {"type": kind, "pathname": "https://a.example"}});
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap())
                .await
        };
        create("a", "HelmRepo").await.unwrap();
        create("b", "Git").await.unwrap();
        let denial = "admission webhook \"channels.apps.open.cluster.management.webhook.validator\" denied the request: \
                      the namespace default already contains a channel: a";
        let error = create("c", "ObjectBucket").await.unwrap_err().to_string();
        assert!(error.contains(denial), "{error}");
        let turned = Patch::Merge(json!({"spec": {"type": "ObjectBucket"}}));
        let error = api
            .patch("b", &PatchParams::default(), &turned)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(denial), "{error}");
        api.patch("a", &PatchParams::default(), &turned).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_subscription_says_who_has_written_it() {
        let site = site().await;
        let forged = json!({annotations::USER_IDENTITY: "YWRtaW4=", annotations::USER_GROUP: ""});
        let of = |client: Client| -> Api<Subscription> { Api::namespaced(client, "default") };
        let (admins, eves) = (of(site.client()), of(eve(&site).await));
        let eve = "c3lzdGVtOnNlcnZpY2VhY2NvdW50OmRlZmF1bHQ6ZXZl";
        let made = eves
            .create(&PostParams::default(), &subscription(forged.clone()))
            .await
            .unwrap();
        assert_eq!(identity(&made)[0], Some(eve));
        // Whoever may speak for everybody is believed, as one who restores a backup.
        let claims = Patch::Merge(json!({"metadata": {"annotations": forged}}));
        let claimed = admins.patch("s", &PatchParams::default(), &claims).await.unwrap();
        assert_eq!(identity(&claimed), [Some("YWRtaW4="), None]);
        let paused = Patch::Merge(json!({"status": {"phase": "Propagated"}}));
        let told = eves.patch_status("s", &PatchParams::default(), &paused).await.unwrap();
        assert_eq!(identity(&told)[0], Some("YWRtaW4="));
        let changed = Patch::Merge(json!({"spec": {"channel": "a/c"}}));
        let changed = eves.patch("s", &PatchParams::default(), &changed).await.unwrap();
        assert_eq!(identity(&changed)[0], Some(eve));
    }
}
