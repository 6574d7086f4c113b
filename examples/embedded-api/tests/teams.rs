//! A test with a Kubernetes API of its own: it starts in milliseconds, in memory, and needs no cluster,
//! no port and no file.

use example_embedded_api::{TEAM, list_namespaces_of};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, Client, api::PostParams};
use kube_api::{
    Options, Server,
    identity::{AUTHENTICATED, MASTERS, User},
};

/// A client that needs no socket. The server judges each of its requests as one of this user.
fn client_of(server: &Server, name: &str, groups: &[&str]) -> Client {
    Client::new(server.service(User::new(name, groups)), "default")
}

#[tokio::test]
async fn a_report_names_the_namespaces_of_a_team() {
    let server = Server::open(Options::default()).await.unwrap();
    // `system:masters` may do anything, and RBAC holds for all others.
    let client = client_of(&server, "admin", &[MASTERS, AUTHENTICATED]);
    let namespaces = Api::<Namespace>::all(client.clone());
    for (name, team) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        namespace.metadata.labels = Some([(TEAM.to_owned(), team.to_owned())].into());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    }

    let names = list_namespaces_of(client.clone(), "red").await.unwrap();

    assert_eq!(names, ["a", "c"]);
    let report = Api::<ConfigMap>::namespaced(client, "default")
        .get("team-red")
        .await
        .unwrap();
    assert_eq!(report.data.unwrap()["namespaces"], "a,c");
    let owners = report.metadata.managed_fields.unwrap();
    assert_eq!(owners[0].manager.as_deref(), Some("example-embedded-api"));
}

#[tokio::test]
async fn a_user_without_permission_is_refused() {
    let server = Server::open(Options::default()).await.unwrap();
    let guest = client_of(&server, "guest", &[AUTHENTICATED]);
    let error = list_namespaces_of(guest, "red").await.unwrap_err();
    let forbidden = "namespaces is forbidden: User \"guest\" cannot list resource \"namespaces\"";
    assert!(error.to_string().contains(forbidden), "{error}");
}
