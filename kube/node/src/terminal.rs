//! A terminal for a process: the side that we hold, which reads what the process writes and writes what it reads.

use std::{
    fs::File,
    io::{self, Read, Write},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, unix::AsyncFd};

/// Our side of a terminal. Cloning shares it; the process is hung up on with the last one.
#[derive(Clone)]
pub struct Terminal(Arc<AsyncFd<File>>);

impl Terminal {
    /// A new terminal, and the side of the process.
    ///
    /// # Errors
    /// When the system has none, or none left.
    #[cfg(target_os = "linux")]
    #[expect(
        unsafe_code,
        reason = "a terminal is unlocked and named by ioctl, which has no safe binding here"
    )]
    pub fn open() -> io::Result<(Self, File)> {
        use std::os::{fd::AsRawFd, unix::fs::OpenOptionsExt};
        let open = |path: &str, flags: i32| {
            let mut options = File::options();
            options.read(true).write(true).custom_flags(flags | libc::O_NOCTTY);
            options.open(path)
        };
        let ours = open("/dev/ptmx", libc::O_NONBLOCK)?;
        let (mut number, unlock): (libc::c_uint, libc::c_int) = (0, 0);
        // SAFETY: both take a pointer to one int, which lives through the call.
        let failed = unsafe {
            libc::ioctl(ours.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlock) != 0
                || libc::ioctl(ours.as_raw_fd(), libc::TIOCGPTN, &raw mut number) != 0
        };
        if failed {
            return Err(io::Error::last_os_error());
        }
        let theirs = open(&format!("/dev/pts/{number}"), 0)?;
        // SAFETY: the file owns its descriptor, and never has another while it is registered.
        let ours = unsafe { AsyncFd::register(ours)? };
        Ok((Self(Arc::new(ours)), theirs))
    }

    /// A new terminal, and the side of the process.
    ///
    /// # Errors
    /// Always: they are made as Linux makes them.
    #[cfg(not(target_os = "linux"))]
    pub fn open() -> io::Result<(Self, File)> {
        let text = "this node gives terminals on Linux only; ask without tty";
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }

    /// Tells the process how large the window is.
    #[expect(
        unsafe_code,
        reason = "a window's size is set by ioctl, which has no safe binding here"
    )]
    pub fn resize(&self, width: u16, height: u16) {
        use std::os::fd::AsRawFd;
        let size = libc::winsize {
            ws_row: height,
            ws_col: width,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: it takes a pointer to a winsize, which lives through the call.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    }
}

impl AsyncRead for Terminal {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(context))?;
            let unfilled = buffer.initialize_unfilled();
            match guard.try_io(|it| it.get_ref().read(unfilled)) {
                Ok(Ok(count)) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                // Nobody has the other side open any more.
                Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => return Poll::Ready(Ok(())),
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_) => {}
            }
        }
    }
}

impl AsyncWrite for Terminal {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(context))?;
            if let Ok(result) = guard.try_io(|it| it.get_ref().write(bytes)) {
                return Poll::Ready(result);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
