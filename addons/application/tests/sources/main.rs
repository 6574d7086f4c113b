//! From a Channel and a Subscription to objects on a cluster, with what really reads sources, and servers of sources on
//! this machine.

mod buckets;
mod charts;
mod ground;
mod looks;
mod repositories;
