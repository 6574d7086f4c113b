//! The operator of Argo CD on a cluster in memory: it is installed, its agent gets a certificate, and it goes.

mod certificate;
mod cleanup;
mod installation;
mod program;
mod world;
