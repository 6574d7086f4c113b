//! GET on a collection.

use crate::{call::Call, convert, respond::Pieces, selection::Selection, snapshots::SnapshotObjects};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use kube_store::{
    object::{Object, key},
    status::{FieldError, Status},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// One page of a collection.
pub struct ListPage {
    pub objects: Vec<Arc<Object>>,
    pub revision: u64,
    pub continue_token: String,
    /// Left out when a selector is used: the rest was not looked at.
    pub remaining: Option<usize>,
}

/// Where a continued list goes on.
struct Continue {
    /// Revision of the snapshot; -1 after it expired: fresh data from the same key.
    revision: i64,
    start: String,
}

impl Continue {
    fn read(token: &str) -> Result<Self, Status> {
        let bad =
            |why: String| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD
            .decode(token.trim_end_matches('='))
            .map_err(|it| bad(it.to_string()))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|it| bad(it.to_string()))?;
        match (value["rv"].as_i64(), value["start"].as_str()) {
            (Some(revision), Some(start)) => Ok(Self {
                revision,
                start: start.to_owned(),
            }),
            _ => Err(bad("it has no revision or no start".into())),
        }
    }

    fn write(revision: i64, start: &str) -> String {
        URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start}).to_string())
    }
}

fn options_error(errors: &[FieldError]) -> Status {
    Status::invalid("ListOptions", "meta.k8s.io", "", errors)
}

/// A revision of a query.
///
/// # Errors
/// 400 for what is no number.
pub fn number(text: &str) -> Result<u64, Status> {
    text.parse()
        .map_err(|_| Status::bad_request(format!("invalid resource version: {}", no_number(text))))
}

/// What is wrong with a revision that is no number. Only a list calls that a bad request; a real API server answers GET
/// and watch with 500 and these words.
pub fn no_number(text: &str) -> String {
    format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
}

/// The 504 of a revision that is not reached yet.
pub fn too_large(revision: u64, current: u64) -> Status {
    let mut status = Status::new(
        504,
        "Timeout",
        format!("Timeout: Too large resource version: {revision}, current: {current}"),
    );
    status.details = Some(Box::new(json!({
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1,
    })));
    status.retry_after_seconds = Some(1);
    status
}

/// Reads one page.
///
/// # Errors
/// 400 and 422 for bad options, 410 for a snapshot that is gone, 504 for a revision in the future.
pub fn list(call: &Call<'_>) -> Result<ListPage, Status> {
    let selection = Selection::read(call)?;
    let query = &call.query;
    let limit = match query.text("limit") {
        None => 0,
        Some(text) => text
            .parse::<i64>()
            .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))?,
    };
    let version = query.get("resourceVersion").unwrap_or_default();
    let matching = query.get("resourceVersionMatch").unwrap_or_default();
    let token = query.text("continue").map(Continue::read).transpose()?;
    check_match(version, matching, token.is_some())?;
    if query.get("sendInitialEvents").is_some() {
        return Err(options_error(&[FieldError::forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        )]));
    }
    if token.is_some() && !version.is_empty() && version != "0" {
        return Err(Status::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    let store = &call.server.store;
    let namespace = call.store_namespace();
    let current = store.revision();
    let (mut objects, revision) = match &token {
        Some(token) if token.revision >= 0 => {
            let revision = token.revision as u64;
            if revision > current {
                return Err(unreached(token, current));
            }
            let objects = match call.server.snapshots.find(call.id(), namespace, revision) {
                Some(kept) => kept[kept.partition_point(|it| it.key() < token.start)..].to_vec(),
                None => store
                    .list_at(call.id(), namespace, revision)
                    .map_err(|_| expired(token))?,
            };
            (objects, revision)
        }
        _ => match version {
            "" | "0" => store.list(call.id(), namespace),
            text => {
                let wanted = number(text)?;
                if wanted > current {
                    return Err(too_large(wanted, current));
                }
                if matching == "Exact" {
                    let objects = store
                        .list_at(call.id(), namespace, wanted)
                        .map_err(|_| Status::expired("The resourceVersion for the provided list is too old."))?;
                    (objects, wanted)
                } else {
                    store.list(call.id(), namespace)
                }
            }
        },
    };
    let snapshot: Option<SnapshotObjects> = (limit > 0
        && token.as_ref().is_none_or(|it| it.revision < 0)
        && objects.len() as i64 > limit
        && version != "0")
        .then(|| objects.as_slice().into());
    if let Some(token) = &token {
        objects.retain(|it| it.key() >= token.start);
    }
    if !selection.is_everything() {
        objects.retain(|it| selection.matches(it));
    }
    let mut page = ListPage {
        objects,
        revision,
        continue_token: String::new(),
        remaining: None,
    };
    // `resourceVersion=0` means "from a cache", and caches give everything.
    if limit > 0 && (page.objects.len() as i64) > limit && version != "0" {
        let rest = page.objects.split_off(limit as usize);
        page.continue_token = Continue::write(revision as i64, &key(&rest[0].namespace, &rest[0].name));
        page.remaining = selection.is_everything().then_some(rest.len());
        if let Some(objects) = snapshot {
            let snapshots = &call.server.snapshots;
            snapshots.keep(call.id(), namespace, revision, objects);
        }
    }
    Ok(page)
}

fn check_match(version: &str, matching: &str, continues: bool) -> Result<(), Status> {
    let field = "resourceVersionMatch";
    match (matching, version) {
        ("", _) => Ok(()),
        ("Exact" | "NotOlderThan", "") => Err(options_error(&[FieldError::forbidden(
            field,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        )])),
        ("Exact" | "NotOlderThan", _) if continues => Err(options_error(&[FieldError::forbidden(
            field,
            "resourceVersionMatch is forbidden when continue is provided",
        )])),
        ("Exact", "0") => Err(options_error(&[FieldError::forbidden(
            field,
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        )])),
        ("Exact" | "NotOlderThan", _) => Ok(()),
        (other, _) => Err(options_error(&[FieldError::not_supported(
            field,
            &other.into(),
            &["Exact", "NotOlderThan", ""],
        )])),
    }
}

fn expired(token: &Continue) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
         the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
         Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
         deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.metadata = Some(Box::new(json!({"continue": Continue::write(-1, &token.start)})));
    status
}

/// A server that was restored from a backup may have given out later revisions than it has.
fn unreached(token: &Continue, current: u64) -> Status {
    let mut status = Status::expired(format!(
        "The provided continue parameter is of resource version {}, which this server has not reached: it is at {current}. You \
         can start a new list without the continue parameter, or use the continue token in this response to retrieve the \
         remainder of the results as it is now.",
        token.revision
    ));
    status.metadata = Some(Box::new(json!({"continue": Continue::write(-1, &token.start)})));
    status
}

/// Bytes after which a piece of a list is handed to the connection.
const PIECE_BYTES: usize = 128 * 1024;

/// The list as JSON, piece by piece: stored objects are copied as they are, when the connection has room for them.
/// Custom objects are in the version of the call once [`convert::prepare`] has seen them.
pub fn splice(call: &Call<'_>, page: ListPage) -> Pieces {
    let resource = call.resource.clone();
    let version = call.version.clone();
    let header = json!(resource.list_kind);
    let mut start = format!(
        "{{\"kind\":{header},\"apiVersion\":\"{}\",\"metadata\":",
        resource.api_version(&version)
    )
    .into_bytes();
    start.extend_from_slice(metadata(&page, !resource.is_builtin()).to_string().as_bytes());
    start.extend_from_slice(b",\"items\":[");
    // Events of the other group have other field names, so they are converted; everything else is a copy of bytes.
    let plain = resource.is_builtin() && resource.group != "events.k8s.io";
    let bytes = page.objects.iter().map(|it| it.json.len() + 1).sum::<usize>() + start.len();
    let mut rest = page.objects.into_iter();
    let (mut piece, mut begun, mut ended) = (start, false, false);
    let pieces = std::iter::from_fn(move || {
        if ended {
            return None;
        }
        piece.reserve(bytes.min(PIECE_BYTES + 4096));
        while piece.len() < PIECE_BYTES {
            let Some(object) = rest.next() else {
                ended = true;
                piece.extend_from_slice(b"]}\n");
                break;
            };
            if begun {
                piece.push(b',');
            }
            begun = true;
            if plain {
                piece.push(b'{');
                piece.extend_from_slice(object.body());
            } else {
                piece.extend_from_slice(&convert::ready_or_stored(&resource, &version, &object));
            }
        }
        Some(Bytes::from(std::mem::take(&mut piece)))
    });
    Pieces {
        bytes,
        pieces: Box::new(pieces),
    }
}

/// `metadata` of a list.
pub fn metadata(page: &ListPage, custom: bool) -> Value {
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if custom || !page.continue_token.is_empty() {
        metadata["continue"] = page.continue_token.clone().into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}
