//! Evaluations of OperatorPolicies over a cluster in memory.

mod installed;
mod made;
mod removed;
mod world;
mod wrong;
