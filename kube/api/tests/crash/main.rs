//! The server is killed again and again in the middle of a load of writes, and nothing that anybody was told is lost,
//! doubled or reordered.
//!
//! A child process of this program is the server: writers create, update and delete, count together, and watches look
//! on; everything that one of them is told goes to the parent as a line. The parent kills it (SIGKILL) at a random
//! moment, or at a random write or sync of the storage, in the middle of it. The next child shows what it finds, and
//! the parent compares that with what was told.
//!
//! `CRASH_KILLS=1000` kills so often; `CRASH_SEED=N` repeats the choices of a run (what is written, and where it is
//! killed if it is at a write; not the scheduler's).

mod child;
mod parent;

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("child") => child::run(&arguments.collect::<Vec<_>>()),
        // What a test harness is asked; there is one test.
        Some("--list") => println!("a_killed_server_has_lost_nothing: test"),
        Some(name) if !name.starts_with('-') && !"a_killed_server_has_lost_nothing".contains(name) => {}
        _ => parent::run(),
    }
}
