//! The cluster's half between a hub and a cluster in memory. What sources hold is played here.

mod deployment;
mod ground;
mod pace;
mod rules;
