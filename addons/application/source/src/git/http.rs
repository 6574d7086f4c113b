//! Git's protocol over HTTP, by our own client.

use super::run::Run;
use crate::{
    SourceAccess, SourceError,
    error::shown,
    web::{WebAnswer, WebClient, next_chunk},
};
use bytes::Bytes;
use gix::Error;
use gix_transport::Protocol;
use gix_transport::client::blocking_io::http::{GetResponse, Http, PostBodyDataKind, PostResponse, Transport};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header::CONTENT_TYPE};
use hyper::body::Incoming;
use std::{
    any::Any,
    io::{self, BufRead, Cursor, Read, Write},
    sync::{Arc, Mutex, PoisonError},
};
use url::Url;

const ADVERTISEMENT: &str = "application/x-git-upload-pack-advertisement";
const TAIL: &str = "/info/refs";

/// What we ask is a list of commits. More than this is a mistake.
const REQUEST_BYTES_MAX: usize = 16 << 20;

/// Opens a conversation with the server at `url`.
pub(super) fn connect(url: &Url, access: &SourceAccess, run: &Arc<Run>) -> Result<Transport<GitHttp>, SourceError> {
    let client = WebClient::new(url, access)?;
    let asked = gix::url::parse(shown(url).as_str())
        .map_err(|_| SourceError::invalid(format!("{} is no URL that Git knows", run.url)))?;
    let http = GitHttp {
        client: Arc::new(client),
        run: run.clone(),
        redirected: None,
    };
    Ok(Transport::new_http(http, asked, Protocol::V2, false))
}

/// HTTP as the library wants it.
pub(super) struct GitHttp {
    client: Arc<WebClient>,
    run: Arc<Run>,
    redirected: Option<String>,
}

impl GitHttp {
    fn parsed(&self, url: &str) -> io::Result<Url> {
        Url::parse(url).map_err(|it| self.run.fail(SourceError::invalid(format!("{}: {it}", self.run.url))))
    }
}

fn parsed_headers(lines: impl IntoIterator<Item = impl AsRef<str>>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        // The library wrote them.
        if let Some((name, value)) = line.as_ref().split_once(':')
            && let Ok(name) = HeaderName::try_from(name.trim())
            && let Ok(value) = HeaderValue::from_str(value.trim())
        {
            headers.insert(name, value);
        }
    }
    headers
}

impl Http for GitHttp {
    type Headers = HeaderLines;
    type ResponseBody = GitBody;
    type PostBody = PostBody;

    fn get(
        &mut self,
        url: &str,
        _: &str,
        headers: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<GetResponse<HeaderLines, GitBody>, Error> {
        let url = self.parsed(url).map_err(Error::from_error)?;
        let asking = self.client.send(
            Method::GET,
            &url,
            parsed_headers(headers),
            Bytes::new(),
            self.run.deadline,
        );
        let answer = self.run.wait(asking).map_err(Error::from_error)?;
        if !answer.status.is_success() {
            let refusal = self.client.refusal(&answer, "the repository");
            return Err(Error::from_error(self.run.fail(refusal)));
        }
        let content_type = answer.headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
        if content_type != Some(ADVERTISEMENT) {
            let kind = content_type.unwrap_or("nothing");
            let reason = format!("it answers with {kind}, as no Git server does: check the URL");
            let error = SourceError::corrupt(&shown(&answer.url), reason);
            return Err(Error::from_error(self.run.fail(error)));
        }
        if answer.url != url {
            let mut base = answer.url.clone();
            let Some(path) = answer.url.path().strip_suffix(TAIL) else {
                let reason = format!("it redirects to {}, which is no repository", shown(&answer.url));
                let error = SourceError::corrupt(&self.run.url, reason);
                return Err(Error::from_error(self.run.fail(error)));
            };
            base.set_path(path);
            self.redirected = Some(shown(&base));
        }
        let headers = HeaderLines::of(&answer);
        Ok(GetResponse {
            headers,
            body: GitBody {
                run: self.run.clone(),
                chunk: Bytes::new(),
                from: BodySource::Answer(Box::new(answer.body)),
            },
        })
    }

    fn post(
        &mut self,
        url: &str,
        _: &str,
        headers: impl IntoIterator<Item = impl AsRef<str>>,
        _: PostBodyDataKind,
    ) -> Result<PostResponse<HeaderLines, GitBody, PostBody>, Error> {
        let question = Question {
            client: self.client.clone(),
            run: self.run.clone(),
            url: self.parsed(url).map_err(Error::from_error)?,
            headers: parsed_headers(headers),
            request: Vec::new(),
        };
        let exchange = Arc::new(Mutex::new(Exchange::Asking(Box::new(question))));
        Ok(PostResponse {
            post_body: PostBody(exchange.clone()),
            headers: HeaderLines {
                lines: Cursor::default(),
                exchange: Some(exchange.clone()),
            },
            body: GitBody {
                run: self.run.clone(),
                chunk: Bytes::new(),
                from: BodySource::Exchange(exchange),
            },
        })
    }

    fn configure(&mut self, _: &dyn Any) -> Result<(), Error> {
        Ok(())
    }

    fn redirected_base_url(&self) -> Option<String> {
        self.redirected.clone()
    }
}

/// A request whose body is still being written, and which is sent when its answer is first read.
pub(super) enum Exchange {
    Asking(Box<Question>),
    Answered(Option<Box<Incoming>>),
}

/// What is going to be asked.
pub(super) struct Question {
    client: Arc<WebClient>,
    run: Arc<Run>,
    url: Url,
    headers: HeaderMap,
    request: Vec<u8>,
}

impl Exchange {
    /// Sends the request unless it has been sent. Returns the answer's headers when it does.
    fn send(&mut self) -> io::Result<Option<HeaderLines>> {
        let Exchange::Asking(question) = self else {
            return Ok(None);
        };
        let Question { client, run, url, .. } = &**question;
        let headers = question.headers.clone();
        let request = Bytes::from(question.request.clone());
        let asking = client.send(Method::POST, url, headers, request, run.deadline);
        let answered = run.wait(asking).and_then(|answer| {
            if answer.status.is_success() {
                return Ok(answer);
            }
            Err(run.fail(client.refusal(&answer, "the repository")))
        });
        let answer = match answered {
            Ok(answer) => answer,
            Err(error) => {
                *self = Exchange::Answered(None);
                return Err(error);
            }
        };
        let lines = HeaderLines::of(&answer);
        *self = Exchange::Answered(Some(Box::new(answer.body)));
        Ok(Some(lines))
    }
}

/// What is written here is asked.
pub(super) struct PostBody(Arc<Mutex<Exchange>>);

impl Write for PostBody {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Exchange::Asking(it) if it.request.len() + bytes.len() <= REQUEST_BYTES_MAX => {
                it.request.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            _ => Err(io::Error::other("the request is sent already, or too large")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An answer's headers, line by line.
pub(super) struct HeaderLines {
    lines: Cursor<Vec<u8>>,
    /// Where they come from when they are first read.
    exchange: Option<Arc<Mutex<Exchange>>>,
}

impl HeaderLines {
    fn of(answer: &WebAnswer) -> Self {
        let mut lines = Vec::new();
        for (name, value) in &answer.headers {
            lines.extend_from_slice(name.as_str().as_bytes());
            lines.extend_from_slice(b": ");
            // What is no text in a header means nothing to Git.
            lines.extend_from_slice(value.to_str().unwrap_or_default().as_bytes());
            lines.push(b'\n');
        }
        Self {
            lines: Cursor::new(lines),
            exchange: None,
        }
    }
}

impl Read for HeaderLines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fill_buf()?;
        self.lines.read(buffer)
    }
}

impl BufRead for HeaderLines {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if let Some(exchange) = self.exchange.take()
            && let Some(answered) = exchange.lock().unwrap_or_else(PoisonError::into_inner).send()?
        {
            self.lines = answered.lines;
        }
        self.lines.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.lines.consume(bytes);
    }
}

/// An answer's body, as it comes.
pub(super) struct GitBody {
    run: Arc<Run>,
    chunk: Bytes,
    from: BodySource,
}

enum BodySource {
    Answer(Box<Incoming>),
    Exchange(Arc<Mutex<Exchange>>),
}

impl Read for GitBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let length = available.len().min(buffer.len());
        buffer[..length].copy_from_slice(&available[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for GitBody {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.chunk.is_empty() {
            let run = &self.run;
            let next = |body: &mut Incoming| run.wait(next_chunk(body, &run.url, run.deadline));
            let chunk = match &mut self.from {
                BodySource::Answer(body) => next(body)?,
                BodySource::Exchange(exchange) => {
                    let mut exchange = exchange.lock().unwrap_or_else(PoisonError::into_inner);
                    exchange.send()?;
                    match &mut *exchange {
                        Exchange::Answered(Some(body)) => next(body)?,
                        _ => None,
                    }
                }
            };
            if let Some(chunk) = chunk {
                self.run.count(chunk.len())?;
                self.chunk = chunk;
            }
        }
        Ok(&self.chunk)
    }

    fn consume(&mut self, bytes: usize) {
        let _ = self.chunk.split_to(bytes.min(self.chunk.len()));
    }
}
