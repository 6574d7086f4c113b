//! Buckets of an S3 server of other people, which looks at signatures as AWS does: moto's, by
//! `tests/conformance/python/s3_server.py`. Skipped where there is no Python that has it.

use application_source::{
    SourceAccess, SourceBounds, SourceCredentials, SourceError,
    bucket::{BucketObject, BucketSource, list, read},
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

const PYTHON: &str = "python-moto";
const BUCKET: &str = "shop";
/// More than a page of a listing names.
const MANY: usize = 1003;

struct S3Server {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    said: Value,
}

impl S3Server {
    /// With an empty bucket; `None` when there is no Python for it.
    fn start() -> Option<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/conformance/python/s3_server.py");
        let started = Command::new(PYTHON)
            .arg(script)
            .arg(BUCKET)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut process) = started else {
            println!("skipped: there is no {PYTHON}, which .ci/run makes");
            return None;
        };
        let mut server = Self {
            input: process.stdin.take(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
            said: Value::Null,
        };
        server.said = serde_json::from_str(&server.line()).unwrap();
        Some(server)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    fn tell(&mut self, what: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{what}").unwrap();
        assert_eq!(self.line(), "done\n");
    }

    fn put(&mut self, key: &str, body: &str) {
        self.tell(&json!({"put": key, "body": body}));
    }

    fn source(&self, bucket: &str, prefix: &str, secret: Option<&str>) -> BucketSource {
        let text = |key: &str| self.said[key].as_str().unwrap().to_owned();
        BucketSource {
            pathname: format!("{}/{bucket}", text("address")),
            prefix: prefix.to_owned(),
            access: SourceAccess {
                credentials: SourceCredentials::S3 {
                    access_key_id: text("id"),
                    secret_access_key: secret.map_or_else(|| text("secret"), str::to_owned).into(),
                    region: None,
                },
                ..SourceAccess::default()
            },
        }
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // It ends with its input.
        self.input = None;
        let _ = self.process.wait();
    }
}

async fn all(source: &BucketSource, before: &[BucketObject]) -> Result<Vec<BucketObject>, SourceError> {
    let bounds = SourceBounds::default();
    let listing = list(source, &bounds).await?;
    read(source, &listing, before, &bounds).await
}

fn texts(objects: &[BucketObject]) -> Vec<(&str, &str)> {
    let text = |it: &BucketObject| std::str::from_utf8(&it.data).unwrap().to_owned().leak() as &str;
    objects.iter().map(|it| (it.key.as_str(), text(it))).collect()
}

#[tokio::test]
async fn a_bucket_of_a_real_server_is_read() {
    let Some(mut server) = S3Server::start() else { return };
    let odd = "a/ä b+c&d=%~(1)'.yaml";
    server.put("a/1.yaml", "one");
    server.put(odd, "odd");
    server.put("b/2.yaml", "two");
    let source = server.source(BUCKET, "a/", None);
    let first = all(&source, &[]).await.unwrap();
    assert_eq!(texts(&first), [("a/1.yaml", "one"), (odd, "odd")]);
    server.put("a/1.yaml", "changed");
    server.tell(&json!({"delete": odd}));
    let second = all(&source, &first).await.unwrap();
    assert_eq!(texts(&second), [("a/1.yaml", "changed")]);
}

#[tokio::test]
async fn all_pages_of_a_real_server_are_read() {
    let Some(mut server) = S3Server::start() else { return };
    (0..MANY).for_each(|it| server.put(&format!("{it:04}.yaml"), "a"));
    let listing = list(&server.source(BUCKET, "", None), &SourceBounds::default())
        .await
        .unwrap();
    assert_eq!(listing.objects.len(), MANY);
}

#[tokio::test]
async fn a_real_server_refuses_wrong_keys_and_unknown_buckets() {
    let Some(server) = S3Server::start() else { return };
    let refused = all(&server.source(BUCKET, "", Some("wrong")), &[]).await.unwrap_err();
    assert!(matches!(refused, SourceError::LoginNeeded { .. }), "{refused:?}");
    let missing = all(&server.source("nowhere", "", None), &[]).await.unwrap_err();
    assert!(matches!(missing, SourceError::NotFound { .. }), "{missing:?}");
}
