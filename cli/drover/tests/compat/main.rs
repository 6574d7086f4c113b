//! The binary in the place of upstream's programs: each part of a hub as a process of its own, on an API server on
//! which nothing else of OCM runs.

mod agents;
mod command_line;
mod hubs;
mod program;
mod webhook_servers;
