//! What a Subscription waits for: its Channel, what chooses its clusters, what the hub says of it, and how far each of
//! its clusters is. Unlike most it is told where it stands also when it waits for nothing: which commit is deployed is
//! what is asked most.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow, bail};
use client::connect::ApiServer;
use kube::{Api, ResourceExt, api::ListParams};
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn,
    apps::{
        ADD_ON, Channel, ChannelType, PlacementRule, Subscription, SubscriptionPhase, SubscriptionReport, annotations,
        labels,
    },
    cluster::{ManagedCluster, Placement, PlacementDecision},
    condition,
    conditions::{managed_cluster_add_on, manifest_work},
    selector::Selector,
    work::ManifestWork,
};
use ocm_reconcile::segment::encoded;

/// On a PlacementDecision: its Placement.
const PLACEMENT: &str = "cluster.open-cluster-management.io/placement";
/// Values of labels are at most this long, and the hub cuts them.
const LABEL_MAX: usize = 63;

/// What is on the hub.
struct Seen {
    subscription: Subscription,
    /// Those of its Channels that are there, by `NAMESPACE/NAME`.
    channels: BTreeMap<String, Channel>,
    choice: Choice,
    /// Its works, by cluster.
    works: BTreeMap<String, ManifestWork>,
    /// What is reported of it, by cluster.
    results: BTreeMap<String, String>,
    /// The clusters that have the add-on, and whether it is available there.
    served: BTreeMap<String, bool>,
}

/// Who has chosen clusters, and which.
enum Choice {
    /// Nobody: it is deployed where it is.
    Local,
    /// Nobody, and it does not say that it stays here.
    Nothing,
    /// Something that cannot choose clusters.
    Unsupported { kind: String, name: String },
    /// A Placement or PlacementRule that is not there.
    Missing { kind: &'static str, name: String },
    /// One that nobody has decided yet.
    Undecided { kind: &'static str, name: String },
    /// One that has chosen.
    Decided {
        kind: &'static str,
        name: String,
        clusters: BTreeSet<String>,
    },
    /// The Subscription names them; these are not there.
    Named {
        clusters: BTreeSet<String>,
        unknown: Vec<String>,
    },
    /// The Subscription's clusterSelector matches these.
    Selected(BTreeSet<String>),
}

/// Sentences about a Subscription.
pub async fn sentences(hub: &ApiServer, namespace: &str, name: &str) -> Result<Vec<String>> {
    // A list, because the answer to a get does not say whether the kind or the object is missing.
    let api: Api<Subscription> = Api::namespaced(hub.client.clone(), namespace);
    let subscription = match api.list(&named(name)).await {
        Ok(found) => found.items.into_iter().next(),
        Err(kube::Error::Api(status)) if status.code == 404 => bail!(
            "this hub has no subscriptions: `drover up --addons {ADD_ON}` has their kinds and the controllers of the add-on"
        ),
        Err(error) => return Err(hub.explain(&format!("could not get subscription {name}"), &error)),
    };
    let subscription =
        subscription.ok_or_else(|| anyhow!("there is no subscription {name} in namespace {namespace}"))?;
    let seen = observe(hub, subscription, namespace, name).await?;
    Ok(waits_for(&seen, namespace, name))
}

/// Namespace and name, if these are there.
fn channel_key(key: &str) -> Option<(&str, &str)> {
    key.split_once('/')
        .filter(|(of, name)| !of.is_empty() && !name.is_empty())
}

fn named(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}"))
}

async fn observe(hub: &ApiServer, subscription: Subscription, namespace: &str, name: &str) -> Result<Seen> {
    let mut channels = BTreeMap::new();
    for key in [&subscription.spec.channel, &subscription.spec.secondary_channel] {
        let Some((of, channel)) = channel_key(key) else {
            continue;
        };
        let api: Api<Channel> = Api::namespaced(hub.client.clone(), &encoded(of));
        let found = api.get_opt(&encoded(channel)).await;
        let found = found.map_err(|error| hub.explain(&format!("could not get channel {key}"), &error))?;
        channels.extend(found.map(|it| (key.clone(), it)));
    }
    let choice = choice(hub, &subscription, namespace).await?;
    let works = Api::<ManifestWork>::all(hub.client.clone());
    let works = works.list(&named(&work_name(namespace, name))).await;
    let works = works.map_err(|error| hub.explain("could not list the works of the subscription", &error))?;
    // Two Subscriptions may have works of one name; the label says whose it is.
    let label: String = format!("{namespace}.{name}").chars().take(LABEL_MAX).collect();
    let its = works
        .items
        .into_iter()
        .filter(|it| it.labels().get(labels::HOSTING_SUBSCRIPTION) == Some(&label));
    let add_ons = Api::<ManagedClusterAddOn>::all(hub.client.clone())
        .list(&named(ADD_ON))
        .await;
    let add_ons = add_ons.map_err(|error| hub.explain("could not list the add-ons of the clusters", &error))?;
    let is_available = |it: &ManagedClusterAddOn| {
        let status = it.status.as_ref();
        status.is_some_and(|it| condition::is_true(&it.conditions, managed_cluster_add_on::AVAILABLE))
    };
    Ok(Seen {
        works: its.filter_map(|it| Some((it.namespace()?, it))).collect(),
        served: add_ons
            .items
            .iter()
            .filter_map(|it| Some((it.namespace()?, is_available(it))))
            .collect(),
        results: observe_results(hub, namespace, name).await?,
        subscription,
        channels,
        choice,
    })
}

/// What clusters report, and for those that do not, what the Subscription's own report says of them.
async fn observe_results(hub: &ApiServer, namespace: &str, name: &str) -> Result<BTreeMap<String, String>> {
    let own: Api<SubscriptionReport> = Api::namespaced(hub.client.clone(), namespace);
    let own = own.get_opt(name).await;
    let own = own.map_err(|error| hub.explain("could not get the report of the subscription", &error))?;
    let of_clusters = ListParams::default().labels(&format!("{}=true", labels::CLUSTER));
    let reports = Api::<SubscriptionReport>::all(hub.client.clone())
        .list(&of_clusters)
        .await;
    let reports = reports.map_err(|error| hub.explain("could not list the reports of the clusters", &error))?;
    Ok(results(own.as_ref(), &reports.items, &format!("{namespace}/{name}")))
}

fn results(own: Option<&SubscriptionReport>, reports: &[SubscriptionReport], key: &str) -> BTreeMap<String, String> {
    // The report of a cluster may have the name of a Subscription in the cluster's namespace.
    let own = own.filter(|it| !it.labels().contains_key(labels::CLUSTER)).into_iter();
    let own = own.flat_map(|it| &it.results);
    let mut all: BTreeMap<_, _> = own.map(|it| (it.source.clone(), it.result.clone())).collect();
    for report in reports.iter().filter(|it| it.namespace() == it.metadata.name) {
        let of_it = report.results.iter().filter(|it| it.source == key);
        all.extend(of_it.map(|it| (report.name_any(), it.result.clone())));
    }
    all
}

/// The first that is set chooses, as the hub has it.
async fn choice(hub: &ApiServer, subscription: &Subscription, namespace: &str) -> Result<Choice> {
    let placement = subscription.spec.placement.clone().unwrap_or_default();
    if let Some(it) = placement.placement_ref {
        return match it.kind.as_str() {
            // A get without a name would be a list.
            "Placement" | "PlacementRule" | "" if it.name.is_empty() => Ok(Choice::Nothing),
            "Placement" => of_placement(hub, namespace, it.name).await,
            "PlacementRule" | "" => of_rule(hub, namespace, it.name).await,
            _ => Ok(Choice::Unsupported {
                kind: it.kind,
                name: it.name,
            }),
        };
    }
    if placement.clusters.is_empty() && placement.cluster_selector.is_none() {
        return Ok(match placement.local {
            Some(true) => Choice::Local,
            _ => Choice::Nothing,
        });
    }
    let known = Api::<ManagedCluster>::all(hub.client.clone())
        .list(&ListParams::default())
        .await;
    let known = known.map_err(|error| hub.explain("could not list the clusters", &error))?;
    let staying = known.items.iter().filter(|it| it.metadata.deletion_timestamp.is_none());
    if placement.clusters.is_empty() {
        let selector = placement.cluster_selector.as_ref().map(Selector::of).transpose();
        let selector = selector.map_err(|why| anyhow!("its clusterSelector cannot be read: {why}"))?;
        let matches = |it: &&ManagedCluster| {
            let own = it.labels();
            selector
                .as_ref()
                .is_none_or(|it| it.matches(|key| own.get(key).map(String::as_str)))
        };
        return Ok(Choice::Selected(
            staying.filter(matches).map(|it| it.name_any()).collect(),
        ));
    }
    let staying: BTreeSet<String> = staying.map(|it| it.name_any()).collect();
    let (clusters, unknown): (Vec<_>, Vec<_>) = placement
        .clusters
        .into_iter()
        .map(|it| it.name)
        .partition(|it| staying.contains(it));
    Ok(Choice::Named {
        clusters: clusters.into_iter().collect(),
        unknown,
    })
}

async fn of_placement(hub: &ApiServer, namespace: &str, name: String) -> Result<Choice> {
    let kind = "Placement";
    let placements: Api<Placement> = Api::namespaced(hub.client.clone(), namespace);
    let found = placements.get_opt(&encoded(&name)).await;
    let found = found.map_err(|error| hub.explain(&format!("could not get placement {name}"), &error))?;
    if found.is_none() {
        return Ok(Choice::Missing { kind, name });
    }
    let its = ListParams::default().labels(&format!("{PLACEMENT}={name}"));
    let decisions: Api<PlacementDecision> = Api::namespaced(hub.client.clone(), namespace);
    let decisions = decisions.list(&its).await;
    let decisions = decisions.map_err(|error| hub.explain("could not list the decisions of the placement", &error))?;
    if decisions.items.is_empty() {
        return Ok(Choice::Undecided { kind, name });
    }
    let statuses = decisions.items.into_iter().filter_map(|it| it.status);
    let clusters = statuses.flat_map(|it| it.decisions).map(|it| it.cluster_name).collect();
    Ok(Choice::Decided { kind, name, clusters })
}

async fn of_rule(hub: &ApiServer, namespace: &str, name: String) -> Result<Choice> {
    let kind = "PlacementRule";
    let rules: Api<PlacementRule> = Api::namespaced(hub.client.clone(), namespace);
    let found = rules.get_opt(&encoded(&name)).await;
    let found = found.map_err(|error| hub.explain(&format!("could not get placement rule {name}"), &error))?;
    Ok(match found.map(|it| it.status) {
        None => Choice::Missing { kind, name },
        Some(None) => Choice::Undecided { kind, name },
        Some(Some(status)) => Choice::Decided {
            kind,
            name,
            clusters: status.decisions.into_iter().map(|it| it.cluster_name).collect(),
        },
    })
}

fn work_name(namespace: &str, name: &str) -> String {
    format!("{namespace}-{name}")
}

fn waits_for(seen: &Seen, namespace: &str, name: &str) -> Vec<String> {
    let mut said = of_source(seen);
    if seen.subscription.is_paused() {
        said.push(format!(
            "It is paused (label {}): clusters change nothing of it until it is `false`.",
            labels::SUBSCRIPTION_PAUSE
        ));
    }
    said.extend(of_choice(&seen.choice, namespace));
    said.extend(of_status(&seen.subscription, &seen.choice));
    said.extend(of_clusters(seen, namespace, name));
    said
}

/// Its Channels, and the commit.
fn of_source(seen: &Seen) -> Vec<String> {
    let subscription = &seen.subscription;
    let spec = &subscription.spec;
    let mut said = Vec::new();
    if let Some(of) = subscription.annotation(annotations::HOSTING_SUBSCRIPTION) {
        said.push(format!(
            "It is a copy of subscription {of}, for the cluster that it is on."
        ));
    }
    let all = [
        ("Channel", &spec.channel),
        ("Secondary channel", &spec.secondary_channel),
    ];
    let all = all
        .into_iter()
        .filter(|(what, key)| *what == "Channel" || !key.is_empty());
    said.extend(all.map(|(what, key)| match seen.channels.get(key) {
        None if channel_key(key).is_none() => format!("{what} {key:?} names none: it has to be NAMESPACE/NAME."),
        None => format!("{what} {key} is not there: `kubectl get channels -A` lists those there are."),
        Some(it) if it.spec.channel_type().is_none() => format!(
            "{what} {key} has type {:?}, which is none of Git, HelmRepo and ObjectBucket.",
            it.spec.r#type
        ),
        Some(it) => format!("{what} {key} is of type {}: {}", it.spec.r#type, it.spec.pathname),
    }));
    let channel = seen.channels.get(&spec.channel);
    let is_git = channel.is_some_and(|it| it.spec.channel_type() == Some(ChannelType::Git));
    let is_unread = subscription.annotation(annotations::SKIP_HUB_VALIDATION) == Some("true");
    match subscription.annotation(annotations::GIT_CURRENT_COMMIT) {
        Some(commit) => said.push(format!("It is at commit {commit}.")),
        // What stays here is read by the agent, which writes no commit.
        None if is_git && !is_unread && !matches!(seen.choice, Choice::Local) => {
            said.push("The hub has not seen a commit of it yet.".to_owned());
        }
        None => {}
    }
    said
}

fn of_choice(choice: &Choice, namespace: &str) -> Vec<String> {
    let counted = |clusters: &BTreeSet<String>| match clusters.len() {
        1 => "1 cluster".to_owned(),
        count => format!("{count} clusters"),
    };
    // Nobody explains a PlacementRule.
    let asked = |kind: &str, name: &str| match kind {
        "Placement" => format!(": `drover why placement/{name} -n {namespace}` says why."),
        _ => format!(": `kubectl get placementrule {name} -n {namespace} -o yaml` shows what it asks for."),
    };
    match choice {
        Choice::Local => vec!["It is deployed where it is (spec.placement.local), and goes to no cluster.".to_owned()],
        Choice::Nothing => vec!["Nothing in spec.placement chooses clusters for it, so no cluster gets it.".to_owned()],
        Choice::Unsupported { kind, name } => vec![format!(
            "Its placementRef is to {kind} {name}, but only a Placement or a PlacementRule can choose clusters."
        )],
        Choice::Missing { kind, name } => vec![format!("{kind} {name} is not in namespace {namespace}.")],
        Choice::Undecided { kind, name } => vec![format!("{kind} {name} is not decided yet{}", asked(kind, name))],
        Choice::Decided { kind, name, clusters } if clusters.is_empty() => {
            vec![format!("{kind} {name} has chosen no cluster{}", asked(kind, name))]
        }
        Choice::Decided { kind, name, clusters } => {
            vec![format!("{kind} {name} has chosen {}.", counted(clusters))]
        }
        Choice::Named { clusters, unknown } => {
            let mut said = Vec::new();
            if !clusters.is_empty() {
                said.push(format!("It names {} in spec.placement.", counted(clusters)));
            }
            said.extend(unknown.iter().map(|it| {
                format!("It names cluster {it}, which this hub has not: `drover get clusters` lists those there are.")
            }));
            said
        }
        Choice::Selected(clusters) => vec![format!("Its clusterSelector matches {}.", counted(clusters))],
    }
}

/// What the hub, or for one that stays here the agent, says.
fn of_status(subscription: &Subscription, choice: &Choice) -> Vec<String> {
    let status = subscription.status.clone().unwrap_or_default();
    let mut said = Vec::new();
    if subscription.metadata.deletion_timestamp.is_some() {
        said.push("It is being deleted.".to_owned());
    }
    let author = match choice {
        Choice::Local => "agent",
        _ => "controller on the hub",
    };
    let well = [SubscriptionPhase::Propagated, SubscriptionPhase::Subscribed];
    let is_well = well.iter().any(|it| it.as_str() == status.phase);
    let reason = status.reason.trim_end_matches(['.', ' ']);
    let since = status
        .last_update_time
        .map(|it| format!(" since {}", it.0))
        .unwrap_or_default();
    match (status.phase.as_str(), reason) {
        // The hub leaves the status of one without clusters empty.
        ("", "") if matches!(choice, Choice::Nothing) => {}
        ("", "") => said.push(format!(
            "Nothing has been said of it: it waits for the {author} of the add-on {ADD_ON}."
        )),
        (_, "") if is_well => {}
        (phase, "") => said.push(format!("Its phase is {phase}{since}.")),
        ("", reason) => said.push(format!("The {author} says: {reason}.")),
        (phase, reason) => said.push(format!("Its phase is {phase}{since}: {reason}.")),
    }
    match status.message.as_str() {
        // Of the time window.
        "" | "Active" => {}
        "Blocked" => said.push(
            "Its time window is closed (spec.timewindow): clusters change nothing of it until it opens.".to_owned(),
        ),
        message => said.push(format!("Its status says: {}.", message.trim_end_matches('.'))),
    }
    said
}

/// How far each cluster is. Those that have deployed it are only counted.
fn of_clusters(seen: &Seen, namespace: &str, name: &str) -> Vec<String> {
    let work = &work_name(namespace, name);
    let nobody = BTreeSet::new();
    let (clusters, is_known) = match &seen.choice {
        Choice::Decided { clusters, .. } | Choice::Named { clusters, .. } | Choice::Selected(clusters) => {
            (clusters, true)
        }
        Choice::Local => (&nobody, true),
        _ => (&nobody, false),
    };
    let each = clusters.iter().flat_map(|it| of_cluster(seen, it, namespace, name));
    let mut said: Vec<String> = each.collect();
    // While nobody knows the clusters, the hub leaves works where they are.
    let left = seen.works.keys().filter(|it| is_known && !clusters.contains(*it));
    said.extend(left.map(|it| {
        format!("Cluster {it} is not chosen any more and has ManifestWork {work} still: `drover why manifestwork/{it}/{work}` says why.")
    }));
    let is_deployed = |it: &&String| seen.results.get(*it).is_some_and(|it| it == "deployed");
    let deployed = clusters.iter().filter(is_deployed).count();
    if !clusters.is_empty() {
        said.push(format!(
            "{deployed} of {} clusters say that all of it is deployed.",
            clusters.len()
        ));
    }
    said
}

/// Nothing when the cluster has its work and says that all is deployed.
fn of_cluster(seen: &Seen, cluster: &str, namespace: &str, name: &str) -> Vec<String> {
    let mut said = Vec::new();
    let work = work_name(namespace, name);
    let asked = format!("`drover why manifestwork/{cluster}/{work}` says why");
    let mut is_applied = false;
    match seen.works.get(cluster) {
        None => said.push(format!(
            "Cluster {cluster} has no ManifestWork {work}: the hub has not brought it there."
        )),
        Some(it) => {
            let conditions = it.status.as_ref().map_or(&[][..], |it| &it.conditions);
            is_applied = condition::is_true(conditions, manifest_work::APPLIED);
            if !is_applied {
                said.push(format!(
                    "Cluster {cluster} has not applied ManifestWork {work}: {asked}."
                ));
            } else if !condition::is_true(conditions, manifest_work::AVAILABLE) {
                said.push(format!(
                    "Cluster {cluster} has applied ManifestWork {work}, but it is not Available: {asked}."
                ));
            }
        }
    }
    // An add-on that is missing matters also where the work has not arrived: both have to be there.
    let served = seen.served.get(cluster);
    match served {
        None => said.push(format!(
            "Cluster {cluster} has no add-on {ADD_ON}: `drover addon enable --names {ADD_ON} --clusters {cluster}`."
        )),
        Some(false) => said.push(format!(
            "Add-on {ADD_ON} is not available on cluster {cluster}: `drover why addon/{cluster}/{ADD_ON}` says why."
        )),
        Some(true) => {}
    }
    match seen.results.get(cluster).map(String::as_str) {
        Some("deployed") => {}
        Some("failed") => said.push(format!(
            "Cluster {cluster} says that something of it failed: `kubectl get appsub,appsubstatus -n {namespace} {name} -o yaml` on the cluster says what."
        )),
        Some("propagationFailed") => said.push(format!(
            "It could not be brought to cluster {cluster}: the report of the cluster says propagationFailed."
        )),
        Some(other) => said.push(format!("Cluster {cluster} says {other}.")),
        None if is_applied && served == Some(&true) => {
            said.push(format!("Cluster {cluster} has not reported on it yet."));
        }
        // What is missing has been told, and nothing can be reported without it.
        None => {}
    }
    said
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seen(metadata: Value, spec: Value, status: Value, choice: Choice) -> Seen {
        let subscription = json!({"metadata": metadata, "spec": spec, "status": status});
        Seen {
            subscription: serde_json::from_value(subscription).unwrap(),
            channels: BTreeMap::new(),
            choice,
            works: BTreeMap::new(),
            results: BTreeMap::new(),
            served: BTreeMap::new(),
        }
    }

    /// At a commit of a repository, with its clusters chosen.
    fn propagated(clusters: &[&str]) -> Seen {
        let metadata = json!({"annotations": {annotations::GIT_CURRENT_COMMIT: "4f2a"}});
        let status = json!({"phase": "Propagated", "message": "Active"});
        let choice = Choice::Decided {
            kind: "Placement",
            name: "all".to_owned(),
            clusters: clusters.iter().map(|it| (*it).to_owned()).collect(),
        };
        let mut seen = seen(metadata, json!({"channel": "ch/shop"}), status, choice);
        let channel = json!({"metadata": {}, "spec": {"type": "Git", "pathname": "https://git.example/shop.git"}});
        seen.channels
            .insert("ch/shop".to_owned(), serde_json::from_value(channel).unwrap());
        seen
    }

    fn work(applied: &str, available: &str) -> ManifestWork {
        let condition = |kind: &str, status: &str| {
            let since = "2026-01-01T00:00:00Z";
            json!({"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": since})
        };
        let conditions = [condition("Applied", applied), condition("Available", available)];
        let work = json!({"metadata": {}, "spec": {}, "status": {"conditions": conditions}});
        serde_json::from_value(work).unwrap()
    }

    #[test]
    fn one_that_is_deployed_says_channel_commit_and_clusters() {
        let mut seen = propagated(&["c1"]);
        seen.works.insert("c1".to_owned(), work("True", "True"));
        seen.results.insert("c1".to_owned(), "deployed".to_owned());
        seen.served.insert("c1".to_owned(), true);
        assert_eq!(
            waits_for(&seen, "ns", "s"),
            [
                "Channel ch/shop is of type Git: https://git.example/shop.git",
                "It is at commit 4f2a.",
                "Placement all has chosen 1 cluster.",
                "1 of 1 clusters say that all of it is deployed.",
            ]
        );
    }

    #[test]
    fn each_cluster_says_what_it_waits_for() {
        let mut seen = propagated(&["c1", "c2", "c3", "c4", "c5"]);
        seen.served = ["c1", "c3", "c4", "c5"].map(|it| (it.to_owned(), it != "c3")).into();
        seen.works = [
            ("c1", work("True", "True")),
            ("c2", work("True", "True")),
            ("c3", work("False", "False")),
            ("c4", work("True", "False")),
            ("c6", work("True", "True")),
        ]
        .map(|(cluster, work)| (cluster.to_owned(), work))
        .into();
        seen.results = [("c4", "failed"), ("c5", "propagationFailed")]
            .map(|(cluster, result)| (cluster.to_owned(), result.to_owned()))
            .into();
        assert_eq!(
            waits_for(&seen, "ns", "s")[3..],
            [
                "Cluster c1 has not reported on it yet.",
                "Cluster c2 has no add-on application-manager: `drover addon enable --names application-manager --clusters c2`.",
                "Cluster c3 has not applied ManifestWork ns-s: `drover why manifestwork/c3/ns-s` says why.",
                "Add-on application-manager is not available on cluster c3: `drover why addon/c3/application-manager` says why.",
                "Cluster c4 has applied ManifestWork ns-s, but it is not Available: `drover why manifestwork/c4/ns-s` says why.",
                "Cluster c4 says that something of it failed: `kubectl get appsub,appsubstatus -n ns s -o yaml` on the cluster says what.",
                "Cluster c5 has no ManifestWork ns-s: the hub has not brought it there.",
                "It could not be brought to cluster c5: the report of the cluster says propagationFailed.",
                "Cluster c6 is not chosen any more and has ManifestWork ns-s still: `drover why manifestwork/c6/ns-s` says why.",
                "0 of 5 clusters say that all of it is deployed.",
            ]
        );
    }

    #[test]
    fn what_is_missing_on_the_hub_is_told() {
        let choice = Choice::Missing {
            kind: "Placement",
            name: "all".to_owned(),
        };
        let reason = r#"channels.apps.open-cluster-management.io "shop" not found"#;
        let since = "2026-01-02T03:04:05Z";
        let status =
            json!({"phase": "PropagationFailed", "message": "Active", "reason": reason, "lastUpdateTime": since});
        let spec = json!({"channel": "ch/shop", "secondaryChannel": "other"});
        let mut seen = seen(json!({}), spec, status, choice);
        // While the choice is not known, the clusters that have it keep it.
        seen.works.insert("c1".to_owned(), work("True", "True"));
        assert_eq!(
            waits_for(&seen, "ns", "s"),
            [
                "Channel ch/shop is not there: `kubectl get channels -A` lists those there are.",
                r#"Secondary channel "other" names none: it has to be NAMESPACE/NAME."#,
                "Placement all is not in namespace ns.",
                r#"Its phase is PropagationFailed since 2026-01-02T03:04:05Z: channels.apps.open-cluster-management.io "shop" not found."#,
            ]
        );
    }

    #[test]
    fn a_pause_and_a_closed_window_are_told() {
        let choice = Choice::Undecided {
            kind: "PlacementRule",
            name: "r".to_owned(),
        };
        let metadata = json!({"labels": {"subscription-pause": "true"}});
        let mut seen = seen(
            metadata,
            json!({"channel": "ch/shop"}),
            json!({"message": "Blocked"}),
            choice,
        );
        seen.channels = propagated(&[]).channels;
        assert_eq!(
            waits_for(&seen, "ns", "s")[1..],
            [
                "The hub has not seen a commit of it yet.",
                "It is paused (label subscription-pause): clusters change nothing of it until it is `false`.",
                "PlacementRule r is not decided yet: `kubectl get placementrule r -n ns -o yaml` shows what it asks for.",
                "Nothing has been said of it: it waits for the controller on the hub of the add-on application-manager.",
                "Its time window is closed (spec.timewindow): clusters change nothing of it until it opens.",
            ]
        );
    }

    #[test]
    fn each_choice_of_clusters_has_its_sentence() {
        let named = Choice::Named {
            clusters: BTreeSet::new(),
            unknown: vec!["c9".to_owned()],
        };
        assert_eq!(
            of_choice(&named, "ns"),
            ["It names cluster c9, which this hub has not: `drover get clusters` lists those there are."]
        );
        let selected = Choice::Selected(["c1".to_owned(), "c2".to_owned()].into());
        assert_eq!(of_choice(&selected, "ns"), ["Its clusterSelector matches 2 clusters."]);
        let empty = Choice::Decided {
            kind: "Placement",
            name: "p".to_owned(),
            clusters: BTreeSet::new(),
        };
        assert_eq!(
            of_choice(&empty, "ns"),
            ["Placement p has chosen no cluster: `drover why placement/p -n ns` says why."]
        );
    }

    #[test]
    fn what_a_cluster_reports_itself_counts_first() {
        let report = |metadata: Value, results: Value| -> SubscriptionReport {
            let report = json!({"metadata": metadata, "reportType": "Cluster", "results": results});
            serde_json::from_value(report).unwrap()
        };
        let own = report(
            json!({"name": "s", "namespace": "ns"}),
            json!([{"source": "c1", "result": "failed"}, {"source": "c2", "result": "failed"}]),
        );
        let of_cluster = |namespace: &str| {
            let metadata = json!({"name": "c1", "namespace": namespace, "labels": {labels::CLUSTER: "true"}});
            report(
                metadata,
                json!([{"source": "ns/s", "result": "deployed"}, {"source": "ns/t", "result": "failed"}]),
            )
        };
        let told = results(Some(&own), &[of_cluster("c1")], "ns/s");
        assert_eq!(json!(told), json!({"c1": "deployed", "c2": "failed"}));
        assert!(results(None, &[of_cluster("elsewhere")], "ns/s").is_empty());
    }
}
