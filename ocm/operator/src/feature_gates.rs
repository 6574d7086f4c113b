//! The feature gates of a ClusterManager and of a Klusterlet: which there are, what they are unless somebody says, and
//! the arguments of programs that are made of them.
//! Upstream: api `feature/feature.go`, ocm `pkg/operator/helpers/helpers.go`.

use ocm_api::{
    condition::{ConditionUpdate, wanted},
    conditions::cluster_manager,
    operator::{FeatureGate, FeatureGateMode},
};

/// The gates of a component.
#[derive(Clone, Copy, Debug)]
pub struct GatedComponent {
    /// What a condition calls the component.
    pub title: &'static str,
    /// Names, and whether they are on unless somebody says.
    pub gates: &'static [(&'static str, bool)],
    /// Those that steer the operator alone, and are no argument of a program.
    pub of_operator: &'static [(&'static str, bool)],
}

/// `spec.registrationConfiguration.featureGates` of a ClusterManager.
pub const HUB_REGISTRATION: GatedComponent = GatedComponent {
    title: "Registration",
    gates: &[
        ("DefaultClusterSet", true),
        ("V1beta1CSRAPICompatibility", false),
        ("ManagedClusterAutoApproval", false),
        ("ResourceCleanup", true),
        ("ClusterProfile", false),
        ("ClusterImporter", false),
    ],
    of_operator: &[("NetworkPolicies", false)],
};

/// `spec.workConfiguration.featureGates` of a ClusterManager.
pub const HUB_WORK: GatedComponent = GatedComponent {
    title: "Work",
    gates: &[
        ("NilExecutorValidating", false),
        ("ManifestWorkReplicaSet", false),
        ("CloudEventsDrivers", false),
        ("CleanUpCompletedManifestWork", false),
    ],
    of_operator: &[],
};

/// `spec.addOnManagerConfiguration.featureGates` of a ClusterManager.
pub const HUB_ADD_ONS: GatedComponent = GatedComponent {
    title: "Addon",
    gates: &[("AddonManagement", true)],
    of_operator: &[],
};

/// `spec.placementConfiguration.featureGates` of a ClusterManager.
pub const HUB_PLACEMENT: GatedComponent = GatedComponent {
    title: "Placement",
    gates: &[("PlacementDebugServer", false)],
    of_operator: &[],
};

/// `spec.registrationConfiguration.featureGates` of a Klusterlet.
pub const AGENT_REGISTRATION: GatedComponent = GatedComponent {
    title: "Registration",
    gates: &[
        ("ClusterClaim", true),
        ("ClusterProperty", false),
        ("AddonManagement", true),
        ("V1beta1CSRAPICompatibility", false),
        ("MultipleHubs", false),
    ],
    of_operator: &[("NetworkPolicies", false)],
};

/// `spec.workConfiguration.featureGates` of a Klusterlet.
pub const AGENT_WORK: GatedComponent = GatedComponent {
    title: "Work",
    gates: &[("ExecutorValidatingCaches", false), ("RawFeedbackJsonString", false)],
    of_operator: &[],
};

impl GatedComponent {
    /// Whether a gate is on. One that is named twice is what it is called first.
    pub fn is_on(&self, asked: &[FeatureGate], name: &str) -> bool {
        let said = asked.iter().find(|it| it.feature == name);
        let by_default = || self.default(name).unwrap_or_default();
        said.map_or_else(by_default, |it| it.mode == FeatureGateMode::Enable)
    }

    /// The arguments of the component's program: one for each gate that is not as it is by default.
    pub fn arguments(&self, asked: &[FeatureGate]) -> Vec<String> {
        let mut arguments: Vec<String> = Vec::new();
        for gate in asked {
            let is_on = gate.mode == FeatureGateMode::Enable;
            let known = self.gates.iter().find(|it| it.0 == gate.feature);
            if known.is_some_and(|it| it.1 != is_on) {
                let argument = format!("--feature-gates={}={is_on}", gate.feature);
                if !arguments.contains(&argument) {
                    arguments.push(argument);
                }
            }
        }
        arguments
    }

    /// The names that are none of its gates.
    pub fn unknown<'a>(&self, asked: &'a [FeatureGate]) -> Vec<&'a str> {
        let is_unknown = |it: &&FeatureGate| self.default(&it.feature).is_none();
        asked.iter().filter(is_unknown).map(|it| it.feature.as_str()).collect()
    }

    fn default(&self, name: &str) -> Option<bool> {
        let mut all = self.gates.iter().chain(self.of_operator);
        all.find(|it| it.0 == name).map(|it| it.1)
    }
}

/// The condition `ValidFeatureGates`. Names that are not there are no obstacle: everything else is done.
pub fn condition(asked: &[(GatedComponent, &[FeatureGate])]) -> ConditionUpdate {
    let invalid: Vec<String> = asked
        .iter()
        .map(|(component, gates)| (component, component.unknown(gates)))
        .filter(|(_, unknown)| !unknown.is_empty())
        .map(|(component, unknown)| {
            let known: Vec<&str> = component.gates.iter().map(|it| it.0).collect();
            format!(
                "{}: {} (there are {})",
                component.title,
                unknown.join(", "),
                known.join(", ")
            )
        })
        .collect();
    let r#type = cluster_manager::VALID_FEATURE_GATES;
    match invalid.is_empty() {
        true => wanted(r#type, true, "FeatureGatesAllValid", "Feature gates are all valid"),
        false => wanted(
            r#type,
            false,
            "InvalidFeatureGatesExisting",
            format!(
                "There are some invalid feature gates of {}, which are ignored",
                invalid.join("; ")
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(all: &[(&str, bool)]) -> Vec<FeatureGate> {
        let gate = |(name, is_on): &(&str, bool)| FeatureGate {
            feature: (*name).to_owned(),
            mode: if *is_on {
                FeatureGateMode::Enable
            } else {
                FeatureGateMode::Disable
            },
        };
        all.iter().map(gate).collect()
    }

    #[test]
    fn only_gates_that_differ_become_arguments() {
        let asked = gates(&[
            ("DefaultClusterSet", true),
            ("ResourceCleanup", false),
            ("ClusterProfile", true),
            ("ClusterImporter", false),
            ("NetworkPolicies", true),
            ("Nonsense", true),
        ]);
        assert_eq!(
            HUB_REGISTRATION.arguments(&asked),
            [
                "--feature-gates=ResourceCleanup=false",
                "--feature-gates=ClusterProfile=true"
            ]
        );
        assert!(HUB_REGISTRATION.is_on(&asked, "NetworkPolicies"));
        assert!(HUB_REGISTRATION.is_on(&[], "DefaultClusterSet"));
        assert!(!HUB_REGISTRATION.is_on(&asked, "ResourceCleanup"));
    }

    #[test]
    fn an_unknown_gate_is_named_by_its_component() {
        let (registration, work) = (gates(&[("NetworkPolicies", true), ("Nonsense", true)]), gates(&[]));
        let said = condition(&[(HUB_REGISTRATION, &registration), (HUB_WORK, &work)]);
        assert_eq!(said.reason, "InvalidFeatureGatesExisting");
        assert_eq!(
            said.message,
            "There are some invalid feature gates of Registration: Nonsense (there are DefaultClusterSet, \
             V1beta1CSRAPICompatibility, ManagedClusterAutoApproval, ResourceCleanup, ClusterProfile, ClusterImporter), \
             which are ignored"
        );
        assert_eq!(condition(&[(HUB_WORK, &work)]).reason, "FeatureGatesAllValid");
    }
}
