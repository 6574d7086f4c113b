//! The cluster's half between a hub and a cluster in memory. Who carries out the objects of templates is played here.

mod gatekeeper;
mod ground;
mod policies;
mod reports;
mod rights;
mod templates;
