//! Worlds for tests: hubs and clusters on embedded APIs, in memory, on loopback.

pub mod site;
