//! GET on a named object.

use crate::{call::Call, convert};
use bytes::Bytes;
use kube_store::{object::Object, status::Status};
use std::sync::Arc;

/// The published state of the named object and its bytes in the requested version.
///
/// # Errors
/// 404 when there is none.
pub fn get(call: &Call<'_>) -> Result<(Arc<Object>, Bytes), Status> {
    let object = call
        .server
        .store
        .get(call.id(), call.store_namespace(), &call.name)
        .ok_or_else(|| call.not_found())?;
    let bytes = convert::bytes(&call.resource, &call.version, &object);
    Ok((object, bytes))
}
