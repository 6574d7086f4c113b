//! Which manifest goes into which work of an add-on, so that no work grows too big and nothing moves without need.
//!
//! A manifest stays in the work it is in, because an object that changes its work is for a moment nobody's. What is new
//! goes, largest first, into the work with the most room, and into a new one when none has room.
//! Upstream: sdk-go `pkg/apis/work/v1/builder`. We differ in four things. Namespaces and definitions are placed before
//! all else, so that they are in the first work; upstream breaks ties by chance, we by the order in which the add-on
//! wrote them. A new work takes the lowest index that is free; upstream counts works, and after a deletion in the
//! middle meets a live one. A manifest that does not fit anywhere has a work of its own; upstream writes an empty one
//! before it. And a work whose manifests have outgrown what the API takes gives its largest away;
//! upstream is refused for ever.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use ocm_api::RawObject;

use super::manifest::{self, ManifestIdentity};

/// The most that the hub takes in one work.
pub const BYTES_MAX: usize = 500 * 1024;

/// How full a work is made. The rest is for manifests that grow.
pub const BYTES_WANTED: usize = BYTES_MAX / 10 * 8;

/// A work as it is.
#[derive(Clone, Debug)]
pub struct Present<'w> {
    /// Its number among the works of the add-on.
    pub index: usize,
    /// What is in it.
    pub manifests: Cow<'w, [RawObject]>,
    /// Whether it is being deleted. It keeps its manifests and its number until it is gone, and gets nothing new.
    pub leaving: bool,
}

/// A work as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Its number among the works of the add-on.
    pub index: usize,
    /// What should be in it.
    pub manifests: Vec<RawObject>,
}

struct Page {
    index: usize,
    items: Vec<Item>,
    leaving: bool,
}

struct Item {
    // Where the add-on wrote it.
    order: usize,
    // Whether others need it to be there first.
    first: bool,
    bytes: usize,
    object: RawObject,
}

impl Page {
    fn bytes(&self) -> usize {
        self.items.iter().map(|it| it.bytes).sum()
    }
}

/// The works that hold `wanted`, by index. A present work that is not among them has nothing left to hold.
pub fn split(present: &[Present<'_>], wanted: Vec<RawObject>) -> Vec<Load> {
    let mut waiting: BTreeMap<ManifestIdentity, Item> = BTreeMap::new();
    for (order, object) in wanted.into_iter().enumerate() {
        // Of two manifests for one object the later one counts, as it would if both were applied.
        waiting.insert(ManifestIdentity::of(&object.0), Item::new(order, object));
    }
    let mut pages: Vec<Page> = Vec::new();
    for work in present {
        let stay = |it: &RawObject| waiting.remove(&ManifestIdentity::of(&it.0));
        pages.push(Page {
            index: work.index,
            items: work.manifests.iter().filter_map(stay).collect(),
            leaving: work.leaving,
        });
    }
    let mut homeless: Vec<Item> = waiting.into_values().collect();
    for page in pages.iter_mut().filter(|it| !it.leaving) {
        while page.items.len() > 1 && page.bytes() > BYTES_MAX {
            let largest = (0..page.items.len()).max_by_key(|at| page.items[*at].bytes);
            homeless.extend(largest.map(|at| page.items.remove(at)));
        }
    }
    homeless.sort_by_key(|it| (!it.first, std::cmp::Reverse(it.bytes), it.order));
    for item in homeless {
        let roomy = pages
            .iter_mut()
            .filter(|it| !it.leaving && it.bytes() + item.bytes <= BYTES_WANTED)
            .min_by_key(|it| (it.bytes(), it.index));
        match roomy {
            Some(page) => page.items.push(item),
            None => pages.push(Page {
                index: free(&pages),
                items: vec![item],
                leaving: false,
            }),
        }
    }
    pages.sort_by_key(|it| it.index);
    pages
        .into_iter()
        .filter(|it| !it.items.is_empty())
        .map(|it| Load {
            index: it.index,
            manifests: it.items.into_iter().map(|it| it.object).collect(),
        })
        .collect()
}

fn free(pages: &[Page]) -> usize {
    let taken: BTreeSet<usize> = pages.iter().map(|it| it.index).collect();
    (0..).find(|it| !taken.contains(it)).expect("numbers do not run out")
}

impl Item {
    fn new(order: usize, object: RawObject) -> Self {
        let first = matches!(
            (manifest::group(&object.0), object.kind()),
            ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition")
        );
        let bytes = object.0.to_string().len();
        Self {
            order,
            first,
            bytes,
            object,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config_map(name: &str, bytes: usize) -> RawObject {
        let empty = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": ""}});
        let filler = bytes.saturating_sub(empty.to_string().len());
        let mut object = empty;
        object["data"]["k"] = "x".repeat(filler).into();
        RawObject(object)
    }

    fn namespace(name: &str) -> RawObject {
        RawObject(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
    }

    fn printed(loads: &[Load]) -> String {
        let line = |it: &Load| {
            let names: Vec<_> = it.manifests.iter().map(RawObject::name).collect();
            format!("{}: {}", it.index, names.join(" "))
        };
        loads.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn present(loads: &[Load]) -> Vec<Present<'_>> {
        let present = |it: &'_ Load| it.index;
        loads
            .iter()
            .map(|it| Present {
                index: present(it),
                manifests: (&it.manifests).into(),
                leaving: false,
            })
            .collect()
    }

    #[test]
    fn new_manifests_are_ordered_by_namespace_size_and_position() {
        let wanted = vec![
            config_map("small", 100),
            config_map("also-small", 100 + "also-".len() - "also-".len()),
            config_map("large", 9_000),
            namespace("last"),
        ];
        assert_eq!(printed(&split(&[], wanted)), "0: last large small also-small");
    }

    #[test]
    fn three_mebibytes_become_works_that_the_hub_takes() {
        let wanted: Vec<_> = (0..48).map(|it| config_map(&format!("m{it:02}"), 64 * 1024)).collect();
        let loads = split(&[], wanted.clone());
        assert_eq!(loads.len(), 8);
        let bytes = |it: &Load| it.manifests.iter().map(|it| it.0.to_string().len()).sum::<usize>();
        assert!(loads.iter().all(|it| bytes(it) <= BYTES_WANTED));
        assert_eq!(loads.iter().map(|it| it.manifests.len()).sum::<usize>(), 48);
        // Looking again moves nothing.
        assert_eq!(split(&present(&loads), wanted), loads);
    }

    #[test]
    fn existing_manifests_stay_and_new_ones_get_the_emptiest_work() {
        let kb = 1024;
        let before = vec![
            Load {
                index: 0,
                manifests: vec![config_map("a", 300 * kb), config_map("gone", 90 * kb)],
            },
            Load {
                index: 1,
                manifests: vec![config_map("b", 350 * kb)],
            },
        ];
        let wanted = vec![
            config_map("b", 350 * kb),
            config_map("new", 20 * kb),
            config_map("a", 310 * kb),
        ];
        assert_eq!(printed(&split(&present(&before), wanted)), "0: a new\n1: b");
    }

    #[test]
    fn an_empty_work_is_dropped_and_its_number_is_reused() {
        let before = vec![
            Load {
                index: 0,
                manifests: vec![config_map("gone", 10)],
            },
            Load {
                index: 1,
                manifests: vec![config_map("b", 400_000)],
            },
        ];
        let loads = split(&present(&before), vec![config_map("b", 400_000)]);
        assert_eq!(printed(&loads), "1: b");
        let loads = split(
            &present(&loads),
            vec![config_map("b", 400_000), config_map("c", 400_000)],
        );
        assert_eq!(printed(&loads), "0: c\n1: b");
    }

    #[test]
    fn a_manifest_larger_than_any_work_gets_its_own_work() {
        let wanted = vec![
            config_map("huge", 2 * BYTES_MAX),
            config_map("a", 10),
            config_map("b", 10),
        ];
        assert_eq!(printed(&split(&[], wanted)), "0: huge\n1: a b");
    }

    #[test]
    fn an_oversized_work_moves_its_largest_manifest_elsewhere() {
        let before = vec![Load {
            index: 0,
            manifests: vec![
                config_map("a", 100_000),
                config_map("b", 100_000),
                config_map("c", 1_000),
            ],
        }];
        let wanted = vec![
            config_map("a", 300_000),
            config_map("b", 250_000),
            config_map("c", 1_000),
        ];
        assert_eq!(printed(&split(&present(&before), wanted)), "0: b c\n1: a");
    }

    #[test]
    fn a_terminating_work_keeps_its_manifests_and_gets_nothing_new() {
        let manifests = vec![config_map("a", 10)];
        let leaving = Present {
            index: 0,
            manifests: (&manifests).into(),
            leaving: true,
        };
        let loads = split(&[leaving], vec![config_map("a", 10), config_map("b", 10)]);
        assert_eq!(printed(&loads), "0: a\n1: b");
    }

    #[test]
    fn of_two_manifests_for_one_object_the_later_one_counts() {
        let loads = split(&[], vec![config_map("a", 100), config_map("a", 200)]);
        assert_eq!(loads[0].manifests, [config_map("a", 200)]);
    }
}
