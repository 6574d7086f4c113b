//! `--feature-gates A=true,B=false`: upstream's switches of a hub, by their names.
//! Upstream: api `feature/feature.go`, `DefaultHubRegistrationFeatureGates` and its like for works,
//! add-ons and placements.

use crate::Options;
use operator::importer;
use registration::hub::GarbageKind;

/// One switch, turned on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    name: &'static str,
    on: bool,
}

impl Gate {
    /// Upstream's name of it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it is turned on.
    pub fn is_on(&self) -> bool {
        self.on
    }
}

/// The switches there are, and what they do.
const ADDON_MANAGEMENT: &str = "AddonManagement";
const CLEAN_UP_COMPLETED_MANIFEST_WORK: &str = "CleanUpCompletedManifestWork";
const CLUSTER_IMPORTER: &str = "ClusterImporter";
const CLUSTER_PROFILE: &str = "ClusterProfile";
const DEFAULT_CLUSTER_SET: &str = "DefaultClusterSet";
const MANAGED_CLUSTER_AUTO_APPROVAL: &str = "ManagedClusterAutoApproval";
const MANIFEST_WORK_REPLICA_SET: &str = "ManifestWorkReplicaSet";
const NIL_EXECUTOR_VALIDATING: &str = "NilExecutorValidating";
const RESOURCE_CLEANUP: &str = "ResourceCleanup";
const OURS: [&str; 9] = [
    ADDON_MANAGEMENT,
    CLEAN_UP_COMPLETED_MANIFEST_WORK,
    CLUSTER_IMPORTER,
    CLUSTER_PROFILE,
    DEFAULT_CLUSTER_SET,
    MANAGED_CLUSTER_AUTO_APPROVAL,
    MANIFEST_WORK_REPLICA_SET,
    NIL_EXECUTOR_VALIDATING,
    RESOURCE_CLEANUP,
];
/// Switches of upstream's that switch nothing here. They are often written out with upstream's default,
/// and may have it.
const FIXED: [(&str, bool); 7] = [
    ("AllAlpha", false),
    ("AllBeta", false),
    ("CloudEventsDrivers", false),
    ("NetworkPolicies", false),
    ("PlacementDebugServer", false),
    ("SIGPlacementDecision", false),
    ("V1beta1CSRAPICompatibility", false),
];

/// Reads `NAME=true` or `NAME=false`.
pub fn parse(text: &str) -> Result<Gate, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("missing bool value for {text}: write {text}=true or {text}=false"))?;
    let (name, value) = (name.trim(), value.trim());
    // What Go's strconv.ParseBool takes.
    let on = match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
        "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
        _ => return Err(format!("invalid value of {name}={value}: write true or false")),
    };
    if let Some(name) = OURS.into_iter().find(|it| *it == name) {
        return Ok(Gate { name, on });
    }
    match FIXED.into_iter().find(|it| it.0 == name) {
        Some((name, fixed)) if on != fixed => Err(format!(
            "{name} is always {fixed}: there is nothing here that it turns {}; leave it out",
            if on { "on" } else { "off" }
        )),
        Some((name, _)) => Ok(Gate { name, on }),
        None => Err(format!(
            "unrecognized feature gate: {name}; there are {}",
            OURS.join(", ")
        )),
    }
}

/// Turns the switches. Whom the administrator lets in without a human is in the options already:
/// the switch says whether.
pub fn apply(gates: &[Gate], options: &mut Options) {
    let Options {
        registration,
        works,
        without_add_ons,
        importer,
        ..
    } = options;
    for Gate { name, on } in gates {
        match *name {
            ADDON_MANAGEMENT => *without_add_ons = !on,
            DEFAULT_CLUSTER_SET => registration.default_sets = *on,
            RESOURCE_CLEANUP => registration.garbage = on.then(GarbageKind::defaults),
            MANAGED_CLUSTER_AUTO_APPROVAL => {
                registration.auto_accept = *on;
                let users = &mut registration.auto_approved_csr_users;
                // As with upstream's chart: who has a token of the hub's is let in. A cluster that is accepted and
                // whose certificate nobody approves would have joined by half.
                let bootstrap = crate::bootstrap::user();
                if !on {
                    users.clear();
                } else if !users.contains(&bootstrap) {
                    users.push(bootstrap);
                }
            }
            CLUSTER_IMPORTER => *importer = on.then(importer::Options::compact),
            CLUSTER_PROFILE => registration.cluster_profiles = *on,
            CLEAN_UP_COMPLETED_MANIFEST_WORK => works.clean_up_completed = *on,
            MANIFEST_WORK_REPLICA_SET => works.manifest_work_replica_set = *on,
            NIL_EXECUTOR_VALIDATING => works.nil_executor_is_checked = *on,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turned(gates: &[&str]) -> Result<Options, String> {
        let gates = gates.iter().map(|it| parse(it)).collect::<Result<Vec<_>, _>>()?;
        let mut options = Options::default();
        apply(&gates, &mut options);
        Ok(options)
    }

    #[test]
    fn what_is_not_named_is_as_upstream_has_it() {
        let it = turned(&[
            "ClusterImporter=false",
            "AddonManagement=true",
            "CloudEventsDrivers=false",
        ])
        .unwrap();
        // All but this one, which upstream has off.
        assert!(it.works.manifest_work_replica_set);
        assert!(!it.works.clean_up_completed && !it.works.nil_executor_is_checked && it.importer.is_none());
        let it = it.registration;
        assert!(it.default_sets && it.garbage.is_some() && !it.auto_accept && !it.cluster_profiles);
        let it = turned(&["ClusterProfile=true", "DefaultClusterSet=0", "ResourceCleanup=false"]).unwrap();
        let it = it.registration;
        assert!(!it.default_sets && it.garbage.is_none() && !it.auto_accept && it.cluster_profiles);
        let it = turned(&["ManifestWorkReplicaSet=false"]).unwrap();
        assert!(!it.works.manifest_work_replica_set && !it.works.rules().replica_sets_are_taken);
        assert!(!turned(&[]).unwrap().without_add_ons && turned(&["AddonManagement=false"]).unwrap().without_add_ons);
        assert!(turned(&["ClusterImporter=true"]).unwrap().importer.is_some());
        let it = turned(&["CleanUpCompletedManifestWork=true", "NilExecutorValidating=true"]).unwrap();
        assert!(it.works.clean_up_completed && it.works.rules().nil_executor_is_checked);
    }

    #[test]
    fn auto_approval_adds_bootstrap_users_and_approves_nobody_when_off() {
        let users = |gates: &[&str], named: &[&str]| {
            let gates = gates.iter().map(|it| parse(it)).collect::<Result<Vec<_>, _>>().unwrap();
            let mut options = Options::default();
            options.registration.auto_approved_csr_users = named.iter().map(|it| (*it).to_owned()).collect();
            options.registration.auto_accept = !named.is_empty();
            apply(&gates, &mut options);
            let it = options.registration;
            (it.auto_accept, it.auto_approved_csr_users.join(" "))
        };
        let bootstrap = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap";
        assert_eq!(users(&[], &["mary"]), (true, "mary".to_owned()));
        let on = ["ManagedClusterAutoApproval=true"];
        assert_eq!(users(&on, &[]), (true, bootstrap.to_owned()));
        assert_eq!(users(&on, &["mary"]), (true, format!("mary {bootstrap}")));
        assert_eq!(users(&on, &[bootstrap]), (true, bootstrap.to_owned()));
        let off = ["ManagedClusterAutoApproval=false"];
        assert_eq!(users(&off, &["mary"]), (false, String::new()));
    }

    #[test]
    fn a_gate_that_is_not_there_is_refused_by_name() {
        let refused = |it: &str| turned(&[it]).err().unwrap();
        assert_eq!(
            refused("Nonsense=true"),
            "unrecognized feature gate: Nonsense; there are AddonManagement, CleanUpCompletedManifestWork, ClusterImporter, \
             ClusterProfile, DefaultClusterSet, ManagedClusterAutoApproval, ManifestWorkReplicaSet, NilExecutorValidating, \
             ResourceCleanup"
        );
        assert!(refused("ClusterProfile").starts_with("missing bool value for ClusterProfile"));
        assert!(refused("ClusterProfile=yes").starts_with("invalid value of ClusterProfile=yes"));
        assert_eq!(
            refused("NetworkPolicies=true"),
            "NetworkPolicies is always false: there is nothing here that it turns on; leave it out"
        );
    }
}
