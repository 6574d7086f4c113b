//! A node with real processes on an embedded API.

mod budgets;
mod pods;
mod workloads;
mod world;
