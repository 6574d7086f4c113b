//! `proxy.open-cluster-management.io`: ManagedProxyConfigurations, of the add-on cluster-proxy.
