//! Giving back the pages of code that only a start needs.
//!
//! Linux maps sixteen pages of code around each one that is touched, so after reading flags, files and certificates
//! most of the binary is resident, and it stays so in a process that from then on renews a lease a minute. What is
//! given back here is clean and comes back from the page cache, one fault per piece, when it is needed again.

use std::{fs, time::Duration};

use ocm_reconcile::metrics;
use tracing::debug;

/// Long enough for the first leases, claims and works to have passed.
const SETTLED: Duration = Duration::from_secs(1);

/// For a process whose controllers run now and then: no run for so long, and it is idle.
const IDLE: Duration = Duration::from_secs(5);

/// While it is idle, probes and the renewals of its Lease bring pages back, and so they are given back again.
const AGAIN: u32 = 6;

/// Gives the code pages back whenever the controllers of the process have run and are idle again, and every half a
/// minute as long as they are. It never ends.
pub async fn give_back_when_idle() {
    let (mut before, mut idle) = (metrics::runs(), 0);
    loop {
        tokio::time::sleep(IDLE).await;
        let runs = metrics::runs();
        idle = if runs == before { idle + 1 } else { 0 };
        if idle % AGAIN == 1 {
            give_all_back();
        }
        before = runs;
    }
}

/// Waits until a process that has just become ready has settled, and gives its code pages back. Where this does not
/// work nothing is lost but memory.
pub async fn give_back_when_settled() {
    tokio::time::sleep(SETTLED).await;
    give_all_back();
}

fn give_all_back() {
    match fs::read_to_string("/proc/self/maps") {
        Ok(maps) => {
            for (start, length) in std::env::current_exe()
                .iter()
                .flat_map(|it| code(&maps, &it.to_string_lossy()))
            {
                give_back(start, length);
            }
        }
        Err(error) => debug!(%error, "could not read the process's memory map"),
    }
}

/// Start and length of the mappings that hold the program's code and constants: of its file, and never written. Of
/// those that are only readable it is the one at the file's beginning: another holds addresses that the loader has
/// filled in.
fn code(maps: &str, program: &str) -> Vec<(usize, usize)> {
    maps.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (range, rights) = (words.next()?, words.next()?);
            let offset = words.next()?;
            let path = words.nth(2)?;
            let is_written = match rights {
                "r-xp" => false,
                "r--p" => offset.bytes().any(|it| it != b'0'),
                _ => true,
            };
            if is_written || path != program {
                return None;
            }
            let (start, end) = range.split_once('-')?;
            let start = usize::from_str_radix(start, 16).ok()?;
            let end = usize::from_str_radix(end, 16).ok()?;
            Some((start, end.checked_sub(start)?))
        })
        .collect()
}

#[expect(unsafe_code, reason = "madvise has no safe binding among our dependencies")]
fn give_back(start: usize, length: usize) {
    // SAFETY: the range is a whole mapping of this program's own file that the kernel has just named, and it cannot be
    // written, so every page in it is as the file has it and is read from there again at its next use.
    let result = unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    if result != 0 {
        debug!(error = %std::io::Error::last_os_error(), "could not give code pages back");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_programs_own_code_is_given_back() {
        let maps = "\
55d000000000-55d000001000 r--p 00000000 fe:00 12 /usr/bin/drover
55d000001000-55d000005000 r-xp 00001000 fe:00 12 /usr/bin/drover
55d000005000-55d000005800 r--p 00005000 fe:00 12 /usr/bin/drover
55d000005800-55d000006000 rw-p 00005000 fe:00 12 /usr/bin/drover
7f0000000000-7f0000010000 r-xp 00000000 fe:00 99 /usr/lib/libc.so.6
7ffe00000000-7ffe00001000 r-xp 00000000 00:00 0  [vdso]
";
        assert_eq!(
            code(maps, "/usr/bin/drover"),
            [(0x55d0_0000_0000, 0x1000), (0x55d0_0000_1000, 0x4000)]
        );
    }

    #[test]
    fn a_program_that_gave_its_code_back_goes_on() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let program = std::env::current_exe().unwrap();
        let code = code(&maps, &program.to_string_lossy());
        assert!(!code.is_empty());
        for (start, length) in code {
            give_back(start, length);
        }
        assert_eq!("still here".split(' ').count(), 2);
    }
}
