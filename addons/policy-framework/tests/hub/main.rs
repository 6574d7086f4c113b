//! The hub's half at an API server in memory, with the rights that its manifests give it. What clusters say is played
//! here.

mod automation;
mod ground;
mod hub_templates;
mod propagation;
