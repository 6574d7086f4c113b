//! Git servers on their bad days: away, silent, without an end, and talking nonsense.

use crate::git_server::{Fetching, Repository, is_here, served, source};
use application_source::{
    SourceBounds, SourceError,
    git::{GitReference, current_commit, fetch},
};
use proptest::{collection::vec, prelude::*, strategy::ValueTree, test_runner::TestRunner};
use source_servers::web::{ServerAnswer, WebServer, answer, nobody, unending};
use std::time::Duration;

const COMMIT: &str = "0123456789012345678901234567890123456789";

fn line(text: &str) -> String {
    format!("{:04x}{text}", text.len() + 4)
}

/// What a server of the second version says first.
fn greeting() -> Vec<u8> {
    let lines = [
        "# service=git-upload-pack\n",
        "version 2\n",
        "agent=git/2\n",
        "ls-refs=unborn\n",
        "fetch=shallow\n",
    ];
    let mut all = line(lines[0]) + "0000";
    all.extend(lines[1..].iter().map(|it| line(it)));
    (all + "0000").into_bytes()
}

fn listing() -> Vec<u8> {
    (line(&format!("{COMMIT} HEAD symref-target:refs/heads/main\n")) + "0000").into_bytes()
}

fn of_type(mut answer: ServerAnswer, kind: &str) -> ServerAnswer {
    let value = format!("application/x-git-upload-pack-{kind}");
    answer.headers_mut().insert("content-type", value.parse().unwrap());
    answer
}

/// A server that greets and lists as it should, and then sends this.
async fn server_that_sends(pack: impl Fn() -> ServerAnswer + Send + Sync + 'static) -> WebServer {
    WebServer::start(move |asked| {
        let body = String::from_utf8_lossy(&asked.body).into_owned();
        let answer = if asked.path.ends_with("/info/refs") {
            of_type(answer(200, greeting()), "advertisement")
        } else if body.contains("command=ls-refs") {
            of_type(answer(200, listing()), "result")
        } else {
            of_type(pack(), "result")
        };
        async move { answer }
    })
    .await
}

async fn failure(server: &WebServer, bounds: &SourceBounds) -> SourceError {
    let folder = tempfile::tempdir().unwrap();
    let source = source(&server.url("/a"), GitReference::Head);
    fetch(&source, folder.path(), bounds).await.unwrap_err()
}

#[tokio::test]
async fn a_server_that_is_away_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let away = nobody().await.replace("://", "://me:secret@") + "/a?token=secret";
    let failed = current_commit(
        &source(&away, GitReference::Head),
        folder.path(),
        &SourceBounds::default(),
    )
    .await;
    let failed = failed.unwrap_err();
    assert!(matches!(failed, SourceError::Unreachable { .. }), "{failed:?}");
    let text = failed.to_string();
    assert!(
        text.starts_with("http://localhost:") && text.contains("refused"),
        "{text}"
    );
    assert!(!text.contains("secret"), "{text}");
}

#[tokio::test]
async fn a_silent_server_is_given_up() {
    let bounds = SourceBounds {
        time_max: Duration::from_millis(200),
        ..SourceBounds::default()
    };
    let silent = WebServer::start(|_| std::future::pending()).await;
    let failed = failure(&silent, &bounds).await;
    assert!(matches!(failed, SourceError::TimedOut { .. }), "{failed:?}");
    assert!(failed.to_string().ends_with("did not answer within 0.2 s"), "{failed}");
}

#[tokio::test]
async fn a_failing_server_is_told_by_its_status() {
    for (status, is_kind) in [
        (
            500,
            (|it| matches!(it, SourceError::Unreachable { .. })) as fn(&SourceError) -> bool,
        ),
        (429, |it| matches!(it, SourceError::Unreachable { .. })),
        (403, |it| matches!(it, SourceError::LoginNeeded { .. })),
        (404, |it| matches!(it, SourceError::NotFound { .. })),
    ] {
        let server = WebServer::start(move |_| async move { answer(status, "") }).await;
        let failed = failure(&server, &SourceBounds::default()).await;
        assert!(is_kind(&failed), "{failed:?}");
        let server = server_that_sends(move || answer(status, "")).await;
        let failed = failure(&server, &SourceBounds::default()).await;
        assert!(is_kind(&failed), "{failed:?}");
    }
    let page = WebServer::start(|_| async { answer(200, "<html>") }).await;
    let failed = failure(&page, &SourceBounds::default()).await;
    assert!(
        failed.to_string().contains("as no Git server does: check the URL"),
        "{failed}"
    );
}

#[tokio::test]
async fn a_pack_without_an_end_is_refused() {
    let bounds = SourceBounds {
        total_bytes_max: 1 << 20,
        ..SourceBounds::default()
    };
    // One object that never ends: its size is as large as a number gets, and its data are no zlib or all zeros.
    let start = line("packfile\n").into_bytes();
    let mut pack = b"\x01PACK\0\0\0\x02\0\0\0\x01".to_vec();
    pack.extend([0xb0, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    let mut band = format!("{:04x}", pack.len() + 4).into_bytes();
    band.extend(&pack);
    let zeros = [format!("{:04x}", 65_504 + 4).into_bytes(), vec![1], vec![0; 65_503]].concat();
    let progress = [format!("{:04x}", 65_504 + 4).into_bytes(), vec![2], vec![b'.'; 65_503]].concat();
    for (start, chunk) in [
        ([start.clone(), band].concat(), zeros),
        (start, progress),
        (Vec::new(), line("shallow-info\n").into_bytes()),
        (line("acknowledgments\n").into_bytes(), line("NAK\n").into_bytes()),
    ] {
        let server = server_that_sends(move || unending(&start, chunk.clone())).await;
        let failed = failure(&server, &bounds).await;
        assert!(
            matches!(failed, SourceError::TooLarge { .. } | SourceError::Corrupt { .. }),
            "{failed:?}"
        );
    }
}

#[tokio::test]
async fn references_without_an_end_are_refused() {
    let bounds = SourceBounds {
        total_bytes_max: 1 << 20,
        ..SourceBounds::default()
    };
    let chunk = line(&format!("{COMMIT} refs/heads/x\n")).repeat(1000).into_bytes();
    let server = WebServer::start(move |asked| {
        let answer = if asked.path.ends_with("/info/refs") {
            of_type(answer(200, greeting()), "advertisement")
        } else {
            of_type(unending(b"", chunk.clone()), "result")
        };
        async move { answer }
    })
    .await;
    let failed = failure(&server, &bounds).await;
    assert!(matches!(failed, SourceError::TooLarge { .. }), "{failed:?}");
}

#[tokio::test]
async fn a_large_repository_stops_at_the_bound() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let noise: Vec<u8> = (0..600_000_u32)
        .flat_map(|it| it.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    std::fs::write(repository.path().join("noise.bin"), noise).unwrap();
    repository.commit("b.yaml", "b: 1\n");
    let server = repository.serve().await;
    let bounds = SourceBounds {
        total_bytes_max: 100_000,
        ..SourceBounds::default()
    };
    let source = served(&server, GitReference::Head);
    let failed = fetch(&source, &repository.cache(), &bounds).await.unwrap_err();
    assert!(matches!(failed, SourceError::TooLarge { .. }), "{failed:?}");
    // The bound, and not what was left behind, decides the next time.
    assert!(repository.fetch(&source).await.is_ok());
}

#[tokio::test]
async fn an_object_that_inflates_beyond_the_bound_is_refused() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    std::fs::write(repository.path().join("zeros.bin"), vec![0; 20 << 20]).unwrap();
    repository.commit("b.yaml", "b: 1\n");
    let server = repository.serve().await;
    let bounds = SourceBounds {
        total_bytes_max: 1 << 20,
        ..SourceBounds::default()
    };
    let source = served(&server, GitReference::Head);
    let failed = fetch(&source, &repository.cache(), &bounds).await.unwrap_err();
    assert!(matches!(failed, SourceError::TooLarge { .. }), "{failed:?}");
}

#[tokio::test]
async fn a_server_that_hangs_up_early_is_no_success() {
    if !is_here() {
        return;
    }
    let repository = Repository::with_commit();
    let commit = repository.head();
    let pack = repository.git_with(&["rev-parse", "--git-dir"], b"");
    assert_eq!(pack, ".git");
    for cut in [0, 10, 60, 200] {
        let names = (line(&format!("{commit} HEAD\n")) + "0000").into_bytes();
        let server = WebServer::start(move |asked| {
            let body = String::from_utf8_lossy(&asked.body).into_owned();
            let answer = if asked.path.ends_with("/info/refs") {
                of_type(answer(200, greeting()), "advertisement")
            } else if body.contains("command=ls-refs") {
                of_type(answer(200, names.clone()), "result")
            } else {
                let whole = line("packfile\n") + &line("\x01PACK\0\0\0\x02\0\0\0\x03").repeat(20);
                of_type(answer(200, whole.into_bytes()[..cut].to_vec()), "result")
            };
            async move { answer }
        })
        .await;
        let failed = failure(&server, &SourceBounds::default()).await;
        assert!(matches!(failed, SourceError::Corrupt { .. }), "{cut}: {failed:?}");
    }
}

/// Lines of the protocol, some of which are none.
fn nonsense() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "version 2\n",
        "version 1\n",
        "# service=git-upload-pack\n",
        "ls-refs=unborn\n",
        "fetch=shallow\n",
        "object-format=sha1\n",
        "packfile\n",
        "shallow-info\n",
        "acknowledgments\n",
        "wanted-refs\n",
        "NAK\n",
        "ready\n",
        "ERR no\n",
        "\x01PACK\0\0\0\x02\0\0\0\x01",
        "\x02progress\n",
        "\x03failed\n",
        "shallow 0123456789012345678901234567890123456789\n",
        "0123456789012345678901234567890123456789 HEAD\0multi_ack_detailed side-band-64k shallow\n",
        "0123456789012345678901234567890123456789 HEAD symref-target:refs/heads/main\n",
        "unborn HEAD symref-target:refs/heads/main\n",
    ]);
    let piece = prop_oneof![
        6 => known.prop_map(|it| line(it).into_bytes()),
        2 => prop::sample::select(vec!["0000", "0001", "0002", "0003", "0004", "ffff"]).prop_map(|it| it.into()),
        1 => vec(any::<u8>(), 0..30),
        1 => vec(any::<u8>(), 0..30).prop_map(|it| [format!("{:04x}", it.len() + 4).into_bytes(), it].concat()),
    ];
    vec(piece, 0..8).prop_map(|it| it.concat())
}

#[tokio::test]
async fn nonsense_is_an_error_and_nothing_worse() {
    let mut runner = TestRunner::deterministic();
    let bounds = SourceBounds {
        time_max: Duration::from_secs(20),
        ..SourceBounds::default()
    };
    let mut draw = || nonsense().new_tree(&mut runner).unwrap().current();
    for number in 0..300 {
        let bytes = draw();
        let server = match number % 3 {
            0 => {
                WebServer::start(move |_| {
                    let answer = of_type(answer(200, bytes.clone()), "advertisement");
                    async move { answer }
                })
                .await
            }
            1 => server_that_sends(move || answer(200, bytes.clone())).await,
            _ => {
                WebServer::start(move |asked| {
                    let answer = if asked.path.ends_with("/info/refs") {
                        of_type(answer(200, greeting()), "advertisement")
                    } else {
                        of_type(answer(200, bytes.clone()), "result")
                    };
                    async move { answer }
                })
                .await
            }
        };
        let failed = failure(&server, &bounds).await;
        assert!(!matches!(failed, SourceError::TimedOut { .. }), "{number}: {failed:?}");
    }
}
