//! The add-on cluster-permission: a ClusterPermission on the hub becomes roles and bindings on its cluster.
