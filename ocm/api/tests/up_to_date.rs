//! The definitions that programs embed are the ones the types make.

use ocm_api::crds::{self, ServedOn};
use serde_json::Value;

fn built(place: ServedOn) -> Vec<Value> {
    crds::build()
        .into_iter()
        .filter(|(it, _)| *it == place)
        .map(|(_, crd)| crd)
        .collect()
}

#[test]
fn the_embedded_definitions_are_the_generated_ones() {
    let pairs = [
        (crds::hub(), built(ServedOn::Hub)),
        (crds::managed_cluster(), built(ServedOn::ManagedCluster)),
        (crds::operator(), built(ServedOn::Operator)),
    ];
    for (embedded, built) in pairs {
        assert!(embedded == built, "run `cargo xtask codegen`");
    }
}

#[test]
fn every_definition_reads_as_kubernetes_own_type() {
    assert_eq!(crds::all().len(), crds::build().len());
}
