//! The add-on cluster-proxy: clusters are reached from the hub through a tunnel that their agents open.
