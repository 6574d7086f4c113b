//! The add-on application-manager on the hub of `drover up`: who may be its administrators, and where Git servers tell
//! of changes.

use addon_application::hub::{
    administrators::role_and_binding,
    webhook::{PendingEvents, WebhookListener, serve_on},
};
use anyhow::{Context, Result};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Client;
use ocm_reconcile::{
    Caches,
    install::{Installed, install},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The name of its port in the data directory.
pub const PORT: &str = "git-webhooks";

/// Makes the role of subscription administrators what it is to be, and the binding where there is none.
///
/// # Errors
/// When the hub does not take them.
pub async fn prepare(hub: &Client) -> Result<()> {
    let [role, binding] = role_and_binding();
    let role: ClusterRole = serde_json::from_value(role)?;
    // It names nobody, so whomever somebody has named stays.
    let binding: ClusterRoleBinding = serde_json::from_value(binding)?;
    let installed = install(hub, &[Installed::of(&role), Installed::of(&binding)]).await;
    installed.context("could not install what subscription administrators are")
}

/// Hears webhooks of Git servers of this machine, in a task of its own.
pub fn hear(socket: TcpListener, caches: &Caches, events: PendingEvents, stop: &CancellationToken) {
    let listener = WebhookListener::new(caches, events);
    tokio::spawn(serve_on(socket, None, listener, stop.clone()));
}

#[cfg(test)]
mod tests {
    use kube::{
        Api,
        api::{Patch, PatchParams},
    };
    use ocm_api::apps::SUBSCRIPTION_ADMIN_BINDING;
    use serde_json::json;
    use testkit::Site;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn administrators_stay_when_a_hub_starts_again() {
        let site = Site::start().await.unwrap();
        let hub = site.client();
        prepare(&hub).await.unwrap();
        let bindings: Api<ClusterRoleBinding> = Api::all(hub.clone());
        let made = bindings.get(SUBSCRIPTION_ADMIN_BINDING).await.unwrap();
        assert_eq!(made.subjects.unwrap_or_default(), []);
        let subjects = json!([{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}]);
        let named = Patch::Merge(json!({"subjects": subjects}));
        bindings
            .patch(SUBSCRIPTION_ADMIN_BINDING, &PatchParams::default(), &named)
            .await
            .unwrap();
        let roles: Api<ClusterRole> = Api::all(hub.clone());
        let emptied = Patch::Merge(json!({"rules": []}));
        roles
            .patch(SUBSCRIPTION_ADMIN_BINDING, &PatchParams::default(), &emptied)
            .await
            .unwrap();
        prepare(&hub).await.unwrap();
        let kept = bindings.get(SUBSCRIPTION_ADMIN_BINDING).await.unwrap();
        assert_eq!(kept.subjects.unwrap()[0].name, "alice");
        assert_eq!(
            roles
                .get(SUBSCRIPTION_ADMIN_BINDING)
                .await
                .unwrap()
                .rules
                .unwrap()
                .len(),
            4
        );
    }
}
