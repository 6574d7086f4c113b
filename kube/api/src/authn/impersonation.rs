//! Acting as somebody else, with `Impersonate-*` headers and the right to.

use super::{authenticated, front_proxy::percent_decode, header_texts, service_account_of, service_account_user};
use crate::{
    authz::forbidden,
    identity::{ANONYMOUS, AUTHENTICATED, AccessDecision, Attributes, UNAUTHENTICATED, User},
};
use http::HeaderMap;
use kube_store::status::Status;

/// The user that the headers ask for; the same user when they ask for nothing. `authorize` is asked for each part.
///
/// # Errors
/// 400 when groups or extras come without a user, 403 when `authorize` refuses one of them.
pub fn impersonate(
    user: User,
    headers: &HeaderMap,
    authorize: impl Fn(&User, &Attributes) -> AccessDecision,
) -> Result<User, Status> {
    // A name that cannot be read is no name left out: who leaves it out stays who they are.
    let values = |name: &str| {
        let mut all =
            header_texts(headers, name).map_err(|_| Status::bad_request(format!("the header {name} is not UTF-8")))?;
        all.retain(|it| !it.is_empty());
        Ok::<_, Status>(all)
    };
    let name = values("impersonate-user")?.into_iter().next();
    let groups = values("impersonate-group")?;
    let uid = values("impersonate-uid")?.into_iter().next();
    let mut extra: Vec<(String, Vec<String>)> = Vec::new();
    for header in headers.keys() {
        if let Some(key) = header.as_str().strip_prefix("impersonate-extra-") {
            extra.push((percent_decode(key).to_lowercase(), values(header.as_str())?));
        }
    }
    let Some(name) = name else {
        if groups.is_empty() && uid.is_none() && extra.is_empty() {
            return Ok(user);
        }
        return Err(Status::bad_request(
            "requested impersonation without impersonating a user",
        ));
    };

    let check = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let asked = Attributes {
            verb: "impersonate".into(),
            is_resource: true,
            group: group.into(),
            version: "v1".into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: namespace.into(),
            name: name.into(),
            path: String::new(),
        };
        match authorize(&user, &asked) {
            AccessDecision::Allow(_) => Ok(()),
            AccessDecision::NoOpinion => Err(forbidden(&user, &asked)),
        }
    };
    let mut other = User {
        username: name.clone(),
        groups: groups.clone(),
        ..User::default()
    };
    match service_account_of(&name) {
        Some((namespace, account)) => {
            check("", "serviceaccounts", "", namespace, account)?;
            if groups.is_empty() {
                other.groups = service_account_user(namespace, account).groups;
            }
        }
        None => check("", "users", "", "", &name)?,
    }
    // In this order, because the first that is refused is told.
    if let Some(uid) = uid {
        check("authentication.k8s.io", "uids", "", "", &uid)?;
        other.uid = uid;
    }
    for group in &groups {
        check("", "groups", "", "", group)?;
    }
    for (key, values) in extra {
        for value in &values {
            check("authentication.k8s.io", "userextras", &key, "", value)?;
        }
        other.extra.insert(key, values);
    }
    if other.username == ANONYMOUS {
        if !other.is_in(UNAUTHENTICATED) {
            other.groups.retain(|it| it != AUTHENTICATED);
            other.groups.push(UNAUTHENTICATED.into());
        }
        return Ok(other);
    }
    Ok(authenticated(other))
}
