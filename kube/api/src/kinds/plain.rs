//! Kinds with hardly a rule of their own.

use super::{
    defaults::{self, entry},
    strategy::{Columns, Strategy},
    validation::{
        fields::{FieldRule::*, FieldRules},
        published,
    },
};
use crate::builtin::Subresource;
use crate::{call::Call, table::cells};
use kube_store::status::{FieldError, Status};
use serde_json::{Map, Value};

/// A kind without rules of its own.
pub struct Plain;

impl Strategy for Plain {}

/// ServiceAccount.
pub struct ServiceAccounts;

impl Strategy for ServiceAccounts {
    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource {
            name: "token",
            kind: "TokenRequest",
            group: "authentication.k8s.io",
            version: "v1",
            verbs: &["create"],
        }]
    }

    fn columns(&self) -> Columns {
        Columns::new("Name|Age", |it, now| vec![cells::name(it), cells::age(it, now)])
    }
}

/// RuntimeClass, on which nothing here acts.
pub struct RuntimeClasses;

impl Strategy for RuntimeClasses {
    fn columns(&self) -> Columns {
        Columns::new("Name|Handler|Age", |it, now| {
            vec![
                cells::name(it),
                cells::text(it, &["handler"]).into(),
                cells::age(it, now),
            ]
        })
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }
}

/// Lease.
pub struct Leases;

impl Strategy for Leases {
    fn columns(&self) -> Columns {
        Columns::new("Name|Holder|Age", |it, now| {
            vec![
                cells::name(it),
                cells::text(it, &["spec", "holderIdentity"]).into(),
                cells::age(it, now),
            ]
        })
    }

    fn default(&self, object: &mut Map<String, Value>) {
        entry(object, "spec");
    }

    fn fields(&self) -> FieldRules {
        &[
            ("spec.leaseDurationSeconds", AtLeast(1)),
            ("spec.leaseTransitions", AtLeast(0)),
        ]
    }

    fn prepare_for_create(&self, _call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
        defaults::drop_members(value, None, "spec", &OF_COORDINATED_LEASES);
        Ok(())
    }

    fn prepare_for_update(&self, _call: &mut Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
        defaults::drop_members(new, Some(old), "spec", &OF_COORDINATED_LEASES);
        Ok(())
    }
}

/// Members of a Lease that candidates elect a leader by, which nobody does here.
const OF_COORDINATED_LEASES: [&str; 2] = ["preferredHolder", "strategy"];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_of_a_disabled_feature_survive_only_where_already_set() {
        let dropped = |old: Option<&Value>| {
            let mut lease = json!({"spec": {"strategy": "X", "preferredHolder": "y", "holderIdentity": "z"}});
            defaults::drop_members(&mut lease, old, "spec", &OF_COORDINATED_LEASES);
            lease["spec"].take()
        };
        assert_eq!(dropped(None), json!({"holderIdentity": "z"}));
        let old = json!({"spec": {"strategy": "Y"}});
        assert_eq!(dropped(Some(&old)), json!({"strategy": "X", "holderIdentity": "z"}));
    }
}
