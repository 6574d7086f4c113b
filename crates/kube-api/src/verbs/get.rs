//! GET on a named object.

use crate::{call::Call, convert};
use bytes::Bytes;
use kube_store::status::Status;

/// The bytes of the published state of the named object in the requested version.
///
/// # Errors
/// 404 when there is none, 500 when its conversion fails.
pub async fn get(call: &Call<'_>) -> Result<Bytes, Status> {
    let object = call
        .server
        .store
        .get(call.id(), call.store_namespace(), &call.name)
        .ok_or_else(|| call.not_found())?;
    convert::bytes(&call.resource, &call.version, &object).await
}
