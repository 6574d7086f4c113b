//! Functions that take the place of the engine's own, where those are not what Kubernetes has or
//! where one call could cost too much.

mod addresses;
mod conversions;
mod lists;
mod named_formats;
mod quantities;
mod regular_expressions;
mod text;
mod text_format;
mod urls;
mod versions;

use kube_cel::cel::{Context, objects::Opaque};

pub use conversions::is_type;
pub use lists::SORT_PAIRS;

/// How long the text is that a value was read from, as far as that is kept.
pub fn length(value: &dyn Opaque) -> usize {
    urls::length(value)
        .or_else(|| versions::length(value))
        .unwrap_or_default()
}

/// Takes the place of the engine's own functions.
pub fn replace(root: &mut Context<'static>) {
    regular_expressions::replace(root);
    text::replace(root);
    text_format::replace(root);
    named_formats::replace(root);
    urls::replace(root);
    addresses::replace(root);
    versions::replace(root);
    quantities::replace(root);
    conversions::replace(root);
    lists::replace(root);
    crate::times::replace(root);
}
