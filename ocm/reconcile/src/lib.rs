//! The machine every reconciler runs on: observe, plan, execute, conclude.
//!
//! The two steps that decide, [`Reconciler::plan`] and [`Reconciler::conclude`], are plain functions on plain data and return a
//! [`Plan`]: a value that can be printed and compared. The two steps that touch the world, [`Reconciler::observe`] and
//! [`execute`], make no choices. [`run`] joins them behind a work queue, and [`Cache`] feeds both the queue and `observe`.

pub mod access;
pub mod approve;
pub mod awaited;
pub mod cache;
pub mod difference;
pub mod execute;
pub mod guard;
pub mod install;
pub mod lead;
pub mod metrics;
pub mod plan;
pub mod queue;
pub mod rbac;
pub mod run;
pub mod segment;
pub mod settle;

pub use cache::Cache;
pub use execute::{Clients, Done, Outcome, StepError, execute};
pub use guard::Guard;
pub use plan::{EventKind, EventStep, Note, Plan, Propagation, Site, Step, StepId, Target};
pub use queue::Queue;
pub use run::{ObserveError, Reconciler, Running, run, spawn, spawn_when};

/// Re-exported so that implementors of [`Reconciler`] need no own dependency for one attribute.
pub use async_trait::async_trait;
