//! Whose share a request to an embedded API counts in: all identities of a cluster are one client.

use kube_api::{authn::service_account_of, identity::User, party::Party};
use ocm_api::identity::SUBJECT_PREFIX;

/// What a cluster's client is called. With a colon, no cluster is called as a user is.
fn client(cluster: &str) -> String {
    format!("cluster:{cluster}")
}

/// What the ServiceAccounts of add-ons' agents end with.
const AGENT: &str = "-agent";

/// Who a user of OCM is counted as. An agent chooses the last part of its name, so that does not count; the
/// ServiceAccounts of a namespace are its cluster's.
pub fn of(user: &User) -> Option<Party> {
    let name = user.username.as_str();
    if let Some((namespace, account)) = service_account_of(name) {
        return Some(Party {
            // Clusters may join with a ServiceAccount, all with the same. An add-on's agent is on one cluster.
            is_shared: !account.ends_with(AGENT),
            ..Party::new(&client(namespace), name)
        });
    }
    let parts: Vec<&str> = name.strip_prefix(SUBJECT_PREFIX)?.split(':').collect();
    match parts[..] {
        ["cluster", cluster, "addon", addon, "agent", _] => {
            let client = client(cluster);
            Some(Party::new(&client, &format!("{client}/{addon}")))
        }
        [cluster, _] => {
            let client = client(cluster);
            Some(Party::new(&client, &client))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ocm_api::identity;

    use super::*;

    #[test]
    fn clusters_are_clients_and_their_add_ons_are_separate_identities() {
        let table = [
            (
                identity::agent_user("c1", "x7k2p"),
                Some(("cluster:c1", "cluster:c1", false)),
            ),
            (
                identity::agent_user("cluster", "x7k2p"),
                Some(("cluster:cluster", "cluster:cluster", false)),
            ),
            (
                identity::addon_user("c1", "hello", "x7k2p"),
                Some(("cluster:c1", "cluster:c1/hello", false)),
            ),
            (
                identity::addon_service_account("c1", "hello"),
                Some(("cluster:c1", "system:serviceaccount:c1:hello-agent", false)),
            ),
            ("system:bootstrap:abcdef".to_owned(), None),
            ("alice".to_owned(), None),
        ];
        for (name, wanted) in table {
            let party = of(&User::new(&name, &[]));
            let said = party.as_ref().map(|it| (&*it.client, &*it.identity, it.is_shared));
            assert_eq!(said, wanted, "{name}");
        }
    }
}
