//! What passes between a hub and the agents of a cluster, as recorded by each version in `fixtures/wire`: today's agent
//! works with the recorded hubs, and today's hub with the recorded agents.
//!
//! `WIRE_WRITE=1 cargo test -p testkit --test skew` records this version anew. What the agent begins to need of a hub,
//! or to tell it, is in the way of whoever upgrades the agents first, and is listed with its reason in [`EXPECTED`].
//!
//! `DROVER_TEST_HUB` and `DROVER_TEST_CLUSTER` name kubeconfigs of other API servers for hub and cluster, such as those
//! of a real Kubernetes. The session that is written down is always between two in memory.

mod replay;
mod session;
mod transcript;
mod wire;

use replay::Replay;
use session::{BOOTSTRAPPERS, JOINER, Moment, moment_before};
use testkit::Ground;
use tokio_util::sync::CancellationToken;
use transcript::By;

/// What is new in today's agent, as the test prints it, and why hubs that do not know it are served as well.
const EXPECTED: &[(&str, &str)] = &[];

#[tokio::test(flavor = "multi_thread")]
async fn current_agents_need_only_what_a_recorded_hub_answered() {
    let today = session::record().await;
    if std::env::var_os("WIRE_WRITE").is_some() {
        let mut sessions = vec![today];
        for _ in 0..3 {
            sessions.push(session::record().await);
        }
        return transcript::write(&sessions);
    }
    let mut wrong = String::new();
    let mut unused: Vec<_> = EXPECTED.iter().map(|it| it.0).collect();
    for (version, recorded) in transcript::recorded() {
        let mut news = transcript::news(&recorded, &today);
        unused.retain(|line| !news.iter().any(|it| it == line));
        news.retain(|it| !EXPECTED.iter().any(|(line, _)| line == it));
        if !news.is_empty() {
            wrong += &format!("not known to the hub of {version}:\n{}\n", news.join("\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(unused.is_empty(), "expected, and not so: {unused:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn todays_agents_live_with_the_recorded_hubs() {
    if std::env::var_os("WIRE_WRITE").is_some() {
        return;
    }
    for (version, lines) in transcript::recorded() {
        println!("the hub of {version}");
        let (hub, cluster) = (Ground::hub().await, Ground::cluster().await);
        let cancel = CancellationToken::new();
        let (mut agent, mut add_on) = (None, None);
        let add_on_stop = cancel.child_token();
        let mut replay = Replay::new(&hub, &lines);
        for line in lines.iter().filter(|it| it.at.is_some()) {
            match line.by {
                By::Joiner if agent.is_none() => {
                    let bootstrap = hub.kubeconfig(JOINER, &[BOOTSTRAPPERS]).await;
                    agent = Some(session::start_agent(bootstrap, cluster.client(), &cancel).await);
                }
                By::Joiner | By::Agent | By::AddOn => {}
                By::Hub => replay.as_hub(line).await,
                By::User => {
                    if let Some(moment) = moment_before(line) {
                        session::until(&hub.client(), moment).await;
                        if moment == Moment::AddOnGone {
                            add_on_stop.cancel();
                        }
                    }
                    replay.as_hub(line).await;
                    if line.path.ends_with("/managedclusteraddons") {
                        let running = session::be_add_on(cluster.client(), add_on_stop.clone());
                        add_on = Some(tokio::spawn(running));
                    }
                }
            }
        }
        session::until(&hub.client(), Moment::ClusterGone).await;
        cancel.cancel();
        add_on.expect("an add-on").await.unwrap();
        agent.expect("an agent").finished().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn todays_hub_lives_with_the_recorded_agents() {
    if std::env::var_os("WIRE_WRITE").is_some() {
        return;
    }
    for (version, lines) in transcript::recorded() {
        println!("the agents of {version}");
        let hub = Ground::hub().await;
        let cancel = CancellationToken::new();
        let running = session::start_hub(hub.client_of_hub().await, &cancel).await;
        let mut replay = Replay::new(&hub, &lines);
        for line in lines.iter().filter(|it| it.at.is_some() && !it.is_read()) {
            match line.by {
                By::Joiner => replay.as_agent(line, true).await,
                By::Agent | By::AddOn => replay.as_agent(line, false).await,
                By::Hub => replay.note_deletion(line),
                By::User => {
                    if let Some(moment) = moment_before(line) {
                        session::until(&hub.client(), moment).await;
                    }
                    replay.as_hub(line).await;
                }
            }
        }
        session::until(&hub.client(), Moment::ClusterGone).await;
        cancel.cancel();
        running.finished().await;
    }
}
