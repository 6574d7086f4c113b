//! Buckets, whole and in part.

use application_source::{
    SourceAccess, SourceBounds, SourceCredentials, SourceError,
    bucket::{BucketObject, BucketSource, list, read},
};
use source_servers::{
    Signer,
    bucket::{BucketServer, KEY_ID, is_signed, refused},
    web::{ServerAnswer, ServerRequest, answer, unending},
};
use std::collections::BTreeMap;

fn signed() -> SourceCredentials {
    SourceCredentials::S3 {
        access_key_id: KEY_ID.to_owned(),
        secret_access_key: "hidden".into(),
        region: Some("ignored".to_owned()),
    }
}

fn objects() -> BTreeMap<String, Vec<u8>> {
    let keys = [
        "a/1.yaml",
        "a/ä b+c&d=.yaml",
        "a/empty.yaml",
        "a/folder/",
        "a/z.yaml",
        "b.yaml",
    ];
    let data = |key: &str| match key {
        "a/empty.yaml" | "a/folder/" => Vec::new(),
        key => format!("of: {key}\n").into_bytes(),
    };
    keys.into_iter().map(|key| (key.to_owned(), data(key))).collect()
}

async fn server(change: impl Fn(&ServerRequest) -> Option<ServerAnswer> + Send + Sync + 'static) -> BucketServer {
    BucketServer::start_with(None, objects(), change).await
}

fn source(server: &BucketServer, prefix: &str) -> BucketSource {
    BucketSource {
        pathname: server.pathname(),
        prefix: prefix.to_owned(),
        access: SourceAccess {
            credentials: signed(),
            ..SourceAccess::default()
        },
    }
}

/// Everything in a bucket, without anything known before.
async fn all(source: &BucketSource, bounds: &SourceBounds) -> Result<Vec<BucketObject>, SourceError> {
    let listing = list(source, bounds).await?;
    read(source, &listing, &[], bounds).await
}

async fn failure(source: &BucketSource) -> SourceError {
    let failed = all(source, &SourceBounds::default()).await.unwrap_err();
    assert!(!failed.to_string().contains("hidden"), "{failed}");
    failed
}

#[tokio::test]
async fn objects_below_a_prefix_are_read_in_order() {
    let server = server(|_| None).await;
    for (prefix, keys) in [
        ("", &["a/1.yaml", "a/z.yaml", "a/ä b+c&d=.yaml", "b.yaml"][..]),
        ("/a/", &["a/1.yaml", "a/z.yaml", "a/ä b+c&d=.yaml"][..]),
        ("nothing", &[][..]),
    ] {
        let read = all(&source(&server, prefix), &SourceBounds::default()).await.unwrap();
        let found: Vec<&str> = read.iter().map(|it| it.key.as_str()).collect();
        assert_eq!(found, keys);
        assert!(
            read.iter()
                .all(|it| *it.data == *format!("of: {}\n", it.key).as_bytes())
        );
    }
    assert!(server.web.asked().iter().all(is_signed));
}

#[tokio::test]
async fn a_bucket_that_lists_and_refuses_fails_as_a_whole() {
    let server = server(|asked| asked.path.ends_with("z.yaml").then(|| refused(403, "AccessDenied"))).await;
    let failed = failure(&source(&server, "")).await;
    assert!(matches!(failed, SourceError::LoginNeeded { .. }), "{failed:?}");
    assert!(
        failed.to_string().ends_with("(AccessDenied) for object a/z.yaml"),
        "{failed}"
    );
}

#[tokio::test]
async fn an_object_that_has_gone_meanwhile_is_named() {
    let server = server(|asked| asked.path.ends_with("z.yaml").then(|| refused(404, "NoSuchKey"))).await;
    let failed = failure(&source(&server, "")).await;
    assert!(
        failed.to_string().ends_with("object a/z.yaml (NoSuchKey) is not there"),
        "{failed}"
    );
}

#[tokio::test]
async fn a_bucket_that_is_not_there_is_named() {
    let server = server(|_| None).await;
    let mut elsewhere = source(&server, "");
    elsewhere.pathname = server.web.url("/behind/c");
    let failed = failure(&elsewhere).await;
    assert!(matches!(failed, SourceError::NotFound { .. }), "{failed:?}");
    assert!(failed.to_string().ends_with("bucket c is not there"), "{failed}");
}

#[tokio::test]
async fn only_those_who_have_a_key_sign() {
    let server = server(|_| None).await;
    let mut anonymous = source(&server, "");
    anonymous.access.credentials = SourceCredentials::None;
    let failed = failure(&anonymous).await;
    assert!(failed.to_string().contains("give credentials"), "{failed}");
    assert!(server.web.asked().iter().all(|it| it.authorization().is_none()));
    anonymous.access.credentials = SourceCredentials::AuthHeader("hidden".into());
    assert!(matches!(failure(&anonymous).await, SourceError::Invalid { .. }));
}

#[tokio::test]
async fn a_bucket_is_bounded() {
    let sized = |bounds: SourceBounds| async move {
        let server = server(|asked| {
            asked
                .path
                .ends_with("z.yaml")
                .then(|| unending(b"", vec![b'#'; 65_536]))
        })
        .await;
        all(&source(&server, ""), &bounds).await.unwrap_err()
    };
    let changes: [fn(&mut SourceBounds); 4] = [
        |_| {},
        |it| it.files_max = 3,
        |it| it.file_bytes_max = 10,
        |it| it.total_bytes_max = 30,
    ];
    for change in changes {
        let mut bounds = SourceBounds::default();
        change(&mut bounds);
        let refused = sized(bounds).await;
        assert!(matches!(refused, SourceError::TooLarge { .. }), "{refused:?}");
    }
}

#[tokio::test]
async fn a_listing_that_goes_round_is_refused() {
    let server = server(|asked| {
        let listing = "<ListBucketResult><IsTruncated>true</IsTruncated>\
                       <NextContinuationToken>x</NextContinuationToken></ListBucketResult>";
        asked.query.contains("list-type").then(|| answer(200, listing))
    })
    .await;
    let failed = failure(&source(&server, "")).await;
    assert!(failed.to_string().contains("its listing has no end"), "{failed}");
}

#[tokio::test]
async fn keys_that_mean_something_in_urls_are_refused() {
    let server = server(|asked| {
        let listing = "<ListBucketResult><Contents><Key>a/../../c/x</Key></Contents></ListBucketResult>";
        asked.query.contains("list-type").then(|| answer(200, listing))
    })
    .await;
    let failed = failure(&source(&server, "")).await;
    assert!(
        failed.to_string().contains("has a name that no URL can have"),
        "{failed}"
    );
}

#[tokio::test]
async fn a_bucket_behind_an_authority_of_its_own_is_read() {
    let signer = Signer::generate();
    let server = BucketServer::start_with(Some(signer.server(false)), objects(), |_| None).await;
    let mut source = source(&server, "b");
    assert!(matches!(failure(&source).await, SourceError::Unreachable { .. }));
    source.access.ca_certificates = Some(signer.pem);
    assert_eq!(all(&source, &SourceBounds::default()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn only_what_has_changed_is_read_again() {
    let server = server(|_| None).await;
    let source = source(&server, "a/");
    let bounds = SourceBounds::default();
    let first = list(&source, &bounds).await.unwrap();
    let before = read(&source, &first, &[], &bounds).await.unwrap();
    assert_eq!(server.read_keys().len(), 3);
    let same = list(&source, &bounds).await.unwrap();
    assert_eq!(same.digest(), first.digest());
    assert_eq!(BucketObject::digest(&before), first.digest());
    server.put("a/1.yaml", "another\n");
    server.put("a/2.yaml", "new\n");
    server.remove("a/z.yaml");
    let second = list(&source, &bounds).await.unwrap();
    assert_ne!(second.digest(), first.digest());
    let after = read(&source, &second, &before, &bounds).await.unwrap();
    assert_eq!(server.read_keys(), ["a/1.yaml", "a/2.yaml"]);
    let texts: Vec<_> = after.iter().map(|it| std::str::from_utf8(&it.data).unwrap()).collect();
    assert_eq!(texts, ["another\n", "new\n", "of: a/ä b+c&d=.yaml\n"]);
}

#[tokio::test]
async fn a_bucket_that_changes_meanwhile_is_read_again() {
    let server = server(|_| None).await;
    let source = source(&server, "b");
    let bounds = SourceBounds::default();
    let first = list(&source, &bounds).await.unwrap();
    server.put("b.yaml", "later\n");
    let read_late = read(&source, &first, &[], &bounds).await.unwrap();
    server.put("b.yaml", "of: b.yaml\n");
    let again = list(&source, &bounds).await.unwrap();
    // It is what it was when it was listed first, and not what was read.
    assert_eq!(again.digest(), first.digest());
    assert_ne!(BucketObject::digest(&read_late), again.digest());
    let after = read(&source, &again, &read_late, &bounds).await.unwrap();
    assert_eq!(*after[0].data, *b"of: b.yaml\n");
}

#[tokio::test]
async fn a_listing_without_tags_tells_no_change() {
    let server = server(|asked| {
        let listing = "<ListBucketResult><Contents><Key>b.yaml</Key><Size>1</Size></Contents></ListBucketResult>";
        asked.query.contains("list-type").then(|| answer(200, listing))
    })
    .await;
    let source = source(&server, "");
    let bounds = SourceBounds::default();
    let listing = list(&source, &bounds).await.unwrap();
    assert_eq!(listing.digest(), None);
    let before = read(&source, &listing, &[], &bounds).await.unwrap();
    read(&source, &listing, &before, &bounds).await.unwrap();
    assert_eq!(server.read_keys(), ["b.yaml", "b.yaml"]);
}
