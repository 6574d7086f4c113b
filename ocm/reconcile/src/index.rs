//! Which objects of a cache have something in common, so that nobody goes through everything to find a little.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Debug,
    sync::Arc,
};

use kube::Resource;
use parking_lot::RwLock;
use serde::de::DeserializeOwned;

use crate::Cache;

type Name = (String, String);

/// The objects of a cache by some text of theirs, such as a label's value. It keeps names only: the cache says what the
/// objects are. Cloning shares it.
pub struct Index<K> {
    cache: Cache<K>,
    names: Arc<RwLock<HashMap<String, BTreeSet<Name>>>>,
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self {
            cache: self.cache.clone(),
            names: self.names.clone(),
        }
    }
}

impl<K> Index<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Over a cache; objects for which `by` finds nothing are left out.
    pub fn over(cache: &Cache<K>, by: impl Fn(&K) -> Option<String> + Send + Sync + 'static) -> Self {
        let names: Arc<RwLock<HashMap<String, BTreeSet<Name>>>> = Arc::default();
        let index = Self {
            cache: cache.clone(),
            names: names.clone(),
        };
        cache.listen(move |old, new| {
            let entry = |it: &Arc<K>| Some((by(it)?, name_of(&**it)));
            let (before, after) = (old.and_then(entry), new.and_then(entry));
            if before == after {
                return;
            }
            let mut names = names.write();
            if let Some((key, name)) = before
                && let Some(set) = names.get_mut(&key)
            {
                set.remove(&name);
                if set.is_empty() {
                    names.remove(&key);
                }
            }
            if let Some((key, name)) = after {
                names.entry(key).or_default().insert(name);
            }
        });
        index
    }

    /// Namespace and name of the objects under a key, in order.
    pub fn names(&self, key: &str) -> Vec<Name> {
        self.names.read().get(key).into_iter().flatten().cloned().collect()
    }

    /// The objects under a key, by namespace and name.
    pub fn objects(&self, key: &str) -> Vec<Arc<K>> {
        let names = self.names(key);
        let found = names.iter();
        found
            .filter_map(|(namespace, name)| self.cache.get(namespace, name))
            .collect()
    }
}

fn name_of<K: Resource>(object: &K) -> Name {
    let meta = object.meta();
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    fn config_map(name: &str, label: Option<&str>) -> ConfigMap {
        let labels = label.map(|it| json!({"of": it})).unwrap_or(json!({}));
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name, "labels": labels}}))
            .expect("a fixture")
    }

    #[test]
    fn an_object_is_found_by_what_it_says_now() {
        let cache = Cache::holding([config_map("a", Some("x")), config_map("b", None)]);
        let index = Index::over(&cache, |it: &ConfigMap| it.labels().get("of").cloned());
        cache.put(config_map("c", Some("x")));
        let found = |key: &str| index.objects(key).iter().map(|it| it.name_any()).collect::<Vec<_>>();
        assert_eq!(found("x"), ["a", "c"]);
        cache.put(config_map("a", Some("y")));
        assert_eq!((found("x"), found("y")), (vec!["c".to_owned()], vec!["a".to_owned()]));
    }
}
