//! Which claims of a cluster the hub is told, and in which order.
//! Upstream: ocm `pkg/registration/spoke/managedcluster/claim_reconcile.go`.

use kube::ResourceExt;
use ocm_api::{
    about::ClusterProperty,
    cluster::{ClusterClaim, ManagedClusterClaim, RESERVED_CLAIMS},
    labels,
};

use super::AgentOptions;

/// How many claims are told.
pub(super) struct ClaimLimits {
    /// How many that are not reserved.
    pub custom_max: usize,
    /// Claims whose names end so are reserved as well.
    pub reserved_suffixes: Vec<String>,
}

impl ClaimLimits {
    /// As an agent was told.
    pub fn of(options: &AgentOptions) -> Self {
        Self {
            custom_max: options.custom_claims_max,
            reserved_suffixes: options.reserved_claim_suffixes.clone(),
        }
    }
}

/// Reserved claims by name, then so many others by name.
pub(super) fn told<'a>(
    claims: impl IntoIterator<Item = &'a ClusterClaim>,
    limits: &ClaimLimits,
) -> Vec<ManagedClusterClaim> {
    let (mut reserved, mut custom) = (Vec::new(), Vec::new());
    for claim in claims
        .into_iter()
        .filter(|it| !it.labels().contains_key(labels::SPOKE_ONLY))
    {
        let name = claim.name_any();
        let is_reserved = RESERVED_CLAIMS.contains(&name.as_str())
            || limits.reserved_suffixes.iter().any(|it| name.ends_with(it.as_str()));
        let list = if is_reserved { &mut reserved } else { &mut custom };
        list.push(ManagedClusterClaim {
            name,
            value: claim.spec.value.clone(),
        });
    }
    reserved.sort_by(|a, b| a.name.cmp(&b.name));
    custom.sort_by(|a, b| a.name.cmp(&b.name));
    custom.truncate(limits.custom_max);
    reserved.append(&mut custom);
    reserved
}

/// Properties and claims as one; a property goes before the claim of its name.
pub(super) fn joined(properties: Vec<ClusterProperty>, claims: Vec<ClusterClaim>) -> Vec<ClusterClaim> {
    let told = properties
        .into_iter()
        .filter(|it| !it.labels().contains_key(labels::SPOKE_ONLY));
    let mut joined: Vec<ClusterClaim> = told
        .map(|it| {
            let mut claim = ClusterClaim::default();
            claim.metadata.name = it.metadata.name;
            claim.spec.value = it.spec.value;
            claim
        })
        .collect();
    let of_properties = joined.len();
    for claim in claims {
        if !joined[..of_properties]
            .iter()
            .any(|it| it.metadata.name == claim.metadata.name)
        {
            joined.push(claim);
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reserved_claims_come_first_and_are_never_cut() {
        let claim = |name: &str| -> ClusterClaim {
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"value": "v"}})).unwrap()
        };
        let mut private = claim("a.private");
        private
            .labels_mut()
            .insert(labels::SPOKE_ONLY.to_owned(), String::new());
        let all = [
            claim("z"),
            claim("b"),
            private,
            claim("platform.open-cluster-management.io"),
            claim("x.own"),
            claim("id.k8s.io"),
        ];
        let limits = ClaimLimits {
            custom_max: 1,
            reserved_suffixes: vec![".own".to_owned()],
        };
        let names: Vec<_> = told(&all, &limits).into_iter().map(|it| it.name).collect();
        assert_eq!(
            names,
            ["id.k8s.io", "platform.open-cluster-management.io", "x.own", "b"]
        );
    }

    #[test]
    fn a_property_goes_before_the_claim_of_its_name() {
        let property = |name: &str, labels: serde_json::Value| -> ClusterProperty {
            let it = json!({"metadata": {"name": name, "labels": labels}, "spec": {"value": "property"}});
            serde_json::from_value(it).unwrap()
        };
        let claim = |name: &str| -> ClusterClaim {
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"value": "claim"}})).unwrap()
        };
        let properties = vec![property("a", json!({})), property("b", json!({labels::SPOKE_ONLY: ""}))];
        let all = joined(properties, vec![claim("a"), claim("b"), claim("c")]);
        let said: Vec<_> = all.iter().map(|it| (it.name_any(), it.spec.value.as_str())).collect();
        assert_eq!(
            said,
            [("a".into(), "property"), ("b".into(), "claim"), ("c".into(), "claim")]
        );
    }
}
