//! `trimtab array create` and `assemble`.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use trimtab_volume::{
    Array, BackendChoice, Consistency, Origin, PolicyKind, Rates, RunDirectory, Spec,
};

use crate::background::{self, Message};
use crate::console;
use crate::exit::BadInput;
use crate::log;
use crate::progress::during;
use crate::size;

const CREATE_HELP: &str = "\
Examples:
  sudo trimtab array create fast --level 5 a.img b.img c.img d.img
  sudo trimtab array create safe --level 1 --policy adaptive a.img b.img
  sudo trimtab array create turns --level 5 --policy ioda /dev/loop[0-3]
  sudo trimtab array create hole --level 5 --consistency ppl a.img b.img c.img
  sudo trimtab array create wide --level 6 --chunk 128K --assume-clean a.img b.img c.img d.img

Members are block devices, files and emulated drives. What they hold is lost; one that is in
use, has a file system or belongs to an array is refused, the latter two not with --force.
The smallest member counts. The metadata are Linux md's, version 1.2: mdadm takes the array.
Without --assume-clean the members are made equal first, which `array stat` shows; the array
can be used meanwhile.";

const ASSEMBLE_HELP: &str = "\
Examples:
  sudo trimtab array assemble fast a.img b.img c.img d.img
  sudo trimtab array assemble fast --force a.img b.img c.img

After a crash what the write-intent bitmap says is made equal first; the array can be used
meanwhile; with partial parity logs nothing has to be. An array without these that was not
stopped in order and lacks a member starts only with --force, because what is computed for
that member may be wrong.

Over ublk an array whose server is killed stays, and what programs ask of it waits until it
is assembled again, under the same name.";

/// How an array is run.
#[derive(Debug, clap::Args)]
struct Running {
    /// How the kernel reaches it: ublk, FUSE with a loop device (fuse), or ublk where the kernel
    /// has it (auto).
    #[arg(long, value_name = "WHICH", default_value = "auto")]
    backend: BackendChoice,
    /// Which members reads ask: those that hold the data (plain), or around members that are
    /// late, without a model (adaptive), by their state and within a budget (trimtab), or
    /// because they say so (ioda: emulated drives, which then clean in turns).
    #[arg(long, value_name = "POLICY", default_value = "plain")]
    policy: PolicyKind,
    /// How much per second of each member resynchronising, rebuilding, replacing and checking
    /// read and write, at most.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "200M")]
    rate: u64,
    /// The same, at least, while programs use the array: between the two it is as fast as
    /// leaves the 99th percentile of their latencies about as it is.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "1M")]
    least_rate: u64,
}

/// The array to create.
#[derive(Debug, clap::Args)]
#[command(after_help = CREATE_HELP)]
pub(crate) struct Create {
    /// The array's name.
    name: String,
    /// The members: block devices or files.
    #[arg(value_name = "MEMBER", required = true)]
    members: Vec<PathBuf>,
    /// The level: 0, 1, 4, 5 or 6.
    #[arg(long, value_name = "N", value_parser = level)]
    level: u8,
    /// Bytes of a chunk, 4K to 1M, 64K if it is not given; level 1 has none.
    #[arg(long, value_name = "SIZE", value_parser = chunk)]
    chunk: Option<u64>,
    /// What says after a crash where members may differ: a write-intent bitmap, or with level 5
    /// partial parity logs (ppl), which also close the write hole.
    #[arg(long, value_name = "WHAT", default_value = "bitmap")]
    consistency: Consistency,
    /// The members agree already, as those do that are all zeroes.
    #[arg(long)]
    assume_clean: bool,
    /// Overwrite members that have a file system or belong to an array.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    running: Running,
}

/// The array to assemble.
#[derive(Debug, clap::Args)]
#[command(after_help = ASSEMBLE_HELP)]
pub(crate) struct Assemble {
    /// The array's name here.
    name: String,
    /// The members: block devices or files, in any order.
    #[arg(value_name = "MEMBER", required = true)]
    members: Vec<PathBuf>,
    /// Start it although data may be wrong, or a device is none of its members.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    running: Running,
}

/// A level, `5` or `raid5`.
pub(super) fn level(text: &str) -> Result<u8, String> {
    let number = text.strip_prefix("raid").unwrap_or(text).parse();
    let known = number.ok().filter(|number| [0, 1, 4, 5, 6].contains(number));
    known.ok_or_else(|| "the levels are 0, 1, 4, 5 and 6".to_owned())
}

/// The bytes of a chunk: what levels with parity need besides, they say themselves.
fn chunk(text: &str) -> Result<u64, String> {
    let bytes = size::parse_bytes(text).ok();
    let known = bytes.filter(|bytes| (4 << 10..=1 << 20).contains(bytes) && bytes % 4096 == 0);
    known.ok_or_else(|| {
        "a chunk has 4K to 1M, a multiple of 4K, with parity a power of two".to_owned()
    })
}

/// Refuses a policy that an array of this level could not follow.
pub(super) fn check_policy(level: u8, policy: PolicyKind) -> Result<()> {
    if level == 0 && policy != PolicyKind::Plain {
        let why = "level 0 has nothing to go around a late member with: --policy plain";
        return Err(BadInput(why.to_owned()).into());
    }
    Ok(())
}

pub(crate) fn create(args: Create) -> Result<()> {
    let Create { name, members, level, chunk, consistency, assume_clean, force, running } = args;
    if level == 1 && chunk.is_some() {
        log::line("level 1 has no chunks: --chunk does nothing");
    }
    check_policy(level, running.policy)?;
    let chunk = chunk.unwrap_or(64 << 10);
    let origin = Origin::Create { level, chunk, consistency, assume_clean, force };
    start(name, members, origin, &running)
}

pub(crate) fn assemble(args: Assemble) -> Result<()> {
    let Assemble { name, members, force, running } = args;
    start(name, members, Origin::Assemble { force }, &running)
}

fn start(name: String, members: Vec<PathBuf>, origin: Origin, running: &Running) -> Result<()> {
    let absolute = |path: PathBuf| std::path::absolute(path);
    let members: Vec<PathBuf> = members
        .into_iter()
        .map(absolute)
        .collect::<Result<_, _>>()
        .context("cannot determine the working directory")?;
    let Running { backend, policy, rate, least_rate } = *running;
    if least_rate > rate {
        let [rate, least] = [rate, least_rate].map(trimtab_report::bytes);
        return Err(BadInput(format!("--least-rate {least} is more than --rate {rate}")).into());
    }
    let rates = Rates { most: rate, least: least_rate };
    let spec = Spec { name, members, origin, backend, policy, rates };
    let mut notes = Vec::new();
    // It takes up to a minute where the kernel takes requests back from a killed server.
    let started = during("waiting for the array's server", || {
        background::start("array", "serve", &spec, |message| {
            if let Message::Note(line) = message {
                notes.push(line.clone());
            }
        })
    });
    notes.iter().for_each(|line| log::line(line));
    let (_, device) = started?;
    let array = Array::find(&RunDirectory::from_environment(), &spec.name)?;
    let info = array.info();
    let capacity = trimtab_report::bytes(info.capacity);
    log::line(&format!("{}, {capacity}, {}", device.display(), info.level));
    Ok(writeln!(console::out(false), "{}", device.display())?)
}
