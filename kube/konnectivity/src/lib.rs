//! The tunnel of Kubernetes' apiserver-network-proxy (konnectivity): its server, its agent and its client.
