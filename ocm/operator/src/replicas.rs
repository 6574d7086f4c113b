//! How many pods a component has.
//! Upstream: ocm `pkg/operator/helpers/helpers.go`, `DetermineReplica`.

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, api::ListParams};

use crate::Layout;

/// Of a cluster with more than one node of the control plane.
const MANY: i32 = 3;

/// The label of control planes that the operator counts unless it is told another. Kubernetes gives it to no node since
/// its release 1.24.
const FORMER_LABEL: &str = "node-role.kubernetes.io/master=";
/// What Kubernetes calls them now.
const LABEL: &str = "node-role.kubernetes.io/control-plane";

/// How many nodes the control plane has: none, one, or two, which stands for more; `None` when that cannot be told.
pub async fn control_plane_nodes(client: &Client, selector: &str, layout: Layout) -> Option<usize> {
    let counted = count(client, selector).await?;
    // Upstream counts the former label alone, and so has one pod on most clusters of today.
    if counted == 0 && selector == FORMER_LABEL && layout == Layout::Compact {
        return count(client, LABEL).await;
    }
    Some(counted)
}

async fn count(client: &Client, selector: &str) -> Option<usize> {
    let asked = ListParams::default().labels(selector).limit(2);
    let nodes = Api::<Node>::all(client.clone()).list_metadata(&asked).await.ok()?;
    Some(nodes.items.len())
}

/// The number of pods: what the operator was told if that is more than none, one where pods run for another cluster,
/// else by the nodes of the control plane.
pub fn decide(told: i32, is_hosted: bool, control_plane_nodes: Option<usize>) -> i32 {
    match (told, is_hosted, control_plane_nodes) {
        (told, _, _) if told > 0 => told,
        (_, true, _) | (_, _, Some(0 | 1)) => 1,
        _ => MANY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_follow_the_control_plane_unless_told() {
        assert_eq!(decide(2, true, Some(5)), 2);
        assert_eq!(decide(0, true, Some(5)), 1);
        assert_eq!(
            [Some(0), Some(1), Some(2), None].map(|it| decide(0, false, it)),
            [1, 1, 3, 3]
        );
    }
}
