//! HelmReleases on a cluster, against the embedded API: what comes, changes, fails and goes.

mod failures;
mod ground;
mod lifecycle;
mod programs;
