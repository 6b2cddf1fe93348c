//! Writes a spool in its own thread: a slow disk must not stall the recorder, whose ring would
//! overflow.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::frame::{FrameKind, append, pack_records};
use super::{MAGIC, names_beside};
use crate::error::Error;
use crate::names::Names;
use crate::reader::Meta;
use crate::record::Record;

/// Records in one frame.
pub(super) const MAX_RECORDS: usize = 1 << 13;

/// Records are handed to the thread after this time at the latest, and are on the disk after as
/// long again.
const PERIOD: Duration = Duration::from_secs(1);

/// Bound of the queue, messages: eight seconds at 60,000 requests per second.
const QUEUE: usize = 64;

/// A spool being written. Removed when it is [discarded](Self::discard), or dropped without a
/// record; otherwise it stays, to be recovered.
pub struct Spool {
    path: PathBuf,
    sender: SyncSender<Message>,
    thread: Option<JoinHandle<()>>,
    state: Arc<State>,
    discarded: bool,
}

/// State reported by the thread.
#[derive(Default)]
struct State {
    has_records: AtomicBool,
    failure: Mutex<Option<io::Error>>,
}

/// The input of a spool. May be moved to another thread.
pub struct Feed {
    sender: SyncSender<Message>,
    pending: Vec<Record>,
    since: Instant,
    devices: usize,
    commands: usize,
}

enum Message {
    Note(String),
    Records {
        devices: Vec<Box<str>>,
        commands: Vec<Box<str>>,
        records: Vec<Record>,
    },
    /// The last message.
    End,
}

/// A spool's empty file. Removed when dropped.
pub struct SpoolFile {
    path: PathBuf,
    file: Option<File>,
}

impl SpoolFile {
    /// Creates the spool's file for the trace `target`. `None` for a target that is not a regular
    /// file (`/dev/null`, a pipe): it is written directly, and a crash loses nothing of it.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(target: &Path) -> Result<Option<Self>, Error> {
        let special = fs::metadata(target).is_ok_and(|m| {
            let kind = m.file_type();
            kind.is_char_device() || kind.is_block_device() || kind.is_fifo()
        });
        if special {
            return Ok(None);
        }
        let (path, file) = create_beside(target)?;
        Ok(Some(Self { path, file: Some(file) }))
    }

    /// For a given file.
    #[cfg(test)]
    pub(super) const fn on(path: PathBuf, file: File) -> Self {
        Self { path, file: Some(file) }
    }

    /// Starts writing, in a thread that inherits this thread's privileges; `meta` describes the
    /// recording.
    ///
    /// # Panics
    /// If no thread can be started.
    #[must_use]
    pub fn start(mut self, meta: &Meta) -> (Spool, Feed) {
        let file = self.file.take().expect("it is taken here only");
        let (sender, receiver) = sync_channel(QUEUE);
        let state = Arc::new(State::default());
        let writing = Writing { file, state: Arc::clone(&state), synced: Instant::now() };
        let thread = std::thread::spawn(move || writing.run(&receiver));
        let feed = Feed {
            sender: sender.clone(),
            pending: Vec::new(),
            since: Instant::now(),
            devices: 0,
            commands: 0,
        };
        let path = self.path.clone();
        let spool = Spool { path, sender, thread: Some(thread), state, discarded: false };
        meta.notes.iter().for_each(|(key, value)| spool.set_note(key, value));
        (spool, feed)
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            _ = fs::remove_file(&self.path);
        }
    }
}

impl Spool {
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets a note, replacing an earlier one with this key.
    pub fn set_note(&self, key: &str, value: &str) {
        // Without the thread nothing is stored; `failure` reports that.
        _ = self.sender.send(Message::Note(format!("{key}={value}")));
    }

    /// Whether it holds a record.
    #[must_use]
    pub fn has_records(&self) -> bool {
        self.state.has_records.load(Ordering::Relaxed)
    }

    /// The error that stopped writing, reported once. Later records are lost.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        let failure = self.state.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map(|e| Error::write(&self.path, e))
    }

    /// Removes it: the trace has its name.
    pub fn discard(mut self) {
        self.discarded = true;
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        _ = self.sender.send(Message::End);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
        if self.discarded || !self.has_records() {
            // The trace's name must be on the disk before this one is removed.
            _ = sync_directory(&self.path);
            _ = fs::remove_file(&self.path);
        }
    }
}

/// Creates the first file whose name is free, and locks it.
fn create_beside(target: &Path) -> Result<(PathBuf, File), Error> {
    for path in names_beside(target) {
        let create = || -> io::Result<File> {
            let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
            file.lock()?;
            file.write_all(MAGIC)?;
            sync_directory(&path)?;
            Ok(file)
        };
        match create() {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(Error::write(&path, e)),
            Ok(file) => return Ok((path, file)),
        }
    }
    unreachable!("some number is free")
}

/// Makes the directory entries durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

impl Feed {
    /// Takes the records since the last call; called without records too, so that earlier ones are
    /// handed on in time.
    pub fn push(&mut self, records: &[Record], names: &Names) {
        for record in records {
            if self.pending.is_empty() {
                self.since = Instant::now();
            }
            self.pending.push(*record);
            if self.pending.len() == MAX_RECORDS {
                self.send_pending(names);
            }
        }
        if !self.pending.is_empty() && self.since.elapsed() >= PERIOD {
            self.send_pending(names);
        }
    }

    fn send_pending(&mut self, names: &Names) {
        let devices = names.devices_from(self.devices).to_vec();
        let commands = names.commands_from(self.commands).to_vec();
        self.devices += devices.len();
        self.commands += commands.len();
        let records = std::mem::take(&mut self.pending);
        _ = self.sender.send(Message::Records { devices, commands, records });
    }
}

/// The thread.
struct Writing {
    file: File,
    state: Arc<State>,
    synced: Instant,
}

impl Writing {
    fn run(mut self, receiver: &Receiver<Message>) {
        let failure = self.write_all(receiver).err();
        let Some(failure) = failure else { return };
        *self.state.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        // Unblocks senders: no one drains the queue any more.
        while !matches!(receiver.recv(), Ok(Message::End) | Err(_)) {}
    }

    fn write_all(&mut self, receiver: &Receiver<Message>) -> io::Result<()> {
        let mut bytes = Vec::new();
        let (mut has_records, mut unsynced) = (false, false);
        loop {
            bytes.clear();
            match receiver.recv_timeout(PERIOD) {
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Note(note)) => append(FrameKind::Note, note.as_bytes(), &mut bytes),
                Ok(Message::Records { devices, commands, records }) => {
                    let names = |kind, names: &[Box<str>], out: &mut Vec<u8>| {
                        names.iter().for_each(|name| append(kind, name.as_bytes(), out));
                    };
                    names(FrameKind::Device, &devices, &mut bytes);
                    names(FrameKind::Command, &commands, &mut bytes);
                    append(FrameKind::Records, &pack_records(&records)?, &mut bytes);
                    has_records = true;
                }
            }
            self.file.write_all(&bytes)?;
            self.state.has_records.store(has_records, Ordering::Relaxed);
            unsynced |= !bytes.is_empty();
            if unsynced && self.synced.elapsed() >= PERIOD {
                self.file.sync_data()?;
                self.synced = Instant::now();
                unsynced = false;
            }
        }
        Ok(())
    }
}
