//! Whether a CustomResourceDefinition is well formed.
