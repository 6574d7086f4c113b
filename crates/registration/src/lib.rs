//! registration
