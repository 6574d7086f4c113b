//! Who asks, and for what: the user of a request and the attributes that authorization decides on.

use std::collections::BTreeMap;

/// The user that authentication found, as `authentication.k8s.io/v1 UserInfo` names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct User {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Group that may do everything.
pub const MASTERS: &str = "system:masters";
/// Group of every authenticated user.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Group of requests without credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// User of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";

impl User {
    /// A user with the given name and groups, as in-process controllers use it.
    pub fn new(username: &str, groups: &[&str]) -> Self {
        Self {
            username: username.into(),
            groups: groups.iter().map(|it| (*it).into()).collect(),
            ..Self::default()
        }
    }
    /// Whether the user is in `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|it| it == group)
    }
}

/// What is asked. For a non-resource request only `verb` and `path` are set and `is_resource` is false.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub verb: String,
    pub is_resource: bool,
    pub group: String,
    pub version: String,
    /// Plural name, without the subresource.
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub path: String,
}

/// What authorization says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessDecision {
    /// Allowed, with the reason that a SubjectAccessReview prints.
    Allow(String),
    /// No rule allows it.
    NoOpinion,
}
