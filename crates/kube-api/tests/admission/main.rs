//! Admission webhooks, policies and conversion webhooks, by the numbers of the conformance checklist, against real TLS
//! servers on loopback.

mod calls;
mod configurations;
mod conversion;
mod hook;
mod matching;
mod mutating;
mod policies;
mod reviews;
mod validating;
mod world;
