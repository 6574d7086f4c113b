//! Who may know whom. The table is DESIGN's, crate by crate: a crate that is not here does not belong to the house yet.

use anyhow::Context;
use serde_json::Value;

/// What each crate may use of the house.
const MAY_USE: &[(&str, &[&str])] = &[
    // under everything
    ("allocator", &[]),
    ("kube-primitives", &[]),
    // word
    ("ocm-api", &[]),
    // machine
    ("ocm-reconcile", &["ocm-api", "kube-primitives"]),
    ("go-regex", &[]),
    ("safe-cel", &["go-regex", "kube-primitives"]),
    ("kube-store", &["safe-cel", "go-regex", "kube-primitives"]),
    ("gotemplate", &["go-regex"]),
    ("kustomize", &["go-regex"]),
    ("policy-template", &["gotemplate"]),
    // What a folder of a source is made to, for the add-on of applications.
    ("application-render", &["gotemplate", "kustomize"]),
    // A tunnel, which knows neither OCM nor an API server.
    ("konnectivity", &[]),
    // Fetches from servers of strangers: ranges of charts' versions, and which servers' certificates are trusted.
    ("application-source", &["gotemplate", "kube-primitives"]),
    // stranger
    (
        "ocm-addon-sdk",
        &["ocm-api", "ocm-reconcile", "gotemplate", "go-regex", "kube-primitives"],
    ),
    // service
    ("credential", &["ocm-api", "ocm-reconcile", "kube-primitives"]),
    // examples, which a stranger may copy
    ("example-addon", &["ocm-addon-sdk"]),
    ("example-controller", &["ocm-api", "ocm-reconcile"]),
    ("example-embedded-api", &[]),
    // domain
    (
        "placement",
        &["ocm-api", "ocm-reconcile", "safe-cel", "kube-primitives"],
    ),
    (
        "registration",
        &["ocm-api", "ocm-reconcile", "credential", "kube-primitives"],
    ),
    ("work", &["ocm-api", "ocm-reconcile", "safe-cel", "placement"]),
    (
        "addon",
        &["ocm-api", "ocm-reconcile", "ocm-addon-sdk", "credential", "placement"],
    ),
    (
        "operator",
        &[
            "ocm-api",
            "ocm-reconcile",
            "ocm-addon-sdk",
            "credential",
            "gotemplate",
            "kube-primitives",
            // The kubeconfigs of clusters that are imported, and the connections to them.
            "credential",
        ],
    ),
    // process
    ("kube-api", &["kube-store", "safe-cel", "kube-primitives"]),
    ("kube-node", &["kube-primitives"]),
    ("hub", DOMAIN_AND_BELOW),
    ("agent", DOMAIN_AND_BELOW),
    // command line
    ("output", &["kube-primitives"]),
    ("cobra", &["kube-primitives"]),
    ("clusteradm", &["cobra", "output"]),
    ("client", &["output", "hub", "credential", "kube-primitives", "ocm-api"]),
    (
        "process",
        // Its certificate is made as the embedded API's is.
        &["kube-api", "kube-primitives", "ocm-reconcile"],
    ),
    (
        "webhooks",
        &[
            "process",
            "client",
            "hub",
            "registration",
            "work",
            "ocm-reconcile",
            "ocm-api",
            // The rules are plug-ins of the embedded API, too.
            "kube-api",
            "kube-store",
        ],
    ),
    (
        "compat",
        &[
            "cobra",
            "operator",
            "webhooks",
            "process",
            "client",
            "output",
            "hub",
            "agent",
            "addon",
            "registration",
            "placement",
            "work",
            "credential",
            "ocm-reconcile",
            "ocm-api",
            "kube-primitives",
        ],
    ),
    (
        "installation",
        // It carries the charts of `deploy/`.
        &[
            "operator",
            "client",
            // Kubeconfigs with what they name inlined, and amounts of resources.
            "credential",
            "kube-primitives",
            "output",
            "hub",
            "ocm-addon-sdk",
            "gotemplate",
            "ocm-reconcile",
            "ocm-api",
        ],
    ),
    (
        "why",
        // It prints what the plans of the hub's reconcilers say.
        &[
            "operator",
            "client",
            "output",
            "addon",
            "registration",
            "placement",
            "work",
            "ocm-reconcile",
            "ocm-api",
        ],
    ),
    (
        "fleet",
        &[
            "operator",
            "webhooks",
            "client",
            "output",
            "hub",
            "agent",
            "registration",
            "placement",
            "credential",
            "ocm-addon-sdk",
            "ocm-reconcile",
            "ocm-api",
            // Here the product meets the embedded Kubernetes.
            "kube-api",
            "kube-node",
            "kube-primitives",
            "kube-store",
            // The binary is the image of these add-ons, too.
            "addon-application",
            "addon-argocd-pull",
            "addon-cluster-permission",
            "addon-cluster-proxy",
            "addon-cert-policy",
            "addon-config-policy",
            "addon-managed-serviceaccount",
            "addon-policy-framework",
            "addon-helloworld",
            "addon-helloworldhelm",
            "addon-helloworldhosted",
        ],
    ),
    (
        "drover",
        &[
            // A policy is evaluated without a cluster.
            "addon-config-policy",
            // The place of an add-on's program, for pods.
            "ocm-addon-sdk",
            "clusteradm",
            "cobra",
            "operator",
            "fleet",
            "compat",
            "webhooks",
            "installation",
            "why",
            "process",
            "client",
            "output",
            "hub",
            "agent",
            "registration",
            "work",
            "credential",
            "kube-api",
            "ocm-reconcile",
            "ocm-api",
            "allocator",
        ],
    ),
];

const DOMAIN_AND_BELOW: &[&str] = &[
    "addon",
    "operator",
    "ocm-addon-sdk",
    "registration",
    "placement",
    "work",
    "credential",
    "ocm-reconcile",
    "ocm-api",
];

/// These may use anything, and only tests may use them.
const BESIDE: &[&str] = &[
    "testkit",
    "source-servers",
    "stories",
    "conformance",
    "benches",
    "xtask",
];

pub fn findings(metadata: &Value) -> anyhow::Result<Vec<String>> {
    let mut found = vec![];
    for package in metadata["packages"]
        .as_array()
        .context("cargo metadata lists packages")?
    {
        let name = package["name"].as_str().context("a package has a name")?;
        let edges = package["dependencies"]
            .as_array()
            .context("a package lists its dependencies")?;
        let used = edges
            .iter()
            // Only a dependency with a path is of the house; tests and build scripts may reach further.
            .filter(|it| it["path"].is_string() && it["kind"].is_null())
            .filter_map(|it| it["name"].as_str());
        found.extend(used.filter_map(|used| judge(name, used)));
    }
    Ok(found)
}

fn judge(user: &str, used: &str) -> Option<String> {
    // The other examples run the tutorial's agent.
    const OF_ADDONS: &[&str] = &[
        "ocm-addon-sdk",
        "ocm-api",
        "addon-helloworld",
        "konnectivity",
        "policy-template",
        "application-render",
        "application-source",
    ];
    if BESIDE.contains(&user) || user.starts_with("addon-") && OF_ADDONS.contains(&used) {
        return None;
    }
    match MAY_USE.iter().find(|(name, _)| *name == user) {
        Some((_, allowed)) if allowed.contains(&used) => None,
        Some(_) => Some(format!(
            "{user} -> {used}: an edge that the map does not have (xtask/src/tidy/edges.rs)"
        )),
        None => Some(format!("{user}: give it a place on the map (xtask/src/tidy/edges.rs)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_upwards_or_sideways_is_found() {
        assert!(judge("ocm-api", "ocm-reconcile").is_some());
        assert!(judge("registration", "work").is_some());
        assert!(judge("work", "testkit").is_some());
        assert!(judge("kube-api", "ocm-api").is_some());
        assert!(judge("newcomer", "ocm-api").is_some());
    }

    #[test]
    fn an_edge_of_the_map_is_not() {
        assert_eq!(judge("work", "placement"), None);
        assert_eq!(judge("fleet", "kube-api"), None);
        assert_eq!(judge("testkit", "hub"), None);
    }
}
