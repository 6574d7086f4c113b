//! From a request to its answer: who asks, whether they may, and which verb serves it.

use crate::{
    admission, authz, backup, body,
    call::{Call, WriteAnswer, WriteResponse},
    content,
    context::ServerContext,
    convert,
    credentials::{Credentials, identify},
    discovery, eviction, fair,
    identity::{Attributes, MASTERS, UNAUTHENTICATED, User},
    intake::Counted,
    listen::PeerCertificate,
    openapi,
    options::DeleteOptions,
    pages,
    party::Party,
    pod_streams,
    registry::Resource,
    request::{Query, ResourcePath, Route, route},
    resource_ids::LEASES,
    respond::{self, Body, Form, Shape},
    reviews, scale, shape, standing,
    verbs::{self, patch::PatchType},
};
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use hyper::upgrade::OnUpgrade;
use kube_store::status::Status;
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");
/// Requests are served in the order they come; the headers name one constant flow because some tools look for them.
const FLOW: HeaderValue = HeaderValue::from_static("4f0b0d5e-0d5c-4e5b-9a6e-5a1f0e1c7d01");

/// Answers one request. `user` is set for in-process clients, which show no credentials.
pub async fn handle<B>(
    server: &Arc<ServerContext>,
    request: Request<B>,
    peer: Option<Arc<PeerCertificate>>,
    user: Option<User>,
) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (mut parts, incoming) = request.into_parts();
    let upgrade = parts.extensions.remove::<OnUpgrade>();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let audit = parts.headers.get("audit-id").cloned();
    let form = respond::negotiate(&parts.headers, &query);
    let is_own = user.is_some();
    let answered = async {
        let who = identify(
            &server.authenticator,
            &server.rbac,
            &parts.headers,
            peer.as_deref(),
            user.clone(),
        )?;
        let rank = match who.real.is_in(MASTERS) {
            _ if is_own => Rank::Own,
            true => Rank::Administrator,
            false => Rank::Client,
        };
        let asked = Asked {
            server,
            method: &parts.method,
            path: parts.uri.path(),
            headers: &parts.headers,
            query,
            peer,
            own: user,
            party: server.parties.of(&who.real),
            rank,
            user: who.user,
            form: &form,
            upgrade,
        };
        answer(asked, incoming).await
    };
    let mut response = answered
        .await
        .unwrap_or_else(|status| respond::failure(&status, &form.unwrap_or_default()));
    let headers = response.headers_mut();
    let audit = audit.or_else(|| HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()).ok());
    if let Some(audit) = audit {
        headers.insert(AUDIT_ID, audit);
    }
    headers.insert(FLOW_SCHEMA, FLOW);
    headers.insert(PRIORITY_LEVEL, FLOW);
    if parts.method == Method::HEAD {
        // Over HTTP/2 nobody else keeps the body back, and clients end the stream as broken when it comes.
        *response.body_mut() = Body::empty();
    }
    response
}

/// What bounds somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rank {
    /// Nothing: who is in the process is part of the server. Were it made to wait for others, they would wait for it.
    Own,
    /// The seats, some of which are kept for it.
    Administrator,
    /// All bounds.
    Client,
}

/// One request.
struct Asked<'a> {
    server: &'a Arc<ServerContext>,
    method: &'a Method,
    path: &'a str,
    headers: &'a HeaderMap,
    query: Query,
    peer: Option<Arc<PeerCertificate>>,
    /// Who asks from within the process.
    own: Option<User>,
    /// Who is served.
    user: User,
    rank: Rank,
    /// Whose share it counts in.
    party: Party,
    form: &'a Result<Form, Status>,
    /// Takes the connection over.
    upgrade: Option<OnUpgrade>,
}

impl Asked<'_> {
    /// As whose its body is counted.
    fn counted(&self, is_urgent: bool) -> Counted<'_> {
        let party = &self.party;
        match self.rank {
            Rank::Own => Counted::Not,
            Rank::Administrator => Counted::InTotal,
            Rank::Client => Counted::Of { party, is_urgent },
        }
    }

    /// Waits for a seat, which nobody has yet whose body is not there.
    ///
    /// # Errors
    /// The answer of who does not get one.
    async fn seat(&self, is_urgent: bool) -> Result<Option<fair::Seat>, Response<Body>> {
        let (fair, client) = (&self.server.fair, &*self.party.client);
        let kind = fair::SeatKind::of(self.method);
        let seat = match self.rank {
            Rank::Own => return Ok(None),
            Rank::Client if !is_urgent => fair.seat(client, kind).await,
            _ => fair.kept_seat(client, kind).await,
        };
        seat.map(Some).ok_or_else(respond::too_many_requests)
    }
}

async fn answer<B>(asked: Asked<'_>, incoming: B) -> Result<Response<Body>, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Asked {
        server,
        method,
        path,
        headers,
        form,
        ..
    } = asked;
    let route = route(path);
    if let Route::Resource(path_of) = route {
        return resource(asked, path_of, incoming).await;
    }
    let page = match route {
        Route::Unknown => pages::find(&server.pages.read(), path),
        _ => None,
    };
    if let Some(page) = page {
        if asked.user.is_in(UNAUTHENTICATED) {
            return Err(Status::unauthorized());
        }
        let (body, _room) = server.intake.read(incoming, asked.counted(false)).await?;
        let _seat = match asked.seat(false).await {
            Ok(seat) => seat,
            Err(refused) => return Ok(refused),
        };
        let may = |attributes: &Attributes| server.may(&asked.user, attributes);
        return Ok(pages::answer(&*page, &may, method, path, &body).await);
    }
    // Whether a server lives is asked most urgently when it has much to do.
    let _seat = match matches!(route, Route::Health(..)) {
        true => None,
        false => match asked.seat(false).await {
            Ok(seat) => seat,
            Err(refused) => return Ok(refused),
        },
    };
    let Asked { query, user, .. } = asked;
    let verb = method.as_str().to_ascii_lowercase();
    let attributes = Attributes {
        verb,
        path: path.to_owned(),
        ..Attributes::default()
    };
    // Everybody may `get` these, and HEAD is a verb of its own where there is no object.
    let is_public = matches!(&route, Route::Health(_, check) if check.is_empty()) || route == Route::Version;
    let public = is_public && method == Method::GET;
    if !public && !server.may(&user, &attributes) {
        return Err(authz::forbidden(&user, &attributes));
    }
    if let Route::Health(which, check) = &route {
        return Ok(health(server, which, check, &query));
    }
    // All objects are more than a page of the server: who may read every page need not be who may read every Secret.
    if route == Route::Backup && !server.may(&user, &everything()) {
        return Err(authz::forbidden(&user, &attributes));
    }
    if method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let registry = server.registry.load();
    match route {
        Route::Version => Ok(respond::value(
            200,
            &Form {
                pretty: true,
                ..Form::default()
            },
            &discovery::version(),
        )),
        Route::Root => Ok(respond::value(200, &Form::default(), &discovery::paths(&registry))),
        Route::Legacy | Route::Groups if discovery::wants_aggregated(headers).is_some() => {
            Ok(discovery::aggregated(&registry, route == Route::Legacy, headers))
        }
        Route::Legacy => Ok(respond::value(
            200,
            form.as_ref().map_err(Clone::clone)?,
            &discovery::legacy(),
        )),
        Route::Groups => Ok(respond::value(
            200,
            form.as_ref().map_err(Clone::clone)?,
            &discovery::groups(&registry),
        )),
        Route::Group(group) => match discovery::group(&registry, &group) {
            Some(value) => Ok(respond::value(200, form.as_ref().map_err(Clone::clone)?, &value)),
            None => Ok(not_found_text()),
        },
        Route::GroupVersion(group, version) => match discovery::group_version(&registry, &group, &version) {
            Some(value) => Ok(respond::value(200, form.as_ref().map_err(Clone::clone)?, &value)),
            None => no_resource(server, &group),
        },
        Route::OpenApiV2 => Ok(openapi::v2(&registry, headers)),
        Route::OpenApiV3(key) if key.is_empty() => Ok(openapi::v3_index(&registry, headers)),
        Route::OpenApiV3(key) => Ok(openapi::v3_document(&registry, &key, query.get("hash"), headers)),
        Route::OpenIdConfiguration => {
            // What a client calls the server is its own choice, and would be where others look for the keys.
            let host = match server.address {
                Some(address) => address.to_string(),
                None => "kubernetes.default.svc".to_owned(),
            };
            let value = crate::tokens::openid_configuration(&format!("https://{host}"));
            Ok(respond::value(200, &Form::default(), &value))
        }
        Route::Jwks => {
            let key = server.pki.token_key().map_err(|it| Status::internal(it.to_string()))?;
            let mut response = respond::value(200, &Form::default(), &key.jwks());
            response.headers_mut().insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/jwk-set+json"),
            );
            Ok(response)
        }
        Route::Metrics => Ok(respond::text(200, metrics(server))),
        Route::Backup => {
            let mut response = respond::text(200, String::new());
            *response.body_mut() = Body::Stream(backup::stream(&server.store));
            Ok(response)
        }
        _ => Ok(not_found_text()),
    }
}

/// Every verb on every resource, which administrators have.
fn everything() -> Attributes {
    Attributes {
        verb: "*".into(),
        is_resource: true,
        group: "*".into(),
        version: "*".into(),
        resource: "*".into(),
        ..Attributes::default()
    }
}

fn metrics(server: &ServerContext) -> String {
    let mut text = String::from(
        "# HELP apiserver_storage_objects Number of stored objects.\n# TYPE apiserver_storage_objects gauge\n",
    );
    let mut resources = server.store.resources();
    resources.sort();
    for resource in resources {
        text.push_str(&format!(
            "apiserver_storage_objects{{resource=\"{resource}\"}} {}\n",
            server.store.count(&resource)
        ));
    }
    text.push_str(&format!(
        "# HELP apiserver_request_body_bytes Bytes of request bodies whose requests are not answered yet.\n\
         # TYPE apiserver_request_body_bytes gauge\napiserver_request_body_bytes {}\n",
        server.intake.bytes()
    ));
    let (watches, bytes) = server.buffers.now();
    text.push_str(&format!(
        "# HELP apiserver_watches Open watches.\n# TYPE apiserver_watches gauge\napiserver_watches {watches}\n\
         # HELP apiserver_watch_buffered_bytes Bytes that wait for watches to be read.\n\
         # TYPE apiserver_watch_buffered_bytes gauge\napiserver_watch_buffered_bytes {bytes}\n",
    ));
    text.push_str(&format!(
        "# HELP apiserver_watch_authorizations_total Open watches that were asked again whether they may go on.\n\
         # TYPE apiserver_watch_authorizations_total counter\napiserver_watch_authorizations_total {}\n",
        server.standing.asked()
    ));
    text
}

fn not_found_text() -> Response<Body> {
    respond::text(404, "404 page not found\n")
}

fn health(server: &ServerContext, which: &str, check: &str, query: &Query) -> Response<Body> {
    let ready = which != "readyz" || server.is_ready();
    // Nobody is let in before the first objects are there, so who is not ready any more is about to stop.
    let stopping = !ready;
    // Who is alive and cannot write would be no better for a restart.
    let keeps = which == "livez" || server.trouble().is_none();
    let checks = [
        ("ping", true),
        ("etcd", keeps),
        ("poststarthook/bootstrap", ready || stopping),
        ("shutdown", !stopping),
    ];
    if !check.is_empty() {
        return match checks.iter().find(|(name, _)| *name == check) {
            Some((_, true)) => respond::text(200, "ok"),
            Some((_, false)) => respond::text(500, format!("{check} failed")),
            None => not_found_text(),
        };
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let ok = checks.iter().all(|(name, ok)| *ok || excluded.contains(name));
    if ok && !query.flag("verbose") {
        return respond::text(200, "ok");
    }
    let mut text = String::new();
    for (name, ok) in checks {
        text.push_str(&match (excluded.contains(&name), ok) {
            (true, _) => format!("[+]{name} excluded: ok\n"),
            (_, true) => format!("[+]{name} ok\n"),
            (_, false) => format!("[-]{name} failed: reason withheld\n"),
        });
    }
    text.push_str(&format!("{which} check {}\n", if ok { "passed" } else { "failed" }));
    respond::text(if ok { 200 } else { 500 }, text)
}

/// The 404 of a path whose version or resource does not exist: a Status for built-in groups, text for the others.
fn no_resource(server: &ServerContext, group: &str) -> Result<Response<Body>, Status> {
    let registry = server.registry.load();
    let builtin = registry
        .group(group)
        .is_some_and(|it| it.values().any(|it| it.is_builtin()));
    if builtin {
        Err(Status::no_such_resource())
    } else {
        Ok(not_found_text())
    }
}

/// What a method is told that a path does not take: of built-in resources `status`; paths of custom resources are found
/// before their methods are, and what writes an object asks which.
fn wrong_method(
    server: &ServerContext,
    method: &Method,
    path: &ResourcePath,
    status: Status,
) -> Result<Response<Body>, Status> {
    let registry = server.registry.load();
    let found = registry.find(&path.group, &path.version, &path.resource);
    match found.filter(|it| !it.is_builtin()) {
        None => Err(status),
        Some(resource) if !has_scope(resource, path, method.as_str()) => Ok(not_found_text()),
        Some(_) if path.name.is_empty() && matches!(*method, Method::PUT | Method::PATCH) => {
            Err(Status::bad_request("name must be provided"))
        }
        Some(_) => Err(status),
    }
}

async fn resource<B>(asked: Asked<'_>, path: ResourcePath, incoming: B) -> Result<Response<Body>, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Asked {
        server,
        method,
        path: path_text,
        headers,
        form,
        ref query,
        ref user,
        ..
    } = asked;
    let verb = match path.verb(method, query) {
        Ok(verb) => verb,
        // Who may not even look does not learn which methods exist.
        Err(status) => {
            let attributes = path.attributes(&method.as_str().to_ascii_lowercase(), query, path_text);
            if !server.may(user, &attributes) && !user.is_in(crate::identity::AUTHENTICATED) {
                return Err(authz::forbidden(user, &attributes));
            }
            return wrong_method(server, method, &path, status);
        }
    };
    let limit = match verb {
        "watch" => DEADLINE,
        _ => deadline(query)?,
    };
    let attributes = path.attributes(verb, query, path_text);
    if !server.may(user, &attributes) {
        return Err(authz::forbidden(user, &attributes));
    }
    let found = server
        .registry
        .load()
        .find(&path.group, &path.version, &path.resource)
        .cloned();
    let Some(resource) = found else {
        return no_resource(server, &path.group);
    };
    if !resource.is_builtin() && !has_scope(&resource, &path, verb) {
        return Ok(not_found_text());
    }
    check_scope(&resource, &path, verb)?;
    let user_agent = headers
        .get(header::USER_AGENT)
        .and_then(|it| it.to_str().ok())
        .unwrap_or_default();
    // Before it takes a seat: whoever holds a body back keeps nobody from one. And once all is there
    // that it is answered with.
    let began = Instant::now();
    let is_urgent = &*resource.id == LEASES;
    let (bytes, _room) = match verb {
        "get" | "list" | "watch" => (Bytes::new(), None),
        _ => server.intake.read(incoming, asked.counted(is_urgent)).await?,
    };
    let _seat = match asked.seat(is_urgent).await {
        Ok(seat) => seat,
        Err(refused) => return Ok(refused),
    };
    let credentials = || Credentials::new(headers, asked.peer.clone(), asked.own.clone());
    // What was allowed then may have been taken away meanwhile.
    if began.elapsed() > SINCE_ALLOWED {
        let now = credentials().identify(&server.authenticator, &server.rbac)?.user;
        if !server.may(&now, &attributes) {
            return Err(authz::forbidden(&now, &attributes));
        }
    }
    let mut call = Call {
        server,
        user: user.clone(),
        version: path.version,
        namespace: if resource.namespaced {
            path.namespace
        } else {
            String::new()
        },
        name: path.name,
        subresource: path.subresource,
        query: query.clone(),
        user_agent: user_agent.to_owned(),
        now: jiff::Timestamp::now(),
        warnings: Vec::new(),
        party: (asked.rank == Rank::Client).then(|| asked.party.clone()),
        resource,
    };
    call.warnings.extend(call.served().deprecation.clone());
    let form = form.as_ref().map_err(Clone::clone)?;
    if call.id().as_ref() == "pods" && call.subresource == "proxy" {
        verbs::log::pod(&call).await?;
        return Err(Status::bad_request("address not allowed"));
    }
    if call.id().as_ref() == "pods" && pod_streams::STREAMS.contains(&call.subresource.as_str()) {
        let connection = verbs::connect::Connection {
            headers,
            upgrade: asked.upgrade,
            attributes: &attributes,
        };
        let held = credentials();
        let hold = |call: &Call<'_>| {
            let stream = futures::stream::pending().boxed();
            let (standing, stop) = (&server.standing, &server.stop);
            match standing::while_it_stands(standing, stop, held, &call.user, attributes.clone(), stream) {
                Body::Stream(it) => it,
                Body::Full(_) => futures::stream::pending().boxed(),
            }
        };
        let connected = verbs::connect::connect(&mut call, connection, hold).await;
        let mut response = connected.unwrap_or_else(|status| respond::failure(&status, form));
        respond::warn(&mut response, &call.warnings);
        return Ok(response);
    }
    let answered = match verb {
        "get" if call.subresource == "log" => verbs::log::log(&call).await,
        "watch" => watch(&call, form),
        "get" => get(&call, form).await,
        "list" => within(limit, list(&call, form, headers)).await,
        _ => {
            let media = body::media_type(headers);
            let written = within(limit.min(WRITE_DEADLINE), write(&mut call, verb, &media, bytes, form)).await;
            if written.is_err() {
                server.shown().await;
            }
            written
        }
    };
    // What was noticed on the way is told of a request that fails, too.
    let mut response = answered.unwrap_or_else(|status| respond::failure(&status, form));
    respond::warn(&mut response, &call.warnings);
    let goes_on = verb == "watch" || call.subresource == "log";
    if !goes_on {
        return Ok(response);
    }
    Ok(response.map(|body| match body {
        Body::Stream(stream) => standing::while_it_stands(
            &server.standing,
            &server.stop,
            credentials(),
            &call.user,
            attributes,
            stream,
        ),
        body => body,
    }))
}

/// How long what authorization said counts: a right that is taken away ends within a second,
/// however slowly somebody sends.
const SINCE_ALLOWED: Duration = Duration::from_millis(250);

/// How long a request may take that names no shorter time. Watches and logs go on for as long as they like.
const DEADLINE: Duration = Duration::from_secs(60);

/// How long a write may take, whatever time it names (`requestTimeoutUpperBound` of kube-apiserver).
const WRITE_DEADLINE: Duration = Duration::from_secs(34);

/// How long the client gives a request.
///
/// # Errors
/// 400 for a `timeout` that is no duration.
fn deadline(query: &Query) -> Result<Duration, Status> {
    let Some(text) = query.text("timeout").filter(|it| *it != "0") else {
        return Ok(DEADLINE);
    };
    let asked = text.parse::<jiff::SignedDuration>().map_err(|_| {
        Status::bad_request(format!(
            "invalid timeout specified in the request URL - time: invalid duration {text:?}"
        ))
    })?;
    // None at all means as long as the server allows.
    Ok(asked
        .try_into()
        .ok()
        .filter(|it| !Duration::is_zero(it))
        .map_or(DEADLINE, |it: Duration| it.min(DEADLINE)))
}

/// What comes of a request, if it comes in time. A write whose end was not waited for may still have happened.
async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let mut status = Status::new(
            504,
            "Timeout",
            "Timeout: request did not complete within requested timeout - context deadline exceeded",
        );
        status.details = Some(Box::new(json!({})));
        Err(status)
    })
}

/// Whether the path of a custom resource has its scope. Kubernetes does not know the path of one that has not.
fn has_scope(resource: &Resource, path: &ResourcePath, verb: &str) -> bool {
    match (resource.namespaced, path.namespace.is_empty()) {
        (true, true) => path.name.is_empty() && matches!(verb, "list" | "watch"),
        (false, false) => false,
        _ => true,
    }
}

/// Whether the path has the scope of its resource, and the subresource exists.
fn check_scope(resource: &Resource, path: &ResourcePath, verb: &str) -> Result<(), Status> {
    // A namespace is its own: the rights to it are asked for there.
    let is_itself = &*resource.id == "namespaces" && path.namespace == path.name;
    let has_namespace = !path.namespace.is_empty() && !is_itself;
    if resource.namespaced {
        let needs_namespace = !path.name.is_empty() || matches!(verb, "create" | "deletecollection");
        if needs_namespace && path.namespace.is_empty() {
            return Err(if path.name.is_empty() {
                Status::method_not_allowed()
            } else {
                Status::no_such_resource()
            });
        }
    } else if has_namespace {
        return Err(Status::no_such_resource());
    }
    if verb == "deletecollection" && resource.traits.no_delete_collection {
        return Err(Status::method_not_allowed());
    }
    if resource.traits.review && verb != "create" {
        return Err(Status::method_not_allowed());
    }
    let served = resource.version(&path.version);
    // A subresource is part of its object: it takes no other verbs, and a right to one is no right to make
    // or delete objects.
    let takes = match path.subresource.as_str() {
        "status" | "scale" => matches!(verb, "get" | "patch" | "update"),
        other => resource.subresource(other).is_none_or(|it| it.verbs.contains(&verb)),
    };
    let known = match path.subresource.as_str() {
        "" => true,
        "proxy" if &*resource.id == "pods" => true,
        "status" => served.is_some_and(|it| it.status),
        "scale" => resource.traits.scale && (resource.is_builtin() || served.is_some_and(|it| it.scale.is_some())),
        other => resource.subresource(other).is_some(),
    };
    match (known, resource.is_builtin()) {
        (true, _) if !takes => Err(Status::method_not_allowed()),
        (true, _) => Ok(()),
        (false, true) => Err(Status::no_such_resource()),
        (false, false) => Err(Status::not_found(&resource.plural, &resource.group, &path.name)),
    }
}

async fn get(call: &Call<'_>, form: &Form) -> Result<Response<Body>, Status> {
    let bytes = verbs::get::get(call).await?;
    let value = || serde_json::from_slice::<Value>(&bytes).expect("the bytes were serialized from a value");
    if call.subresource == "scale" {
        let value = scale::read(call, &value())?;
        return Ok(respond::value(200, form, &shape::object(call, &form.shape, value)?));
    }
    if form.shape == Shape::Object && form.media == respond::Media::Json && !form.pretty {
        return Ok(respond::bytes(200, form, bytes, false));
    }
    let value = shape::object(call, &form.shape, value())?;
    Ok(respond::value(200, form, &value))
}

async fn list(call: &Call<'_>, form: &Form, headers: &HeaderMap) -> Result<Response<Body>, Status> {
    let page = verbs::list::list(call)?;
    convert::prepare(&call.resource, &call.version, &page.objects).await?;
    let gzip = respond::accepts_gzip(headers);
    if form.shape == Shape::Object && form.media == respond::Media::Json && !form.pretty {
        return Ok(respond::pieces(form, verbs::list::splice(call, page), gzip));
    }
    let body = respond::encode(&shape::list(call, &form.shape, &page)?, form);
    Ok(respond::bytes(200, form, body, gzip))
}

fn watch(call: &Call<'_>, form: &Form) -> Result<Response<Body>, Status> {
    if form.media != respond::Media::Json {
        return Err(Status::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json;stream=watch, \
             application/vnd.kubernetes.protobuf;stream=watch",
        ));
    }
    let stream = verbs::watch::watch(call, form.shape.clone())?;
    let mut response = respond::bytes(200, &Form::default(), Bytes::new(), false);
    *response.body_mut() = Body::Stream(stream);
    Ok(response)
}

async fn write(
    call: &mut Call<'_>,
    verb: &str,
    media: &str,
    bytes: Bytes,
    form: &Form,
) -> Result<Response<Body>, Status> {
    let written = match verb {
        "create" if call.resource.traits.review || call.subresource == "token" => {
            let options = call.write_options("CreateOptions", false)?;
            let is_token = call.subresource == "token";
            let mut value = if is_token {
                let mut value = body::parse_any(&bytes, media)?;
                content::decode_posted(call, ("authentication.k8s.io", "TokenRequest"), &mut value, &options)?;
                value
            } else {
                let mut value = body::parse_object(call, &bytes, media, &options)?;
                content::check_kind(call, &mut value)?;
                content::decode(call, &mut value, &options)?;
                content::check_namespace(call, &value)?;
                value
            };
            admission::post(call, &mut value).await?;
            let resource = if is_token {
                "serviceaccounts/token"
            } else {
                &call.resource.plural
            };
            let deps = reviews::Deps {
                store: &call.server.store,
                pki: &call.server.pki,
                rbac: &call.server.rbac,
                authenticator: &call.server.authenticator,
                now: call.now,
            };
            let value = reviews::create(deps, &call.user, resource, &call.namespace, &call.name, value)?;
            WriteResponse {
                code: 201,
                answer: WriteAnswer::Value(value),
            }
        }
        "create" if !call.subresource.is_empty() => create_subresource(call, media, &bytes).await?,
        "create" => {
            let options = call.write_options("CreateOptions", false)?;
            let value = body::parse_object(call, &bytes, media, &options)?;
            verbs::create::create(call, value, &options).await?
        }
        "update" => {
            let options = call.write_options("UpdateOptions", false)?;
            if call.subresource == "scale" {
                let value = body::parse_any(&bytes, media)?;
                verbs::scale::write(call, &value, &options).await?
            } else {
                let value = body::parse_object(call, &bytes, media, &options)?;
                verbs::update::update(call, value, &options).await?
            }
        }
        "patch" => patch(call, media, &bytes).await?,
        "delete" => {
            let value = delete_body(media, &bytes)?;
            let options = verbs::delete::read_options(call, value.as_ref())?;
            verbs::delete::delete(call, &options).await?
        }
        _ => {
            let value = delete_body(media, &bytes)?;
            let options = verbs::delete::read_options(call, value.as_ref())?;
            return delete_collection(call, &options, form).await;
        }
    };
    let code = written.code;
    match written.answer {
        WriteAnswer::Stored(object)
            if form.shape == Shape::Object && form.media == respond::Media::Json && !form.pretty =>
        {
            Ok(respond::bytes(code, form, object.json.clone(), false))
        }
        answer => {
            let value = WriteResponse { code, answer }.into_value();
            let status = value["kind"] == "Status";
            let value = if status {
                value
            } else {
                shape::object(call, &form.shape, value)?
            };
            Ok(respond::value(code, form, &value))
        }
    }
}

fn delete_body(media: &str, bytes: &Bytes) -> Result<Option<Value>, Status> {
    if bytes.is_empty() {
        Ok(None)
    } else {
        body::parse_any(bytes, media).map(Some)
    }
}

async fn patch(call: &mut Call<'_>, media: &str, bytes: &Bytes) -> Result<WriteResponse, Status> {
    let kind = match media {
        "application/json-patch+json" => PatchType::Json,
        "application/merge-patch+json" => PatchType::Merge,
        "application/strategic-merge-patch+json" if call.resource.is_builtin() => PatchType::Strategic,
        "application/apply-patch+yaml" => {
            let options = call.write_options("PatchOptions", true)?;
            let config = body::parse_applied(call, bytes, &options)?;
            if call.subresource == "scale" {
                return verbs::scale::apply(call, &config, &options).await;
            }
            return verbs::apply::apply(call, config, &options).await;
        }
        _ if call.resource.is_builtin() => return Err(Status::unsupported_media_type("415: Unsupported Media Type")),
        _ => {
            return Err(Status::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            ));
        }
    };
    let options = call.write_options("PatchOptions", false)?;
    if call.subresource == "scale" {
        return verbs::scale::patch(call, kind, bytes, &options).await;
    }
    verbs::patch::patch(call, kind, bytes, &options).await
}

/// `eviction` and `binding` of a pod.
async fn create_subresource(call: &mut Call<'_>, media: &str, bytes: &Bytes) -> Result<WriteResponse, Status> {
    let mut value = body::parse_any(bytes, media)?;
    if call.subresource == "eviction" {
        let options = call.write_options("CreateOptions", false)?;
        content::decode_posted(call, ("policy", "Eviction"), &mut value, &options)?;
    }
    // What the object says it is about counts for those who judge it, the path for what happens.
    let named = value["metadata"]["name"].as_str().unwrap_or_default();
    if call.subresource == "eviction" && named != call.name {
        return Err(Status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    admission::post(call, &mut value).await?;
    let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    match call.subresource.as_str() {
        "eviction" => {
            call.subresource.clear();
            // Of the query only this is read: the other options are those of a POST.
            let dry_run = call.write_options("CreateOptions", false)?.dry_run;
            let mut options =
                verbs::delete::read_options(call, Some(value.get("deleteOptions").unwrap_or(&json!({}))))?;
            options.dry_run |= dry_run;
            eviction::evict(call, &options).await?;
        }
        "binding" => {
            let node = value["target"]["name"].clone();
            let condition = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": crate::object_meta::seconds(call.now)});
            let options = call.write_options("CreateOptions", false)?;
            let patch = json!({"spec": {"nodeName": node}, "status": {"conditions": [condition]}}).to_string();
            verbs::patch::patch(call, PatchType::Strategic, patch.as_bytes(), &options).await?;
        }
        _ => return Err(Status::method_not_allowed()),
    }
    Ok(WriteResponse {
        code: 201,
        answer: WriteAnswer::Value(success),
    })
}

/// Deletes every object that a list with the same selectors shows, and answers that list.
async fn delete_collection(
    call: &mut Call<'_>,
    options: &DeleteOptions,
    form: &Form,
) -> Result<Response<Body>, Status> {
    let page = verbs::list::list(call)?;
    let namespace = call.namespace.clone();
    let options = &DeleteOptions {
        of_collection: true,
        ..options.clone()
    };
    verbs::delete::delete_all(call, &page.objects, options).await?;
    call.name.clear();
    call.namespace = namespace;
    convert::prepare(&call.resource, &call.version, &page.objects).await?;
    let body = respond::encode(&shape::list(call, &Shape::Object, &page)?, form);
    Ok(respond::bytes(200, form, body, false))
}
