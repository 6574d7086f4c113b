//! One hub process: everything that OCM does on the hub, over one client.

pub mod bootstrap;
