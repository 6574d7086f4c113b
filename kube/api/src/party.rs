//! Whose share a request counts in.
//!
//! A client is more than a user name: the agents of one cluster have many, and choose part of them. Which names belong
//! together is for those to say who give them out, so whoever embeds the server may hand over a rule.

use crate::identity::User;
use std::sync::Arc;

/// Who a request is counted as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    /// Who shares seats and memory: all identities of one client.
    pub client: Arc<str>,
    /// Who shares what is counted by identity.
    pub identity: Arc<str>,
    /// Whether many clients may have this identity until they have one of their own.
    pub is_shared: bool,
}

impl Party {
    /// An identity of one client.
    pub fn new(client: &str, identity: &str) -> Self {
        Self {
            client: client.into(),
            identity: identity.into(),
            is_shared: false,
        }
    }
}

/// Says who a user is counted as; `None` leaves it to the general rule.
pub type PartyRule = Arc<dyn Fn(&User) -> Option<Party> + Send + Sync>;

/// Beginning of the users whom Kubernetes itself knows to be one machine each.
const NODE: &str = "system:node:";

/// Whose user is whose.
#[derive(Default)]
pub struct Parties(pub Option<PartyRule>);

impl Parties {
    /// Who a user is counted as: what the rule says, else all ServiceAccounts of a namespace as one client, and every
    /// other user as one of its own. Of no such user is known that it is not what a whole fleet joins with.
    pub fn of(&self, user: &User) -> Party {
        if let Some(party) = self.0.as_ref().and_then(|it| it(user)) {
            return party;
        }
        let name = user.username.as_str();
        let client = match crate::authn::service_account_of(name) {
            Some((namespace, _)) => format!("system:serviceaccounts:{namespace}"),
            None => name.to_owned(),
        };
        Party {
            is_shared: !name.starts_with(NODE),
            ..Party::new(&client, name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_accounts_share_their_namespaces_client_unless_a_rule_decides() {
        let rule: PartyRule = Arc::new(|user| {
            let rest = user.username.strip_prefix("fleet:")?;
            Some(Party::new(rest.split(':').next()?, rest))
        });
        let parties = Parties(Some(rule));
        let of = |name: &str| {
            let party = parties.of(&User::new(name, &[]));
            (party.client.to_string(), party.identity.to_string())
        };
        let said = |client: &str, identity: &str| (client.to_owned(), identity.to_owned());
        assert_eq!(of("fleet:one:a"), said("one", "one:a"));
        assert_eq!(of("fleet:one:b"), said("one", "one:b"));
        assert_eq!(of("alice"), said("alice", "alice"));
        let account = "system:serviceaccount:ns:a";
        assert_eq!(of(account), said("system:serviceaccounts:ns", account));
        for (name, is_shared) in [
            ("system:bootstrap:abcdef", true),
            ("system:node:n", false),
            ("fleet:one:a", false),
        ] {
            assert_eq!(parties.of(&User::new(name, &[])).is_shared, is_shared, "{name}");
        }
    }
}
