//! Saved drives: the state of a drive at rest in a file. The buffer is written to the flash first,
//! and cleanings in progress end.
//!
//! ```text
//!   trimtab-ssd 1\n               format and version, uncompressed
//!   ── Zstandard, with a checksum ─────────────────────────────
//!   u64 length, profile as TOML    numbers are little-endian
//!   u64 time, u64 seed, u64 × 2 the firmware's next pause
//!   u32 striping turn
//!   blocks: by plane free blocks and open pages; by block state
//!   map: what is mapped, and where
//! ```

use std::io::{self, Read, Write};

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_io::{DeviceId, Nanos};

use super::Ssd;
use crate::blocks::Blocks;
use crate::firmware::{Firmware, Standard};
use crate::layout::Layout;
use crate::profile::Profile;
use crate::timer_queue::NEVER;

const MAGIC: &[u8] = b"trimtab-ssd 1\n";
/// A profile is a few kilobytes.
const MAX_PROFILE: u64 = 1 << 20;
/// Maximum decompression window, as a power of two: drives are saved at a level with 2¹⁹ bytes.
const MAX_WINDOW: u32 = 20;
/// More than a century; times are counted on from there.
const MAX_TIME: u64 = 1 << 62;

impl Ssd {
    /// Saves the drive's state. `profile` is the drive's own. Time advances until the drive is at
    /// rest; it then continues exactly as the loaded one does.
    ///
    /// # Errors
    /// Requests are in flight, or the writer fails.
    pub fn save(&mut self, profile: &Profile, to: impl Write) -> io::Result<()> {
        if self.in_flight() > 0 {
            return Err(io::Error::other("the drive has requests in flight"));
        }
        self.come_to_rest();
        self.firmware.forget();
        self.buffer.forget_stripe();
        self.begin_anew();
        // The next pause, seen from now.
        self.noise.open(self.now, &mut self.random);
        let seed = self.random.random();
        self.random = Pcg64::seed_from_u64(seed);
        let mut to = to;
        to.write_all(MAGIC)?;
        let mut to = zstd::Encoder::new(to, 1)?;
        to.include_checksum(true)?;
        let profile = profile.to_toml();
        put(&mut to, profile.len() as u64)?;
        to.write_all(profile.as_bytes())?;
        let (from, until) = self.noise.pause();
        for number in [self.now.0, seed, from.0, until.0] {
            put(&mut to, number)?;
        }
        put(&mut to, self.buffer.turn() as u64)?;
        self.blocks.save(&mut to)?;
        self.map.save(&mut to)?;
        to.finish()?.flush()
    }

    /// Loads a saved drive with the ordinary firmware, and its profile.
    ///
    /// # Errors
    /// The reader fails, or the data is not a valid saved drive.
    pub fn load(from: impl Read, device: DeviceId) -> io::Result<(Self, Profile)> {
        Self::load_with(from, device, |profile| Box::new(Standard::new(profile)))
    }

    /// Loads a saved drive with its own firmware.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_with(
        mut from: impl Read,
        device: DeviceId,
        firmware: impl FnOnce(&Profile) -> Box<dyn Firmware>,
    ) -> io::Result<(Self, Profile)> {
        let mut magic = [0; MAGIC.len()];
        from.read_exact(&mut magic).map_err(|e| cut_off(&e))?;
        if magic != MAGIC {
            return Err(damaged("is not a saved drive of version 1"));
        }
        let mut from = zstd::Decoder::new(from)?;
        from.window_log_max(MAX_WINDOW)?;
        let length = get(&mut from)?;
        if length > MAX_PROFILE {
            return Err(damaged("its profile is too long"));
        }
        let mut text = Vec::new();
        (&mut from).take(length).read_to_end(&mut text)?;
        let text =
            String::from_utf8(text).map_err(|_| damaged("has a profile that is not text"))?;
        let profile =
            Profile::parse(&text).map_err(|e| damaged(&format!("has an invalid profile: {e}")))?;
        let (now, seed) = (get(&mut from)?, get(&mut from)?);
        let pause = (Nanos(get(&mut from)?), Nanos(get(&mut from)?));
        let turn = get(&mut from)?;
        let layout = Layout::new(&profile);
        let blocks = Blocks::load(&layout, profile.wear.dynamic, &mut from)?;
        let firmware = firmware(&profile);
        let mut ssd = Self::with_blocks(&profile, device, seed, firmware, layout, blocks);
        ssd.now = Nanos(now);
        if now > MAX_TIME || !ssd.noise.set_pause(pause, ssd.now) {
            return Err(damaged("has an invalid time"));
        }
        ssd.random = Pcg64::seed_from_u64(seed);
        ssd.buffer.set_turn(turn)?;
        ssd.map.load(&ssd.layout, &mut from)?;
        if from.read(&mut [0])? != 0 {
            return Err(damaged("has data after its end"));
        }
        ssd.verify().map_err(|what| damaged(&what.to_string()))?;
        ssd.begin_anew();
        Ok((ssd, profile))
    }

    /// Asks the firmware what a loaded drive's would be asked.
    fn begin_anew(&mut self) {
        self.cleaning.target = self.cleaning_target();
        self.ask_later();
    }

    /// Advances time until all work in progress is done and the buffer is empty.
    fn come_to_rest(&mut self) {
        loop {
            let erases = self.stats.erases;
            self.flush_all();
            self.finish_work();
            if self.buffer.in_use() == 0 {
                return;
            }
            // There are no pages left, and the firmware has put off cleaning.
            self.cleaning.forced = true;
            for plane in 0..self.layout.planes {
                self.want_cleaning(plane);
            }
            self.finish_work();
            self.cleaning.forced = self.cleaning.stalled();
            if self.stats.erases == erases {
                return;
            }
        }
    }

    fn finish_work(&mut self) {
        while self.timer_queue.next_time() != NEVER {
            self.advance(self.timer_queue.next_time());
        }
    }
}

/// Writes a number.
pub(crate) fn put(to: &mut impl Write, number: u64) -> io::Result<()> {
    to.write_all(&number.to_le_bytes())
}

/// Reads a number.
pub(crate) fn get(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes).map_err(|e| cut_off(&e))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Numbers per write of a large table.
const AT_ONCE: usize = 1 << 14;

/// Writes a table.
pub(crate) fn put_all(to: &mut impl Write, table: &[u32]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(4 * AT_ONCE);
    for numbers in table.chunks(AT_ONCE) {
        bytes.clear();
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        to.write_all(&bytes)?;
    }
    Ok(())
}

/// Reads a table of known length.
pub(crate) fn get_all(from: &mut impl Read, table: &mut [u32]) -> io::Result<()> {
    let mut bytes = vec![0; 4 * AT_ONCE];
    for numbers in table.chunks_mut(AT_ONCE) {
        let bytes = &mut bytes[..4 * numbers.len()];
        from.read_exact(bytes).map_err(|e| cut_off(&e))?;
        for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
            // An untouched table stays untouched memory.
            let read = u32::from_le_bytes(*bytes);
            if read != 0 {
                *number = read;
            }
        }
    }
    Ok(())
}

fn cut_off(e: &io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::UnexpectedEof => damaged("is cut off"),
        _ => io::Error::new(e.kind(), e.to_string()),
    }
}

/// The error for an invalid saved drive.
pub(crate) fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the saved drive {what}"))
}
