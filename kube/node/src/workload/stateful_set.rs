//! StatefulSets: pods with names that stay, one after the other.
//!
//! root: StatefulSet; reads: its pods; writes: pods, claims, its status; never: another owner's pods. Upstream keeps
//! its templates as ControllerRevisions, to go back to one; here the label `controller-revision-hash` tells them apart.

use super::{Again, Error, Workloads, deployment::hash, pods};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{StatefulSet, StatefulSetStatus},
    core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume},
};
use kube::api::PostParams;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const COMPONENT: &str = "statefulset-controller";
const REVISION: &str = "controller-revision-hash";
const REFUSED_RETRY: Duration = Duration::from_secs(5);

fn name_of(set: &StatefulSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}

/// The number at the end of a pod's name.
fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let name = pod.metadata.name.as_deref()?;
    name.strip_prefix(name_of(set))?.strip_prefix('-')?.parse().ok()
}

fn revision(pod: &Pod) -> &str {
    let labels = pod.metadata.labels.as_ref();
    labels.and_then(|it| it.get(REVISION)).map_or("", String::as_str)
}

fn pod_for(set: &StatefulSet, number: i32, revision: &str) -> Pod {
    let name = format!("{}-{number}", name_of(set));
    let mut pod = pods::from_template(
        &set.spec.template,
        pods::owned_by(set),
        set.metadata.namespace.as_deref(),
    );
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(name.clone());
    let labels = pod.metadata.labels.get_or_insert_default();
    for (key, value) in [
        (REVISION, revision),
        ("statefulset.kubernetes.io/pod-name", &name),
        ("apps.kubernetes.io/pod-index", &number.to_string()),
    ] {
        labels.insert(key.into(), value.into());
    }
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name.clone());
    spec.subdomain = set.spec.service_name.clone().filter(|it| !it.is_empty());
    let volumes = spec.volumes.get_or_insert_default();
    for template in set.spec.volume_claim_templates.iter().flatten() {
        let volume = template.metadata.name.clone().unwrap_or_default();
        volumes.retain(|it| it.name != volume);
        volumes.push(Volume {
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: format!("{volume}-{name}"),
                read_only: None,
            }),
            name: volume,
            ..Volume::default()
        });
    }
    pod
}

/// What the next step is. There is one at a time, but with the policy Parallel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Step {
    /// At most as many as one pass makes.
    create: Vec<i32>,
    delete: Vec<i32>,
}

impl Step {
    /// When the next step is due without any event: at once, while this one was as long as a step may be.
    fn again(&self) -> Again {
        (self.create.len() == pods::AT_ONCE_MAX).then_some(Duration::ZERO)
    }
}

/// One pod as far as the order is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    ready: bool,
    /// On its way out; its name is taken until it is gone.
    leaving: bool,
    /// It has ended and will not run again.
    over: bool,
    current: bool,
}

fn step(members: &BTreeMap<i32, Member>, first: i32, replicas: i32, parallel: bool, partition: Option<i32>) -> Step {
    let mut step = Step::default();
    let wanted = first..first.saturating_add(replicas);
    let is_done = |step: &Step| {
        if parallel {
            step.create.len() == pods::AT_ONCE_MAX
        } else {
            *step != Step::default()
        }
    };
    for number in wanted.clone() {
        match members.get(&number) {
            None => step.create.push(number),
            Some(it) if it.over && !it.leaving => step.delete.push(number),
            Some(it) if it.ready && !it.leaving => {}
            Some(_) if parallel => {}
            // The next one waits for this one.
            Some(_) => return step,
        }
        if is_done(&step) {
            return step;
        }
    }
    for (number, member) in members.iter().rev().filter(|(it, _)| !wanted.contains(it)) {
        if !member.leaving {
            step.delete.push(*number);
        }
        if !parallel {
            return step;
        }
    }
    // An update goes from the last to the first, and waits for each to be ready again.
    let Some(partition) = partition.filter(|_| step == Step::default()) else {
        return step;
    };
    for (number, member) in members.iter().rev().filter(|(it, _)| wanted.contains(it)) {
        if number.saturating_sub(first) < partition {
            return step;
        }
        if !member.current && !member.leaving {
            step.delete.push(*number);
            return step;
        }
        if !member.ready {
            return step;
        }
    }
    step
}

impl Workloads {
    pub(super) async fn stateful_set(&self, set: &Arc<StatefulSet>) -> Result<Again, Error> {
        let spec = &set.spec;
        let now = Timestamp::now();
        let update = format!("{}-{}", name_of(set), hash(&spec.template, 0));
        let claimed = self.claim(&**set, &spec.selector).await?;
        let min_ready = spec.min_ready_seconds.unwrap_or_default();
        let mut by_number: BTreeMap<i32, Arc<Pod>> = BTreeMap::new();
        by_number.extend(claimed.into_iter().filter_map(|it| Some((ordinal(set, &it)?, it))));
        let member = |pod: &Arc<Pod>| Member {
            ready: pods::count([pod], min_ready, now).available == 1,
            leaving: pod.metadata.deletion_timestamp.is_some(),
            over: matches!(pods::phase(pod), "Succeeded" | "Failed"),
            current: revision(pod) == update,
        };
        let members: BTreeMap<i32, Member> = by_number.iter().map(|(number, it)| (*number, member(it))).collect();
        let first = spec.ordinals.as_ref().and_then(|it| it.start).unwrap_or_default();
        let replicas = spec.replicas.unwrap_or(1);
        let parallel = spec.pod_management_policy.as_deref() == Some("Parallel");
        let strategy = spec.update_strategy.as_ref();
        let on_delete = strategy.and_then(|it| it.type_.as_deref()) == Some("OnDelete");
        let partition = strategy
            .and_then(|it| it.rolling_update.as_ref()?.partition)
            .unwrap_or_default();
        let (mut refused, mut again) = (None, None);
        if set.metadata.deletion_timestamp.is_none() {
            let step = step(&members, first, replicas, parallel, (!on_delete).then_some(partition));
            let before = set.status.as_ref().and_then(|it| it.current_revision.clone());
            let of = |number: &i32| match &before {
                // Below the partition a pod comes back as it was; without its old template,
                // that is the new one's name only.
                Some(before) if number.saturating_sub(first) < partition => before.clone(),
                _ => update.clone(),
            };
            let made = step
                .create
                .iter()
                .map(|it| pod_for(set, *it, &of(it)))
                .collect::<Vec<_>>();
            match self.make_members(set, made).await {
                Ok(made) => {
                    again = step.again();
                    by_number.extend(
                        made.into_iter()
                            .filter_map(|it| Some((ordinal(set, &it)?, Arc::new(it)))),
                    );
                }
                Err(error) => refused = Some(error),
            }
            let gone: Vec<_> = step.delete.iter().filter_map(|it| by_number.remove(it)).collect();
            self.delete_pods(&**set, COMPONENT, &gone).await?;
        }
        let live: Vec<&Arc<Pod>> = by_number.values().filter(|it| pods::is_active(it)).collect();
        let counts = pods::count(live.iter().copied(), min_ready, now);
        let with =
            |name: &str| i32::try_from(live.iter().filter(|it| revision(it) == name).count()).unwrap_or(i32::MAX);
        let updated = with(&update);
        let before = set.status.clone().unwrap_or_default();
        let complete = updated == replicas && counts.ready == replicas && counts.all == replicas;
        let current = match before.current_revision.clone() {
            Some(it) if !complete => it,
            _ => update.clone(),
        };
        let nonzero = |it: i32| (it != 0).then_some(it);
        let status = StatefulSetStatus {
            replicas: counts.all,
            ready_replicas: nonzero(counts.ready),
            available_replicas: Some(counts.available),
            current_replicas: nonzero(with(&current)),
            updated_replicas: nonzero(updated),
            current_revision: Some(current),
            update_revision: Some(update),
            observed_generation: set.metadata.generation,
            collision_count: Some(before.collision_count.unwrap_or_default()),
            ..before
        };
        self.write_status(&self.stateful_sets, &**set, set.status.as_ref(), &status)
            .await?;
        let retry = refused.map(|_| REFUSED_RETRY);
        Ok(pods::sooner(pods::sooner(counts.next, retry), again))
    }

    async fn make_members(&self, set: &Arc<StatefulSet>, wanted: Vec<Pod>) -> Result<Vec<Pod>, Error> {
        let api = self.api::<PersistentVolumeClaim>(set.metadata.namespace.as_deref());
        for pod in &wanted {
            for template in set.spec.volume_claim_templates.iter().flatten() {
                let mut claim = template.clone();
                let volume = claim.metadata.name.take().unwrap_or_default();
                let pod = pod.metadata.name.as_deref().unwrap_or_default();
                claim.metadata.name = Some(format!("{volume}-{pod}"));
                claim.metadata.namespace = set.metadata.namespace.clone();
                claim.metadata.labels = set.spec.selector.match_labels.clone();
                claim.status = None;
                match api.create(&PostParams::default(), &claim).await {
                    Ok(_) => {}
                    // It outlives its pod, to be there for the next one of that name.
                    Err(Error::Api(status)) if status.code == 409 => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.create_pods(&**set, COMPONENT, wanted).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `r` ready, `w` not yet, `l` leaving, `x` over, `o` ready and of the old template.
    fn members(text: &str) -> BTreeMap<i32, Member> {
        let member = |it: char| Member {
            ready: matches!(it, 'r' | 'o'),
            leaving: it == 'l',
            over: it == 'x',
            current: it != 'o',
        };
        let all = text.chars().enumerate().filter(|(_, it)| *it != '-');
        all.map(|(number, it)| (i32::try_from(number).unwrap(), member(it)))
            .collect()
    }

    fn steps(text: &str, replicas: i32, parallel: bool) -> (Vec<i32>, Vec<i32>) {
        let step = step(&members(text), 0, replicas, parallel, Some(0));
        (step.create, step.delete)
    }

    #[test]
    fn pods_come_in_order_and_go_in_the_other_one() {
        let table = [
            ("", 3, (vec![0], vec![])),
            ("w", 3, (vec![], vec![])),
            ("r", 3, (vec![1], vec![])),
            ("r-r", 3, (vec![1], vec![])),
            ("rx", 3, (vec![], vec![1])),
            ("rl", 3, (vec![], vec![])),
            ("rrr", 1, (vec![], vec![2])),
            ("rrl", 1, (vec![], vec![])),
            ("rrr", 3, (vec![], vec![])),
            ("ooo", 3, (vec![], vec![2])),
            ("oor", 3, (vec![], vec![1])),
            ("oow", 3, (vec![], vec![])),
        ];
        for (text, replicas, want) in table {
            assert_eq!(steps(text, replicas, false), want, "{text}");
        }
    }

    #[test]
    fn in_parallel_they_do_not_wait_for_each_other() {
        assert_eq!(steps("w", 3, true), (vec![1, 2], vec![]));
        assert_eq!(steps("rwww", 1, true), (vec![], vec![3, 2, 1]));
    }

    #[test]
    fn a_parallel_step_creates_at_most_500_pods_and_repeats() {
        let mut there = BTreeMap::new();
        for (replicas, want, more) in [
            (i32::MAX, 0..500, true),
            (1200, 500..1000, true),
            (1200, 1000..1200, false),
        ] {
            let step = step(&there, 0, replicas, true, Some(0));
            assert!(step.create.iter().copied().eq(want), "{:?}", step.create);
            assert_eq!(step.again().is_some(), more);
            let member = members("r")[&0];
            there.extend(step.create.into_iter().map(|it| (it, member)));
        }
    }

    #[test]
    fn an_update_stops_at_the_partition() {
        let step = |partition| step(&members("ooo"), 0, 3, false, partition);
        assert_eq!(step(Some(3)).delete, [0; 0]);
        assert_eq!(step(Some(2)).delete, [2]);
        assert_eq!(step(None).delete, [0; 0]);
    }
}
