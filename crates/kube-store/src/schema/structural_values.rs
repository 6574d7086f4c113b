//! Checks of the schema nodes of a CustomResourceDefinition.
