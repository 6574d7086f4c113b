//! Code that speaks to Kubernetes, as anybody's does: it is given a client and does not ask what is behind it.
//! `tests/teams.rs` runs it against a Kubernetes API in the test's own process.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, Error, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};

/// The label of a namespace that says whose it is.
pub const TEAM: &str = "example.com/team";

/// Writes the names of a team's namespaces into the ConfigMap `team-NAME` in the namespace `default`,
/// by server-side apply, and returns them.
pub async fn list_namespaces_of(client: Client, team: &str) -> Result<Vec<String>, Error> {
    let selection = ListParams::default().labels(&format!("{TEAM}={team}"));
    let namespaces = Api::<Namespace>::all(client.clone()).list(&selection).await?;
    let names: Vec<String> = namespaces.iter().map(ResourceExt::name_any).collect();

    let mut report = ConfigMap::default();
    report.metadata.name = Some(format!("team-{team}"));
    report.data = Some([("namespaces".to_owned(), names.join(","))].into());
    let reports = Api::<ConfigMap>::namespaced(client, "default");
    let apply = PatchParams::apply("example-embedded-api").force();
    reports
        .patch(&report.name_any(), &apply, &Patch::Apply(&report))
        .await?;
    Ok(names)
}
