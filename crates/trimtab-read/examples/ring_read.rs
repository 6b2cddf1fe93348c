//! Reads several pages of a device or file by io_uring, without those that would be late.
//!
//! ```text
//! cargo run -p trimtab-read --example ring_read -- PATH [MODEL]
//! ```
//!
//! Each read is decided on before it is pushed: a refused read takes no entry, and could go
//! into the ring of another replica instead.

#![allow(clippy::print_stdout)]

use io_uring::IoUring;
use trimtab_predict::Model;
use trimtab_read::{ReadOptions, Reader, Urgency};

const PAGE: usize = 4096;
const READS: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: ring_read PATH [MODEL]")?;
    let model = args.next().map(|path| Model::load(path.as_ref())).transpose()?;
    let reader =
        Reader::open(path, &model.map_or_else(ReadOptions::default, ReadOptions::with_model))?;
    let mut ring = IoUring::new(READS as u32)?;
    // The kernel writes here until the last completion is taken.
    let mut buffer = vec![0_u8; PAGE * READS];
    let mut passes: Vec<_> = (0..READS).map(|_| None).collect();
    let mut refused = 0;
    for (i, (page, pass)) in buffer.chunks_mut(PAGE).zip(&mut passes).enumerate() {
        let offset = (i * PAGE) as u64;
        let (to, length) = (page.as_mut_ptr(), PAGE as u32);
        match reader.prepare(to, length, offset, Urgency::LatencyCritical) {
            Ok((entry, leave)) => {
                // SAFETY: the page belongs to this read alone and outlives it: all completions
                // are waited for below.
                unsafe { ring.submission().push(&entry.user_data(i as u64))? };
                *pass = Some(leave);
            }
            Err(_refusal) => refused += 1,
        }
    }
    let sent = READS - refused;
    ring.submit_and_wait(sent)?;
    let mut bytes = 0;
    for done in ring.completion() {
        let pass = passes[done.user_data() as usize].take();
        // The latency of a failed read does not count: its token is dropped.
        if let (Ok(read), Some(pass)) = (usize::try_from(done.result()), pass) {
            bytes += read;
            pass.finish();
        }
    }
    println!("{sent} reads sent, {refused} refused, {bytes} bytes");
    println!("{:?}", reader.figures());
    Ok(())
}
