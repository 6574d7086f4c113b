//! The tunnel of Kubernetes' apiserver-network-proxy (konnectivity): its server, its agent and its client.
//!
//! ```text
//! client --/ProxyService/Proxy--> server <--/AgentService/Connect-- agent --> host:port
//!          a stream a connection           one stream, all connections
//! ```
//!
//! An agent behind NAT opens a stream to a server and says which hosts it can reach. A client asks the server for a
//! connection to `host:port`; the server hands the request to the agent of that host, and then bytes both ways. On the
//! wire it is upstream's: our server serves upstream's agents and clients, our agent and client upstream's server.
//!
//! What ours has in addition is a window for each connection ([`connection`]), so that a consumer that does not read
//! stops nobody else; rules who may come in by which port ([`peer`]); and bounds for everything that others can ask for
//! ([`server::Limits`]).

#![warn(missing_docs)]

pub mod agent;
pub mod client;
pub mod connection;
mod grpc;
pub mod packet;
pub mod peer;
pub mod server;

pub use agent::TunnelAgent;
pub use client::{Client, TunnelStream};
pub use server::TunnelServer;
