//! Puts a fixed list of objects onto an API server when a process starts: CRDs, roles, namespaces.
//! Idempotent: what is there and says the same is left alone, so a restart writes nothing.

use std::{cmp::Ordering, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject},
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use serde_json::Value;

use crate::{
    execute::{Clients, execute},
    plan::{Plan, Site, Target},
};

/// The label of objects that this project made and therefore may change.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`].
pub const DROVER: &str = "drover";
/// The label of CRDs that says which of our releases wrote them last: an older one leaves what a newer one wrote.
pub const RELEASE: &str = "app.kubernetes.io/version";

/// How many CRDs are looked at in parallel: a remote API server answers each in a round trip.
const PARALLEL: usize = 8;

/// How long an API server may take to serve a CRD that it has accepted.
const ESTABLISHED: Duration = Duration::from_secs(30);

/// Why an object could not be put in place.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The API server could not be asked.
    #[error("could not look at {what}")]
    Look {
        /// Kind and name.
        what: String,
        /// The request's failure.
        source: kube::Error,
    },
    /// The API server refused it.
    #[error("could not install {what}: {why}")]
    Write {
        /// Kind and name.
        what: String,
        /// What it said.
        why: String,
    },
    /// A CRD was accepted and then not served.
    #[error("the API server does not serve {0}, although it has accepted its CRD")]
    NotServed(String),
}

/// One object to keep in place, whole, with its kind.
#[derive(Clone, Debug)]
pub struct Installed {
    resource: ApiResource,
    object: Value,
}

impl Installed {
    /// Takes a typed object.
    pub fn of<K>(object: &K) -> Self
    where
        K: kube::Resource<DynamicType = ()> + serde::Serialize,
    {
        let resource = ApiResource::erase::<K>(&());
        let object = crate::plan::typed(object, &resource);
        Self { resource, object }
    }

    /// Takes an object of a kind that is known only at run time.
    pub fn new(resource: ApiResource, object: Value) -> Self {
        Self { resource, object }
    }

    /// The object whole, with its kind.
    pub fn into_manifest(self) -> Value {
        let mut manifest = self.object;
        manifest["apiVersion"] = self.resource.api_version.into();
        manifest["kind"] = self.resource.kind.into();
        manifest
    }

    fn target(&self) -> Target {
        let text = |field: &str| self.object["metadata"][field].as_str().map(str::to_owned);
        Target {
            site: Site::Hub,
            api_resource: self.resource.clone(),
            namespace: text("namespace"),
            name: text("name").unwrap_or_default(),
        }
    }
}

/// Puts the objects in place, one after the other: a namespace has to be there before what lives in it.
pub async fn install(client: &Client, objects: &[Installed]) -> Result<(), InstallError> {
    for object in objects {
        keep(client, object).await?;
    }
    Ok(())
}

/// Puts CRDs in place and waits until their kinds are served. CRDs that somebody else made (an upstream installation)
/// are left as they are, and so are those of a newer release of ours.
pub async fn install_crds(client: &Client, crds: Vec<Value>) -> Result<(), InstallError> {
    stream::iter(crds)
        .map(|crd| async move {
            let crd = of_this_release(crd);
            let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let resource = ApiResource::erase::<CustomResourceDefinition>(&());
            keep(client, &Installed::new(resource, crd)).await?;
            let served = await_condition(Api::all(client.clone()), &name, is_crd_established());
            match tokio::time::timeout(ESTABLISHED, served).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(_)) | Err(_) => Err(InstallError::NotServed(name)),
            }
        })
        .buffer_unordered(PARALLEL)
        .try_collect::<()>()
        .await
}

/// The CRD with the labels that say who has written it.
pub fn of_this_release(mut crd: Value) -> Value {
    crd["metadata"]["labels"][MANAGED_BY] = DROVER.into();
    crd["metadata"]["labels"][RELEASE] = env!("CARGO_PKG_VERSION").into();
    crd
}

async fn keep(client: &Client, wanted: &Installed) -> Result<(), InstallError> {
    let target = wanted.target();
    let what = target.to_string();
    let api: Api<DynamicObject> = match &target.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &target.api_resource),
        None => Api::all_with(client.clone(), &target.api_resource),
    };
    let current = api.get_opt(&target.name).await.map_err(|source| InstallError::Look {
        what: what.clone(),
        source,
    })?;
    let current = current.map(|it| crate::plan::typed(&it, &target.api_resource));
    let plan = plan(target, current.as_ref(), &wanted.object);
    let outcome = execute(&Clients::hub(client.clone()), &plan).await;
    if outcome.succeeded() {
        return Ok(());
    }
    Err(InstallError::Write {
        what,
        why: outcome.error_text(),
    })
}

/// What to write for one object.
fn plan(target: Target, current: Option<&Value>, wanted: &Value) -> Plan {
    let mut plan = Plan::new();
    let ours = |it: &Value| it["metadata"]["labels"][MANAGED_BY] == DROVER;
    let Some(current) = current else {
        plan.keep_value(target, None, wanted);
        return plan;
    };
    if ours(wanted) && !ours(current) {
        plan.remark(format!("{target} was made by somebody else and is left as it is"));
        return plan;
    }
    let release = |it: &Value| it["metadata"]["labels"][RELEASE].as_str().map(Release::read);
    match release(wanted).map(|it| release(current).cmp(&Some(it))) {
        Some(Ordering::Greater) => {
            plan.remark(format!("{target} is of a newer release of ours and is left as it is"));
        }
        Some(Ordering::Less) => {
            // Whole: what our schema no longer has, a limit that was too narrow, would otherwise stay for ever.
            let mut before = current.clone();
            before["spec"].as_object_mut().map(|it| it.remove("versions"));
            plan.keep_value(target, Some(&before), wanted);
        }
        Some(Ordering::Equal) | None => {
            plan.keep_value(target, Some(current), wanted);
        }
    }
    plan
}

/// A release of ours, in the order in which they come. One that cannot be read counts as the newest:
/// we cannot know better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Release {
    /// The three numbers, and whether nothing was to come before it was final.
    Known([u64; 3], bool),
    Unknown,
}

impl Release {
    fn read(text: &str) -> Self {
        let (numbers, is_final) = match text.split_once('-') {
            Some((numbers, _)) => (numbers, false),
            None => (text, true),
        };
        let numbers: Result<Vec<u64>, _> = numbers.split('.').map(str::parse).collect();
        match numbers.map(<[u64; 3]>::try_from) {
            Ok(Ok(numbers)) => Self::Known(numbers, is_final),
            Ok(Err(_)) | Err(_) => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use serde_json::json;

    use super::*;

    fn namespace(labels: &Value) -> Installed {
        let value = json!({"metadata": {"name": "a", "labels": labels}});
        Installed::of(&serde_json::from_value::<Namespace>(value).expect("a namespace"))
    }

    fn printed(current: Option<&Installed>, wanted: &Installed) -> String {
        plan(wanted.target(), current.map(|it| &it.object), &wanted.object).to_string()
    }

    #[test]
    fn existing_objects_are_left_unchanged_and_missing_ones_created() {
        let wanted = namespace(&json!({"x": "y"}));
        assert!(printed(None, &wanted).contains("create"), "{}", printed(None, &wanted));
        assert_eq!(printed(Some(&wanted), &wanted).trim(), "nothing to do");
        assert_ne!(printed(Some(&namespace(&json!({}))), &wanted).trim(), "nothing to do");
    }

    #[test]
    fn what_somebody_else_made_is_not_taken_over() {
        let wanted = namespace(&json!({ MANAGED_BY: DROVER, "x": "y" }));
        let theirs = namespace(&json!({ MANAGED_BY: "Helm" }));
        let page = printed(Some(&theirs), &wanted);
        assert!(page.contains("made by somebody else"), "{page}");
    }

    #[test]
    fn releases_have_an_order_and_the_unreadable_is_the_newest() {
        let words = ["0.1.0-rc.1", "0.1.0", "0.2.0", "0.10.0", "1.0.0", "tomorrow"];
        assert!(words.windows(2).all(|it| Release::read(it[0]) < Release::read(it[1])));
        assert!(Release::read("1.2") == Release::Unknown && Some(Release::read("0.0.0")) > None);
    }

    #[test]
    fn objects_of_older_releases_are_replaced_but_newer_ones_stay() {
        let definition = |release: Option<&str>, schema: &Value| {
            let mut labels = json!({ MANAGED_BY: DROVER });
            if let Some(release) = release {
                labels[RELEASE] = release.into();
            }
            json!({
                "metadata": {"name": "clusters.example.com", "labels": labels},
                "spec": {"conversion": {"strategy": "None"}, "versions": [{"name": "v1", "schema": schema}]},
            })
        };
        let resource = ApiResource::erase::<CustomResourceDefinition>(&());
        let (strict, lax) = (json!({"maxLength": 3, "type": "string"}), json!({"type": "string"}));
        let mut wanted = definition(Some("0.2.0"), &lax);
        wanted["spec"].as_object_mut().map(|it| it.remove("conversion"));
        let wanted = Installed::new(resource.clone(), wanted);
        let page = |release| {
            let current = definition(release, &strict);
            format!("{:#}", plan(wanted.target(), Some(&current), &wanted.object))
        };
        let upgrade = "hub: patch CustomResourceDefinition clusters.example.com \
            {\"metadata\":{\"labels\":{\"app.kubernetes.io/version\":\"0.2.0\"}},\
            \"spec\":{\"versions\":[{\"name\":\"v1\",\"schema\":{\"type\":\"string\"}}]}}";
        assert_eq!([page(None).trim(), page(Some("0.1.0")).trim()], [upgrade, upgrade]);
        assert_eq!(page(Some("0.2.0")).trim(), "nothing to do");
        for newer in ["0.2.1", "tomorrow"] {
            let page = page(Some(newer));
            assert!(
                page.contains("nothing to do") && page.contains("of a newer release of ours"),
                "{page}"
            );
        }
    }
}
