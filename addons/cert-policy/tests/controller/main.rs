//! The controller over a Kubernetes in memory.

mod certificates;
mod ground;
mod made;
mod rights;
