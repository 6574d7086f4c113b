//! The machine every reconciler runs on: observe, plan, execute, conclude.
//!
//! The two steps that decide, [`Reconciler::plan`] and [`Reconciler::conclude`],
//! are plain functions on plain data and return a
//! [`Plan`]: a value that can be printed and compared. The two steps that touch the world, [`Reconciler::observe`] and
//! [`execute`], make no choices.
//!
//! ```text
//! Caches --Watches--> Queue --key--> Reconciler: observe, plan --Plan--> execute --> API server
//!    |                                              ^                       |
//!    +------------------- read ---------------------+      conclude <-------+
//! ```
//!
//! A program makes [`Caches`], builds its list of [`Controller`]s over them, and starts them
//! ([`controller::start_all`]).

#![warn(missing_docs)]

pub mod access;
pub mod agreement;
pub mod approve;
pub mod awaited;
pub mod caches;
pub mod controller;
pub mod difference;
pub mod discovery;
pub mod dynamic;
pub mod execute;
pub mod guard;
pub mod index;
pub mod install;
pub mod lead;
pub mod metrics;
pub mod plan;
pub mod rbac;
pub mod run;
pub mod segment;
pub mod settle;
pub mod status;
pub mod watches;

pub use caches::Caches;
pub use controller::Controller;
pub use dynamic::DynamicWatches;
pub use execute::{Clients, Done, Outcome, StepError, execute};
pub use guard::Guard;
pub use index::Index;
pub use kube_primitives::{
    cache::{self, Cache},
    queue::{self, Queue},
};
pub use plan::{EventKind, EventStep, Note, OwnStep, Plan, Propagation, Site, Step, StepId, Target};
pub use run::{ObserveError, Reconciler, Running};
pub use status::StatusField;
pub use watches::Watches;

/// Re-exported so that implementors of [`Reconciler`] need no own dependency for one attribute.
pub use async_trait::async_trait;
