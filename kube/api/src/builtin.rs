//! What a row of the table of built-in kinds (`kinds`) says: names, scope, and what Kubernetes does differently.

use kube_store::schema::metadata::NameRule;

/// What Kubernetes does differently for a kind.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    pub name_rule: NameRule,
    /// `/status` exists; the main resource ignores changes to `status` and the other way round.
    pub status: bool,
    /// `/scale` exists.
    pub scale: bool,
    /// `metadata.generation` starts at 1 and grows when the content changes.
    pub generation: bool,
    /// PUT without `resourceVersion` is refused.
    pub version_required: bool,
    /// PUT to a missing name creates.
    pub create_on_update: bool,
    /// DELETE answers the object instead of a Status.
    pub returns_deleted: bool,
    /// Only `create`, nothing is stored: reviews.
    pub review: bool,
    /// No `deletecollection`.
    pub no_delete_collection: bool,
}

/// A subresource beyond `status` and `scale`.
#[derive(Debug)]
pub struct Subresource {
    pub name: &'static str,
    /// What is sent there; of the group and version of the resource itself where these are empty.
    pub kind: &'static str,
    pub group: &'static str,
    pub version: &'static str,
    pub verbs: &'static [&'static str],
}

/// One built-in resource.
#[derive(Debug)]
pub struct Row {
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub kind: &'static str,
    pub namespaced: bool,
    pub short_names: &'static str,
    pub categories: &'static str,
    pub traits: Traits,
}

impl Row {
    /// `plural[.group]`; both Event groups share one table.
    pub fn id(&self) -> String {
        match self.group {
            "" | "events.k8s.io" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// Singular name: the kind in lower case, but for Endpoints.
    pub fn singular(&self) -> String {
        if self.kind == "Endpoints" {
            "endpoints".into()
        } else {
            self.kind.to_lowercase()
        }
    }
}

/// A kind without peculiarities.
pub const PLAIN: Traits = Traits {
    name_rule: NameRule::Subdomain,
    status: false,
    scale: false,
    generation: false,
    version_required: false,
    create_on_update: false,
    returns_deleted: false,
    review: false,
    no_delete_collection: false,
};
pub const STATUS: Traits = Traits { status: true, ..PLAIN };
pub const GENERATION: Traits = Traits {
    generation: true,
    ..PLAIN
};
pub const WORKLOAD: Traits = Traits {
    status: true,
    generation: true,
    ..PLAIN
};
pub const SCALED: Traits = Traits {
    scale: true,
    ..WORKLOAD
};
pub const STRICT: Traits = Traits {
    generation: true,
    version_required: true,
    ..PLAIN
};
pub const STRICT_STATUS: Traits = Traits { status: true, ..STRICT };
pub const RBAC: Traits = Traits {
    name_rule: NameRule::PathSegment,
    create_on_update: true,
    ..PLAIN
};
pub const UPSERT: Traits = Traits {
    create_on_update: true,
    ..PLAIN
};
pub const REVIEW: Traits = Traits { review: true, ..PLAIN };
