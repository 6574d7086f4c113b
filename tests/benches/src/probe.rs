//! The machine itself: how long one fdatasync takes, and one byte to a neighbour and back.

use crate::statistics::{milliseconds, percentile, round};
use anyhow::Result;
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::Instant,
};

const SAMPLES: usize = 300;

/// Both probes, in milliseconds.
pub fn measure() -> Result<Value> {
    let mut disk = fdatasync()?;
    let mut network = loopback()?;
    Ok(json!({
        "fdatasyncMilliseconds": {"p50": round(percentile(&mut disk, 0.5)), "p99": round(percentile(&mut disk, 0.99))},
        "loopbackMilliseconds": {"p50": round(percentile(&mut network, 0.5)), "p99": round(percentile(&mut network, 0.99))},
    }))
}

/// How long each of many writes of a page with its sync takes, in milliseconds.
pub fn fdatasync() -> Result<Vec<f64>> {
    let mut file = tempfile::tempfile()?;
    let page = [7u8; 4096];
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let begun = Instant::now();
        file.write_all(&page)?;
        file.sync_data()?;
        samples.push(milliseconds(begun.elapsed()));
    }
    Ok(samples)
}

fn loopback() -> Result<Vec<f64>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut byte = [0u8];
        while stream.read_exact(&mut byte).is_ok() {
            stream.write_all(&byte)?;
        }
        Ok(())
    });
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut samples = Vec::with_capacity(SAMPLES);
    let mut byte = [1u8];
    for _ in 0..SAMPLES {
        let begun = Instant::now();
        stream.write_all(&byte)?;
        stream.read_exact(&mut byte)?;
        samples.push(milliseconds(begun.elapsed()));
    }
    drop(stream);
    let _ = echo.join();
    Ok(samples)
}
