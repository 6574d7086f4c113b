//! The definitions that programs embed are the ones the types make.

use ocm_api::crds::{self, Place};
use serde_json::Value;

fn built(place: Place) -> Vec<Value> {
    crds::build()
        .into_iter()
        .filter(|(it, _)| *it == place)
        .map(|(_, crd)| crd)
        .collect()
}

#[test]
fn the_embedded_definitions_are_the_generated_ones() {
    let pairs = [
        (crds::hub(), built(Place::Hub)),
        (crds::managed_cluster(), built(Place::ManagedCluster)),
        (crds::operator(), built(Place::Operator)),
    ];
    for (embedded, built) in pairs {
        assert!(embedded == built, "run `cargo xtask codegen`");
    }
}

#[test]
fn every_definition_reads_as_kubernetes_own_type() {
    assert_eq!(crds::all().len(), crds::build().len());
}
