//! Random trees are answered, and never end the program.

use application_render::{KustomizeOverride, SourceTree, TreeRequest, hooks, render};
use proptest::{collection::vec, prelude::*};

const NAMES: &[&str] = &[
    "a.yaml",
    "x/b.yml",
    "x/kustomization.yaml",
    "kustomization.yml",
    "Chart.yaml",
    "x/Chart.yaml",
    ".kubernetesignore",
    "prehook/a.yaml",
    "posthook/b.yaml",
    "x/y/z.yaml",
];

const PIECES: &[&str] = &[
    "apiVersion: v1\n",
    "kind: A\n",
    "kind: List\n",
    "items:\n",
    "- ",
    "---\n",
    "--- ",
    "metadata:\n",
    "  name: a\n",
    "resources: [a.yaml]\n",
    "resources: [x]\n",
    "&a ",
    "*a\n",
    "<<: ",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "|\n",
    "\t",
    "!!binary ",
    "name: c\n",
    "version: 1\n",
    "*",
    "**/",
    "!",
    "/",
    "\u{feff}",
    "\r\n",
    "..",
    "[[:alpha:]]",
    "\\",
];

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..200),
        vec(proptest::sample::select(PIECES), 0..40).prop_map(|it| it.concat().into_bytes()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_random_tree_is_answered(
        files in vec((proptest::sample::select(NAMES), content(), any::<bool>()), 0..8),
        folder in proptest::sample::select(&["", "x", "x/y", "..", "a.yaml"][..]),
        value in content(),
    ) {
        let mut tree = SourceTree::new();
        for (name, content, link) in files {
            // Two of one name are refused, which is an answer, too.
            let _ = if link { tree.insert_link(name) } else { tree.insert(name, content) };
        }
        let value = String::from_utf8_lossy(&value).into_owned().into();
        let overrides = [KustomizeOverride { package: "kustomization".to_owned(), value }];
        let _ = render(&tree, TreeRequest { folder, overrides: &overrides });
        let _ = render(&tree, TreeRequest { folder, overrides: &[] });
        let _ = hooks(&tree, folder);
    }
}
