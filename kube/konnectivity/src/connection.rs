//! One connection on a stream that it shares with others: what waits for its consumer, and what it may send.
//!
//! konnectivity has no window for each connection, so that one consumer that does not read stops all others. Two peers
//! of ours agree on a window: each says in the header [`WINDOW_HEADER`] how many bytes it takes of a connection before
//! it grants more ([`Credit`](crate::packet::Credit)). A peer of upstream's ignores the header; a connection of which
//! more waits than the window is closed then, and the others go on.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};

/// How many bytes of a connection wait at most, in each direction.
pub const WINDOW: usize = 4 << 20;
/// Says the window of who sends it.
pub const WINDOW_HEADER: &str = "drover-window";

/// What has come for a connection.
#[derive(Debug)]
pub enum Arrived {
    /// Bytes.
    ConnectionData(Bytes),
    /// The end, and why if something went wrong.
    Closed(String),
}

/// The end that takes what comes from the shared stream.
#[derive(Clone)]
pub struct Inlet {
    items: mpsc::UnboundedSender<Arrived>,
    waiting: Arc<AtomicUsize>,
    /// What may be sent the other way; `None` where no window was agreed upon.
    credit: Option<Arc<Semaphore>>,
}

/// The end that hands it on.
pub struct Outlet {
    items: mpsc::UnboundedReceiver<Arrived>,
    waiting: Arc<AtomicUsize>,
    credit: Option<Arc<Semaphore>>,
    /// Handed on and not granted yet.
    owed: usize,
}

/// Too much waits for the consumer.
#[derive(Debug, PartialEq, Eq)]
pub struct Overflow;

/// A connection whose peer takes `window` bytes, if it has said so.
pub fn connection(window: Option<usize>) -> (Inlet, Outlet) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let credit = window.map(|it| Arc::new(Semaphore::new(it.min(Semaphore::MAX_PERMITS))));
    let inlet = Inlet {
        items: sender,
        waiting: waiting.clone(),
        credit: credit.clone(),
    };
    let outlet = Outlet {
        items: receiver,
        waiting,
        credit,
        owed: 0,
    };
    (inlet, outlet)
}

impl Inlet {
    /// Takes bytes.
    ///
    /// # Errors
    /// When more than the window would wait.
    pub fn take(&self, data: Bytes) -> Result<(), Overflow> {
        let before = self.waiting.fetch_add(data.len(), Ordering::AcqRel);
        // One packet more than the window: a sender that has credit left sends a whole one.
        if before > WINDOW {
            return Err(Overflow);
        }
        // Nobody hears it any more: the connection is being closed.
        let _ = self.items.send(Arrived::ConnectionData(data));
        Ok(())
    }

    /// Takes the end.
    pub fn close(&self, why: impl Into<String>) {
        let _ = self.items.send(Arrived::Closed(why.into()));
    }

    /// The peer takes so many bytes more.
    pub fn grant(&self, bytes: usize) {
        if let Some(credit) = &self.credit {
            let room = Semaphore::MAX_PERMITS - credit.available_permits();
            credit.add_permits(bytes.min(room));
        }
    }
}

impl Outlet {
    /// The next of what has come; `None` when the shared stream has ended.
    pub async fn next(&mut self) -> Option<Arrived> {
        self.items.recv().await
    }

    /// Counts what was handed on; the answer is what is to be granted to the peer now.
    pub fn handed_on(&mut self, bytes: usize) -> Option<usize> {
        self.waiting.fetch_sub(bytes, Ordering::AcqRel);
        self.credit.as_ref()?;
        self.owed += bytes;
        // Not for each packet: a quarter of the window at a time.
        (self.owed >= WINDOW / 4).then(|| std::mem::take(&mut self.owed))
    }

    /// What sends the other way.
    pub fn credit(&self) -> SendCredit {
        SendCredit(self.credit.clone())
    }
}

/// What may be sent on a connection.
#[derive(Clone)]
pub struct SendCredit(Option<Arc<Semaphore>>);

impl SendCredit {
    /// Waits until the peer takes so many bytes.
    pub async fn spend(&self, bytes: usize) {
        let Some(credit) = &self.0 else { return };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Ok(permit) = credit.acquire_many(bytes).await {
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sender_waits_for_credit() {
        let (inlet, outlet) = connection(Some(10));
        let credit = outlet.credit();
        credit.spend(10).await;
        let more = tokio::spawn(async move { credit.spend(5).await });
        tokio::task::yield_now().await;
        assert!(!more.is_finished());
        inlet.grant(5);
        more.await.unwrap();
    }

    #[tokio::test]
    async fn who_does_not_read_overflows_alone() {
        let (inlet, mut outlet) = connection(None);
        let big = Bytes::from(vec![0; WINDOW]);
        assert_eq!(inlet.take(big.clone()), Ok(()));
        assert_eq!(inlet.take(Bytes::from_static(b"x")), Ok(()));
        assert_eq!(inlet.take(big), Err(Overflow));
        assert!(matches!(outlet.next().await, Some(Arrived::ConnectionData(it)) if it.len() == WINDOW));
    }
}
