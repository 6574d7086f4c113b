//! What an add-on does on the hub besides answering: a function of its author's, beside the reconcilers.
//!
//! An add-on's answers do no IO. What they need to know of the hub that is no configuration, such as the address of a
//! Service or a certificate, is watched here, kept where the add-on finds it, and the add-on is asked anew.

use std::{fmt::Debug, future::Future, hash::Hash};

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::{Api, Client, Resource, runtime::watcher};
use ocm_reconcile::{Cache, Clients, Plan, cache::split_key};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::{
    Result,
    whenever::{self, Changing},
};
use crate::{
    UserError,
    hub::{
        Look, Manager, custom_signer,
        request::{self, Asked},
    },
};

/// What the author of a controller's function is given.
///
/// ```no_run
/// use std::{process::ExitCode, sync::{Arc, RwLock}};
/// use ocm_addon_sdk::{
///     AddOn, AddOnContext, AddOnProgram, UserError,
///     agent::{self, Controller},
///     k8s_openapi::api::core::v1::ConfigMap,
///     kube::Api,
/// };
/// use serde_json::{Value, json};
///
/// /// Tells every cluster where the gateway is, which a ConfigMap on the hub says.
/// struct Gateway {
///     address: Arc<RwLock<Option<String>>>,
/// }
///
/// impl AddOn for Gateway {
///     fn name(&self) -> &str {
///         "gateway"
///     }
///
///     fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
///         let known = self.address.read()?.clone();
///         let address = known.ok_or_else(|| UserError::new("the ConfigMap default/gateway does not say where it is"))?;
///         let metadata = json!({"name": "gateway", "namespace": "default"});
///         Ok(vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"address": address}})])
///     }
/// }
///
/// async fn follow(controller: Controller, address: Arc<RwLock<Option<String>>>) -> agent::Result<()> {
///     let maps = controller.watch(Api::<ConfigMap>::namespaced(controller.client.clone(), "default"));
///     controller.whenever(&[&maps], async || {
///         let map = maps.get("default", "gateway");
///         let now = map.and_then(|it| it.data.as_ref()?.get("address").cloned());
///         let before = std::mem::replace(&mut *address.write().expect("nobody panics with it"), now.clone());
///         if before != now {
///             controller.trigger_all();
///         }
///         Ok(())
///     })
///     .await
/// }
///
/// fn main() -> ExitCode {
///     let address = Arc::default();
///     let add_on = Gateway { address: Arc::clone(&address) };
///     AddOnProgram::new(add_on).controller(move |it| follow(it, address.clone())).main()
/// }
/// ```
#[derive(Clone)]
pub struct Controller {
    /// The add-on's name.
    pub add_on: String,
    /// The hub, as the controller, with the rights of its own account there.
    pub client: Client,
    /// What runs the add-on.
    pub manager: Manager,
    /// Cancelled when the program is to stop.
    pub stop: CancellationToken,
}

impl Controller {
    /// Watches everything `api` shows, for as long as the controller runs.
    pub fn watch<K>(&self, api: Api<K>) -> Cache<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
    {
        Cache::start(api, self.stop.clone())
    }

    /// Watches what a label selector matches.
    pub fn watch_labelled<K>(&self, api: Api<K>, selector: &str) -> Cache<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
    {
        Cache::start_with(api, watcher::Config::default().labels(selector), self.stop.clone())
    }

    /// Calls `act` when everything watched has arrived, and again after every change, as an agent's
    /// [`whenever`](super::AddOnAgent::whenever).
    ///
    /// # Errors
    /// Never: a failure is logged and tried again. It returns a result because a controller does.
    pub async fn whenever<F>(&self, watched: &[&dyn Changing], act: impl FnMut() -> F) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        whenever::until(&self.stop, watched, act).await
    }

    /// What a certificate request asks for that this add-on has to sign, for a
    /// [signer](crate::Registration::custom_signer) whose authority is no Secret but a function of yours; nothing when
    /// it is none of this add-on's, not approved, or signed already. It has passed the checks that are made before an
    /// authority in a Secret signs: who has approved it does not count. The certificate must be for exactly this, and
    /// [`certify`](Self::certify) hands it over.
    ///
    /// # Errors
    /// Why it is no request of the agent that it says it is for.
    pub fn to_sign(&self, request: &CertificateSigningRequest) -> std::result::Result<Option<Asked>, UserError> {
        let is_due = request::awaits_custom_signer(request);
        let Some(key) = request::key(request).filter(|it| is_due && split_key(it).1 == self.add_on) else {
            return Ok(None);
        };
        let context = self.manager.context();
        let Look::Here(installed) = context.look(&key) else {
            return Ok(None);
        };
        let asked = request::read(request).map_err(UserError::new)?;
        request::check(request, &asked, &installed, &context.options.grpc_user).map_err(UserError::new)?;
        Ok(Some(asked))
    }

    /// Hands over the certificate that was made for a request, as PEM. The controller's account needs `update` on
    /// `certificatesigningrequests/status` and `sign` on the signer.
    ///
    /// # Errors
    /// When the hub does not take it.
    pub async fn certify(&self, request: &CertificateSigningRequest, certificate: &str) -> Result<()> {
        let mut plan = Plan::new();
        plan.push(custom_signer::certified(request, certificate));
        super::carry_out(&Clients::hub(self.client.clone()), &plan).await
    }

    /// Asks the add-on anew about this cluster, because something has changed that only its author can know of.
    pub fn trigger(&self, cluster: &str) {
        self.manager.trigger(cluster, &self.add_on);
    }

    /// Asks the add-on anew about every cluster that has it.
    pub fn trigger_all(&self) {
        self.manager.trigger_all(&self.add_on);
    }
}
