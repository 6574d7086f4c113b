//! A reconciler that is ready to start, as one of a list: what it is called, what it watches, what it may and what it
//! writes can be read before it runs.

use std::sync::Arc;

use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    Clients, Queue, Reconciler, Running, awaited,
    rbac::Right,
    run::run,
    status::StatusField,
    watches::{Watch, WatchedKind, Watches},
};

/// One entry of the list of what a process runs.
pub struct Controller {
    /// [`Reconciler::NAME`]: in logs, spans and metrics.
    pub name: &'static str,
    /// Where its source is, as a path of Rust modules.
    pub module: &'static str,
    /// What it watches, in the order in which it says so.
    pub watches: Vec<WatchedKind>,
    /// [`Reconciler::STATUS`].
    pub status: &'static [StatusField],
    /// [`Reconciler::RIGHTS`].
    pub rights: &'static [Right],
    queue: Queue,
    workers: usize,
    start: Box<dyn FnOnce(Queue, usize, Clients, CancellationToken) -> Running + Send>,
}

impl Controller {
    /// Of a reconciler, with a queue of its own.
    pub fn new<R: Reconciler>(reconciler: R) -> Self {
        Self::with_queue(reconciler, Queue::awaiting())
    }

    /// The same with a queue that others add keys to, too: an [awaiting](Queue::awaiting) one, if it is to count as
    /// busy until what the reconciler reads has arrived.
    pub fn with_queue<R: Reconciler>(reconciler: R, queue: Queue) -> Self {
        let mut watches = Watches::default();
        reconciler.watches(&mut watches);
        let watched = watches.all.iter().map(|it| it.kind.clone()).collect();
        let reconciler = Arc::new(reconciler);
        Self {
            name: R::NAME,
            module: std::any::type_name::<R>(),
            watches: watched,
            status: R::STATUS,
            rights: R::RIGHTS,
            queue,
            workers: R::WORKERS,
            start: Box::new(move |queue, workers, clients, cancel| {
                begin(reconciler, watches, queue, workers, clients, cancel)
            }),
        }
    }

    /// How many keys it works on at a time, where not [`Reconciler::WORKERS`]: an administrator may choose.
    /// At least one.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Its queue.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Runs it in a task of its own, from when everything that it watches has arrived until `cancel`.
    pub fn start(self, clients: Clients, cancel: CancellationToken) -> Running {
        (self.start)(self.queue, self.workers, clients, cancel)
    }

    /// [`start`](Self::start) with a client of the hub alone.
    pub fn start_on_hub(self, client: Client, cancel: CancellationToken) -> Running {
        self.start(Clients::hub(client), cancel)
    }
}

fn begin<R: Reconciler>(
    reconciler: Arc<R>,
    watches: Watches,
    queue: Queue,
    workers: usize,
    clients: Clients,
    cancel: CancellationToken,
) -> Running {
    let own = queue.clone();
    let running = async move {
        let (mut needs, mut subscriptions) = (Vec::new(), Vec::new());
        for Watch { need, subscribe, .. } in watches.all {
            needs.extend(need);
            subscriptions.extend(subscribe);
        }
        tokio::select! {
            () = cancel.cancelled() => own.begin(),
            () = awaited::arrived(R::NAME, needs) => {
                for subscribe in subscriptions {
                    subscribe(&own);
                }
                own.begin();
                run(reconciler, clients, own, workers, cancel.clone()).await;
            }
        }
    };
    // Its lines in the log say what the caller's do, such as the cluster.
    let finished = tokio::spawn(running.in_current_span());
    Running { queue, finished }
}

/// Starts all of a list, each with the same clients.
pub fn start_all(controllers: Vec<Controller>, clients: &Clients, cancel: &CancellationToken) -> Vec<Running> {
    let start = |it: Controller| it.start(clients.clone(), cancel.clone());
    controllers.into_iter().map(start).collect()
}
