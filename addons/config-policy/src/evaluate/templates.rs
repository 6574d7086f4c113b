//! Templates of objects, rendered with what the cluster has.

use std::sync::Arc;

use ocm_addon_sdk::ocm_api::selector_text;
use policy_template::{
    Answers, Input, KindReply, LookupError, Query, Reply, Resolution, ResolutionCause, ResolutionError, Resolved,
    TemplateContext, TemplateSettings, Unresolved, render,
};
use serde_json::Value;

use crate::cluster::{Cluster, ClusterError};

/// A template may look up things that depend on each other this many times.
const ROUNDS_MAX: usize = 100;

/// Renders a template with what a cluster has.
///
/// # Errors
/// When it cannot be rendered.
pub async fn resolve(
    cluster: &dyn Cluster,
    answers: &mut Answers,
    settings: &TemplateSettings,
    input: Input<'_>,
    context: &TemplateContext,
) -> Result<Resolved, Unresolved> {
    for _ in 0..ROUNDS_MAX {
        match render(settings, answers, input, context)? {
            Resolution::Done(resolved) => return Ok(resolved),
            Resolution::Needs(queries) => {
                for query in queries {
                    find(cluster, answers, &query).await;
                }
            }
        }
    }
    let message = format!("the template looks up things that depend on each other more than {ROUNDS_MAX} times");
    Err(Unresolved {
        error: ResolutionError {
            message,
            cause: ResolutionCause::Other,
        },
        queries: Vec::new(),
        skip_object: false,
    })
}

async fn find(cluster: &dyn Cluster, answers: &mut Answers, query: &Query) {
    let named = (query.api_version.clone(), query.kind.clone());
    let kind = match cluster.served(&query.api_version, &query.kind).await {
        Ok(Some(kind)) => kind,
        Ok(None) => {
            answers.kinds.insert(named, KindReply::Missing);
            return;
        }
        Err(error) => {
            answers.kinds.insert(named, KindReply::Failed(lookup_error(error)));
            return;
        }
    };
    let known = KindReply::Known {
        plural: kind.plural.clone(),
        namespaced: kind.namespaced,
    };
    answers.kinds.insert(named, known);
    let namespace = if kind.namespaced { query.namespace.as_str() } else { "" };
    let reply = if query.name.is_empty() {
        match selector_text::read(&query.selector) {
            Ok(selector) => match cluster.list(&kind, namespace, Some(&selector)).await {
                Ok(found) => Reply::List(found.iter().map(without_managed_fields).collect()),
                Err(error) => Reply::Failed(lookup_error(error)),
            },
            Err(error) => Reply::Failed(LookupError::Final(error)),
        }
    } else {
        match cluster.get(&kind, namespace, &query.name).await {
            Ok(found) => Reply::Object(found.as_ref().map(without_managed_fields)),
            Err(error) => Reply::Failed(lookup_error(error)),
        }
    };
    answers.replies.insert(query.clone(), reply);
}

/// The object without what nobody looks up.
pub fn without_managed_fields(object: &Arc<Value>) -> Arc<Value> {
    if object["metadata"].get("managedFields").is_none() {
        return Arc::clone(object);
    }
    let mut object = (**object).clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    Arc::new(object)
}

fn lookup_error(error: ClusterError) -> LookupError {
    match error.code {
        405 => LookupError::Unwatchable(error.message),
        0 | 429 | 500.. => LookupError::Passing(error.message),
        _ => LookupError::Final(error.message),
    }
}
