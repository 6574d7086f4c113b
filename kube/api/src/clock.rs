//! What time it is, where years are waited for: what is renewed in time can be tested without waiting.

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

type Wait = dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync;

/// Says what time it is, and waits. The default is this machine's clock.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    wait: Arc<Wait>,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(Timestamp::now, |time| Box::pin(tokio::time::sleep(time)))
    }
}

impl Clock {
    /// A clock that shows what `now` says, and on which a time is over when `wait` ends.
    pub fn new(
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        wait: impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            now: Arc::new(now),
            wait: Arc::new(wait),
        }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// Ends when the time is over.
    pub async fn wait(&self, time: Duration) {
        (self.wait)(time).await;
    }
}

/// A clock that stands still until it is turned: three years pass in a test as fast as it can compute.
#[derive(Clone)]
pub struct Turned {
    now: Arc<Mutex<Timestamp>>,
    over: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Turned {
    /// One that shows this time.
    pub fn at(now: Timestamp) -> Self {
        Self {
            now: Arc::new(Mutex::new(now)),
            over: Arc::new(Semaphore::new(0)),
            waiting: Arc::new(Semaphore::new(0)),
        }
    }

    /// The clock, for one that lives by it.
    pub fn clock(&self) -> Clock {
        let (shows, waits) = (self.clone(), self.clone());
        Clock::new(
            move || *shows.now.lock(),
            move |_| {
                let it = waits.clone();
                Box::pin(async move {
                    it.waiting.add_permits(1);
                    take(&it.over).await;
                })
            },
        )
    }

    /// Lets so much time pass; ends when who lives by the clock has done what it has to, and waits again.
    pub async fn turn(&self, time: SignedDuration) {
        take(&self.waiting).await;
        *self.now.lock() += time;
        self.over.add_permits(1);
        take(&self.waiting).await;
        self.waiting.add_permits(1);
    }
}

async fn take(permit: &Semaphore) {
    permit.acquire().await.expect("nobody closes it").forget();
}
