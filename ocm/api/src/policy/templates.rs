//! The templates of a Policy, in memory once however many replicas have the same.

use std::{ops::Deref, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::PolicyTemplate;

/// A list of templates. A clone shares it.
///
/// ```
/// use ocm_api::policy::{PolicyTemplate, PolicyTemplates};
///
/// let one: PolicyTemplates = vec![PolicyTemplate::default()].into();
/// let mut other = one.clone();
/// assert_eq!(one.holders(), 2);
/// other.to_mut()[0].ignore_pending = true;
/// assert_eq!((one.holders(), one == other), (1, false));
/// ```
// An Arc of what can be equal to itself looks first whether both are one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PolicyTemplates(Arc<Vec<PolicyTemplate>>);

impl PolicyTemplates {
    /// The list to change it: a list of its own from then on.
    pub fn to_mut(&mut self) -> &mut Vec<PolicyTemplate> {
        Arc::make_mut(&mut self.0)
    }

    /// Whether both are one list in memory.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many Policies, or others, hold the list.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl Deref for PolicyTemplates {
    type Target = [PolicyTemplate];

    fn deref(&self) -> &[PolicyTemplate] {
        &self.0
    }
}

impl From<Vec<PolicyTemplate>> for PolicyTemplates {
    fn from(templates: Vec<PolicyTemplate>) -> Self {
        Self(Arc::new(templates))
    }
}

impl FromIterator<PolicyTemplate> for PolicyTemplates {
    fn from_iter<I: IntoIterator<Item = PolicyTemplate>>(templates: I) -> Self {
        templates.into_iter().collect::<Vec<_>>().into()
    }
}

impl Serialize for PolicyTemplates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PolicyTemplates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::null::to_list(deserializer).map(Self::from)
    }
}
