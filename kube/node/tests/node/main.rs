//! A node with real processes on an embedded API.

mod budgets;
mod pods;
mod reach;
mod workloads;
mod world;
