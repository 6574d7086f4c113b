//! One client cannot take the server from the others: not by asking for much, not by reading slowly, not by never
//! finishing. And a server that stops lets everybody finish.

mod bounds;
mod client;
mod extremes;
mod fairness;
mod revoked;
mod shutdown;
mod watchers;
