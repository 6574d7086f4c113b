//! `authentication.open-cluster-management.io`: ManagedServiceAccounts, of the add-on managed-serviceaccount.
