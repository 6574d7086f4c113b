//! What bounds one client's writes, asked before they are decided and told when they are.

use crate::{call::Call, kept::KeptPlace, rates::too_many, resource_ids::EVENTS};
use kube_store::{Object, status::Status};
use serde_json::Value;
use std::time::Instant;

/// Whether a write counts in the rate of its client and namespace.
fn has_rate(call: &Call<'_>) -> bool {
    call.subresource == "status" || call.id().as_ref() == EVENTS
}

/// Room for a new object, or for another state of the one before; keep it until the write is published.
///
/// # Errors
/// 429 that says which bound is reached.
pub fn admit(call: &Call<'_>, before: Option<&Object>, value: &Value) -> Result<Option<KeptPlace>, Status> {
    let Some(party) = &call.party else { return Ok(None) };
    let server = call.server;
    let namespace = call.store_namespace();
    if has_rate(call) {
        let taken = server.rates.take(party, namespace, Instant::now());
        taken.map_err(|seconds| {
            let message = format!(
                "{:?} writes status and Events in namespace {namespace:?} faster than it may; try again in {seconds} s",
                party.client
            );
            server.reports.tell(party, "WriteRate", &message);
            too_many(message, seconds)
        })?;
    }
    let place = server.kept.place(
        (call.id(), &call.namespace),
        &call.user,
        before.map(|it| it.json.len()),
        value,
    );
    place.map_err(|full| {
        server.reports.tell(party, full.bound, &full.status.message);
        full.status
    })
}

/// Counts what a write weighs that was decided.
pub fn charge(call: &Call<'_>, object: &Object) {
    if let Some(party) = call.party.as_ref().filter(|_| has_rate(call)) {
        let namespace = call.store_namespace();
        call.server.rates.charge(party, namespace, object.json.len());
    }
}
