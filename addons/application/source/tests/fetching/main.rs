//! Fetching from servers that run here: a real Git server, and stand-ins for Helm repositories and buckets that have
//! good days and bad ones.

mod bad_git_servers;
mod buckets;
mod charts;
mod git_server;
mod logins;
mod real_buckets;
mod repositories;
mod ssh;
