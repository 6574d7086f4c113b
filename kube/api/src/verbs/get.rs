//! GET on a named object.

use crate::{call::Call, convert, verbs::list};
use bytes::Bytes;
use kube_store::status::Status;

/// The bytes of the published state of the named object in the requested version.
///
/// # Errors
/// 404 when there is none, 500 when its conversion fails.
pub async fn get(call: &Call<'_>) -> Result<Bytes, Status> {
    // What was asked for may come from a client that knows another, newer server's revision.
    if let Some(text) = call.query.text("resourceVersion") {
        let wanted = text.parse().map_err(|_| Status::new(500, "", list::no_number(text)))?;
        let current = call.server.store.revision();
        if wanted > current {
            return Err(list::too_large(wanted, current));
        }
    }
    let object = call
        .server
        .store
        .get(call.id(), call.store_namespace(), &call.name)
        .ok_or_else(|| call.not_found())?;
    convert::bytes(&call.resource, &call.version, &object).await
}
