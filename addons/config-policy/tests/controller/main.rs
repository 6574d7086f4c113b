//! The controller against an API server.

mod ground;

mod bad_days;
mod objects;
mod operators;
mod pruning;
mod templates;
