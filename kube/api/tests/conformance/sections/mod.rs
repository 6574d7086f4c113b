//! The checks, a file per section of the list.

mod access;
mod admission_policies;
mod apply;
mod assumptions;
mod clients;
mod clusteradm;
mod content;
mod controllers;
mod create;
mod csrs;
mod defaults;
mod definitions;
pub mod delete;
mod dependencies;
mod discovery;
mod escalation;
mod evictions;
mod fields;
pub mod generation;
mod helm;
mod impersonation;
mod kubectl;
pub mod list;
pub mod openapi;
mod patches;
mod policy;
mod protobuf;
mod recorded;
mod rights;
mod rules;
mod served_kinds;
mod structural;
mod transport;
mod update;
mod values;
mod watch;
mod webhooks;

use crate::check::Check;

/// All of them.
pub fn all() -> Vec<Check> {
    let sections = [
        transport::checks(),
        discovery::checks(),
        openapi::checks(),
        content::checks(),
        protobuf::checks(),
        create::checks(),
        update::checks(),
        generation::checks(),
        delete::checks(),
        evictions::checks(),
        patches::checks(),
        apply::checks(),
        list::checks(),
        fields::checks(),
        watch::checks(),
        webhooks::checks(),
        admission_policies::checks(),
        definitions::checks(),
        structural::checks(),
        served_kinds::checks(),
        values::checks(),
        access::checks(),
        impersonation::checks(),
        rights::checks(),
        escalation::checks(),
        policy::checks(),
        csrs::checks(),
        controllers::checks(),
        defaults::checks(),
        dependencies::checks(),
        assumptions::checks(),
        kubectl::checks(),
        helm::checks(),
        clusteradm::checks(),
        clients::checks(),
    ];
    sections.into_iter().flatten().collect()
}
