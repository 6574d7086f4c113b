//! Git on good days, and on those on which a repository is not what it was.

use crate::git_server::{Fetching, Repository, is_here, served, source, text};
use application_source::{
    SourceBounds, SourceError,
    git::{GitReference, TreeFile, fetch, fetch_folder, forget_unused},
};
use std::{
    fs::{self, File},
    time::{Duration, SystemTime},
};

fn branch(name: &str) -> GitReference {
    GitReference::Branch(name.to_owned())
}

fn tag(name: &str) -> GitReference {
    GitReference::Tag(name.to_owned())
}

#[tokio::test]
async fn branches_and_tags_name_their_commits() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let first = repository.head();
    repository.git(&["tag", "light"]);
    repository.git(&["tag", "-a", "v1", "-m", "a message"]);
    repository.git(&["tag", "-a", "v1-again", "-m", "a tag of a tag", "v1"]);
    repository.git(&["checkout", "--quiet", "-b", "deep/er"]);
    let second = repository.commit("b.yaml", "b: 1\n");
    repository.git(&["checkout", "--quiet", "main"]);
    let server = repository.serve().await;
    for (reference, commit) in [
        (GitReference::Head, &first),
        (branch("main"), &first),
        (branch("refs/heads/main"), &first),
        (branch("deep/er"), &second),
        (tag("light"), &first),
        (tag("v1"), &first),
        (tag("v1-again"), &first),
        (GitReference::Commit(second.clone()), &second),
    ] {
        let source = served(&server, reference);
        assert_eq!(&repository.current(&source).await.unwrap(), commit, "{source:?}");
        assert_eq!(&repository.fetch(&source).await.unwrap().commit, commit, "{source:?}");
    }
}

#[tokio::test]
async fn what_a_repository_has_not_is_named() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let server = repository.serve().await;
    let absent = "0123456789012345678901234567890123456789".to_owned();
    for (reference, what) in [
        (branch("mai"), "branch mai is not there"),
        (tag("main"), "tag main is not there"),
        (
            GitReference::Commit(absent),
            "commit 0123456789012345678901234567890123456789 is not there",
        ),
    ] {
        let missing = repository.fetch(&served(&server, reference)).await.unwrap_err();
        assert!(matches!(missing, SourceError::NotFound { .. }), "{missing:?}");
        assert!(missing.to_string().ends_with(what), "{missing}");
    }
    let elsewhere = source(&server.url("/nothing"), GitReference::Head);
    let missing = repository.fetch(&elsewhere).await.unwrap_err();
    assert!(matches!(missing, SourceError::NotFound { .. }), "{missing:?}");
    for reference in [
        branch("a b"),
        branch("a\nb"),
        tag(".."),
        GitReference::Commit("abc".to_owned()),
    ] {
        let invalid = repository.fetch(&served(&server, reference)).await.unwrap_err();
        assert!(matches!(invalid, SourceError::Invalid { .. }), "{invalid:?}");
    }
}

#[tokio::test]
async fn an_empty_repository_has_no_commit() {
    if !is_here() {
        return;
    }
    let repository = Repository::empty();
    let server = repository.serve().await;
    let missing = repository
        .fetch(&served(&server, GitReference::Head))
        .await
        .unwrap_err();
    assert!(matches!(missing, SourceError::NotFound { .. }), "{missing:?}");
}

#[tokio::test]
async fn files_are_read_and_links_are_only_told() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    repository.write("base/kustomization.yaml", "resources: []\n");
    repository.write("run.sh", "#!/bin/sh\n");
    std::os::unix::fs::symlink("/etc/passwd", repository.path().join("link.yaml")).unwrap();
    repository.git(&["add", "--all", "--chmod=+x"]);
    let head = repository.head();
    repository.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},module")]);
    let commit = repository.commit("overlay/deep/x.yaml", "x: ü\n");
    let server = repository.serve().await;
    let tree = repository.fetch(&served(&server, GitReference::Head)).await.unwrap();
    assert_eq!(tree.commit, commit);
    let paths: Vec<&str> = tree.files.keys().map(String::as_str).collect();
    assert_eq!(
        paths,
        [
            "a.yaml",
            "base/kustomization.yaml",
            "link.yaml",
            "overlay/deep/x.yaml",
            "run.sh"
        ]
    );
    assert_eq!(tree.files["link.yaml"], TreeFile::Link);
    assert_eq!(text(&tree, "overlay/deep/x.yaml"), "x: ü\n");
    assert_eq!(text(&tree, "run.sh"), "#!/bin/sh\n");
}

#[tokio::test]
async fn one_folder_can_be_read_by_itself() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    repository.commit("one/two/x.yaml", "x: 1\n");
    let server = repository.serve().await;
    let source = served(&server, GitReference::Head);
    let bounds = SourceBounds::default();
    for folder in ["one", "/one/two/", "./one/two"] {
        let tree = fetch_folder(&source, folder, &repository.cache(), &bounds)
            .await
            .unwrap();
        assert_eq!(tree.files.keys().collect::<Vec<_>>(), ["one/two/x.yaml"], "{folder}");
    }
    for folder in ["three", "a.yaml", "..", "one/../one"] {
        let missing = fetch_folder(&source, folder, &repository.cache(), &bounds)
            .await
            .unwrap_err();
        assert!(
            missing.to_string().ends_with(&format!("folder {folder} is not there")),
            "{missing}"
        );
    }
}

#[tokio::test]
async fn a_commit_is_fetched_once_and_then_kept() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    for number in 0..20 {
        repository.commit(&format!("{number}.yaml"), &format!("{number:0200}"));
    }
    let server = repository.serve().await;
    let source = served(&server, branch("main"));
    let fetches = || {
        let asked = server.asked();
        let fetches = asked
            .iter()
            .filter(|it| String::from_utf8_lossy(&it.body).contains("command=fetch"));
        fetches.count()
    };
    let tree = repository.fetch(&source).await.unwrap();
    assert_eq!(fetches(), 1);
    assert_eq!(repository.fetch(&source).await.unwrap(), tree);
    assert_eq!(repository.current(&source).await.unwrap(), tree.commit);
    assert_eq!(fetches(), 1);
    let next = repository.commit("0.yaml", "new");
    let tree = repository.fetch(&source).await.unwrap();
    assert_eq!((tree.commit.as_str(), fetches()), (next.as_str(), 2));
    assert_eq!(text(&tree, "0.yaml"), "new");
    assert_eq!(tree.files.len(), 21);
    // Git, too, finds nothing wrong with what is kept.
    let caches = fs::read_dir(repository.cache()).unwrap();
    let folder = caches.map(|it| it.unwrap().path()).find(|it| it.is_dir()).unwrap();
    repository.git(&["-C", folder.to_str().unwrap(), "fsck", "--full", &next]);
    // The second pack holds what has changed, and not everything.
    let packs = fs::read_dir(folder.join("objects/pack")).unwrap();
    let mut sizes: Vec<u64> = packs
        .map(|it| it.unwrap())
        .filter(|it| it.path().extension().is_some_and(|it| it == "pack"))
        .map(|it| it.metadata().unwrap().len())
        .collect();
    sizes.sort();
    assert!(sizes.len() == 2 && sizes[0] < sizes[1], "{sizes:?}");
}

#[tokio::test]
async fn a_rewritten_history_is_followed() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let server = repository.serve().await;
    for depth in [0, 1, 5] {
        let mut source = served(&server, branch("main"));
        source.clone_depth = depth;
        let before = repository.commit("a.yaml", &format!("before: {depth}\n"));
        assert_eq!(repository.fetch(&source).await.unwrap().commit, before);
        repository.write("a.yaml", &format!("rewritten: {depth}\n"));
        repository.git(&["commit", "--quiet", "--all", "--amend", "-m", "rewritten"]);
        repository.git(&["reflog", "expire", "--expire=now", "--all"]);
        repository.git(&["gc", "--quiet", "--prune=now"]);
        let tree = repository.fetch(&source).await.unwrap();
        assert_ne!(tree.commit, before);
        assert_eq!(text(&tree, "a.yaml"), format!("rewritten: {depth}\n"));
    }
}

#[tokio::test]
async fn a_commit_in_the_middle_of_history_is_fetched() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let middle = repository.commit("a.yaml", "middle: 1\n");
    repository.commit("a.yaml", "last: 1\n");
    let server = repository.serve().await;
    let source = served(&server, GitReference::Commit(middle.clone()));
    let tree = repository.fetch(&source).await.unwrap();
    assert_eq!(
        (tree.commit.as_str(), text(&tree, "a.yaml")),
        (middle.as_str(), "middle: 1\n")
    );
}

#[tokio::test]
async fn an_old_server_gives_a_commit_with_its_branch() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let middle = repository.commit("a.yaml", "middle: 1\n");
    repository.commit("a.yaml", "last: 1\n");
    repository.git(&["tag", "-a", "v1", "-m", "a message"]);
    // A server that does not understand the header speaks the first version, and gives away only what has a name.
    let server = repository
        .serve_with(None, |mut asked| {
            asked.headers.remove("git-protocol");
            Some(asked)
        })
        .await;
    let source = served(&server, tag("v1"));
    assert_eq!(repository.fetch(&source).await.unwrap().commit, repository.head());
    let source = served(&server, GitReference::Commit(middle.clone()));
    let tree = repository.fetch(&source).await.unwrap();
    assert_eq!(
        (tree.commit.as_str(), text(&tree, "a.yaml")),
        (middle.as_str(), "middle: 1\n")
    );
    let next = repository.commit("a.yaml", "next: 1\n");
    let source = served(&server, branch("main"));
    assert_eq!(repository.fetch(&source).await.unwrap().commit, next);
}

#[tokio::test]
async fn a_broken_cache_is_made_anew() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let server = repository.serve().await;
    let source = served(&server, branch("main"));
    let tree = repository.fetch(&source).await.unwrap();
    let caches = fs::read_dir(repository.cache()).unwrap();
    let folder = caches.map(|it| it.unwrap().path()).find(|it| it.is_dir()).unwrap();
    let of_kind = |kind: &str| {
        let packs = fs::read_dir(folder.join("objects/pack")).unwrap();
        let all = packs.map(|it| it.unwrap().path());
        all.filter(|it| it.extension().is_some_and(|it| it == kind))
            .collect::<Vec<_>>()
    };
    let overwrite = |kind: &str, change: fn(&mut Vec<u8>)| {
        for path in of_kind(kind) {
            let mut bytes = fs::read(&path).unwrap();
            change(&mut bytes);
            fs::remove_file(&path).unwrap();
            fs::write(&path, bytes).unwrap();
        }
    };
    let breaks: [&dyn Fn(); 7] = [
        &|| overwrite("pack", |it| it[12..].fill(0x55)),
        &|| overwrite("pack", |it| it.truncate(20)),
        &|| overwrite("pack", Vec::clear),
        &|| overwrite("idx", |it| it.truncate(100)),
        &|| fs::remove_file(&of_kind("pack")[0]).unwrap(),
        &|| fs::write(folder.join("config"), "no [configuration").unwrap(),
        &|| {
            fs::remove_dir_all(&folder).unwrap();
            fs::write(&folder, "a file").unwrap();
        },
    ];
    for (number, break_it) in breaks.iter().enumerate() {
        break_it();
        assert_eq!(repository.fetch(&source).await, Ok(tree.clone()), "{number}");
    }
    let bytes = "ffffffffffffffffffffffffffffffffffffffff\nnot hexadecimal\n";
    fs::write(folder.join("fetched"), bytes).unwrap();
    fs::write(folder.join("shallow"), "garbage").unwrap();
    let next = repository.commit("a.yaml", "next: 1\n");
    assert_eq!(repository.fetch(&source).await.unwrap().commit, next);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_may_fetch_the_same_repository_at_once() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let server = repository.serve().await;
    let source = served(&server, branch("main"));
    let all = futures::future::join_all((0..8).map(|_| repository.fetch(&source))).await;
    assert!(all.iter().all(|it| it == &all[0] && it.is_ok()), "{all:?}");
}

#[tokio::test]
async fn a_cache_does_not_grow_without_end() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let server = repository.serve().await;
    let source = served(&server, branch("main"));
    for number in 0..60 {
        let commit = repository.commit("a.yaml", &format!("a: {number}\n"));
        assert_eq!(repository.fetch(&source).await.unwrap().commit, commit);
    }
    let caches = fs::read_dir(repository.cache()).unwrap();
    let folder = caches.map(|it| it.unwrap().path()).find(|it| it.is_dir()).unwrap();
    let packs = fs::read_dir(folder.join("objects/pack")).unwrap().count();
    assert!(packs < 60, "{packs}");
}

#[tokio::test]
async fn repositories_that_nobody_uses_are_forgotten() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let (used, unused) = (repository.serve().await, repository.serve().await);
    let (used, unused) = (served(&used, branch("main")), served(&unused, branch("main")));
    let entries = || fs::read_dir(repository.cache()).unwrap().map(|it| it.unwrap().path());
    let folders = || entries().filter(|it| it.is_dir()).count();
    let day = Duration::from_secs(24 * 3600);
    forget_unused(&repository.cache(), day).await.unwrap();
    repository.fetch(&used).await.unwrap();
    repository.fetch(&unused).await.unwrap();
    fs::create_dir(repository.cache().join("another")).unwrap();
    forget_unused(&repository.cache(), day).await.unwrap();
    assert_eq!(folders(), 3);
    // Two days later.
    for lock in entries().filter(|it| it.extension().is_some_and(|it| it == "lock")) {
        let lock = File::options().write(true).open(lock).unwrap();
        lock.set_modified(SystemTime::now() - 2 * day).unwrap();
    }
    repository.current(&used).await.unwrap();
    forget_unused(&repository.cache(), day).await.unwrap();
    assert_eq!(folders(), 2);
    assert!(repository.fetch(&unused).await.is_ok());
}

#[tokio::test]
async fn trees_are_bounded() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    repository.write("one/two/three/x.yaml", "x: 1\n");
    repository.commit("large.bin", &"large".repeat(100));
    let server = repository.serve().await;
    let source = served(&server, branch("main"));
    let with = |change: fn(&mut SourceBounds)| {
        let mut bounds = SourceBounds::default();
        change(&mut bounds);
        let (source, cache) = (source.clone(), repository.cache());
        async move { fetch(&source, &cache, &bounds).await }
    };
    let tree = with(|it| it.file_bytes_max = 100).await.unwrap();
    assert_eq!(tree.files["large.bin"], TreeFile::TooLarge(500));
    let refusals: [(fn(&mut SourceBounds), &str); 3] = [
        (|it| it.files_max = 3, "the commit has more than 3 files"),
        (|it| it.depth_max = 2, "its folders are more than 2 deep"),
        (|it| it.total_bytes_max = 400, "400 bytes"),
    ];
    for (change, what) in refusals {
        let refused = with(change).await.unwrap_err();
        assert!(matches!(refused, SourceError::TooLarge { .. }), "{refused:?}");
        assert!(refused.to_string().contains(what), "{refused}");
    }
}

#[tokio::test]
async fn a_tree_of_empty_folders_has_an_end() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let mut tree = repository.git_with(&["mktree"], b"");
    for _ in 0..12 {
        let entries: String = (0..10).map(|it| format!("040000 tree {tree}\t{it}\n")).collect();
        tree = repository.git_with(&["mktree"], entries.as_bytes());
    }
    let commit = repository.git(&["commit-tree", &tree, "-m", "a bomb"]);
    repository.git(&["update-ref", "refs/heads/main", &commit]);
    let server = repository.serve().await;
    let refused = repository.fetch(&served(&server, branch("main"))).await.unwrap_err();
    assert!(refused.to_string().contains("more than 20000 files"), "{refused}");
}

#[tokio::test]
async fn names_that_lead_out_of_a_folder_are_refused() {
    if !is_here() {
        return;
    }
    for name in ["..", ".git", ".GIT", "a/b", "a\\b"] {
        let repository = Repository::with_commit();
        let blob = repository.git(&["rev-parse", "HEAD:a.yaml"]);
        let mut entry = format!("100644 {name}\0").into_bytes();
        entry.extend((0..20).map(|it| u8::from_str_radix(&blob[2 * it..2 * it + 2], 16).unwrap()));
        let tree = repository.git_with(&["hash-object", "-t", "tree", "-w", "--literally", "--stdin"], &entry);
        let commit = repository.git(&["commit-tree", &tree, "-m", "a way out"]);
        repository.git(&["update-ref", "refs/heads/main", &commit]);
        let server = repository.serve().await;
        let refused = repository.fetch(&served(&server, branch("main"))).await.unwrap_err();
        assert!(matches!(refused, SourceError::Corrupt { .. }), "{name}: {refused:?}");
        assert!(refused.to_string().contains("a tree has an entry named"), "{refused}");
    }
}

#[tokio::test]
async fn folders_of_this_machine_are_read_where_they_are() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    repository.git(&["tag", "-a", "v1", "-m", "a message"]);
    let first = repository.head();
    let second = repository.commit("b.yaml", "b: 1\n");
    repository.git(&["gc", "--quiet"]);
    let third = repository.commit("c.yaml", "c: 1\n");
    let bare = repository.path().join("../bare");
    repository.git(&["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    for path in [repository.path(), bare] {
        let path = path.canonicalize().unwrap();
        for url in [path.display().to_string(), format!("file://{}", path.display())] {
            let mut source = source(&url, GitReference::Head);
            assert!(matches!(
                repository.fetch(&source).await,
                Err(SourceError::Invalid { .. })
            ));
            source.local_folders_allowed = true;
            for (reference, commit) in [
                (GitReference::Head, &third),
                (branch("main"), &third),
                (tag("v1"), &first),
                (GitReference::Commit(second.clone()), &second),
            ] {
                source.reference = reference;
                assert_eq!(&repository.current(&source).await.unwrap(), commit, "{source:?}");
                let tree = repository.fetch(&source).await.unwrap();
                assert_eq!(&tree.commit, commit);
                assert_eq!(text(&tree, "a.yaml"), "a: 1\n");
            }
            source.reference = branch("none");
            assert!(matches!(
                repository.fetch(&source).await,
                Err(SourceError::NotFound { .. })
            ));
        }
    }
    let mut nothing = source(repository.cache().to_str().unwrap(), GitReference::Head);
    nothing.local_folders_allowed = true;
    let missing = repository.fetch(&nothing).await.unwrap_err();
    assert!(
        missing.to_string().ends_with("a Git repository is not there"),
        "{missing}"
    );
    assert!(!repository.cache().exists(), "a folder needs no cache");
}

#[tokio::test]
async fn commits_named_by_sha256_are_refused_in_words() {
    if !is_here() {
        return;
    }
    let repository = Repository::of_format("sha256");
    repository.commit("a.yaml", "a: 1\n");
    let server = repository.serve().await;
    let refused = repository
        .fetch(&served(&server, GitReference::Head))
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("names its commits by sha256"), "{refused}");
}
