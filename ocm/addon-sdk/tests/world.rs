//! The hub's half on an embedded API: registration, permissions, certificates, and what a stranger does not get.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    ByteString,
    api::{
        certificates::v1::CertificateSigningRequest,
        core::v1::{ConfigMap, Secret},
        events::v1::Event,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use kube_api::pki::certificate;
use ocm_addon_sdk::{
    AddOn, AddOnContext, AgentSubject, ConfigKind, Permission, Registration, Signing, UserError, agent::Controller, hub,
};
use ocm_api::{
    addon::{
        ConfigSpecHash,
        v1alpha1::{ClusterManagementAddOn, ConfigReference, ManagedClusterAddOn},
    },
    cluster::ManagedCluster,
    identity,
};
use ocm_reconcile::{Cache, Clients, settle::settle};
use p256::{
    ecdsa::SigningKey,
    elliptic_curve::Generate,
    pkcs8::{EncodePrivateKey, LineEnding},
};
use serde_json::{Value, json};
use testkit::{Site, World, objects, wait};
use tokio_util::sync::CancellationToken;
use x509_cert::der::EncodePem;
use x509_parser::{certificate::X509Certificate, pem::Pem, prelude::FromDer};

const ROLE: &str = "open-cluster-management:greeter:agent";
const SIGNER: &str = "example.com/greeter";

struct Greeter;

impl AddOn for Greeter {
    fn name(&self) -> &str {
        "greeter"
    }

    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        Ok(Vec::new())
    }

    fn registrations(&self, place: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![
            Registration::kube_client(),
            Registration::custom_signer(SIGNER)
                .for_subject(own_subject(place.cluster_name()))
                .signed_by(Signing::with_secret("greeter-ca").in_namespace("default")),
        ])
    }

    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        let rule = Permission::rule("", &["configmaps"], &["get", "list", "watch"]);
        Ok(vec![
            Permission::role(ROLE, vec![rule]),
            Permission::existing_cluster_role("view")
                .on_the_whole_hub()
                .bound_as("greeter-view"),
        ])
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<ConfigMap>()]
    }
}

fn own_subject(cluster: &str) -> AgentSubject {
    AgentSubject {
        user: format!("{cluster}-greeter"),
        groups: vec!["greeters".to_owned()],
        ..AgentSubject::default()
    }
}

struct Hub {
    site: Site,
    client: Client,
    manager: hub::Manager,
    stop: CancellationToken,
}

impl Hub {
    async fn start() -> Self {
        let hub = Self::without_add_ons().await;
        hub.manager.add(Arc::new(Greeter)).unwrap();
        hub
    }

    async fn without_add_ons() -> Self {
        let site = World::new(0).await.hub;
        let client = site.client();
        let stop = CancellationToken::new();
        let caches = hub::Caches::new(client.clone(), stop.clone());
        let manager = hub::Manager::start(client.clone(), &caches, hub::Options::default(), stop.clone())
            .await
            .unwrap();
        let hub = Self {
            site,
            client,
            manager,
            stop,
        };
        for cluster in ["c1", "c10"] {
            hub.cluster(cluster).await;
        }
        hub
    }

    async fn cluster(&self, name: &str) {
        self.site
            .apply(&format!(
                "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n---\n\
                 apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\n\
                 metadata: {{name: {name}}}\nspec: {{hubAcceptsClient: true}}\n"
            ))
            .await;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{name}-asks")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{
                "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": identity::cluster_group(name),
            }],
        });
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        let binding = serde_json::from_value(binding).unwrap();
        bindings.create(&PostParams::default(), &binding).await.unwrap();
    }

    /// The add-on on a cluster, when its agent may register.
    async fn enable(&self, cluster: &str) -> ManagedClusterAddOn {
        self.install(cluster).await;
        let addons = self.addons(cluster);
        let registered = wait::until(&addons, "greeter", "is registered", |it| {
            it.is_some_and(|it| objects::is_true(it, "RegistrationApplied"))
        });
        registered.await.unwrap()
    }

    /// The add-on on a cluster, owned as the manager of add-ons makes it.
    async fn install(&self, cluster: &str) {
        let offers: Api<ClusterManagementAddOn> = Api::all(self.client.clone());
        let offer = match offers.get_opt("greeter").await.unwrap() {
            Some(offer) => offer,
            None => {
                let offer = ClusterManagementAddOn::new("greeter", Default::default());
                offers.create(&PostParams::default(), &offer).await.unwrap()
            }
        };
        let mut addon = ManagedClusterAddOn::new("greeter", Default::default());
        addon.metadata.owner_references = serde_json::from_value(json!([{
            "apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "ClusterManagementAddOn",
            "name": "greeter", "uid": offer.uid(), "controller": true, "blockOwnerDeletion": true,
        }]))
        .unwrap();
        self.addons(cluster)
            .create(&PostParams::default(), &addon)
            .await
            .unwrap();
    }

    fn addons(&self, cluster: &str) -> Api<ManagedClusterAddOn> {
        Api::namespaced(self.client.clone(), cluster)
    }

    fn requests(&self) -> Api<CertificateSigningRequest> {
        Api::all(self.client.clone())
    }

    /// A request made by an agent of `asker` for the add-on on `cluster`.
    async fn ask(&self, asker: &str, cluster: &str, signer: &str, subject: &AgentSubject) -> String {
        let user = identity::agent_user(asker, "abcde");
        let (own, all) = (identity::cluster_group(asker), identity::MANAGED_CLUSTERS_GROUP);
        let client = self.site.client_as(&user, &[&own, all]);
        let pem = credential::csr::new_key_and_request(&credential::csr::CertificateSubject {
            common_name: subject.user.clone(),
            organizations: subject.groups.clone(),
            organizational_units: subject.organizational_units.clone(),
            dns_names: vec!["greeter.addon.open-cluster-management.io".to_owned()],
        })
        .unwrap()
        .request_pem;
        let mut request: CertificateSigningRequest = serde_json::from_value(json!({
            "metadata": {
                "generateName": format!("addon-{cluster}-greeter-"),
                "labels": {
                    "open-cluster-management.io/cluster-name": cluster,
                    "open-cluster-management.io/addon-name": "greeter",
                },
            },
            "spec": {
                "request": "", "signerName": signer,
                "usages": ["digital signature", "key encipherment", "client auth"],
            },
        }))
        .unwrap();
        request.spec.request = ByteString(pem.into_bytes());
        let api: Api<CertificateSigningRequest> = Api::all(client);
        api.create(&PostParams::default(), &request).await.unwrap().name_any()
    }

    async fn certificate(&self, name: &str) -> Vec<u8> {
        let signed = wait::until(&self.requests(), name, "is signed", |it| certificate_of(it).is_some()).await;
        let pem = certificate_of(signed.as_ref()).unwrap();
        Pem::iter_from_buffer(&pem).next().unwrap().unwrap().contents
    }

    async fn approve_by_hand(&self, name: &str) {
        let condition = json!([{"type": "Approved", "status": "True", "reason": "Slip", "message": "oops"}]);
        let slip = Patch::Merge(json!({"status": {"conditions": condition}}));
        let requests = self.requests();
        requests
            .patch_approval(name, &PatchParams::default(), &slip)
            .await
            .unwrap();
    }

    async fn is_untouched(&self, name: &str) {
        let request = self.requests().get(name).await.unwrap();
        let conditions = request.status.iter().flat_map(|it| it.conditions.iter().flatten());
        assert_eq!(conditions.count(), 0, "{name} was decided");
    }

    async fn authority(&self) -> String {
        let key = SigningKey::generate();
        let now = k8s_openapi::jiff::Timestamp::now();
        let certificate = certificate::authority("greeter-ca", &key, now, 3600).unwrap();
        let secret = json!({
            "metadata": {"name": "greeter-ca", "namespace": "default"},
            "stringData": {
                "tls.crt": certificate.to_pem(LineEnding::LF).unwrap(),
                "tls.key": key.to_pkcs8_pem(LineEnding::LF).unwrap().as_str(),
            },
        });
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "default");
        let secret = serde_json::from_value(secret).unwrap();
        secrets
            .create(&PostParams::default(), &secret)
            .await
            .unwrap()
            .name_any()
    }

    /// Waits until an event in a namespace says something that begins so.
    async fn until_told(&self, namespace: &str, begins: &str) {
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let told = async {
            let seen = Cache::start(events, self.stop.clone());
            let note = |it: &Event| it.note.as_deref().is_some_and(|it| it.starts_with(begins));
            seen.until(|it| it.list().iter().any(|it| note(it)).then_some(())).await;
        };
        let told = tokio::time::timeout(Duration::from_secs(60), told).await;
        told.unwrap_or_else(|_| panic!("nobody told: {begins}"));
    }

    async fn stop(self) {
        self.stop.cancel();
        self.manager.finished().await;
        self.site.stop().await;
    }
}

fn certificate_of(request: Option<&CertificateSigningRequest>) -> Option<Vec<u8>> {
    Some(request?.status.as_ref()?.certificate.as_ref()?.0.clone()).filter(|it| !it.is_empty())
}

fn client_subject(addon: &ManagedClusterAddOn) -> AgentSubject {
    let registrations = &addon.status.as_ref().unwrap().registrations;
    let client = registrations
        .iter()
        .find(|it| it.signer_name == identity::CLIENT_SIGNER);
    let subject = &client.unwrap().subject;
    AgentSubject {
        user: subject.user.clone(),
        groups: subject.groups.clone(),
        organizational_units: subject.organization_unit.clone(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_add_ons_agent_is_approved() {
    let hub = Hub::start().await;
    let addon = hub.enable("c1").await;
    let status = addon.status.as_ref().unwrap();
    assert_eq!(status.namespace, "open-cluster-management-agent-addon");
    assert_eq!(status.registrations.len(), 2);
    let subject = client_subject(&addon);

    // Strangers first, so that their requests have been seen when the right one is approved.
    let sibling = hub.ask("c10", "c1", identity::CLIENT_SIGNER, &subject).await;
    let mut more = subject.clone();
    more.groups.push("other-team".to_owned());
    let greedy = hub.ask("c1", "c1", identity::CLIENT_SIGNER, &more).await;
    let elsewhere = hub.ask("c1", "c10", identity::CLIENT_SIGNER, &subject).await;

    let own = hub.ask("c1", "c1", identity::CLIENT_SIGNER, &subject).await;
    let certificate = hub.certificate(&own).await;
    let (_, certificate) = X509Certificate::from_der(&certificate).unwrap();
    let text = certificate.subject().to_string();
    assert!(text.contains(&format!("CN={}", subject.user)), "{text}");
    let approved = hub.requests().get(&own).await.unwrap();
    let condition = &approved.status.unwrap().conditions.unwrap()[0];
    assert_eq!(
        condition.reason.as_deref(),
        Some("AutoApprovedByHubCSRApprovingController")
    );
    assert_eq!(
        condition.message.as_deref(),
        Some("Auto approving addon agent certificate.")
    );
    for stranger in [&sibling, &greedy, &elsewhere] {
        hub.is_untouched(stranger).await;
    }

    // Who looks again finds nothing to do.
    let (context, clients) = (hub.manager.context(), Clients::hub(hub.client.clone()));
    let registrations = hub::registration::Registrations::new(context);
    settle(&registrations, &clients, "c1/greeter", 3).await.unwrap();
    let approval = hub::approval::Approval::new(context);
    settle(&approval, &clients, &own, 3).await.unwrap();
    settle(&approval, &clients, &greedy, 1).await.unwrap();

    // What the identity is worth: its own namespace, and not the one of a sibling that has the same add-on.
    hub.enable("c10").await;
    let groups: Vec<_> = subject.groups.iter().map(String::as_str).collect();
    let agent = hub.site.client_as(&subject.user, &groups);
    let maps = |namespace: &str| Api::<ConfigMap>::namespaced(agent.clone(), namespace);
    assert!(maps("c1").list(&Default::default()).await.is_ok());
    assert!(
        Api::<Secret>::namespaced(agent.clone(), "c10")
            .list(&Default::default())
            .await
            .is_err()
    );
    let role = Api::<RoleBinding>::namespaced(hub.client.clone(), "c10")
        .get(ROLE)
        .await
        .unwrap();
    let subjects: Vec<_> = role.subjects.unwrap().into_iter().map(|it| it.name).collect();
    assert!(!subjects.contains(&identity::addon_group("greeter")), "{subjects:?}");
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_cannot_obtain_another_identity_through_the_status() {
    let hub = Hub::start().await;
    hub.enable("c1").await;
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: default}}";
    hub.site.apply(map).await;
    let context = hub.manager.context();
    let until = async |done: &dyn Fn() -> bool| {
        let looking = async {
            while !done() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(wait::PATIENCE, looking).await.expect("it comes");
    };
    let (configs, kind) = (&context.configs, ConfigKind::of::<ConfigMap>());
    until(&|| matches!(configs.find(&kind, "default", "settings"), hub::Lookup::Found(..))).await;

    let admin = AgentSubject {
        user: "admin".to_owned(),
        groups: vec!["administrators".to_owned()],
        ..AgentSubject::default()
    };
    let name = hub.ask("c1", "c1", identity::CLIENT_SIGNER, &admin).await;
    // With a configuration whose change seems to be held back, nobody puts right what it says of itself.
    let desired = json!({"namespace": "default", "name": "settings", "specHash": "x"});
    let lie = json!({"status": {
        "configReferences": [{"group": "", "resource": "configmaps", "name": "settings", "desiredConfig": desired}],
        "registrations": [{
            "signerName": identity::CLIENT_SIGNER, "subject": {"user": "admin", "groups": ["administrators"]},
        }],
    }});
    hub.addons("c1")
        .patch_status("greeter", &PatchParams::default(), &Patch::Merge(lie))
        .await
        .unwrap();
    until(&|| match context.look("c1/greeter") {
        hub::Look::Here(it) => it.place.held().is_some() && client_subject(&it.place.addon) == admin,
        _ => false,
    })
    .await;
    let open = hub::open_requests::OpenRequests::of(&context.caches);
    until(&|| open.requests.named(&name).is_some()).await;
    let approval = hub::approval::Approval::new(context);
    settle(&approval, &Clients::hub(hub.client.clone()), &name, 1)
        .await
        .unwrap();
    hub.is_untouched(&name).await;
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_signer_signs_only_for_its_own_agent() {
    let hub = Hub::start().await;
    hub.enable("c1").await;
    // Before there is an authority, the request is approved and waits.
    let own = hub.ask("c1", "c1", SIGNER, &own_subject("c1")).await;
    let other = hub.ask("c1", "c1", SIGNER, &own_subject("c2")).await;
    let approved = |it: Option<&CertificateSigningRequest>| it.is_some_and(|it| objects::is_true(it, "Approved"));
    wait::until(&hub.requests(), &own, "is approved", approved).await;
    hub.is_untouched(&other).await;
    hub.until_told(
        "c1",
        &format!("CSR {own} cannot be signed: there is no Secret default/greeter-ca, the authority of signer {SIGNER}"),
    )
    .await;

    // Not even the approval of an administrator gets a certificate for somebody else.
    hub.approve_by_hand(&other).await;

    // One that is none is told as well, and the right one is used at once, not when somebody looks again.
    let secrets: Api<Secret> = Api::namespaced(hub.client.clone(), "default");
    let nothing = serde_json::from_value(json!({"metadata": {"name": "greeter-ca"}})).unwrap();
    secrets.create(&PostParams::default(), &nothing).await.unwrap();
    let none =
        format!("CSR {own} cannot be signed: Secret default/greeter-ca, the authority of signer {SIGNER}, is none");
    hub.until_told("c1", &none).await;
    secrets.delete("greeter-ca", &DeleteParams::default()).await.unwrap();
    let since = std::time::Instant::now();
    hub.authority().await;
    let certificate = hub.certificate(&own).await;
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    let (_, certificate) = X509Certificate::from_der(&certificate).unwrap();
    assert_eq!(certificate.subject().to_string(), "O=greeters, CN=c1-greeter");
    assert_eq!(certificate.issuer().to_string(), "CN=greeter-ca");
    let lifetime = certificate.validity().not_after.timestamp() - k8s_openapi::jiff::Timestamp::now().as_second();
    assert!(lifetime <= 3600, "{lifetime} s: it outlives its authority");
    let other = hub.requests().get(&other).await.unwrap();
    assert_eq!(certificate_of(Some(&other)), None);
    hub.stop().await;
}

/// One whose authority is nowhere on the hub: its controller signs.
struct Elsewhere;

impl AddOn for Elsewhere {
    fn name(&self) -> &str {
        "greeter"
    }

    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        Ok(Vec::new())
    }

    fn registrations(&self, place: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        let subject = own_subject(place.cluster_name());
        Ok(vec![Registration::custom_signer(SIGNER).for_subject(subject)])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_signing_code_receives_only_requests_that_were_checked() {
    let hub = Hub::without_add_ons().await;
    hub.manager.add(Arc::new(Elsewhere)).unwrap();
    hub.enable("c1").await;
    let controller = Controller {
        add_on: "greeter".to_owned(),
        client: hub.client.clone(),
        manager: hub.manager.clone(),
        stop: hub.stop.clone(),
    };
    let own = hub.ask("c1", "c1", SIGNER, &own_subject("c1")).await;
    let other = hub.ask("c1", "c1", SIGNER, &own_subject("c2")).await;
    assert_eq!(
        controller.to_sign(&hub.requests().get(&other).await.unwrap()).unwrap(),
        None
    );
    hub.approve_by_hand(&other).await;
    let approved = |it: Option<&CertificateSigningRequest>| it.is_some_and(|it| objects::is_true(it, "Approved"));
    let own = wait::until(&hub.requests(), &own, "is approved", approved)
        .await
        .unwrap();
    let other = wait::until(&hub.requests(), &other, "is approved", approved)
        .await
        .unwrap();
    let refused = controller.to_sign(&other).unwrap_err();
    assert_eq!(
        refused.message(),
        "its subject is not the one that its registration names"
    );

    let asked = controller.to_sign(&own).unwrap().expect("it is to be signed");
    let key = SigningKey::generate();
    let now = k8s_openapi::jiff::Timestamp::now();
    let authority = certificate::authority("vault", &key, now, 3600).unwrap();
    let pem = (
        authority.to_pem(LineEnding::LF).unwrap(),
        key.to_pkcs8_pem(LineEnding::LF).unwrap(),
    );
    let vault = hub::authority::Authority::read(pem.0.as_bytes(), pem.1.as_bytes()).unwrap();
    let signed = vault.sign(&asked, Duration::from_secs(600), now).unwrap();
    controller.certify(&own, &signed).await.unwrap();
    let certificate = hub.certificate(&own.name_any()).await;
    let (_, certificate) = X509Certificate::from_der(&certificate).unwrap();
    assert_eq!(certificate.subject().to_string(), "O=greeters, CN=c1-greeter");
    let own = hub.requests().get(&own.name_any()).await.unwrap();
    assert_eq!(controller.to_sign(&own).unwrap(), None);
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_are_repaired_and_go_with_the_add_on() {
    let hub = Hub::start().await;
    hub.enable("c1").await;
    let roles: Api<Role> = Api::namespaced(hub.client.clone(), "c1");
    let patch = Patch::Merge(json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}));
    roles.patch(ROLE, &PatchParams::default(), &patch).await.unwrap();
    let is_right = |it: Option<&Role>| {
        let rules = it.and_then(|it| it.rules.as_ref());
        rules.is_some_and(|it| it[0].verbs == ["get", "list", "watch"])
    };
    wait::until(&roles, ROLE, "is repaired", is_right).await;
    roles.delete(ROLE, &DeleteParams::default()).await.unwrap();
    wait::until(&roles, ROLE, "is made again", is_right).await;

    hub.addons("c1")
        .delete("greeter", &DeleteParams::default())
        .await
        .unwrap();
    wait::gone(&roles, ROLE).await;
    let bindings: Api<RoleBinding> = Api::namespaced(hub.client.clone(), "c1");
    wait::gone(&bindings, ROLE).await;
    let offers: Api<ClusterManagementAddOn> = Api::all(hub.client.clone());
    offers.delete("greeter", &DeleteParams::default()).await.unwrap();
    wait::gone(&Api::<ClusterRoleBinding>::all(hub.client.clone()), "greeter-view").await;
    hub.stop().await;
}

/// An add-on that asks for something on the whole hub, except where it is told to be quiet.
struct Loud;

impl AddOn for Loud {
    fn name(&self) -> &str {
        "greeter"
    }

    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        Ok(Vec::new())
    }

    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![Registration::kube_client()])
    }

    fn hub_permissions(&self, place: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        if place.addon.annotations().contains_key("quiet") {
            return Ok(Vec::new());
        }
        let rule = || vec![Permission::rule("", &["configmaps"], &["get"])];
        Ok(vec![
            Permission::role("greeter-hears", rule()).on_the_whole_hub(),
            Permission::role("greeter-settings", rule()).in_namespace("default"),
            Permission::existing_cluster_role("view")
                .on_the_whole_hub()
                .bound_as("strangers"),
        ])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_shared_bindings_are_removed_but_foreign_ones_stay() {
    let hub = Hub::without_add_ons().await;
    let bindings: Api<ClusterRoleBinding> = Api::all(hub.client.clone());
    // Somebody has a binding of a name that the add-on asks for, and another that looks as if it were the add-on's.
    for name in ["strangers:c1", "alike"] {
        let strangers = json!({
            "metadata": {"name": name, "labels": {"open-cluster-management.io/addon-name": "greeter"}},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        });
        let strangers = serde_json::from_value(strangers).unwrap();
        bindings.create(&PostParams::default(), &strangers).await.unwrap();
    }
    hub.manager.add(Arc::new(Loud)).unwrap();
    hub.enable("c1").await;
    hub.enable("c10").await;
    let is_bound = |it: Option<&ClusterRoleBinding>| it.is_some_and(|it| it.subjects.is_some());
    wait::until(&bindings, "strangers:c1", "binds", is_bound).await;
    let quiet = Patch::Merge(json!({"metadata": {"annotations": {"quiet": ""}}}));
    let hush = async |cluster: &str| {
        hub.addons(cluster)
            .patch("greeter", &PatchParams::default(), &quiet)
            .await
            .unwrap();
    };
    hush("c1").await;
    let (context, clients) = (hub.manager.context(), Clients::hub(hub.client.clone()));
    let registrations = hub::registration::Registrations::new(context);
    let cache = &context.addons;
    cache
        .until(|it| {
            it.get("c1", "greeter")?
                .annotations()
                .contains_key("quiet")
                .then_some(())
        })
        .await;
    settle(&registrations, &clients, "c1/greeter", 3).await.unwrap();
    let shared = hub::shared_permissions::SharedPermissions::new(context);
    settle(&shared, &clients, "greeter", 1).await.unwrap();
    assert!(
        bindings.get_opt("greeter-hears:c10").await.unwrap().is_some(),
        "c10 asks for it"
    );

    // Whoever removes it, it is made again for those who ask.
    bindings
        .delete("greeter-hears:c10", &DeleteParams::default())
        .await
        .unwrap();
    wait::until(&bindings, "greeter-hears:c10", "is made again", is_bound).await;

    wait::gone(&bindings, "greeter-hears:c1").await;
    hush("c10").await;
    wait::gone(&bindings, "greeter-hears:c10").await;
    let roles: Api<ClusterRole> = Api::all(hub.client.clone());
    wait::gone(&roles, "greeter-hears").await;
    let in_namespace: Api<Role> = Api::namespaced(hub.client.clone(), "default");
    wait::gone(&in_namespace, "greeter-settings").await;
    let in_namespace: Api<RoleBinding> = Api::namespaced(hub.client.clone(), "default");
    wait::gone(&in_namespace, "greeter-settings:c10").await;
    for name in ["strangers:c1", "alike"] {
        let theirs = bindings.get(name).await.unwrap();
        assert!(theirs.metadata.owner_references.is_none(), "{name} was taken over");
    }
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hash_of_a_configuration_follows_its_object() {
    let hub = Hub::start().await;
    hub.enable("c1").await;
    let maps: Api<ConfigMap> = Api::namespaced(hub.client.clone(), "default");
    let map = |value: &str| json!({"metadata": {"name": "settings"}, "data": {"color": value}});
    let created = serde_json::from_value(map("red")).unwrap();
    maps.create(&PostParams::default(), &created).await.unwrap();
    let addons = hub.addons("c1");
    let config = json!({"spec": {"configs": [{"resource": "configmaps", "namespace": "default", "name": "settings"}]}});
    addons
        .patch("greeter", &PatchParams::default(), &Patch::Merge(&config))
        .await
        .unwrap();
    // Which configurations an add-on has is for the product to say; a test says it here.
    let reference = ConfigReference {
        resource: "configmaps".to_owned(),
        namespace: "default".to_owned(),
        name: "settings".to_owned(),
        desired_config: Some(ConfigSpecHash {
            namespace: "default".to_owned(),
            name: "settings".to_owned(),
            spec_hash: String::new(),
        }),
        ..ConfigReference::default()
    };
    let status = json!({"status": {"configReferences": [reference]}});
    addons
        .patch_status("greeter", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
    for value in ["red", "<blue & green>"] {
        maps.patch("settings", &PatchParams::default(), &Patch::Merge(&map(value)))
            .await
            .unwrap();
        let hash = ocm_addon_sdk::spec_hash::of(&map(value));
        wait::until(&addons, "greeter", "has the hash", |it| {
            let status = it.and_then(|it| it.status.as_ref());
            let desired = status.and_then(|it| it.config_references[0].desired_config.as_ref());
            desired.is_some_and(|it| it.spec_hash == hash)
        })
        .await;
    }
    // The same for what is wanted by default, and nothing is wanted of what is not there.
    let offers: Api<ClusterManagementAddOn> = Api::all(hub.client.clone());
    let defaults = ["settings", "missing"].map(|name| {
        json!({"resource": "configmaps", "desiredConfig": {"namespace": "default", "name": name, "specHash": "?"}})
    });
    let status = json!({"status": {"defaultconfigReferences": defaults}});
    offers
        .patch_status("greeter", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
    let hash = ocm_addon_sdk::spec_hash::of(&map("<blue & green>"));
    wait::until(&offers, "greeter", "has the hashes", |it| {
        let references = it
            .and_then(|it| it.status.as_ref())
            .map(|it| &it.default_config_references);
        let hash_of = |at: usize| Some(references?.get(at)?.desired_config.as_ref()?.spec_hash.as_str());
        hash_of(0) == Some(&hash) && hash_of(1) == Some("")
    })
    .await;
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_add_on_serves_open_requests_until_its_removal() {
    let hub = Hub::without_add_ons().await;
    hub.install("c1").await;
    let name = hub.ask("c1", "c1", SIGNER, &own_subject("c1")).await;
    hub.authority().await;
    hub.is_untouched(&name).await;
    hub.manager.add(Arc::new(Greeter)).unwrap();
    assert!(hub.manager.add(Arc::new(Greeter)).is_err());
    hub.certificate(&name).await;

    assert!(hub.manager.remove("greeter"));
    let late = hub.ask("c1", "c1", SIGNER, &own_subject("c1")).await;
    // It comes back with new permissions only when it is added again, and then it finds the request too.
    hub.is_untouched(&late).await;
    hub.manager.add(Arc::new(Greeter)).unwrap();
    hub.certificate(&late).await;
    hub.stop().await;
}

/// What upstream's example grants to its controllers.
const RIGHTS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: program}
rules:
- {apiGroups: [""], resources: [configmaps, events], verbs: [get, list, watch, create, update, patch, delete]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [roles, rolebindings], verbs: [get, list, watch, create, update, patch, delete]}
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests], verbs: [get, list, watch]}
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests/approval, certificatesigningrequests/status], verbs: [update]}
- {apiGroups: [certificates.k8s.io], resources: [signers], verbs: [approve, sign]}
- {apiGroups: [cluster.open-cluster-management.io], resources: [managedclusters], verbs: [get, list, watch]}
- {apiGroups: [work.open-cluster-management.io], resources: [manifestworks], verbs: [get, list, watch, create, update, patch, delete]}
- {apiGroups: [addon.open-cluster-management.io], resources: [managedclusteraddons, clustermanagementaddons, addondeploymentconfigs], verbs: [get, list, watch]}
- {apiGroups: [addon.open-cluster-management.io], resources: [managedclusteraddons/status, clustermanagementaddons/status], verbs: [update, patch]}
- {apiGroups: [addon.open-cluster-management.io], resources: [managedclusteraddons/finalizers, clustermanagementaddons/finalizers], verbs: [update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: program}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: program}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: program}]
"#;

/// An add-on that wants nothing on the hub beyond its clusters' namespaces.
struct Modest;

impl AddOn for Modest {
    fn name(&self) -> &str {
        "greeter"
    }

    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        Ok(Vec::new())
    }

    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![Registration::kube_client()])
    }

    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        let rule = Permission::rule("", &["configmaps"], &["get", "list", "watch"]);
        Ok(vec![Permission::role(ROLE, vec![rule])])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standalone_program_needs_no_more_permissions_than_upstreams_example() {
    let hub = Hub::without_add_ons().await;
    hub.site.apply(RIGHTS).await;
    let program = hub.site.client_as("program", &[]);
    let running = tokio::spawn(hub::run(program, vec![Arc::new(Modest)], hub.stop.clone()));
    let addon = hub.enable("c1").await;
    let request = hub
        .ask("c1", "c1", identity::CLIENT_SIGNER, &client_subject(&addon))
        .await;
    hub.certificate(&request).await;
    hub.stop().await;
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_without_list_permission_removes_bindings_of_denied_clusters() {
    let hub = Hub::without_add_ons().await;
    let modest = RIGHTS.replace(
        "[roles, rolebindings], verbs: [get, list, watch,",
        "[roles, rolebindings], verbs: [get,",
    );
    assert_ne!(modest, RIGHTS);
    hub.site.apply(&modest).await;
    let program = hub.site.client_as("program", &[]);
    let running = tokio::spawn(hub::run(program, vec![Arc::new(Modest)], hub.stop.clone()));
    hub.enable("c1").await;
    let bindings: Api<RoleBinding> = Api::namespaced(hub.client.clone(), "c1");
    wait::until(&bindings, ROLE, "exists", |it| it.is_some()).await;
    let clusters: Api<ManagedCluster> = Api::all(hub.client.clone());
    let denied = Patch::Merge(json!({"spec": {"hubAcceptsClient": false}}));
    clusters.patch("c1", &PatchParams::default(), &denied).await.unwrap();
    wait::gone(&bindings, ROLE).await;
    hub.stop().await;
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standalone_add_on_runs_until_it_is_stopped() {
    let site = World::new(0).await.hub;
    let stop = CancellationToken::new();
    let running = tokio::spawn(hub::run(site.client(), vec![Arc::new(Greeter)], stop.clone()));
    stop.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(30), running).await;
    ended.expect("it ends").unwrap().unwrap();
    site.stop().await;
}
