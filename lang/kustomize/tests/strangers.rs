//! Whatever the bytes of a tree are, it is built or refused: nothing panics, overflows the stack or takes long. The
//! trees are those of the corpus with bytes changed; `FUZZ_ROUNDS` and `FUZZ_SEED` say how often and which.

use std::{fs, path::Path};

use kustomize::{KustomizeFiles, build};

fn read(found: &mut Vec<(String, Vec<u8>)>, root: &Path, folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(found, root, &path);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            found.push((name, fs::read(&path).unwrap()));
        }
    }
}

#[test]
fn changed_bytes_of_the_corpus_never_panic() {
    let number = |name: &str, otherwise| std::env::var(name).map_or(otherwise, |it| it.parse().unwrap());
    let mut state: u64 = number("FUZZ_SEED", 1);
    let mut roll = |sides: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % sides.max(1)
    };
    let mut cases: Vec<_> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus"))
        .unwrap()
        .map(|it| it.unwrap().path().join("input"))
        .collect();
    cases.sort();
    let rounds = number("FUZZ_ROUNDS", 20);
    for case in cases {
        let mut files = Vec::new();
        read(&mut files, &case, &case);
        files.sort();
        for _ in 0..rounds {
            let mut changed = files.clone();
            for _ in 0..1 + roll(4) {
                let at = roll(changed.len());
                let content = &mut changed[at].1;
                let (from, length) = (roll(content.len()), 1 + roll(12));
                let to = (from + length).min(content.len());
                match roll(4) {
                    0 if from < to => drop(content.drain(from..to)),
                    1 if from < to => {
                        let copied = content[from..to].to_vec();
                        let into = roll(content.len());
                        content.splice(into..into, copied);
                    }
                    2 if !content.is_empty() => content[from] = roll(256) as u8,
                    _ => {
                        let words: [&[u8]; 8] = [b"null", b"[]", b"{}", b"- ", b": ", b"*a", b"$patch", b"\n  "];
                        content.splice(from..from, words[roll(8)].iter().copied());
                    }
                }
            }
            let mut tree = KustomizeFiles::new();
            for (path, content) in changed {
                tree.insert(&path, content).unwrap();
            }
            let folder = if case.join("overlay").is_dir() { "overlay" } else { "" };
            let _ = build(&tree, folder);
        }
    }
}
