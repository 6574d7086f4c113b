use super::*;
use crate::pod_streams::{
    PodPorts, lanes,
    session::{self, Session},
    upgrade::PortProtocol,
};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};

fn control(kind: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80, 3];
    frame.extend(kind.to_be_bytes());
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    frame.push(flags);
    frame.extend(length);
    frame.extend(payload);
    frame
}

fn open(writer: &mut HeaderWriter, stream: u32, flags: u8) -> Vec<u8> {
    open_with(writer, stream, flags, &[])
}

fn open_with(writer: &mut HeaderWriter, stream: u32, flags: u8, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut payload = stream.to_be_bytes().to_vec();
    payload.extend([0; 6]);
    payload.extend(writer.write(headers).unwrap());
    control(SYN_STREAM, flags, &payload)
}

fn piece(stream: u32, flags: u8, bytes: &'static [u8]) -> BytesMut {
    let mut frame = BytesMut::new();
    data(&mut frame, stream, flags, &Bytes::from_static(bytes));
    frame
}

/// What comes of some bytes of a client: the result, what was said to it, and the streams.
async fn received(bytes: Vec<u8>, max: usize) -> (io::Result<()>, Vec<Outbound>, Vec<Opened>) {
    let (out, mut outbound) = lanes::outgoing();
    let (opened, mut streams) = mpsc::channel(8);
    let result = read(&bytes[..], out, opened, max).await;
    let (mut said, mut all) = (Vec::new(), Vec::new());
    while let Ok(it) = outbound.try_recv() {
        said.push(it);
    }
    while let Some(it) = streams.recv().await {
        all.push(it);
    }
    (result, said, all)
}

#[tokio::test]
async fn a_stream_gets_its_data_until_it_ends() {
    let mut writer = HeaderWriter::new();
    let mut bytes = open(&mut writer, 1, 0);
    bytes.extend(open(&mut writer, 3, FLAG_FIN));
    bytes.extend(piece(1, 0, b"one"));
    bytes.extend(piece(3, 0, b"nobody's"));
    bytes.extend(piece(1, FLAG_FIN, b"two"));
    bytes.extend(control(PING, 0, &2u32.to_be_bytes()));
    bytes.extend(control(PING, 0, &7u32.to_be_bytes()));
    let (result, said, mut streams) = received(bytes, 8).await;
    result.unwrap();
    let said: Vec<Control> = said
        .into_iter()
        .map(|it| match it {
            Outbound::Control(it) => it,
            _ => panic!("no data was sent"),
        })
        .collect();
    assert_eq!(said, [Control::Reply(1), Control::Reply(3), Control::Ping(7)]);
    let mut first = streams.remove(0).lane.incoming;
    assert_eq!(first.recv().await.unwrap(), "one");
    assert_eq!(first.recv().await.unwrap(), "two");
    assert_eq!(first.recv().await, None);
    assert_eq!(streams.remove(0).lane.incoming.recv().await, None);
}

#[tokio::test]
async fn more_streams_than_allowed_are_refused() {
    let mut writer = HeaderWriter::new();
    let bytes = [1, 3, 5].map(|it| open(&mut writer, it, 0)).concat();
    let (result, said, streams) = received(bytes, 2).await;
    result.unwrap();
    assert_eq!(streams.len(), 2);
    assert!(matches!(said[2], Outbound::Control(Control::Refuse(5))));
}

#[tokio::test]
async fn frames_that_break_the_protocol_end_the_connection() {
    let mut writer = HeaderWriter::new();
    let even = open(&mut writer, 2, 0);
    let mut writer = HeaderWriter::new();
    let twice = [1, 1].map(|it| open(&mut writer, it, 0)).concat();
    let large = vec![0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff];
    let version = vec![0x80, 2, 0, 1, 0, 0, 0, 0];
    let short = control(SYN_STREAM, 0, &[0, 0]);
    let cut = piece(1, 0, b"hello")[..10].to_vec();
    for (bytes, text) in [
        (even, "a number"),
        (twice, "a number"),
        (large, "too large"),
        (version, "not of SPDY/3"),
        (short, "cut short"),
        (cut, "unexpected end of file"),
    ] {
        let error = received(bytes, 8).await.0.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[tokio::test]
async fn what_is_said_is_written_as_frames() {
    let (out, outbound) = lanes::outgoing();
    for it in [
        Outbound::Control(Control::Reply(1)),
        Outbound::Data(1, Bytes::from_static(b"hi")),
        Outbound::End(1),
        Outbound::Control(Control::Refuse(3)),
        Outbound::Close,
        Outbound::Data(1, Bytes::from_static(b"too late")),
    ] {
        out.send(it).await;
    }
    let mut written = Vec::new();
    write(&mut written, outbound).await.unwrap();
    let length = usize::from(written[7]);
    assert_eq!(written[..4], [0x80, 3, 0, 2]);
    assert!(HeaderReader::new().read(&written[12..8 + length]).unwrap().is_empty());
    let rest = &written[8 + length..];
    assert_eq!(rest[..10], [0, 0, 0, 1, 0, 0, 0, 2, b'h', b'i']);
    assert_eq!(rest[10..18], [0, 0, 0, 1, FLAG_FIN, 0, 0, 0]);
    assert_eq!(rest[18..], [0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 3]);
}

/// A client's side of a session that forwards ports: those below 100 are nobody's, the others are an echo's.
async fn forwarding() -> tokio::io::DuplexStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    let ports: PodPorts = Arc::new(move |port| {
        Box::pin(async move {
            match port {
                0..100 => Err(io::Error::other("nobody listens")),
                _ => TcpStream::connect(address).await,
            }
        })
    });
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let session = Session::Ports {
        protocol: PortProtocol::Spdy,
        pod: "web".into(),
        ports,
        asked: Vec::new(),
    };
    tokio::spawn(session::serve(theirs, session));
    ours
}

/// Reads frames until a stream has ended, and gives what came in it.
async fn until_end(from: &mut tokio::io::DuplexStream, stream: u32) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let mut head = [0; 8];
        from.read_exact(&mut head).await.unwrap();
        let mut payload = vec![0; usize::from(head[6]) << 8 | usize::from(head[7])];
        from.read_exact(&mut payload).await.unwrap();
        if head[..4] == stream.to_be_bytes() {
            all.extend(payload);
            if head[4] & FLAG_FIN != 0 {
                return all;
            }
        }
    }
}

#[tokio::test]
async fn a_port_is_forwarded_until_both_sides_have_ended() {
    let mut client = forwarding().await;
    let mut writer = HeaderWriter::new();
    let headers = |kind| [("streamtype", kind), ("port", "8080"), ("requestid", "0")];
    let mut sent = open_with(&mut writer, 1, FLAG_FIN, &headers("error"));
    sent.extend(open_with(&mut writer, 3, 0, &headers("data")));
    sent.extend(piece(3, 0, b"hello "));
    sent.extend(piece(3, FLAG_FIN, b"world"));
    client.write_all(&sent).await.unwrap();
    assert_eq!(until_end(&mut client, 3).await, b"hello world");
    assert!(until_end(&mut client, 1).await.is_empty());
}

#[tokio::test]
async fn a_port_without_a_listener_is_told_on_its_error_stream() {
    let mut client = forwarding().await;
    let mut writer = HeaderWriter::new();
    // As old clients do it, without numbers of their own.
    let headers = |kind| [("streamtype", kind), ("port", "80")];
    let mut sent = open_with(&mut writer, 1, FLAG_FIN, &headers("error"));
    sent.extend(open_with(&mut writer, 3, 0, &headers("data")));
    client.write_all(&sent).await.unwrap();
    let text = String::from_utf8(until_end(&mut client, 1).await).unwrap();
    assert_eq!(text, "error forwarding port 80 to pod web: nobody listens");
}
