//! Who is at the other end of a TLS connection.

use std::{io, sync::Arc};

use rustls_pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The subject of a verified client certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The common name.
    pub common_name: String,
    /// The organizations.
    pub organizations: Vec<String>,
}

/// Says why a peer may not come in by a port.
pub type Admit = Arc<dyn Fn(&Peer) -> Result<(), String> + Send + Sync>;

impl Peer {
    /// Of a connection whose certificate rustls has verified; without a certificate everything is empty.
    ///
    /// # Errors
    /// When the certificate cannot be read.
    pub fn of(stream: &TlsStream<TcpStream>) -> io::Result<Self> {
        let chain = stream.get_ref().1.peer_certificates();
        chain
            .and_then(<[_]>::first)
            .map_or_else(|| Ok(Self::default()), Self::read)
    }

    fn read(certificate: &CertificateDer<'_>) -> io::Result<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).map_err(io::Error::other)?;
        let subject = certificate.subject();
        let text = |it: &x509_parser::prelude::AttributeTypeAndValue<'_>| it.as_str().unwrap_or_default().to_owned();
        let mut names: Vec<String> = subject.iter_common_name().map(text).collect();
        if names.len() > 1 {
            return Err(io::Error::other("the certificate has several common names"));
        }
        Ok(Self {
            common_name: names.pop().unwrap_or_default(),
            organizations: subject.iter_organization().map(text).collect(),
        })
    }
}

/// Lets in whoever has this common name, and nobody else.
pub fn only(common_name: impl Into<String>) -> Admit {
    let wanted = common_name.into();
    Arc::new(move |peer| {
        if peer.common_name == wanted {
            return Ok(());
        }
        Err(format!("certificate of {:?}, wanted {wanted:?}", peer.common_name))
    })
}

/// Lets in whoever has a certificate of the port's authority, as upstream does.
pub fn anybody() -> Admit {
    Arc::new(|_| Ok(()))
}
