//! What admission and conversion do that only the embedded server does, or that only its inside shows. What they share
//! with any API server is asked by `tests/conformance`, numbers 155 to 165.

mod calls;
mod conversion;
mod hook;
mod policies;
mod world;
