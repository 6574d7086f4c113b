//! The objects of a work, in memory once however many works have the same, and small where thousands are kept.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ManifestWork;
use crate::object::RawObject;

/// A list of whole objects. A clone shares it.
///
/// ```
/// use ocm_api::{RawObject, work::Manifests};
///
/// let one: Manifests = vec![RawObject(serde_json::json!({"kind": "ConfigMap"}))].into();
/// let mut other = one.clone();
/// assert!(other.is_shared_with(&one));
/// other.pack();
/// assert_eq!((other.len(), other.read()[0].kind()), (1, "ConfigMap"));
/// assert_eq!(one, other);
/// ```
#[derive(Clone, Debug)]
pub struct Manifests(Held);

#[derive(Clone, Debug)]
enum Held {
    Read(Arc<Vec<RawObject>>),
    /// As JSON, and how many. A tree of values takes several times the room of its text.
    Packed(Arc<str>, usize),
}

impl Manifests {
    /// The objects. What is packed is read anew each time.
    pub fn read(&self) -> Cow<'_, [RawObject]> {
        match &self.0 {
            Held::Read(list) => Cow::Borrowed(list),
            Held::Packed(json, _) => {
                Cow::Owned(serde_json::from_str(json).expect("it was written by the same library"))
            }
        }
    }

    /// Holds them as text from now on: for those that are kept long and read seldom.
    pub fn pack(&mut self) {
        if let Held::Read(list) = &self.0
            && !list.is_empty()
        {
            let json = serde_json::to_string(&**list).expect("objects of JSON serialize");
            self.0 = Held::Packed(json.into(), list.len());
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Held::Read(list) => list.len(),
            Held::Packed(_, count) => *count,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both are one list in memory.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Held::Read(one), Held::Read(other)) => Arc::ptr_eq(one, other),
            (Held::Packed(one, _), Held::Packed(other, _)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// How many works, or others, hold the list.
    pub fn holders(&self) -> usize {
        match &self.0 {
            Held::Read(list) => Arc::strong_count(list),
            Held::Packed(json, _) => Arc::strong_count(json),
        }
    }
}

/// For a cache of works: most changes of one are of its status, and then its manifests are those that it had;
/// others are packed.
pub fn pack(present: Option<&ManifestWork>, work: &mut ManifestWork) {
    match present.filter(|it| is_same_generation(it, work)) {
        Some(present) => work.spec.workload.manifests = present.spec.workload.manifests.clone(),
        None => work.spec.workload.manifests.pack(),
    }
}

/// Whether both say the same, as far as the API server counts.
pub fn is_same_generation(one: &ManifestWork, other: &ManifestWork) -> bool {
    let (one, other) = (&one.metadata, &other.metadata);
    one.uid == other.uid && one.generation.is_some() && one.generation == other.generation
}

impl Default for Manifests {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl PartialEq for Manifests {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            // The keys of an object are sorted, so that there is one text for a value.
            (Held::Packed(one, _), Held::Packed(other, _)) => one == other,
            _ => self.is_shared_with(other) || self.read() == other.read(),
        }
    }
}

impl Eq for Manifests {}

impl From<Vec<RawObject>> for Manifests {
    fn from(manifests: Vec<RawObject>) -> Self {
        Self(Held::Read(Arc::new(manifests)))
    }
}

impl FromIterator<RawObject> for Manifests {
    fn from_iter<I: IntoIterator<Item = RawObject>>(manifests: I) -> Self {
        manifests.into_iter().collect::<Vec<_>>().into()
    }
}

impl Serialize for Manifests {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.read().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Manifests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}
