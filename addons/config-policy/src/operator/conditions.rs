//! What an OperatorPolicy says of each kind.
//! Upstream: config-policy-controller `controllers/operatorpolicy_status.go`.

use super::{CATALOG_SOURCE, CSV, DEFINITION, DEPLOYMENT, INSTALL_PLAN, OPERATOR_GROUP, OperatorKind, SUBSCRIPTION};

/// The type of the condition that sums up all others.
pub const COMPLIANT: &str = "Compliant";
/// Of the one about the spec.
pub const VALID: &str = "ValidPolicySpec";
/// Of the one about deprecations.
pub const NO_DEPRECATIONS: &str = "NoDeprecations";
/// Of the one about later channels. It is true when there is none, or when nobody minds.
pub const MINOR_CHANNEL: &str = "MinorChannelUpgradeAvailable";
/// Of the one about a catalog of which nothing is known. It is there only as long as that is so.
pub const CATALOG_UNKNOWN: &str = "CatalogSourcesUnknownState";

/// A condition before it is in a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorCondition {
    /// Its type.
    pub r#type: &'static str,
    /// Whether it holds: `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Why, in one word.
    pub reason: String,
    /// Why.
    pub message: String,
}

fn condition(r#type: &'static str, holds: bool, reason: &str, message: impl Into<String>) -> OperatorCondition {
    OperatorCondition {
        r#type,
        status: if holds { "True" } else { "False" },
        reason: reason.to_owned(),
        message: message.into(),
    }
}

fn of(kind: &OperatorKind, holds: bool, event: &str, message: String) -> OperatorCondition {
    condition(kind.condition, holds, &format!("{}{event}", kind.kind), message)
}

/// The spec is valid.
pub fn valid() -> OperatorCondition {
    condition(VALID, true, "PolicyValidated", "the policy spec is valid")
}

/// It is not.
pub fn invalid(why: &str) -> OperatorCondition {
    condition(VALID, false, "InvalidPolicySpec", why)
}

/// Nothing is known of a kind, because the spec is not valid.
pub fn unknown(kind: &OperatorKind) -> OperatorCondition {
    OperatorCondition {
        r#type: kind.condition,
        status: "Unknown",
        reason: "InvalidPolicySpec".to_owned(),
        message: format!(
            "the status of the {} could not be determined because the policy is invalid",
            kind.kind
        ),
    }
}

/// It is wanted and not there.
pub fn missing(kind: &OperatorKind) -> OperatorCondition {
    let message = format!("the {} required by the policy was not found", kind.kind);
    of(kind, false, "Missing", message)
}

/// It is not wanted and not there.
pub fn absent(kind: &OperatorKind) -> OperatorCondition {
    of(kind, true, "NotPresent", format!("the {} is not present", kind.kind))
}

/// It is not wanted and there. `names`: which ones, where they have to be told.
pub fn present(kind: &OperatorKind, names: &[&str]) -> OperatorCondition {
    let message = format!("the {} present", counted(kind, names, "is", "are"));
    of(kind, false, "Present", message)
}

/// It was created.
pub fn created(kind: &OperatorKind) -> OperatorCondition {
    let message = format!("the {} required by the policy was created", kind.kind);
    of(kind, true, "Created", message)
}

/// It was deleted.
pub fn deleted(kind: &OperatorKind, names: &[&str]) -> OperatorCondition {
    let message = format!("the {} deleted", counted(kind, names, "was", "were"));
    of(kind, true, "Deleted", message)
}

/// It was deleted and is still there.
pub fn deleting(kind: &OperatorKind, names: &[&str]) -> OperatorCondition {
    let message = format!("the {} a deletion timestamp", counted(kind, names, "has", "have"));
    of(kind, false, "Deleting", message)
}

/// `Kind is`, `Kind (a) is`, `Kinds (a, b) are`.
fn counted(kind: &OperatorKind, names: &[&str], is: &str, are: &str) -> String {
    match names {
        [] => format!("{} {is}", kind.kind),
        [name] => format!("{} ({name}) {is}", kind.kind),
        names => format!("{}s ({}) {are}", kind.kind, names.join(", ")),
    }
}

/// It is not wanted, and stays all the same.
pub fn kept(kind: &OperatorKind) -> OperatorCondition {
    of(
        kind,
        true,
        "Kept",
        format!("the policy specifies to keep the {}", kind.kind),
    )
}

/// It is as it is wanted.
pub fn matches(kind: &OperatorKind) -> OperatorCondition {
    let message = format!("the {} matches what is required by the policy", kind.kind);
    of(kind, true, "Matches", message)
}

/// It is not as it is wanted.
pub fn mismatch(kind: &OperatorKind) -> OperatorCondition {
    let message = format!("the {} found on the cluster does not match the policy", kind.kind);
    of(kind, false, "Mismatch", message)
}

/// It is not as it is wanted, and cannot be put right.
pub fn unfixable(kind: &OperatorKind) -> OperatorCondition {
    let mut condition = mismatch(kind);
    condition.message.push_str(" and can't be enforced");
    condition
}

/// It was put right.
pub fn updated(kind: &OperatorKind) -> OperatorCondition {
    let message = format!("the {} was updated to match the policy", kind.kind);
    of(kind, true, "Updated", message)
}

/// A policy that must not have the operator does not look at it.
pub fn not_applicable(kind: &OperatorKind) -> OperatorCondition {
    let message = format!("MustNotHave policies ignore kind {}", kind.kind);
    of(kind, !is_reversed(kind), "NotApplicable", message)
}

/// The operator is there for all namespaces, from another one.
pub fn elsewhere(kind: &OperatorKind, namespace: &str) -> OperatorCondition {
    let message = format!("the operator is installed in namespace {namespace} and is available via AllNamespaces mode");
    condition(kind.condition, !is_reversed(kind), "ExistingInstallation", message)
}

/// Whether the condition of the kind is true when something is wrong.
fn is_reversed(kind: &OperatorKind) -> bool {
    kind.condition == CATALOG_SOURCE.condition
}

/// The namespace has an OperatorGroup, and the policy has no opinion about it.
pub fn group_of_somebody() -> OperatorCondition {
    let message = "the policy does not specify an OperatorGroup but one already exists in the namespace - assuming that \
                   OperatorGroup is correct";
    condition(OPERATOR_GROUP.condition, true, "PreexistingOperatorGroupFound", message)
}

/// OLM installs nothing where there are several.
pub fn too_many_groups() -> OperatorCondition {
    let message = "there is more than one OperatorGroup in the namespace";
    condition(OPERATOR_GROUP.condition, false, "TooManyOperatorGroups", message)
}

/// OLM finds no way to install what is wanted.
pub fn not_satisfiable() -> OperatorCondition {
    let message = "constraints not satisfiable: refer to the Subscription for more details";
    condition(SUBSCRIPTION.condition, false, "ConstraintsNotSatisfiable", message)
}

/// OLM says why it cannot install.
pub fn not_resolved(reason: &str, message: &str) -> OperatorCondition {
    condition(SUBSCRIPTION.condition, false, reason, message)
}

/// There is no InstallPlan for this operator.
pub fn no_install_plans() -> OperatorCondition {
    let message = "there are no relevant InstallPlans in the namespace";
    condition(INSTALL_PLAN.condition, true, "NoInstallPlansFound", message)
}

/// OLM has failed to install.
pub fn install_plan_failed() -> OperatorCondition {
    let message = "the current InstallPlan has failed";
    condition(INSTALL_PLAN.condition, false, "InstallPlanFailed", message)
}

/// OLM is at it.
pub fn installing() -> OperatorCondition {
    let message = "a relevant InstallPlan is actively installing";
    condition(INSTALL_PLAN.condition, false, "InstallPlansInstalling", message)
}

/// Nothing waits for an approval.
pub fn nothing_to_approve() -> OperatorCondition {
    let message = "no InstallPlans requiring approval were found";
    condition(INSTALL_PLAN.condition, true, "NoInstallPlansRequiringApproval", message)
}

/// An InstallPlan waits for an approval. `versions`: what it installs; `unapproved`: what of it nobody approves.
pub fn upgrade_available(tolerated: bool, versions: &[&str], unapproved: &[String]) -> OperatorCondition {
    let mut versions = versions.to_vec();
    versions.sort_unstable();
    let mut message = format!(
        "an InstallPlan to update to [{}] is available for approval",
        versions.join(", ")
    );
    if !unapproved.is_empty() {
        message += &format!(" but approval for [{}] is required", unapproved.join(", "));
    }
    condition(
        INSTALL_PLAN.condition,
        tolerated,
        "InstallPlanRequiresApproval",
        message,
    )
}

/// An InstallPlan was approved.
pub fn approved(version: &str) -> OperatorCondition {
    let message = format!("the InstallPlan for {version} was approved");
    condition(INSTALL_PLAN.condition, true, "InstallPlanApproved", message)
}

/// What OLM says of an installed version.
pub fn installed(version: &str, succeeded: bool, reason: &str, message: &str) -> OperatorCondition {
    let message = format!("ClusterServiceVersion ({version}) - {message}");
    condition(CSV.condition, succeeded, reason, message)
}

/// A version is installed that the policy does not list.
pub fn unapproved_version(version: &str) -> OperatorCondition {
    let message = format!("ClusterServiceVersion ({version}) is not an approved version");
    condition(CSV.condition, false, "UnapprovedVersion", message)
}

/// Nothing is known of a version, as there is no Subscription.
pub fn no_version() -> OperatorCondition {
    let message = "a relevant installed ClusterServiceVersion could not be found";
    condition(CSV.condition, false, "RelevantCSVNotFound", message)
}

/// The operator has no definitions.
pub fn no_definitions() -> OperatorCondition {
    let message = "no CRDs were found for the operator";
    condition(DEFINITION.condition, true, "RelevantCRDNotFound", message)
}

/// It has some.
pub fn definitions_found() -> OperatorCondition {
    let message = "there are CRDs present for the operator";
    condition(DEFINITION.condition, true, "RelevantCRDFound", message)
}

/// There is nothing to look at, as there is no ClusterServiceVersion.
pub fn no_deployments() -> OperatorCondition {
    let message = "there are no relevant deployments because the ClusterServiceVersion is missing";
    condition(DEPLOYMENT.condition, true, "NoRelevantDeployments", message)
}

/// How the operator's Deployments are. `unavailable`: which of them lack replicas.
pub fn deployments(tolerated: bool, any: bool, unavailable: &[&str]) -> OperatorCondition {
    let r#type = DEPLOYMENT.condition;
    if !unavailable.is_empty() {
        let message = format!(
            "the deployments {} do not have their minimum availability",
            unavailable.join(", ")
        );
        return condition(r#type, tolerated, "DeploymentsUnavailable", message);
    }
    match any {
        true => condition(
            r#type,
            true,
            "DeploymentsAvailable",
            "all operator Deployments have their minimum availability",
        ),
        false => condition(
            r#type,
            true,
            "NoExistingDeployments",
            "no existing operator Deployments",
        ),
    }
}

/// The catalog is there, and well.
pub fn catalog_found() -> OperatorCondition {
    let message = "CatalogSource was found";
    condition(CATALOG_SOURCE.condition, false, "CatalogSourcesFound", message)
}

/// It is there, and not well.
pub fn catalog_unhealthy(tolerated: bool) -> OperatorCondition {
    let message = "CatalogSource was found but is unhealthy";
    condition(
        CATALOG_SOURCE.condition,
        !tolerated,
        "CatalogSourcesFoundUnhealthy",
        message,
    )
}

/// It is not there.
pub fn catalog_missing(tolerated: bool, name: &str) -> OperatorCondition {
    let message = format!("CatalogSource '{name}' was not found");
    condition(CATALOG_SOURCE.condition, !tolerated, "CatalogSourcesNotFound", message)
}

/// Nothing is known of it yet.
pub fn catalog_unknown() -> OperatorCondition {
    let message = "could not determine last observed state of CatalogSource";
    condition(CATALOG_UNKNOWN, true, "LastObservedUnknown", message)
}

/// Something of the operator is deprecated: the package, the channel or the bundle, as `what` says.
pub fn deprecated(what: &str, name: &str, message: &str) -> OperatorCondition {
    let reason = format!("{what}Deprecated");
    let message = format!("the requested {name} {what} was deprecated. {message}");
    condition(NO_DEPRECATIONS, false, &reason, message)
}

/// Nothing is.
pub fn not_deprecated() -> OperatorCondition {
    let message = "The requested package, channel, and bundle are all at the recommended versions";
    condition(NO_DEPRECATIONS, true, "Recommended", message)
}

/// There is nothing to say of channels.
pub fn channel_skipped() -> OperatorCondition {
    let message = "skipping check for minor channel upgrades";
    condition(MINOR_CHANNEL, true, "Skipped", message)
}

/// There is no later channel.
pub fn channel_is_latest() -> OperatorCondition {
    let message = "the subscription is on the recommended channel";
    condition(MINOR_CHANNEL, true, "Recommended", message)
}

/// There are later channels.
pub fn later_channels(names: &[&str]) -> OperatorCondition {
    let message = format!(
        "a newer version of the operator is available in channel(s): {}",
        names.join(", ")
    );
    condition(MINOR_CHANNEL, true, "UpgradeAvailable", message)
}
