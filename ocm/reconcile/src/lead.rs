//! One of several processes works and the others wait: a Lease says which.
//!
//! The protocol is client-go's (`tools/leaderelection`), so ours and theirs may wait for each other: a leader writes
//! its name and the time into the Lease, over and over; whoever has seen the same words for as long as the Lease says
//! takes it. No two clocks are compared. We differ in three things: a Lease that is let go of is taken at once, because
//! it is watched; a leader that stops lets go of it; and one that could not renew in time writes nothing more
//! ([`Guard`]), whatever is under way.

use std::{pin::Pin, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ApiResource, ObjectMeta},
    runtime::watcher,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{Cache, Clients, Done, Guard, Plan, Site, Step, StepError, Target, execute::execute, plan};

/// What a leader that stops leaves its work to end in, before it lets go of the Lease.
const WORK_ENDS: Duration = Duration::from_secs(2);
/// How long letting go may take.
const LET_GO: Duration = Duration::from_secs(1);
/// How long after a failed write the Lease is tried again, if its period is not shorter.
const FAILED_AGAIN: Duration = Duration::from_secs(2);

/// For what, as whom and how fast.
#[derive(Clone)]
pub struct Election {
    /// The API server that has the Lease.
    pub client: Client,
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// Who we are: different for every process.
    pub identity: String,
    /// How long the others wait after a leader's last word.
    pub lease_duration: Duration,
    /// After how long without a word a leader stops.
    pub renew_deadline: Duration,
    /// How often a leader gives word, and the others look.
    pub retry_period: Duration,
}

/// Why an election cannot be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTimings {
    /// A leader would go on while another begins.
    #[error("leaseDuration must be greater than renewDeadline")]
    Deadline,
    /// One failed try would end a term.
    #[error("renewDeadline must be greater than retryPeriod*JitterFactor")]
    Period,
    /// Nobody could ever lead.
    #[error("leaseDuration must be greater than zero")]
    Zero,
}

/// Whether an election with these times can be held; client-go has the same rules and words.
pub fn check(lease_duration: Duration, renew_deadline: Duration, retry_period: Duration) -> Result<(), InvalidTimings> {
    if lease_duration < Duration::from_secs(1) {
        return Err(InvalidTimings::Zero);
    }
    if lease_duration <= renew_deadline {
        return Err(InvalidTimings::Deadline);
    }
    if renew_deadline <= retry_period.mul_f64(1.2) {
        return Err(InvalidTimings::Period);
    }
    Ok(())
}

/// What is done while leading: given the guard that stands before all writes, and when to end.
pub type Work = Arc<dyn Fn(Guard, CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

impl Election {
    /// Does the work whenever this process leads, until `stop`. `tell` hears of each beginning and end.
    pub async fn run(self, work: Work, tell: impl Fn(bool) + Send + Sync, stop: CancellationToken) {
        let watching = CancellationToken::new();
        let _ended = watching.clone().drop_guard();
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        let only = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let cache = Cache::start_with(api.clone(), only, watching);
        let mut running = Running {
            election: self,
            api,
            cache,
            seen: None,
        };
        while let Some(term) = running.win(&stop).await {
            info!(lease = %running.election.name, "leads");
            tell(true);
            running.serve(term, &work, &stop).await;
            tell(false);
            info!(lease = %running.election.name, "leads no longer");
        }
    }
}

/// The Lease's words, and since when they have been these.
struct Seen {
    spec: LeaseSpec,
    since: Instant,
}

/// What to do about the Lease.
#[derive(Debug, PartialEq)]
enum Act {
    /// Write this.
    Write(LeaseSpec),
    /// Another leads, for so long at least.
    Wait(Duration),
}

/// What to do, by what the Lease says and since when.
fn decide(me: &str, seen: Option<&Seen>, lease_duration: Duration, now: Instant, clock: Timestamp) -> Act {
    let time = Some(MicroTime(clock));
    let wanted = |acquired, transitions| {
        Act::Write(LeaseSpec {
            holder_identity: Some(me.to_owned()),
            lease_duration_seconds: Some(i32::try_from(lease_duration.as_secs()).unwrap_or(i32::MAX)),
            acquire_time: acquired,
            renew_time: time.clone(),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        })
    };
    let Some(Seen { spec, since }) = seen else {
        return wanted(time.clone(), 0);
    };
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let transitions = spec.lease_transitions.unwrap_or_default();
    if holder == me {
        return wanted(spec.acquire_time.clone().or(time.clone()), transitions);
    }
    let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
    let left = (*since + Duration::from_secs(seconds)).saturating_duration_since(now);
    if holder.is_empty() || left.is_zero() {
        return wanted(time.clone(), transitions.saturating_add(1));
    }
    Act::Wait(left)
}

/// What a leader writes that lets go.
fn released(spec: &LeaseSpec, clock: Timestamp) -> LeaseSpec {
    LeaseSpec {
        // An empty name is refused by the API server.
        holder_identity: None,
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(clock)),
        renew_time: Some(MicroTime(clock)),
        ..spec.clone()
    }
}

struct Running {
    election: Election,
    api: Api<Lease>,
    cache: Cache<Lease>,
    seen: Option<Seen>,
}

/// What came of a look at the Lease.
enum Turn {
    /// It is ours from this moment on.
    Ours(Instant),
    /// It is another's.
    Theirs(Duration),
}

impl Running {
    /// Waits until the Lease is ours; returns since when. `None` when told to stop.
    async fn win(&mut self, stop: &CancellationToken) -> Option<Instant> {
        let mut changes = self.cache.changes();
        let mut said = None;
        loop {
            changes.borrow_and_update();
            let pause = tokio::select! {
                () = stop.cancelled() => return None,
                turn = self.turn() => match turn {
                    Ok(Turn::Ours(since)) => return Some(since),
                    Ok(Turn::Theirs(left)) => {
                        let holder = self.seen.as_ref().and_then(|it| it.spec.holder_identity.clone());
                        if said != holder {
                            info!(lease = %self.election.name, holder = holder.as_deref().unwrap_or_default(), "another leads");
                            said = holder;
                        }
                        left.min(self.election.retry_period)
                    }
                    Err(error) if error.is_conflict() => Duration::ZERO,
                    Err(error) => {
                        warn!(lease = %self.election.name, namespace = %self.election.namespace, %error, "could not read or write the Lease");
                        FAILED_AGAIN.min(self.election.retry_period)
                    }
                },
            };
            tokio::select! {
                () = stop.cancelled() => return None,
                // What is not watched is looked at all the same, as often as upstream does.
                _ = changes.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Works until told to stop, or until the Lease is lost.
    async fn serve(&mut self, since: Instant, work: &Work, stop: &CancellationToken) {
        let guard = Guard::until(since + self.election.renew_deadline);
        let end = CancellationToken::new();
        let _ended = end.clone().drop_guard();
        let mut task = tokio::spawn(work(guard.clone(), end.clone()));
        let kept = tokio::select! {
            () = stop.cancelled() => true,
            // The work has ended by itself, and there is nothing left to lead.
            _ = &mut task => true,
            () = self.renew(since, &guard) => false,
        };
        end.cancel();
        if kept {
            // A task that crashed has ended too, and has said so.
            let _ = tokio::time::timeout(WORK_ENDS, async {
                if !task.is_finished() {
                    let _ = (&mut task).await;
                }
            })
            .await;
            guard.close();
            self.release().await;
        } else {
            guard.close();
            if !task.is_finished() {
                let _ = task.await;
            }
        }
    }

    /// Renews, over and over; ends when the Lease is another's, or could not be renewed in time.
    async fn renew(&mut self, since: Instant, guard: &Guard) {
        let mut deadline = since + self.election.renew_deadline;
        let mut changes = self.cache.changes();
        let mut next = since + self.election.retry_period;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = self.taken(&mut changes) => {}
            }
            let turn = tokio::time::timeout_at(deadline, self.turn()).await;
            match turn {
                Ok(Ok(Turn::Ours(since))) => {
                    deadline = since + self.election.renew_deadline;
                    guard.extend(deadline);
                    next = since + self.election.retry_period;
                }
                Ok(Ok(Turn::Theirs(_))) => {
                    warn!(lease = %self.election.name, "another has taken the Lease");
                    return;
                }
                Ok(Err(error)) => {
                    debug!(lease = %self.election.name, %error, "could not renew the Lease");
                    next = Instant::now() + FAILED_AGAIN.min(self.election.retry_period);
                }
                Err(_) => {}
            }
            if Instant::now() >= deadline {
                warn!(lease = %self.election.name, "could not renew the Lease in time");
                return;
            }
        }
    }

    /// Ends when the watch shows the Lease with another holder.
    async fn taken(&self, changes: &mut tokio::sync::watch::Receiver<u64>) {
        loop {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
            let lease = self.cache.get(&self.election.namespace, &self.election.name);
            let holder = lease
                .as_ref()
                .and_then(|it| it.spec.as_ref()?.holder_identity.as_deref());
            if holder.is_some_and(|it| it != self.election.identity) {
                return;
            }
        }
    }

    /// Looks at the Lease, and takes or renews it where that is right.
    async fn turn(&mut self) -> Result<Turn, StepError> {
        let lease = self.api.get_opt(&self.election.name).await?;
        let now = Instant::now();
        let spec = lease.as_ref().map(|it| it.spec.clone().unwrap_or_default());
        self.seen = match (spec, self.seen.take()) {
            (None, _) => None,
            (Some(spec), Some(seen)) if seen.spec == spec => Some(seen),
            (Some(spec), _) => Some(Seen { spec, since: now }),
        };
        let Election {
            identity,
            lease_duration,
            ..
        } = &self.election;
        match decide(identity, self.seen.as_ref(), *lease_duration, now, Timestamp::now()) {
            Act::Wait(left) => Ok(Turn::Theirs(left)),
            Act::Write(spec) => {
                self.write(lease, spec).await?;
                Ok(Turn::Ours(now))
            }
        }
    }

    async fn write(&mut self, lease: Option<Lease>, spec: LeaseSpec) -> Result<(), StepError> {
        let mut plan = Plan::new();
        let id = match lease {
            Some(lease) => {
                let lease = Lease {
                    spec: Some(spec.clone()),
                    ..lease
                };
                plan.push(Step::Replace {
                    target: Target::of(Site::Hub, &lease),
                    subresource: None,
                    object: plan::typed(&lease, &ApiResource::erase::<Lease>(&())),
                })
            }
            None => plan.create(
                Site::Hub,
                &Lease {
                    metadata: ObjectMeta {
                        namespace: Some(self.election.namespace.clone()),
                        name: Some(self.election.name.clone()),
                        ..ObjectMeta::default()
                    },
                    spec: Some(spec.clone()),
                },
            ),
        };
        let mut outcome = execute(&Clients::hub(self.election.client.clone()), &plan).await;
        match outcome.stages.swap_remove(id.stage).swap_remove(id.step) {
            Ok(Done::AlreadyExists) => Err(StepError::Kube(kube::Error::Api(Box::new(
                kube::core::Status::failure("the Lease was made by another", "AlreadyExists").with_code(409),
            )))),
            Ok(_) => {
                let since = Instant::now();
                self.seen = Some(Seen { spec, since });
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Lets go of the Lease, so that another takes it at once. What does not succeed is done by time.
    async fn release(&mut self) {
        let released = async {
            let lease = self.api.get_opt(&self.election.name).await?;
            let Some(spec) = lease.as_ref().and_then(|it| it.spec.clone()) else {
                return Ok(());
            };
            if spec.holder_identity.as_deref() != Some(&self.election.identity) {
                return Ok(());
            }
            self.write(lease, released(&spec, Timestamp::now())).await
        };
        match tokio::time::timeout(LET_GO, released).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "could not let go of the Lease"),
            Err(_) => warn!("could not let go of the Lease: no answer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    fn seen(holder: &str, ago: u64) -> Option<Seen> {
        let spec = LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(60),
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        };
        let since = Instant::now() - Duration::from_secs(ago);
        Some(Seen { spec, since })
    }

    fn decided(seen: Option<&Seen>) -> String {
        match decide("me", seen, LEASE, Instant::now(), Timestamp::UNIX_EPOCH) {
            Act::Wait(left) => format!("wait {}", left.as_secs_f64().round()),
            Act::Write(spec) => format!(
                "{} for {} after {}",
                spec.holder_identity.unwrap_or_default(),
                spec.lease_duration_seconds.unwrap_or_default(),
                spec.lease_transitions.unwrap_or_default()
            ),
        }
    }

    #[tokio::test]
    async fn a_lease_is_acquired_when_free_or_its_holder_expired() {
        assert_eq!(decided(None), "me for 60 after 0");
        assert_eq!(decided(seen("me", 0).as_ref()), "me for 60 after 3");
        assert_eq!(decided(seen("you", 50).as_ref()), "wait 10");
        assert_eq!(decided(seen("you", 61).as_ref()), "me for 60 after 4");
        assert_eq!(decided(seen("", 0).as_ref()), "me for 60 after 4");
    }
}
