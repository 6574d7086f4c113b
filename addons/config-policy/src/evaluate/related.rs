//! The objects that an evaluation has looked at, as the status lists them.
//! Upstream: config-policy-controller `addRelatedObjects`, `updatedRelatedObjects`.

use ocm_addon_sdk::ocm_api::policy::configuration_policy::{
    RelatedName, RelatedObject, RelatedProperties, RelatedReference,
};

use crate::cluster::ServedKind;

/// What stands for all objects of a kind in a namespace.
pub const ALL: &str = "-";

/// An entry of the list.
pub fn related(
    kind: &ServedKind,
    namespace: &str,
    name: &str,
    compliant: bool,
    reason: &str,
    properties: Option<RelatedProperties>,
) -> RelatedObject {
    let namespace = if kind.namespaced { namespace } else { "" };
    RelatedObject {
        properties,
        object: RelatedReference {
            metadata: RelatedName {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
            },
            api_version: kind.api_version(),
            kind: kind.kind.clone(),
        },
        compliant: if compliant { "Compliant" } else { "NonCompliant" }.to_owned(),
        reason: reason.to_owned(),
    }
}

/// Puts an entry into the list, or in place of the one for the same object if that says something else.
pub fn put(list: &mut Vec<RelatedObject>, entry: RelatedObject) {
    match list.iter_mut().find(|it| it.object == entry.object) {
        Some(known) if known.compliant != entry.compliant || known.properties != entry.properties => *known = entry,
        Some(_) => {}
        None => list.push(entry),
    }
}

/// The list in its order. What was known of an object before is kept: who has created it, and which one it was.
pub fn completed(mut list: Vec<RelatedObject>, before: &[RelatedObject]) -> Vec<RelatedObject> {
    list.sort_by(|one, other| {
        let order = |it: &RelatedObject| {
            let metadata = it.object.metadata.clone();
            (it.object.kind.clone(), metadata.namespace, metadata.name)
        };
        order(one).cmp(&order(other))
    });
    for entry in &mut list {
        let known = before.iter().find(|it| it.object == entry.object);
        if let Some(known) = known.and_then(|it| it.properties.as_ref())
            && let Some(properties) = &mut entry.properties
            && properties.created_by_policy == Some(false)
        {
            properties.created_by_policy = known.created_by_policy;
            properties.uid.clone_from(&known.uid);
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, created: bool, uid: &str) -> RelatedObject {
        let kind = ServedKind {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            plural: "pods".to_owned(),
            namespaced: true,
            watchable: true,
        };
        let properties = RelatedProperties {
            created_by_policy: Some(created),
            uid: uid.to_owned(),
            ..RelatedProperties::default()
        };
        related(&kind, "n", name, true, "", Some(properties))
    }

    #[test]
    fn who_has_created_an_object_is_not_forgotten() {
        let list = completed(
            vec![entry("b", false, "2"), entry("a", true, "3")],
            &[entry("b", true, "1")],
        );
        let seen: Vec<_> = list
            .iter()
            .map(|it| (it.object.metadata.name.as_str(), it.properties.clone().unwrap()))
            .map(|(name, it)| (name, it.created_by_policy, it.uid))
            .collect();
        assert_eq!(
            seen,
            [("a", Some(true), "3".to_owned()), ("b", Some(true), "1".to_owned())]
        );
    }
}
