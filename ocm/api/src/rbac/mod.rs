//! `rbac.open-cluster-management.io`: ClusterPermissions, of the add-on cluster-permission.
