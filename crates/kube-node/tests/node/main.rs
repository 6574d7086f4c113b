//! A node with real processes on an embedded API.

mod pods;
mod workloads;
mod world;
