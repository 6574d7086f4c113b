//! The objects of a work, in memory once however many works have the same.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::object::RawObject;

/// A list of whole objects. A clone shares it; whoever changes a clone has a list of its own from then on.
///
/// ```
/// use ocm_api::{RawObject, work::Manifests};
///
/// let one: Manifests = vec![RawObject::default()].into();
/// let mut other = one.clone();
/// assert!(other.is_shared_with(&one));
/// other.push(RawObject::default());
/// assert_eq!((one.len(), other.len()), (1, 2));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifests(Arc<Vec<RawObject>>);

impl Manifests {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether both are one list in memory.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many works, or others, hold the list.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl Deref for Manifests {
    type Target = Vec<RawObject>;

    fn deref(&self) -> &Vec<RawObject> {
        &self.0
    }
}

impl DerefMut for Manifests {
    fn deref_mut(&mut self) -> &mut Vec<RawObject> {
        Arc::make_mut(&mut self.0)
    }
}

impl From<Vec<RawObject>> for Manifests {
    fn from(manifests: Vec<RawObject>) -> Self {
        Self(Arc::new(manifests))
    }
}

impl FromIterator<RawObject> for Manifests {
    fn from_iter<I: IntoIterator<Item = RawObject>>(manifests: I) -> Self {
        Self(Arc::new(manifests.into_iter().collect()))
    }
}

impl<'a> IntoIterator for &'a Manifests {
    type Item = &'a RawObject;
    type IntoIter = std::slice::Iter<'a, RawObject>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Serialize for Manifests {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_slice().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Manifests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}
