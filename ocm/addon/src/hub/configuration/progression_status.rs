//! What is said about a rollout in the status of the ClusterManagementAddOn: how far the clusters
//! of each placement are.

use jiff::Timestamp;
use ocm_api::{
    addon::v1alpha1::ClusterManagementAddOn,
    condition::{self, ConditionUpdate, wanted},
    conditions::install_progression,
};

use super::graph::{Graph, PlacementNode, RolloutCounts};

/// The ClusterManagementAddOn with this said about it.
pub fn saying(offer: &ClusterManagementAddOn, graph: &Graph<'_>, now: Timestamp) -> ClusterManagementAddOn {
    let mut new = offer.clone();
    let progressions = new.status.iter_mut().flat_map(|it| &mut it.install_progressions);
    for ((entry, node), counts) in progressions.zip(&graph.nodes).zip(graph.counts()) {
        let (progressing, is_done) = progressing(node, counts);
        condition::set(&mut entry.conditions, progressing, now);
        for it in entry.config_references.iter_mut().filter(|_| is_done) {
            it.last_applied_config = it.desired_config.clone();
            it.last_known_good_config = it.desired_config.clone();
        }
    }
    new
}

/// What to say about a placement, and whether all its clusters are done.
fn progressing(node: &PlacementNode<'_>, counts: RolloutCounts) -> (ConditionUpdate, bool) {
    let RolloutCounts {
        progressing,
        done,
        failed,
        timed_out,
    } = counts;
    let (selected, effective) = (node.selected, node.effective);
    let is_done = done == effective && effective > 0 && node.rollout.is_ok();
    let (reason, message) = if is_done {
        (
            install_progression::reason::COMPLETED,
            format!(
                "selected clusters {selected}. configured addons {done}/{effective} completed with no errors, {failed} failed \
                 {timed_out} timeout."
            ),
        )
    } else {
        let refused = match &node.rollout {
            Err(why) => format!(" {why}."),
            Ok(_) => String::new(),
        };
        let under_way = progressing + done;
        (
            install_progression::reason::PROGRESSING,
            format!(
                "selected clusters {selected}. configured addons {under_way}/{effective} progressing..., {failed} failed \
                 {timed_out} timeout.{refused}"
            ),
        )
    };
    let condition = wanted(install_progression::PROGRESSING, !is_done, reason, message);
    (condition, is_done)
}
