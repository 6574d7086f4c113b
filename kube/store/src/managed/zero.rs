//! Containers that a built-in kind always has.
//!
//! Kubernetes decodes built-in kinds into Go structs. A struct that is no pointer, and a list without `omitempty`, is
//! there even in an empty object, so nobody adds it and nobody's entry gets a `.` for it. A JSON object does not show
//! this, so the names are listed here; a custom resource has only `metadata`.

/// The containers below one path that are always there.
#[derive(Clone, Copy)]
pub(crate) struct Zero(&'static [(&'static str, Zero)]);

const NONE: Zero = Zero(&[]);
const METADATA: (&str, Zero) = ("metadata", NONE);
const POD_TEMPLATE: Zero = Zero(&[METADATA, ("spec", Zero(&[("containers", NONE)]))]);
const JOB_TEMPLATE: Zero = Zero(&[METADATA, ("spec", Zero(&[("template", POD_TEMPLATE)]))]);

pub(crate) const CUSTOM: Zero = Zero(&[METADATA]);

pub(crate) const BUILT_IN: Zero = Zero(&[
    METADATA,
    (
        "spec",
        Zero(&[
            ("containers", NONE),
            ("jobTemplate", JOB_TEMPLATE),
            ("names", NONE),
            ("resources", NONE),
            ("scaleTargetRef", NONE),
            ("strategy", NONE),
            ("template", POD_TEMPLATE),
            ("updateStrategy", NONE),
        ]),
    ),
    (
        "status",
        Zero(&[
            ("acceptedNames", NONE),
            ("daemonEndpoints", Zero(&[("kubeletEndpoint", NONE)])),
            ("loadBalancer", NONE),
            ("nodeInfo", NONE),
        ]),
    ),
    ("involvedObject", NONE),
    ("regarding", NONE),
    ("roleRef", NONE),
    ("source", NONE),
    ("deprecatedSource", NONE),
    ("template", POD_TEMPLATE),
]);

impl Zero {
    pub(crate) fn child(self, name: &str) -> Option<Zero> {
        self.0.iter().find(|(it, _)| *it == name).map(|(_, zero)| *zero)
    }
}
