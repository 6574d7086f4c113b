//! Go reads a JSON null as "not there" and leaves out what is empty; these functions make serde do the same.

use serde::{Deserialize, Deserializer};

/// Reads null as the default.
pub(crate) fn to_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// [`to_default`] for a list, which takes no more room than it needs: one that grows while it is read has room for four
/// at least, and thousands of objects are kept for long.
pub(crate) fn to_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let mut list: Vec<T> = to_default(deserializer)?;
    list.shrink_to_fit();
    Ok(list)
}

/// Whether Go's `omitempty` would leave the value out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
