//! `--feature-gates A=true,B=false`: upstream's switches of a hub, by their names.
//! Upstream: api `feature/feature.go`, `DefaultHubRegistrationFeatureGates` and `DefaultHubWorkFeatureGates`.

use hub::Options;
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
const DEFAULT_CLUSTER_SET: &str = "DefaultClusterSet";
const RESOURCE_CLEANUP: &str = "ResourceCleanup";
const MANAGED_CLUSTER_AUTO_APPROVAL: &str = "ManagedClusterAutoApproval";
const CLUSTER_PROFILE: &str = "ClusterProfile";
const MANIFEST_WORK_REPLICA_SET: &str = "ManifestWorkReplicaSet";
const OURS: [&str; 5] = [
    CLUSTER_PROFILE,
    DEFAULT_CLUSTER_SET,
    MANAGED_CLUSTER_AUTO_APPROVAL,
    MANIFEST_WORK_REPLICA_SET,
    RESOURCE_CLEANUP,
];
/// Switches of upstream's for what we do not do: they may be off.
const ABSENT: [&str; 2] = ["ClusterImporter", "V1beta1CSRAPICompatibility"];

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
    match ABSENT.into_iter().find(|it| *it == name) {
        Some(name) if on => Err(format!("{name} is not there to be turned on; leave it out")),
        Some(name) => Ok(Gate { name, on }),
        None => Err(format!(
            "unrecognized feature gate: {name}; there are {}",
            OURS.join(", ")
        )),
    }
}

/// Turns the switches.
pub fn apply(gates: &[Gate], options: &mut Options) {
    let Options {
        registration, works, ..
    } = options;
    for Gate { name, on } in gates {
        match *name {
            DEFAULT_CLUSTER_SET => registration.default_sets = *on,
            RESOURCE_CLEANUP => registration.garbage = on.then(GarbageKind::defaults),
            MANAGED_CLUSTER_AUTO_APPROVAL => registration.auto_accept = *on,
            CLUSTER_PROFILE => registration.cluster_profiles = *on,
            MANIFEST_WORK_REPLICA_SET => works.manifest_work_replica_set = *on,
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
        let it = turned(&["ClusterImporter=false"]).unwrap();
        // All but this one, which upstream has off.
        assert!(it.works.manifest_work_replica_set);
        let it = it.registration;
        assert!(it.default_sets && it.garbage.is_some() && !it.auto_accept && !it.cluster_profiles);
        let it = turned(&["ClusterProfile=true", "DefaultClusterSet=0", "ResourceCleanup=false"]).unwrap();
        let it = it.registration;
        assert!(!it.default_sets && it.garbage.is_none() && !it.auto_accept && it.cluster_profiles);
        let it = turned(&["ManifestWorkReplicaSet=false"]).unwrap();
        assert!(!it.works.manifest_work_replica_set);
    }

    #[test]
    fn a_gate_that_is_not_there_is_refused_by_name() {
        let refused = |it: &str| turned(&[it]).err().unwrap();
        assert_eq!(
            refused("Nonsense=true"),
            "unrecognized feature gate: Nonsense; there are ClusterProfile, DefaultClusterSet, ManagedClusterAutoApproval, \
             ManifestWorkReplicaSet, ResourceCleanup"
        );
        assert!(refused("ClusterProfile").starts_with("missing bool value for ClusterProfile"));
        assert!(refused("ClusterProfile=yes").starts_with("invalid value of ClusterProfile=yes"));
        assert!(refused("ClusterImporter=true").starts_with("ClusterImporter is not there to be turned on"));
    }
}
