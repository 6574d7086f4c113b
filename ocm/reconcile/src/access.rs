//! Asking the API server whether somebody may do something, and for the token of a ServiceAccount.
//!
//! A SubjectAccessReview or a TokenRequest is created, but nothing is stored: it is a question,
//! so `observe` may ask it.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec, TokenReview, TokenReviewSpec, TokenReviewStatus},
    authorization::v1::{
        NonResourceAttributes, ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
        SubjectAccessReview, SubjectAccessReviewSpec,
    },
    core::v1::ServiceAccount,
};
use kube::{Api, Client, api::PostParams};

/// Who wants to do something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// The user name.
    pub user: String,
    /// The uid the authenticator gave.
    pub uid: Option<String>,
    /// The groups.
    pub groups: Vec<String>,
    /// Extra attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What they want to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attributes {
    /// The verb.
    pub verb: String,
    /// The API group.
    pub group: String,
    /// The resource (plural).
    pub resource: String,
    /// The sub-resource.
    pub subresource: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The name.
    pub name: Option<String>,
}

/// Whether `subject` may do `attributes`, in the eyes of the API server behind `client`.
pub async fn may(client: &Client, subject: &UserInfo, attributes: &Attributes) -> Result<bool, kube::Error> {
    let asked = SubjectAccessReviewSpec {
        resource_attributes: Some(asked_of(attributes)),
        ..SubjectAccessReviewSpec::default()
    };
    ask(client, subject, asked).await
}

/// Whether `subject` may ask for a path that is no resource, such as `/metrics`,
/// in the eyes of the API server behind `client`.
pub async fn may_visit(client: &Client, subject: &UserInfo, verb: &str, path: &str) -> Result<bool, kube::Error> {
    let asked = SubjectAccessReviewSpec {
        non_resource_attributes: Some(NonResourceAttributes {
            verb: Some(verb.to_owned()),
            path: Some(path.to_owned()),
        }),
        ..SubjectAccessReviewSpec::default()
    };
    ask(client, subject, asked).await
}

async fn ask(client: &Client, subject: &UserInfo, asked: SubjectAccessReviewSpec) -> Result<bool, kube::Error> {
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(subject.user.clone()),
            uid: subject.uid.clone(),
            groups: Some(subject.groups.clone()),
            extra: (!subject.extra.is_empty()).then(|| subject.extra.clone()),
            ..asked
        },
        ..SubjectAccessReview::default()
    };
    let answer = Api::<SubjectAccessReview>::all(client.clone())
        .create(&PostParams::default(), &review)
        .await?;
    Ok(answer.status.is_some_and(|it| it.allowed))
}

/// Whether whoever `client` speaks for may do `attributes`.
pub async fn may_i(client: &Client, attributes: &Attributes) -> Result<bool, kube::Error> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(asked_of(attributes)),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer = Api::<SelfSubjectAccessReview>::all(client.clone())
        .create(&PostParams::default(), &review)
        .await?;
    Ok(answer.status.is_some_and(|it| it.allowed))
}

fn asked_of(attributes: &Attributes) -> ResourceAttributes {
    ResourceAttributes {
        verb: Some(attributes.verb.clone()),
        group: Some(attributes.group.clone()),
        resource: Some(attributes.resource.clone()),
        subresource: attributes.subresource.clone(),
        namespace: attributes.namespace.clone(),
        name: attributes.name.clone(),
        ..ResourceAttributes::default()
    }
}

/// Whose token this is, in the eyes of the API server behind `client`; `None` when it is nobody's.
pub async fn who(client: &Client, token: &str) -> Result<Option<UserInfo>, kube::Error> {
    let answer = Some(review(client, token).await?);
    let user = answer.filter(|it| it.authenticated == Some(true));
    Ok(user.and_then(|it| it.user).map(|it| UserInfo {
        user: it.username.unwrap_or_default(),
        uid: it.uid,
        groups: it.groups.unwrap_or_default(),
        extra: it.extra.unwrap_or_default(),
    }))
}

/// What the API server behind `client` says of a token, with the error where it could not tell.
pub async fn review(client: &Client, token: &str) -> Result<TokenReviewStatus, kube::Error> {
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: token.to_owned(),
            ..TokenReviewSpec::default()
        },
        ..TokenReview::default()
    };
    let answer = Api::<TokenReview>::all(client.clone())
        .create(&PostParams::default(), &review)
        .await?;
    Ok(answer.status.unwrap_or_default())
}

/// A token of a ServiceAccount, for the API server itself, that lives this long if the API server agrees.
pub async fn token(client: &Client, namespace: &str, account: &str, seconds: i64) -> Result<String, kube::Error> {
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(seconds),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = Api::<ServiceAccount>::namespaced(client.clone(), namespace)
        .create_token_request(account, &PostParams::default(), &request)
        .await?;
    Ok(answer.status.and_then(|it| it.token).unwrap_or_default())
}
