//! Git's protocol: what a server has, and how objects are fetched from it.
//!
//! There is no negotiation. We tell the few commits that we have fetched before, want one, and are done: a server that
//! knows one of them sends what has changed since, and any other sends all. That is one round trip, and it leaves us no
//! references that a rewritten history could contradict.

use super::{GitReference, http::GitHttp, run::Run, ssh::SshSession};
use crate::SourceError;
use gix::{
    Error, ObjectId, Repository,
    bstr::{BString, ByteSlice},
    progress::Discard,
};
use gix_protocol::{
    Handshake, LsRefsCommand,
    fetch::{
        self, Arguments, Shallow, Tags,
        negotiate::{Action, Round, one_round::State},
    },
    handshake::Ref,
    ls_refs::RefPrefixes,
    transport::{Service, client::blocking_io::Transport},
};
use gix_transport::client::blocking_io::http;
use std::{num::NonZeroU32, path::PathBuf};

/// More tips than this are not asked for at once.
const TIPS_MAX: usize = 10_000;

/// A history is never deeper: Git itself takes this for all of it.
const ALL_OF_THE_HISTORY: u32 = i32::MAX as u32;

/// What a reference names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Named {
    /// What a server gives away: the commit, or the tag with a message that stands for it.
    pub object: ObjectId,
    pub commit: ObjectId,
}

/// A server that has greeted us.
pub(super) struct GitServer {
    transport: Either,
    handshake: Handshake,
}

enum Either {
    Http(Box<http::Transport<GitHttp>>),
    Ssh(Box<SshSession>),
}

/// Reads the id of a commit.
pub(super) fn commit_id(text: &str) -> Result<ObjectId, SourceError> {
    ObjectId::from_hex(text.trim().as_bytes())
        .map_err(|_| SourceError::invalid(format!("{text:?} is no id of a commit: give all of its 40 digits")))
}

/// The full name of a reference, as servers know it.
pub(super) fn full_name(reference: &GitReference) -> Result<String, SourceError> {
    let (name, kind) = match reference {
        GitReference::Head => return Ok("HEAD".to_owned()),
        GitReference::Branch(name) if name.starts_with("refs/") => (name.clone(), "branch"),
        GitReference::Branch(name) => (format!("refs/heads/{name}"), "branch"),
        GitReference::Tag(name) if name.starts_with("refs/") => (name.clone(), "tag"),
        GitReference::Tag(name) => (format!("refs/tags/{name}"), "tag"),
        GitReference::Commit(id) => return Err(SourceError::invalid(format!("commit {id} is no reference"))),
    };
    match gix::validate::reference::name(name.as_bytes().as_bstr()) {
        Ok(_) => Ok(name),
        Err(_) => Err(SourceError::invalid(format!("{name:?} is no name of a {kind}"))),
    }
}

/// A reference in the words of whoever configured it.
pub(super) fn described(reference: &GitReference) -> String {
    match reference {
        GitReference::Head => "any commit".to_owned(),
        GitReference::Branch(name) => format!("branch {name}"),
        GitReference::Tag(name) => format!("tag {name}"),
        GitReference::Commit(id) => format!("commit {id}"),
    }
}

impl GitServer {
    pub fn http(mut transport: http::Transport<GitHttp>, run: &Run) -> Result<Self, SourceError> {
        let handshake = greet(&mut transport, run)?;
        Ok(Self {
            transport: Either::Http(Box::new(transport)),
            handshake,
        })
    }

    pub fn ssh(mut session: SshSession, run: &Run) -> Result<Self, SourceError> {
        let greeted = greet(&mut session.connection, run);
        // What went wrong is what `ssh` says, and the end of the connection is only how it shows.
        let handshake = greeted.map_err(|it| session.explained(it, run))?;
        Ok(Self {
            transport: Either::Ssh(Box::new(session)),
            handshake,
        })
    }

    /// Which commit a reference names.
    pub fn named(mut self, reference: &GitReference, run: &Run) -> Result<Named, SourceError> {
        let name = full_name(reference)?;
        let missing = || SourceError::not_found(&run.url, described(reference));
        let all = self.references(&[&name], run)?;
        let found = all
            .iter()
            .find(|it| it.unpack().0 == name.as_bytes())
            .ok_or_else(missing)?;
        let (_, target, peeled) = found.unpack();
        let object = target.ok_or_else(missing)?.to_owned();
        Ok(Named {
            object,
            commit: peeled.map_or(object, ToOwned::to_owned),
        })
    }

    /// Everything that a branch or a tag names.
    pub fn all_tips(mut self, run: &Run) -> Result<Vec<ObjectId>, SourceError> {
        let all = self.references(&["refs/heads/", "refs/tags/"], run)?;
        let mut tips: Vec<ObjectId> = all
            .iter()
            .filter(|it| {
                let name = it.unpack().0;
                name.starts_with(b"refs/heads/") || name.starts_with(b"refs/tags/")
            })
            .filter_map(|it| it.unpack().1.map(ToOwned::to_owned))
            .collect();
        tips.sort();
        tips.dedup();
        if tips.len() > TIPS_MAX {
            let what = format!("it has more than {TIPS_MAX} branches and tags, and gives commits away by those only");
            return Err(SourceError::too_large(&run.url, what));
        }
        Ok(tips)
    }

    fn references(&mut self, prefixes: &[&str], run: &Run) -> Result<Vec<Ref>, SourceError> {
        if let Some(all) = self.handshake.refs.take() {
            return Ok(all);
        }
        let mut wanted = RefPrefixes::new();
        wanted.extend(prefixes.iter().map(|it| BString::from(*it)));
        let command = LsRefsCommand::new(Some(wanted), &self.handshake.capabilities, agent());
        let listed = match &mut self.transport {
            Either::Http(it) => command.invoke_blocking(&mut **it, &mut Discard, false),
            Either::Ssh(it) => command.invoke_blocking(&mut it.connection, &mut Discard, false),
        };
        listed.map_err(|it| run.explained(it))
    }

    /// Fetches objects with what they stand on, to a depth; 0 is all of it.
    pub fn receive(
        mut self,
        repository: &Repository,
        wants: &[ObjectId],
        haves: &[ObjectId],
        depth: u32,
        run: &Run,
    ) -> Result<(), SourceError> {
        if wants.is_empty() {
            return Ok(());
        }
        let depth = match depth {
            // A repository without a boundary needs no word about it.
            0 if haves.is_empty() => None,
            0 => NonZeroU32::new(ALL_OF_THE_HISTORY),
            depth => NonZeroU32::new(depth.min(ALL_OF_THE_HISTORY)),
        };
        let knows_depth = match self.handshake.capabilities.capability("fetch") {
            Some(fetch) => fetch.supports("shallow").unwrap_or(false),
            None => self.handshake.capabilities.contains("shallow"),
        };
        let shallow = depth
            .filter(|_| knows_depth)
            .map_or(Shallow::NoChange, Shallow::DepthAtRemote);
        let mut asked = Asked { wants, haves };
        let result = match &mut self.transport {
            Either::Http(it) => receive(&mut **it, &mut self.handshake, &mut asked, &shallow, repository, run),
            Either::Ssh(it) => receive(
                &mut it.connection,
                &mut self.handshake,
                &mut asked,
                &shallow,
                repository,
                run,
            ),
        };
        result.map_err(|it| match &mut self.transport {
            Either::Http(_) => run.explained(it),
            Either::Ssh(session) => session.explained(run.explained(it), run),
        })
    }
}

fn agent() -> (&'static str, Option<String>) {
    ("agent", Some(gix_protocol::agent("drover")))
}

fn greet(transport: &mut impl Transport, run: &Run) -> Result<Handshake, SourceError> {
    let nobody = |_| Ok(None);
    let greeted = gix_protocol::handshake(transport, Service::UploadPack, nobody, Vec::new(), &mut Discard);
    let handshake = greeted.map_err(|it| run.explained(it))?;
    let format = handshake.capabilities.capability("object-format");
    match format.as_ref().and_then(|it| it.value()) {
        None => Ok(handshake),
        Some(format) if format == "sha1" => Ok(handshake),
        Some(format) => Err(SourceError::invalid(format!(
            "{} names its commits by {format}, which is not supported: sha1 is",
            run.url
        ))),
    }
}

fn receive(
    transport: &mut impl Transport,
    handshake: &mut Handshake,
    asked: &mut Asked<'_>,
    shallow: &Shallow,
    repository: &Repository,
    run: &Run,
) -> Result<(), Error> {
    let packs = packs(repository);
    let write = gix_pack::bundle::write::Options {
        thread_limit: Some(1),
        // No object is larger than all files together may be.
        alloc_limit_bytes: usize::try_from(run.bounds.total_bytes_max).ok(),
        ..Default::default()
    };
    let bases = repository.objects.clone();
    gix_protocol::fetch(
        asked,
        |pack, progress, interrupted| {
            let kind = repository.object_hash();
            let written = gix_pack::Bundle::write_to_directory(
                pack,
                Some(&packs),
                progress,
                interrupted,
                Some(Box::new(bases)),
                kind,
                write,
            )?;
            if let Some(keep) = written.keep_path {
                // It holds off Git's own cleaning, which never comes here.
                let _ = std::fs::remove_file(keep);
            }
            Ok(true)
        },
        Discard,
        &run.interrupted,
        fetch::Context {
            handshake,
            transport,
            user_agent: agent(),
            trace_packetlines: false,
        },
        fetch::Options {
            shallow_file: repository.shallow_file()?,
            shallow,
            tags: Tags::None,
            reject_shallow_remote: false,
        },
    )?;
    Ok(())
}

/// Where a repository keeps its packs.
pub(super) fn packs(repository: &Repository) -> PathBuf {
    repository.objects.store_ref().path().join("pack")
}

/// What is wanted, and what the server need not send.
struct Asked<'a> {
    wants: &'a [ObjectId],
    haves: &'a [ObjectId],
}

impl fetch::Negotiate for Asked<'_> {
    fn mark_complete_and_common_ref(&mut self) -> Result<Action, Error> {
        Ok(Action::MustNegotiate {
            remote_ref_target_known: vec![false; self.wants.len()],
        })
    }

    fn add_wants(&mut self, arguments: &mut Arguments, _: &[bool]) -> bool {
        for want in self.wants {
            arguments.want(want);
        }
        true
    }

    fn one_round(
        &mut self,
        _: &mut State,
        arguments: &mut Arguments,
        _: Option<&fetch::Response>,
    ) -> Result<(Round, bool), Error> {
        for have in self.haves {
            arguments.have(have);
        }
        let round = Round {
            haves_sent: self.haves.len(),
            in_vain: 0,
            haves_to_send: self.haves.len(),
            previous_response_had_at_least_one_in_common: false,
        };
        Ok((round, true))
    }
}
