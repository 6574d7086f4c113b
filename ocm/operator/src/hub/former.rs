//! A hub that was installed by our chart `drover-hub`, before there was an operator.

use ocm_api::namespaces;
use ocm_reconcile::{Site, Target};

use crate::objects::target;

/// What it left, in the namespace of hubs and beside it: taken away when the operator's pods run. Its Lease stays,
/// which the next hub takes. Upstream's role lets an operator see no Secret but upstream's, so that in upstream's
/// layout the certificate that nobody uses any more stays.
pub fn targets(is_compact: bool) -> Vec<Target> {
    let in_namespace = [
        ("Deployment", "drover-hub"),
        ("Service", "drover-hub-webhook"),
        ("RoleBinding", "drover-hub-webhooks"),
        ("Role", "drover-hub-webhooks"),
        ("Secret", "drover-hub-webhook"),
        ("ServiceAccount", "drover-hub"),
    ];
    let beside = ["", ":metrics", ":webhooks", ":work-executor"];
    let roles = beside.iter().flat_map(|suffix| {
        let name = format!("open-cluster-management:drover-hub{suffix}");
        ["ClusterRoleBinding", "ClusterRole"].map(|kind| target(Site::Hub, kind, None, &name))
    });
    let seen = in_namespace
        .into_iter()
        .filter(|(kind, _)| is_compact || *kind != "Secret");
    let in_namespace = seen.map(|(kind, name)| target(Site::Management, kind, Some(namespaces::HUB), name));
    in_namespace.chain(roles).collect()
}
