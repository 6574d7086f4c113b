//! From a template to an object.

use std::borrow::Cow;

use gotemplate::Engine;
use gotemplate::encodings::{json_of, read_yaml, yaml_of};
use serde_json::Value;

use crate::context::TemplateContext;
use crate::functions::{Lookups, functions};
use crate::passes::{decrypt_all, indent_automatically, unquote_typed};
use crate::settings::{TemplateEncryption, TemplateSettings};
use crate::source::{Query, Source};

/// What is rendered.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// An object with templates in its strings.
    Json(&'a Value),
    /// A YAML text with templates anywhere, such as `object-templates-raw`.
    Yaml(&'a str),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolution {
    /// With an object.
    Done(Resolved),
    /// With questions that the source could not answer yet. Once it can, rendering again goes on.
    Needs(Vec<Query>),
}

/// What a template has become.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The object.
    pub value: Value,
    /// Whether a Secret was read or an encrypted value decrypted: differences of the object are then not recorded.
    pub sensitive: bool,
    /// All that was looked up. Whoever renders on changes watches these.
    pub queries: Vec<Query>,
    /// Whether `skipObject` was called truthfully.
    pub skip_object: bool,
}

/// Why a template made no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ResolutionError {
    /// What is wrong, in the words of Go and of upstream.
    pub message: String,
    /// What kind of trouble it is.
    pub cause: ResolutionCause,
}

/// What kind of trouble a template is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResolutionCause {
    /// An AES key is missing or has no length of one.
    InvalidKey,
    /// The initialization vector has not 16 bytes.
    InvalidIv,
    /// A kind is not served: trying again later may help.
    MissingKind,
    /// A look-up failed in a way that may pass.
    Passing,
    /// A kind cannot be watched.
    Unwatchable,
    /// Anything else.
    #[default]
    Other,
}

/// A run that failed: why, and what it had come to know until then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{error}")]
pub struct Unresolved {
    /// Why.
    pub error: ResolutionError,
    /// What was looked up: a change of it may help.
    pub queries: Vec<Query>,
    /// Whether `skipObject` was called truthfully before. The object is skipped then, and the failure does not count.
    pub skip_object: bool,
}

/// Renders a template (upstream: `ResolveTemplate`).
///
/// # Errors
/// When it cannot be read, when a function fails, or when what it made is no YAML.
pub fn render(
    settings: &TemplateSettings,
    source: &dyn Source,
    input: Input<'_>,
    context: &TemplateContext,
) -> Result<Resolution, Unresolved> {
    let asked = Lookups::new(settings, source);
    let outcome = run(settings, &asked, input, context);
    let needs = asked.needs.take();
    let queries = asked.queries.take().into_iter().collect();
    let skip_object = asked.skip_object.get();
    match outcome {
        Ok((value, decrypted)) => Ok(Resolution::Done(Resolved {
            value,
            sensitive: decrypted || asked.sensitive.get(),
            queries,
            skip_object,
        })),
        Err(_) if !needs.is_empty() => Ok(Resolution::Needs(needs)),
        Err(error) => Err(Unresolved {
            error,
            queries,
            skip_object,
        }),
    }
}

fn run(
    settings: &TemplateSettings,
    asked: &Lookups<'_>,
    input: Input<'_>,
    context: &TemplateContext,
) -> Result<(Value, bool), ResolutionError> {
    let other = |message: String| ResolutionError {
        message,
        cause: ResolutionCause::Other,
    };
    match &settings.encryption {
        TemplateEncryption::Encrypt(keys) | TemplateEncryption::Decrypt(keys) => keys.check()?,
        TemplateEncryption::Off => {}
    }
    let (raw, mut text) = match input {
        Input::Json(document) => (Cow::Owned(json_of(document)), yaml_of(document)),
        Input::Yaml(text) => (Cow::Borrowed(text), text.to_owned()),
    };
    let mut decrypted = false;
    if let TemplateEncryption::Decrypt(keys) = &settings.encryption
        && let Some(plain) = decrypt_all(&text, keys).map_err(other)?
    {
        text = plain;
        decrypted = true;
    }
    let text = unquote_typed(&text, settings.delimiters);
    let text = indent_automatically(&text, settings.delimiters, settings.extra_indentation);
    let engine = Engine::new(functions(settings)).delimiters(settings.delimiters.start(), settings.delimiters.stop());
    let template = engine
        .parse("tmpl", &text)
        .map_err(|why| other(format!("failed to parse the template JSON string {raw}: {why}")))?;
    let made = template
        .render_with(context.value(), asked)
        .map_err(|why| ResolutionError {
            message: format!("failed to resolve the template {raw}: {why}"),
            cause: asked.cause.get(),
        })?;
    if asked.printed_bytes.get() {
        return Err(other(
            "failed to convert the resolved template to JSON: yaml: invalid leading UTF-8 octet".to_owned(),
        ));
    }
    let value =
        read_yaml(&made).map_err(|why| other(format!("failed to convert the resolved template to JSON: {why}")))?;
    Ok((value, decrypted))
}
