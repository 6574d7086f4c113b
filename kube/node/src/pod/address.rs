//! The address of a pod: one of the loopback network, which is the pod's alone on this machine, so that two pods may
//! listen on the same port.
//!
//! An address is claimed by a socket that is bound to it. The kernel arbitrates between all the nodes of a machine, and
//! frees the claims of a node that dies.

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    io,
    net::{Ipv4Addr, UdpSocket},
};

/// The address of the node, and of the pods that use its network.
pub const HOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// The UDP port on which an address is claimed. Below the ports that the kernel hands out by itself, so that no other
/// program has it by chance; a pod that wants this port itself cannot have it.
pub(crate) const CLAIM_PORT: u16 = 20_255;

/// How many addresses are tried. With a thousand pods on the machine, the first is taken once in ten thousand times.
const ATTEMPTS: u32 = 32;

/// Where a pod is.
pub struct PodAddress {
    ip: Ipv4Addr,
    claim: Mutex<Option<UdpSocket>>,
}

impl PodAddress {
    /// The address of a pod: that of the node for a pod in the host's network, and where the system has no other
    /// loopback address than the usual one, as macOS; else one of its own. The same pod is given the same again.
    pub fn claim(pod: &Pod) -> Self {
        let host = Self {
            ip: HOST,
            claim: Mutex::new(None),
        };
        if pod.spec.as_ref().and_then(|it| it.host_network) == Some(true) {
            return host;
        }
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let claimed = first_free(uid, |ip| UdpSocket::bind((ip, CLAIM_PORT)));
        claimed.map_or(host, |(ip, claim)| Self {
            ip,
            claim: Mutex::new(Some(claim)),
        })
    }

    /// The address.
    pub fn ip(&self) -> Ipv4Addr {
        self.ip
    }

    /// Whether no other pod has it.
    pub fn is_own(&self) -> bool {
        self.ip != HOST
    }

    /// Lets others have it: nothing of the pod runs any more.
    pub fn release(&self) {
        self.claim.lock().take();
    }
}

/// The first address in the order of a pod that `bind` can have.
pub(crate) fn first_free<T>(uid: &str, bind: impl Fn(Ipv4Addr) -> io::Result<T>) -> Option<(Ipv4Addr, T)> {
    for attempt in 0..ATTEMPTS {
        let ip = candidate(uid, attempt);
        match bind(ip) {
            Ok(claim) => return Some((ip, claim)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => {
                tracing::debug!(%ip, %error, "this system has no loopback addresses for pods");
                return None;
            }
        }
    }
    tracing::warn!(uid, "no loopback address is free for a pod, it shares that of the node");
    None
}

/// The addresses of a pod in order. The first network, where resolvers and host names have theirs, and the ends of the
/// others are left out.
fn candidate(uid: &str, attempt: u32) -> Ipv4Addr {
    let mut hasher = DefaultHasher::new();
    (uid, attempt).hash(&mut hasher);
    let [a, b, c, ..] = hasher.finish().to_be_bytes();
    Ipv4Addr::new(127, 1 + a % 254, b, 1 + c % 254)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::RefCell, collections::BTreeSet};

    #[test]
    fn a_pod_is_given_the_first_address_that_is_free() {
        let taken = RefCell::new(BTreeSet::new());
        let bind = |ip: Ipv4Addr| match taken.borrow_mut().insert(ip) {
            true => Ok(()),
            false => Err(io::Error::from(io::ErrorKind::AddrInUse)),
        };
        let ips: BTreeSet<_> = (0..10).map(|_| first_free("a", bind).unwrap().0).collect();
        assert_eq!(ips.len(), 10);
        assert!(ips.contains(&candidate("a", 0)));
        assert!(ips.iter().all(|it| it.is_loopback() && it.octets()[1] > 0));
        assert!(ips.iter().all(|it| !matches!(it.octets()[3], 0 | 255)));
    }

    #[test]
    fn pods_share_the_address_where_there_is_only_one() {
        let missing = |_| Err::<(), _>(io::Error::from(io::ErrorKind::AddrNotAvailable));
        assert!(first_free("a", missing).is_none());
        let taken = |_| Err::<(), _>(io::Error::from(io::ErrorKind::AddrInUse));
        assert!(first_free("a", taken).is_none());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_claimed_address_is_free_again_when_it_is_released() {
        let pod = |text: &str| serde_json::from_str::<Pod>(text).unwrap();
        let uid = format!(r#"{{"metadata": {{"uid": "{:032x}"}}}}"#, rand::random::<u128>());
        let one = PodAddress::claim(&pod(&uid));
        let other = PodAddress::claim(&pod(&uid));
        assert!(one.is_own() && other.is_own());
        assert_ne!(one.ip(), other.ip());
        one.release();
        assert_eq!(PodAddress::claim(&pod(&uid)).ip(), one.ip());
        let of_the_host = PodAddress::claim(&pod(
            r#"{"metadata": {"uid": "a"}, "spec": {"containers": [], "hostNetwork": true}}"#,
        ));
        assert_eq!((of_the_host.ip(), of_the_host.is_own()), (HOST, false));
    }
}
