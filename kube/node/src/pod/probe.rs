//! Probes and hooks: asking a container whether it is well, and telling it what happens.

use super::{PodRun, container::Prepared};
use crate::{process::LaunchStdio, times};
use k8s_openapi::{
    api::core::v1::{Container, ExecAction, HTTPGetAction, Probe},
    apimachinery::pkg::util::intstr::IntOrString,
};
use std::{net::Ipv4Addr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

/// What is asked, whether by a probe or by a hook.
pub enum Action<'a> {
    Exec(&'a ExecAction),
    Http(&'a HTTPGetAction),
    Tcp(Option<&'a str>, &'a IntOrString),
    Sleep(Duration),
}

/// What a probe asks; `None` for a kind that this node does not know, which counts as well.
pub fn action(probe: &Probe) -> Option<Action<'_>> {
    if let Some(it) = &probe.exec {
        return Some(Action::Exec(it));
    }
    if let Some(it) = &probe.http_get {
        return Some(Action::Http(it));
    }
    let tcp = probe.tcp_socket.as_ref()?;
    Some(Action::Tcp(tcp.host.as_deref(), &tcp.port))
}

/// The longest answer that is looked at.
const ANSWER_BYTES_MAX: u64 = 10 * 1024;

/// Does it once; the error is what a kubelet tells.
pub async fn ask(run: &PodRun, container: &Container, prepared: &Prepared, action: &Action<'_>) -> Result<(), String> {
    match action {
        Action::Exec(exec) => {
            let words = exec.command.as_deref().unwrap_or_default();
            let line = words.iter().map(|it| prepared.paths.rewrite(it)).collect();
            let launch = prepared.launch(line, LaunchStdio::Output);
            let process = run.ground.spawner.spawn(launch).await;
            let mut process = process.map_err(|error| format!("command could not be run: {error}"))?;
            let (out, err) = process.output();
            let read = async {
                let mut text = Vec::new();
                if let Some(out) = out {
                    let _ = out.take(ANSWER_BYTES_MAX).read_to_end(&mut text).await;
                }
                if let Some(err) = err {
                    let _ = err.take(ANSWER_BYTES_MAX).read_to_end(&mut text).await;
                }
                text
            };
            let (exit, text) = tokio::join!(process.wait(), read);
            if exit.code == 0 {
                return Ok(());
            }
            Err(String::from_utf8_lossy(&text).trim_end().to_owned())
        }
        Action::Http(get) => http(container, get, run.address.ip()).await,
        Action::Tcp(host, port) => {
            let port = port_of(container, port)?;
            connect(*host, run.address.ip(), port).await.map(drop)
        }
        Action::Sleep(duration) => {
            tokio::time::sleep(*duration).await;
            Ok(())
        }
    }
}

fn port_of(container: &Container, port: &IntOrString) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(it) => Some(*it),
        IntOrString::String(name) => {
            let ports = container.ports.as_deref().unwrap_or_default();
            let named = ports.iter().find(|it| it.name.as_ref() == Some(name));
            named.map(|it| it.container_port).or_else(|| name.parse().ok())
        }
    };
    let number = number.and_then(|it| u16::try_from(it).ok());
    number.ok_or_else(|| format!("couldn't find port: {port:?}"))
}

/// The host that an action names, or else the pod.
fn host(named: Option<&str>, pod: Ipv4Addr) -> String {
    let named = named.filter(|it| !it.is_empty());
    named.map_or_else(|| pod.to_string(), str::to_owned)
}

async fn connect(named: Option<&str>, pod: Ipv4Addr, port: u16) -> Result<TcpStream, String> {
    let host = host(named, pod);
    let stream = TcpStream::connect((host.as_str(), port)).await;
    stream.map_err(|error| format!("dial tcp {host}:{port}: {error}"))
}

async fn http(container: &Container, get: &HTTPGetAction, pod: Ipv4Addr) -> Result<(), String> {
    let port = port_of(container, &get.port)?;
    let stream = connect(get.host.as_deref(), pod, port).await?;
    if !get.scheme.as_deref().unwrap_or("HTTP").eq_ignore_ascii_case("https") {
        return exchange(stream, get, &host(get.host.as_deref(), pod), port).await;
    }
    let name = rustls_pki_types::ServerName::try_from("localhost").map_err(|error| error.to_string())?;
    let connector = tokio_rustls::TlsConnector::from(trusting()?);
    let stream = connector
        .connect(name, stream)
        .await
        .map_err(|error| error.to_string())?;
    exchange(stream, get, &host(get.host.as_deref(), pod), port).await
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    get: &HTTPGetAction,
    host: &str,
    port: u16,
) -> Result<(), String> {
    let path = get.path.as_deref().filter(|it| !it.is_empty()).unwrap_or("/");
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut request = format!("GET {slash}{path} HTTP/1.1\r\nConnection: close\r\nUser-Agent: kube-probe/node\r\n");
    let mut has_host = false;
    for header in get.http_headers.iter().flatten() {
        has_host |= header.name.eq_ignore_ascii_case("host");
        request.push_str(&format!("{}: {}\r\n", header.name, header.value));
    }
    if !has_host {
        request.push_str(&format!("Host: {host}:{port}\r\n"));
    }
    request.push_str("\r\n");
    let failed = |error: std::io::Error| format!("Get \"{path}\": {error}");
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut answer = Vec::new();
    // A peer that closes without saying goodbye has answered all the same.
    let read = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await;
    match status_of(&answer) {
        Some(200..400) => Ok(()),
        Some(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
        None => Err(match read {
            Err(error) => failed(error),
            Ok(_) => format!("Get \"{path}\": malformed HTTP response"),
        }),
    }
}

fn status_of(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|it| *it == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let (version, rest) = line.split_once(' ')?;
    version.starts_with("HTTP/1.").then_some(())?;
    rest.split(' ').next()?.parse().ok()
}

/// As a kubelet, a probe does not ask who answers: it brings no secret and takes no answer but yes or no.
fn trusting() -> Result<Arc<rustls::ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct Anybody(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &rustls_pki_types::CertificateDer<'_>,
        _: &[rustls_pki_types::CertificateDer<'_>],
        _: &rustls_pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls_pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &rustls_pki_types::CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &rustls_pki_types::CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Asks again and again, and tells each time that the answer has held for as often as the probe wants: `true` for well.
pub async fn watch(
    run: &PodRun,
    container: &Container,
    prepared: &Prepared,
    probe: &Probe,
    kind: &str,
    mut told: impl FnMut(bool) -> bool,
) {
    let count = |it: Option<i32>, default: i32| it.filter(|it| *it > 0).unwrap_or(default);
    let period = times::of_seconds(count(probe.period_seconds, 10).into());
    let timeout = times::of_seconds(count(probe.timeout_seconds, 1).into());
    let (successes, failures) = (count(probe.success_threshold, 1), count(probe.failure_threshold, 3));
    tokio::time::sleep(times::of_seconds(
        probe.initial_delay_seconds.unwrap_or_default().into(),
    ))
    .await;
    let mut held = (true, 0);
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let answer = match action(probe) {
            None => Ok(()),
            Some(action) => tokio::time::timeout(timeout, ask(run, container, prepared, &action))
                .await
                .unwrap_or_else(|_| Err(format!("probe timed out after {} s", timeout.as_secs()))),
        };
        if let Err(text) = &answer {
            run.warn(
                "Unhealthy",
                Some(&container.name),
                &format!("{kind} probe failed: {text}"),
            );
        }
        let well = answer.is_ok();
        held = if held.0 == well { (well, held.1 + 1) } else { (well, 1) };
        if held.1 >= if well { successes } else { failures } && !told(well) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_in_the_first_line() {
        assert_eq!(status_of(b"HTTP/1.1 204 No Content\r\nA: b\r\n\r\n"), Some(204));
        assert_eq!(status_of(b"HTTP/1.0 500 x\r\n"), Some(500));
        assert_eq!(status_of(b"SSH-2.0-x\r\n"), None);
        assert_eq!(status_of(b""), None);
    }

    #[test]
    fn a_port_is_a_number_or_a_name() {
        let container: Container = serde_json::from_value(serde_json::json!({
            "name": "c", "ports": [{"name": "web", "containerPort": 8080}],
        }))
        .unwrap();
        let named = |it: &str| IntOrString::String(it.into());
        assert_eq!(port_of(&container, &IntOrString::Int(80)), Ok(80));
        assert_eq!(port_of(&container, &named("web")), Ok(8080));
        assert_eq!(port_of(&container, &named("81")), Ok(81));
        assert!(port_of(&container, &named("none")).is_err());
    }
}
