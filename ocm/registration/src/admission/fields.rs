//! Which fields of a ManagedCluster its agents may change, and what it takes to say where an add-on runs.
//!
//! An agent may `update` its ManagedCluster, and what else stands in it counts on the hub: its labels choose what comes
//! to it, and its annotations become those of its add-ons, one of which names the cluster that hosts their agents. So
//! agents have a list of what is theirs, and everything else, known today or not, is not.
//!
//! The rules read the objects as they came, so that a field that no type here knows is a change like any other.

use ocm_api::{addon, annotations, cluster::ManagedCluster, conditions::managed_cluster, identity, labels, work};
use ocm_reconcile::access::Attributes;
use serde_json::{Map, Value};

use super::{AdmissionContext, Denial};

/// What an agent may write into the spec of its ManagedCluster.
pub const AGENTS_SPEC: [&str; 1] = ["managedClusterClientConfigs"];
/// What it may write into the status, beside its conditions and those of the namespaces that the hub lists.
pub const AGENTS_STATUS: [&str; 4] = ["version", "capacity", "allocatable", "clusterClaims"];
/// The conditions that it writes.
pub const AGENTS_CONDITIONS: [&str; 3] = [
    managed_cluster::JOINED,
    managed_cluster::AVAILABLE,
    managed_cluster::CERTIFICATE_ROTATED,
];
/// What a cluster may say of itself when it asks to join.
const JOINERS_SPEC: [&str; 3] = [
    "managedClusterClientConfigs",
    "leaseDurationSeconds",
    "hubAcceptsClient",
];
/// Metadata that the API server keeps, or that says which object and state is meant.
const SERVERS: [&str; 11] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];
/// What `kubectl apply` leaves on whatever it makes.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const CLUSTERS: &str = "managedclusters.cluster.open-cluster-management.io";
const ADD_ONS: &str = "managedclusteraddons.addon.open-cluster-management.io";

/// Who writes.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The user's name.
    pub user: &'a str,
    /// Its groups.
    pub groups: &'a [String],
}

impl Writer<'_> {
    fn is_of(&self, cluster: &str) -> bool {
        identity::is_of_cluster(cluster, self.user, self.groups)
    }
}

/// Whether this writer may write what is in this ManagedCluster and was not in `old`.
///
/// # Errors
/// 403 and the field.
pub fn check_cluster(
    by: Writer<'_>,
    cluster: &Value,
    old: Option<&Value>,
    context: &impl AdmissionContext,
) -> Result<(), Denial> {
    let name = text(cluster, "/metadata/name");
    let none = Value::Null;
    let changed = changes(old.unwrap_or(&none), cluster);
    if by.is_of(name) {
        let foreign = changed.iter().find(|it| !is_agents(it));
        if let Some(field) = foreign {
            return Err(forbidden(CLUSTERS, name, &agents(by, field)));
        }
    } else if old.is_none()
        && let Some(field) = changed.iter().find(|it| !is_joiners(it))
    {
        // Whoever may write the cluster once it is there may as well make it so.
        let update = attributes(ManagedCluster::GROUP, "managedclusters", "update", None, Some(name));
        if !ask(context, &update, CLUSTERS, name)? {
            let user = by.user;
            let why = format!("user \"{user}\" may create clusters and not update them, so it cannot set {field}");
            return Err(forbidden(CLUSTERS, name, &why));
        }
    }
    if let Some(field) = changed.iter().find(|it| it.is_inherited()) {
        let update = attributes(addon::GROUP, "managedclusteraddons", "update", Some(name), None);
        if !ask(context, &update, CLUSTERS, name)? {
            let why = format!(
                "user \"{}\" cannot set {field}, which the add-ons of the cluster inherit: that takes the right to update \
                 managedclusteraddons in namespace \"{name}\"",
                by.user
            );
            return Err(forbidden(CLUSTERS, name, &why));
        }
    }
    hosting(by, CLUSTERS, cluster, old, context)
}

/// Whether this writer may write this status of a ManagedCluster.
///
/// # Errors
/// 403 and the field.
pub fn check_status(by: Writer<'_>, cluster: &Value, old: &Value) -> Result<(), Denial> {
    let name = text(cluster, "/metadata/name");
    if !by.is_of(name) {
        return Ok(());
    }
    let foreign = foreign_status(&old["status"], &cluster["status"]);
    foreign.map_or(Ok(()), |field| Err(forbidden(CLUSTERS, name, &agents(by, &field))))
}

/// Whether this writer may have an add-on on a cluster run where this ManagedClusterAddOn says.
///
/// # Errors
/// 403 and the annotation.
pub fn check_add_on(
    by: Writer<'_>,
    add_on: &Value,
    old: Option<&Value>,
    context: &impl AdmissionContext,
) -> Result<(), Denial> {
    hosting(by, ADD_ONS, add_on, old, context)
}

/// The agent of a hosted add-on comes to the hosting cluster as a work: who may make works there may say so.
fn hosting(
    by: Writer<'_>,
    resource: &str,
    object: &Value,
    old: Option<&Value>,
    context: &impl AdmissionContext,
) -> Result<(), Denial> {
    let host = |it: &Value| {
        let value = &it["metadata"]["annotations"][annotations::ADDON_HOSTING_CLUSTER];
        value.as_str().unwrap_or_default().to_owned()
    };
    let wanted = host(object);
    if wanted.is_empty() || old.is_some_and(|it| host(it) == wanted) {
        return Ok(());
    }
    let name = text(object, "/metadata/name");
    let create = attributes(work::GROUP, "manifestworks", "create", Some(&wanted), None);
    if ask(context, &create, resource, name)? {
        return Ok(());
    }
    let why = format!(
        "user \"{}\" cannot set metadata.annotations[{}] to \"{wanted}\": that takes the right to create manifestworks in \
         namespace \"{wanted}\"",
        by.user,
        annotations::ADDON_HOSTING_CLUSTER
    );
    Err(forbidden(resource, name, &why))
}

/// A field that a write changes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Annotation(String),
    Label(String),
    Metadata(String),
    Spec(String),
    Other(String),
}

impl Field {
    fn is_inherited(&self) -> bool {
        matches!(self, Field::Annotation(key) if key.starts_with(annotations::ADDON_PREFIX))
    }
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Field::Annotation(key) => write!(f, "metadata.annotations[{key}]"),
            Field::Label(key) => write!(f, "metadata.labels[{key}]"),
            Field::Metadata(field) => write!(f, "metadata.{field}"),
            Field::Spec(field) => write!(f, "spec.{field}"),
            Field::Other(field) => f.write_str(field),
        }
    }
}

fn is_agents(field: &Field) -> bool {
    match field {
        Field::Annotation(key) => is_agents_annotation(key),
        Field::Spec(field) => AGENTS_SPEC.contains(&field.as_str()),
        _ => false,
    }
}

fn is_agents_annotation(key: &str) -> bool {
    let rest = key.strip_prefix(annotations::AGENT_PREFIX);
    rest.is_some_and(|it| it.starts_with('/'))
}

/// Being accepted and being put into a set take rights of their own, which are asked for elsewhere.
fn is_joiners(field: &Field) -> bool {
    match field {
        Field::Annotation(key) => is_agents_annotation(key) || key == LAST_APPLIED,
        Field::Label(key) => key == labels::CLUSTER_SET,
        Field::Spec(field) => JOINERS_SPEC.contains(&field.as_str()),
        _ => false,
    }
}

/// What a write of the object itself changes; the status has a way of its own.
fn changes(old: &Value, new: &Value) -> Vec<Field> {
    let mut all = Vec::new();
    let (before, now) = (&old["metadata"], &new["metadata"]);
    let maps = ["annotations", "labels"];
    let metadata = changed_keys(before, now).filter(|it| !SERVERS.contains(it) && !maps.contains(it));
    all.extend(metadata.map(|it| Field::Metadata(it.to_owned())));
    // Whether a label is there counts, even if it says nothing.
    all.extend(differing(&before["annotations"], &now["annotations"]).map(|it| Field::Annotation(it.to_owned())));
    all.extend(differing(&before["labels"], &now["labels"]).map(|it| Field::Label(it.to_owned())));
    all.extend(changed_keys(&old["spec"], &new["spec"]).map(|it| Field::Spec(it.to_owned())));
    let parts = changed_keys(old, new).filter(|it| !["apiVersion", "kind", "metadata", "spec", "status"].contains(it));
    all.extend(parts.map(|it| Field::Other(it.to_owned())));
    all
}

/// The first field of a status that an agent has changed and that is not its own.
fn foreign_status(old: &Value, new: &Value) -> Option<String> {
    for field in changed_keys(old, new).filter(|it| !AGENTS_STATUS.contains(it)) {
        let foreign = match field {
            "conditions" => foreign_condition(&old[field], &new[field]),
            "managedNamespaces" => {
                let (before, now) = (without_conditions(&old[field]), without_conditions(&new[field]));
                (!same(&before, &now)).then(|| format!("status.{field}"))
            }
            other => Some(format!("status.{other}")),
        };
        if foreign.is_some() {
            return foreign;
        }
    }
    None
}

fn foreign_condition(old: &Value, new: &Value) -> Option<String> {
    let list = |it: &Value| it.as_array().cloned().unwrap_or_default();
    let (old, new) = (list(old), list(new));
    let of =
        |all: &[Value], kind: &str| -> Vec<Value> { all.iter().filter(|it| it["type"] == kind).cloned().collect() };
    let kinds = old.iter().chain(&new).map(|it| it["type"].as_str().unwrap_or_default());
    kinds
        .filter(|it| !AGENTS_CONDITIONS.contains(it))
        .find(|kind| of(&old, kind) != of(&new, kind))
        .map(|kind| format!("status.conditions[{kind}]"))
}

fn without_conditions(list: &Value) -> Value {
    let mut list = list.clone();
    for entry in list
        .as_array_mut()
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        entry.remove("conditions");
    }
    list
}

/// The fields of which two objects say different things.
fn changed_keys<'a>(old: &'a Value, new: &'a Value) -> impl Iterator<Item = &'a str> {
    differing(old, new).filter(|it| !same(&old[*it], &new[*it]))
}

/// The keys that two objects do not have alike.
fn differing<'a>(old: &'a Value, new: &'a Value) -> impl Iterator<Item = &'a str> {
    let keys = |of: &'a Value| of.as_object().into_iter().flat_map(Map::keys);
    let gone = keys(old).filter(|it| new.get(*it).is_none());
    let there = keys(new).filter(|it| old.get(*it) != new.get(*it));
    gone.chain(there).map(String::as_str)
}

/// Whether two values say the same. A client in Go leaves out what is zero, or writes it where there was nothing.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let get = |of: &Map<String, Value>, key: &str| of.get(key).cloned().unwrap_or_default();
            a.keys().chain(b.keys()).all(|key| same(&get(a, key), &get(b, key)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a == b || is_zero(a) && is_zero(b),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(it) => !it,
        Value::Number(it) => it.as_f64() == Some(0.0),
        Value::String(it) => it.is_empty(),
        Value::Array(it) => it.is_empty(),
        Value::Object(it) => it.values().all(is_zero),
    }
}

fn agents(by: Writer<'_>, field: &impl std::fmt::Display) -> String {
    format!(
        "user \"{}\" is an agent and cannot change {field}: agents change spec.managedClusterClientConfigs, annotations of {}/ \
         and what they report in the status",
        by.user,
        annotations::AGENT_PREFIX
    )
}

fn attributes(group: &str, resource: &str, verb: &str, namespace: Option<&str>, name: Option<&str>) -> Attributes {
    Attributes {
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: None,
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
    }
}

fn ask(context: &impl AdmissionContext, attributes: &Attributes, resource: &str, name: &str) -> Result<bool, Denial> {
    context.may(attributes).map_err(|why| forbidden(resource, name, &why))
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn forbidden(resource: &str, name: &str, why: &str) -> Denial {
    Denial {
        code: 403,
        message: format!("{resource} \"{name}\" is forbidden: {why}"),
    }
}

#[cfg(test)]
#[path = "fields_tests.rs"]
mod tests;
