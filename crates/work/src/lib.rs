//! work
