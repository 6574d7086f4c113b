//! What an author writes: one value that answers questions about one cluster at a time.

use std::fmt;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use ocm_api::{cluster::ManagedCluster, work::ManifestConfigOption};
use serde_json::Value;

use crate::{AddOnContext, ConfigKind, Health, Permission, ProbeResult, Registration, hub::Trigger};

/// One add-on.
///
/// Every method is a plain function of its arguments: it does no IO, knows no clock and remembers nothing, and it is
/// called as often as the SDK likes. Only [`name`](AddOn::name) and [`manifests`](AddOn::manifests) have no default.
///
/// ```
/// use ocm_addon_sdk::{AddOn, AddOnContext, UserError};
/// use serde_json::{Value, json};
///
/// struct Marker;
///
/// impl AddOn for Marker {
///     fn name(&self) -> &str {
///         "marker"
///     }
///
///     fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
///         Ok(vec![json!({
///             "apiVersion": "v1", "kind": "ConfigMap",
///             "metadata": {"name": "marker", "namespace": "default"},
///             "data": {"cluster": place.cluster_name()},
///         })])
///     }
/// }
/// ```
pub trait AddOn: Send + Sync + 'static {
    /// The name of its ClusterManagementAddOn, and of its ManagedClusterAddOn on every cluster.
    fn name(&self) -> &str;

    /// What is to be on the cluster: whole Kubernetes objects with `apiVersion` and `kind`.
    ///
    /// Annotations say what is special about one: `addon.open-cluster-management.io/addon-pre-delete` on a Job or Pod
    /// that runs before the add-on goes, `.../deletion-orphan` on what stays behind, `.../hosted-manifest-location`
    /// with `managed`, `hosting` or `none` on what goes elsewhere when the agent is hosted.
    ///
    /// # Errors
    /// A [`UserError`] when something that a user can change has to be changed first.
    /// It becomes the message of the condition `ManifestApplied`.
    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError>;

    /// How its agent proves to others who it is; an agent that speaks to nobody needs none.
    ///
    /// # Errors
    /// A [`UserError`], which becomes the message of the condition `RegistrationApplied`.
    fn registrations(&self, place: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        let _ = place;
        Ok(Vec::new())
    }

    /// What its agent may do on the hub, once it is registered there; and what others may do there because of the
    /// add-on, such as [a group of people](Permission::for_group).
    ///
    /// # Errors
    /// A [`UserError`], which becomes the message of the condition `RegistrationApplied`.
    fn hub_permissions(&self, place: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        let _ = place;
        Ok(Vec::new())
    }

    /// Whether the hub approves a certificate request of its agent by itself.
    ///
    /// The SDK asks only for a request that has passed all its own checks: the requester is an agent of that very
    /// cluster, the subject is exactly the one that the registration names, and the cluster and the add-on exist.
    /// `false` leaves the request to a person.
    fn approves(&self, place: &AddOnContext, request: &CertificateSigningRequest) -> bool {
        let _ = (place, request);
        true
    }

    /// How its health is known.
    fn health(&self, place: &AddOnContext) -> Health {
        let _ = place;
        Health::Lease
    }

    /// With [`Health::Work`]: whether what was found on the cluster is healthy, and if not, what to tell the user.
    ///
    /// # Errors
    /// A sentence for the condition `Available`.
    fn judge(&self, place: &AddOnContext, results: &[ProbeResult]) -> Result<(), String> {
        let _ = (place, results);
        Ok(())
    }

    /// The kinds of configuration it understands. Objects of these kinds that are meant for a cluster are in
    /// [`AddOnContext::configs`].
    fn supported_configs(&self) -> Vec<ConfigKind> {
        Vec::new()
    }

    /// Names of other add-ons that make a difference to this one when they are on the same cluster: which of them are
    /// is in [`AddOnContext::companions`], and this one is asked anew when one of them comes or goes.
    fn companions(&self) -> &[&str] {
        &[]
    }

    /// The namespace on the cluster, where it is not what the ManagedClusterAddOn says (by default
    /// `open-cluster-management-agent-addon`). `place` has that one. Mostly this is
    /// [`config::install_namespace`](crate::values::config::install_namespace).
    ///
    /// # Errors
    /// A [`UserError`] when it cannot be told now: the add-on stays where it is. The user is told by what
    /// [`manifests`](AddOn::manifests) says of the same thing.
    fn install_namespace(&self, place: &AddOnContext) -> Result<Option<String>, UserError> {
        let _ = place;
        Ok(None)
    }

    /// How single objects are updated and what is reported of them, besides what [`health`](AddOn::health) needs.
    fn manifest_configs(&self, place: &AddOnContext) -> Vec<ManifestConfigOption> {
        let _ = place;
        Vec::new()
    }

    /// Whether its agent can run on another cluster than the one it manages. Asked where the ManagedClusterAddOn names
    /// a hosting cluster; `place` knows of none yet. Where the answer is `false`,
    /// everything goes to the managed cluster.
    fn hosted(&self, place: &AddOnContext) -> bool {
        let _ = place;
        false
    }

    /// Whether nothing is deployed before the hub has said which configuration is
    /// for this cluster (condition `Configured`).
    fn waits_for_configuration(&self) -> bool {
        false
    }

    /// Called once, when a [`Manager`](crate::hub::Manager) takes the add-on in: an add-on whose answers depend on more
    /// than an [`AddOnContext`] keeps the trigger and pulls it when that has changed.
    fn follow(&self, trigger: Trigger) {
        let _ = trigger;
    }

    /// Whether a change of the cluster concerns the manifests. Changes of the add-on and of its configuration always
    /// do, and so does that the cluster is accepted or heard of.
    ///
    /// By default what this crate reads of a cluster does: see [`values::differ`](crate::values::differ). An add-on
    /// that makes its manifests of more than that, such as labels or claims, compares them here.
    fn redeploys_on(&self, before: &ManagedCluster, after: &ManagedCluster) -> bool {
        crate::values::differ(before, after)
    }
}

/// Why an add-on gives no answer: something that a user has to change. No retry will help until then.
///
/// Any error becomes one with `?`; a sentence becomes one with [`UserError::new`].
///
/// ```
/// use ocm_addon_sdk::UserError;
///
/// fn replicas(text: &str) -> Result<u32, UserError> {
///     match text.parse()? {
///         0 => Err(UserError::new("there has to be one replica at least")),
///         replicas => Ok(replicas),
///     }
/// }
///
/// assert_eq!(replicas("many").unwrap_err().message(), "invalid digit found in string");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserError {
    message: String,
}

impl UserError {
    /// A refusal that says this to the user.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }

    /// What it says to the user.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

// Not an error itself, so that every error can become one with `?`.
impl<E: std::error::Error> From<E> for UserError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut next = error.source();
        while let Some(source) = next {
            let more = source.to_string();
            // Many errors print their source themselves.
            if !message.contains(&more) {
                message = format!("{message}: {more}");
            }
            next = source.source();
        }
        Self { message }
    }
}
