//! The hub's half at an API server in memory, with the rights of its manifests and no others. Sources are made
//! up, and what clusters say is played here.

mod channels;
mod deploy;
mod ground;
mod hooks;
mod placement_rules;
mod propagation;
mod reports;
mod unchanged;
mod webhook;
