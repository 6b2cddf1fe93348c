//! Loading the programs, and running them beside the program whose reads they refuse.

use std::fs::{self, File};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::PathBuf;

use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, Object};
use serde::Serialize;
use trimtab_block::BlockDevice;
use trimtab_bpf::{REFUSE, check_privilege, load_object, translated_instructions};
use trimtab_io::{Nanos, monotonic};
use trimtab_shm::{Mapping, WritableMapping, field};
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::abi::{Counts, DRIVES, Drive, Health, Setup, WHOLE};
use crate::drives::DriveMap;
use crate::files::Files;
use crate::publisher::Publisher;
use crate::{Error, Expect, Pattern, ProgramGroup, Reason};

/// When reads are refused.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A read that is expected to wait longer is refused: the deadline, less the time that
    /// asking another replica takes.
    pub limit: Nanos,
    /// A wait that was published longer ago is not used.
    pub stale: Nanos,
    /// Of a million reads that are expected to be late, this many are admitted: spread evenly,
    /// drive by drive.
    pub share: u32,
}

/// The programs, attached: reads are refused until this is dropped. Nothing is pinned, so they
/// go with the process, however it ends.
pub struct Refuser {
    // Fields drop in this order: detach, unmap, unload.
    _links: Vec<Link>,
    publisher: Publisher,
    files: Files,
    health: Mapping<Health>,
    counters: MapHandle,
    instructions: u32,
    _object: Object,
}

/// The decisions so far, and what they were about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decisions {
    /// Files named: those that the patterns found at the start, and those opened later.
    pub files: u64,
    /// Direct reads of named files.
    pub reads: u64,
    /// Of these, refused with `EBUSY`.
    pub refused: u64,
    /// Admitted: expected in time.
    pub in_time: u64,
    /// Admitted although expected to be late: the share.
    pub share: u64,
    /// Admitted: the file is on no single drive, or on one too many.
    pub not_on_drive: u64,
    /// Admitted: the drive is not tracked, or gone.
    pub not_tracked: u64,
    /// Admitted: no model that fits the drive is loaded.
    pub no_model: u64,
    /// Admitted: model or state did not decide.
    pub unsure: u64,
    /// Admitted: what was published was too old.
    pub stale: u64,
    /// Openings that could not be reported: these files may not be named.
    pub openings_lost: u64,
}

impl Refuser {
    /// Loads and attaches the programs for the processes of a group, and names the files of
    /// the patterns. Until [`publish`](Self::publish) is called all reads are admitted.
    /// [`notes`](Self::notes) says what was found of files and drives.
    ///
    /// # Errors
    /// The kernel does not run such programs, or the process may not load them.
    pub fn attach(
        group: &ProgramGroup,
        patterns: Vec<Pattern>,
        expect: Expect,
        limits: Limits,
    ) -> Result<Self, Error> {
        let (object, links) = attached(limits)?;
        let map = |name: &str| handle(&object, name);
        let descriptor = group.as_fd().as_raw_fd().to_ne_bytes();
        map("rf_group")?
            .update(&0_u32.to_ne_bytes(), &descriptor, MapFlags::ANY)
            .map_err(Error::library("name the control group to the kernel"))?;
        let words = WritableMapping::<Drive>::new(&map("rf_drives")?, DRIVES)?;
        let health = Mapping::new(&map(".data.health")?, 1)?;
        let counters = map("rf_counters")?;
        let program = object.progs().find(|program| program.name() == "on_permission");
        let program = program.expect("bpf/refuse.bpf.c defines it");
        let instructions = translated_instructions(&program)?;
        let found: Vec<_> = patterns.iter().map(Pattern::files).collect();
        // The drives are known before the files are named: a tracker takes all of them at once.
        let directories: Vec<_> = patterns.iter().map(Pattern::directory).collect();
        let paths = found.iter().flat_map(|(files, _)| files);
        let devices = drives_of(paths.clone().chain(&directories));
        let mut publisher = Publisher::new(words, expect, limits.limit, &devices);
        for (pattern, _) in patterns.iter().zip(&found).filter(|(_, (_, more))| *more) {
            let text = pattern.text();
            publisher.note(format!("{text}: matches too many files: the first are named"));
        }
        let mut files = Files::new(&object, patterns)?;
        name_all(paths, &mut files, &mut publisher);
        Ok(Self {
            _links: links,
            publisher,
            files,
            health,
            counters,
            instructions,
            _object: object,
        })
    }

    /// Publishes what is expected of each drive now. Call it several times within
    /// [`Limits::stale`].
    pub fn publish(&mut self) {
        self.publisher.publish(monotonic());
    }

    /// Names the files that the program has opened since the last call.
    pub fn follow(&mut self) {
        let Self { files, publisher, .. } = self;
        files.follow(&mut |device| publisher.slot(device));
    }

    /// What the user should know since the last call, a line each.
    pub fn notes(&mut self) -> Vec<String> {
        self.publisher.notes()
    }

    /// The instructions of the program that decides about a read, as the kernel runs it: more
    /// than the longest path has, since there are no loops.
    #[must_use]
    pub const fn instructions(&self) -> u32 {
        self.instructions
    }

    /// The decisions so far.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub fn decisions(&self) -> Result<Decisions, Error> {
        let each = self.counters.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let each = each.map_err(Error::library("read the counters"))?.unwrap_or_default();
        let mut sum = Counts::default();
        for cpu in each {
            let Ok((counts, _)) = Counts::read_from_prefix(&cpu) else { continue };
            for (sum, count) in sum.counts.iter_mut().zip(counts.counts) {
                *sum += count;
            }
        }
        let of = |reason: Reason| sum.counts[reason as usize];
        Ok(Decisions {
            files: self.files.named(),
            reads: sum.counts.iter().sum(),
            refused: of(Reason::Refused),
            in_time: of(Reason::InTime),
            share: of(Reason::Share),
            not_on_drive: of(Reason::NotOnDrive),
            not_tracked: of(Reason::NotTracked),
            no_model: of(Reason::NoModel),
            unsure: of(Reason::Unsure),
            stale: of(Reason::Stale),
            openings_lost: self.health.load(0, field!(Health.lost)),
        })
    }
}

/// The drives that files and directories lie on, as many as have slots.
fn drives_of<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Vec<BlockDevice> {
    let mut drives = DriveMap::default();
    let mut devices = Vec::new();
    for path in paths {
        let device = fs::metadata(path).ok().and_then(|found| drives.of(&found));
        devices.extend(device.filter(|device| !devices.contains(device)));
    }
    devices.truncate(DRIVES);
    devices
}

/// Names files, and notes those that are on no drive.
fn name_all<'a>(
    paths: impl Iterator<Item = &'a PathBuf>,
    files: &mut Files,
    publisher: &mut Publisher,
) {
    let mut on_no_drive = Vec::new();
    for path in paths {
        // A file that has just been removed is no error.
        if let Ok(false) = files.name(path, &mut |device| publisher.slot(device)) {
            on_no_drive.push(path);
        }
    }
    if let [first, others @ ..] = &on_no_drive[..] {
        let first = first.display();
        let why = "on no single drive that can be tracked: such reads are admitted";
        publisher.note(match others.len() {
            0 => format!("{first}: is {why}"),
            others => format!("{first}, and {others} more: are {why}"),
        });
    }
}

/// Whether this kernel runs the programs: loads and attaches them for a moment, for no program.
///
/// # Errors
/// It does not, or the process may not load them.
pub fn check_kernel() -> Result<(), Error> {
    let limits = Limits { limit: Nanos::ZERO, stale: Nanos::ZERO, share: WHOLE as u32 };
    attached(limits).map(drop)
}

/// The programs, loaded, attached, and called by the kernel.
fn attached(limits: Limits) -> Result<(Object, Vec<Link>), Error> {
    check_privilege()?;
    let setup = Setup {
        limit_ns: limits.limit.0,
        stale_ns: limits.stale.0,
        share: u64::from(limits.share).min(WHOLE),
        o_direct: libc::O_DIRECT.cast_unsigned(),
        reserved: 0,
    };
    let object = load_object(
        REFUSE,
        |_| true,
        |name, map| match name {
            ".rodata.setup" => map.set_initial_value(setup.as_bytes()),
            _ => Ok(()),
        },
    );
    let object = object.map_err(|e| Error::Kernel(reason(&e)))?;
    let links = object.progs_mut().map(|program| program.attach()).collect::<Result<Vec<_>, _>>();
    let links = links.map_err(|e| Error::Kernel(reason(&e)))?;
    // Where the list of security modules lacks `bpf`, programs attach and are never called.
    let health = Mapping::<Health>::new(&handle(&object, ".data.health")?, 1)?;
    _ = File::open("/proc/self/stat");
    if health.load(0, field!(Health.was_called)) == 0 {
        return Err(Error::Kernel("it loads BPF LSM programs and never calls them".to_owned()));
    }
    Ok((object, links))
}

/// The error in a few words.
fn reason(error: &libbpf_rs::Error) -> String {
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            "it permits no BPF LSM programs, not even to root".to_owned()
        }
        libbpf_rs::ErrorKind::NotFound => "it has no hooks for BPF LSM programs".to_owned(),
        _ => format!("it does not run BPF LSM programs ({error})"),
    }
}

pub(crate) fn handle(object: &Object, name: &str) -> Result<MapHandle, Error> {
    let map = object.maps().find(|map| map.name() == name);
    let map = map.expect("bpf/refuse.bpf.c defines it");
    MapHandle::try_from(&map).map_err(Error::library("keep a map open"))
}

#[cfg(test)]
mod tests;
