//! The operator of hubs on an embedded API: Deployments are said to run by the test, in the place of a kubelet.

mod certificates;
mod ground;
mod install;
mod removal;
mod upgrade;
