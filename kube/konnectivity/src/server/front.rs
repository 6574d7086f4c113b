//! One client at the front: a stream is one connection.

use std::{io, time::Duration};

use futures::{Stream, StreamExt};
use tracing::debug;

use super::{
    Inner,
    agents::{ConnectedAgent, Opened},
    dial, host, send,
};
use crate::{
    connection::{Arrived, Outlet},
    grpc::Sender,
    packet::{self, Credit, DialRequest, DialResponse, Packet, Payload},
};

/// A stream that does not say by then what it wants is ended.
const ASKED_WITHIN: Duration = Duration::from_secs(30);
/// An agent that does not say by then that a connection is closed is not waited for.
const CLOSED_WITHIN: Duration = Duration::from_secs(10);
/// An agent that does not answer by then has no connection.
const DIALLED_WITHIN: Duration = Duration::from_secs(60);

/// Serves one stream until it ends.
pub(super) async fn serve(
    server: &Inner,
    mut incoming: impl Stream<Item = io::Result<Packet>> + Unpin,
    outgoing: Sender,
) {
    let first = tokio::time::timeout(ASKED_WITHIN, incoming.next()).await;
    let Ok(Some(Ok(Packet {
        payload: Some(Payload::DialRequest(request)),
        ..
    }))) = first
    else {
        return;
    };
    let agent = server.agents.lock().pick(host(&request.address));
    let Some(agent) = agent else {
        send(&outgoing, refused(&request, "No agent available")).await;
        return;
    };
    match opened(server, &agent, &request, &mut incoming).await {
        Ok(Some(opened)) => relay(&agent, &request, opened, incoming, &outgoing).await,
        // The client does not want it any more.
        Ok(None) => {}
        Err(why) => {
            send(&outgoing, refused(&request, &why)).await;
        }
    }
}

fn refused(request: &DialRequest, why: &str) -> Packet {
    Payload::DialResponse(DialResponse {
        error: why.to_owned(),
        connect_id: 0,
        random: request.random,
    })
    .into()
}

/// Asks the agent; `None` when the client has taken its request back.
async fn opened(
    server: &Inner,
    agent: &ConnectedAgent,
    request: &DialRequest,
    incoming: &mut (impl Stream<Item = io::Result<Packet>> + Unpin),
) -> Result<Option<Opened>, String> {
    let random = server.random();
    let Some(mut answer) = agent.expect(random, server.limits.connections) else {
        return Err("the agent has too many connections".to_owned());
    };
    if !send(&agent.sender, dial(request, random)).await {
        agent.forget(random);
        return Err("the agent has gone".to_owned());
    }
    let late = tokio::time::sleep(DIALLED_WITHIN);
    tokio::pin!(late);
    let why = tokio::select! {
        answer = &mut answer => {
            return answer.unwrap_or_else(|_| Err("the agent has gone".to_owned())).map(Some);
        }
        // Before it has its connection a client has nothing to say but that.
        _ = incoming.next() => None,
        () = &mut late => Some("the agent did not answer in time".to_owned()),
    };
    if agent.forget(random) {
        let taken_back = Payload::CloseDial(packet::CloseDial { random });
        send(&agent.sender, taken_back.into()).await;
    } else if let Ok(Ok(opened)) = answer.try_recv() {
        agent.remove(opened.id);
        send(&agent.sender, packet::close(opened.id)).await;
    }
    why.map_or(Ok(None), Err)
}

async fn relay(
    agent: &ConnectedAgent,
    request: &DialRequest,
    opened: Opened,
    incoming: impl Stream<Item = io::Result<Packet>> + Unpin,
    outgoing: &Sender,
) {
    let Opened { id, mut outlet } = opened;
    let answer = DialResponse {
        error: String::new(),
        connect_id: id,
        random: request.random,
    };
    let mut agent_knows = false;
    if send(outgoing, Payload::DialResponse(answer).into()).await {
        let credit = outlet.credit();
        let up = upwards(agent, id, credit, incoming, outgoing);
        let down = downwards(agent, id, &mut outlet, outgoing);
        tokio::pin!(up, down);
        agent_knows = tokio::select! {
            () = &mut down => true,
            asked = &mut up => {
                // What the client has closed the agent closes, too, and says so.
                agent_knows = asked && send(&agent.sender, packet::close(id)).await;
                let _ = tokio::time::timeout(CLOSED_WITHIN, &mut down).await;
                agent_knows
            }
        };
    }
    if !agent_knows {
        send(&agent.sender, packet::close(id)).await;
    }
    agent.remove(id);
}

/// From the client to the agent; `true` when the client has ended it.
async fn upwards(
    agent: &ConnectedAgent,
    id: i64,
    credit: crate::connection::SendCredit,
    mut incoming: impl Stream<Item = io::Result<Packet>> + Unpin,
    outgoing: &Sender,
) -> bool {
    while let Some(packet) = incoming.next().await {
        let payload = match packet {
            Ok(packet) => packet.payload,
            Err(error) => {
                debug!(%error, "a client's stream is broken");
                return true;
            }
        };
        match payload {
            Some(Payload::Data(data)) if data.connect_id == id => {
                credit.spend(data.data.len()).await;
                if !send(&agent.sender, packet::data(id, data.data)).await {
                    return false;
                }
            }
            Some(Payload::Data(data)) => {
                let other = data.connect_id;
                let why = format!("mismatched connection IDs: {other}, the stream's is {id}");
                send(outgoing, packet::closed(other, why)).await;
                return true;
            }
            Some(Payload::CloseRequest(_)) => return true,
            _ => {}
        }
    }
    true
}

/// From the agent to the client, until the agent says that it is closed.
async fn downwards(agent: &ConnectedAgent, id: i64, outlet: &mut Outlet, outgoing: &Sender) {
    loop {
        match outlet.next().await {
            Some(Arrived::ConnectionData(data)) => {
                let length = data.len();
                if !send(outgoing, packet::data(id, data)).await {
                    // The client has gone; upwards hears of it, too.
                    return std::future::pending().await;
                }
                if let Some(bytes) = outlet.handed_on(length) {
                    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                    let credit = Payload::Credit(Credit { connect_id: id, bytes });
                    send(&agent.sender, credit.into()).await;
                }
            }
            Some(Arrived::Closed(why)) => {
                send(outgoing, packet::closed(id, why)).await;
                return;
            }
            None => {
                send(outgoing, packet::closed(id, "the agent has gone")).await;
                return;
            }
        }
    }
}
