//! The add-on managed-serviceaccount: a ManagedServiceAccount on the hub becomes a ServiceAccount on its cluster, whose token is on the hub.
