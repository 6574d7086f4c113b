//! One agent process: joins a cluster to a hub, and carries out the hub's works on it.

pub mod connection;
