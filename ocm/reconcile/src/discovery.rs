//! Which kinds an API server serves in one version of a group.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::Client;

use crate::segment::encoded;

/// The resources of an apiVersion, without their sub-resources. None where the version is not served.
///
/// # Errors
/// When the API server does not say.
pub async fn resources(client: &Client, api_version: &str) -> Result<Vec<APIResource>, kube::Error> {
    let listed = match api_version.split_once('/') {
        None => client.list_core_api_resources(&encoded(api_version)).await,
        Some((group, version)) => {
            let version = format!("{}/{}", encoded(group), encoded(version));
            client.list_api_group_resources(&version).await
        }
    };
    match listed {
        Ok(listed) => Ok(listed
            .resources
            .into_iter()
            .filter(|it| !it.name.contains('/'))
            .collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
