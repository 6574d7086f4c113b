//! ocm-reconcile
