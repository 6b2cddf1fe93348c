//! Writing a spool, in a thread of its own: a disk that is slow to take it must not hold up
//! the recorder, whose ring would overflow.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::frame::{Kind, append, pack_records};
use super::{MAGIC, names_beside};
use crate::error::Error;
use crate::names::Names;
use crate::reader::Meta;
use crate::record::Record;

/// Records in one frame.
pub(super) const MOST_RECORDS: usize = 1 << 13;

/// What arrives is handed on after this time at the latest, and on the disk after as long
/// again.
const PERIOD: Duration = Duration::from_secs(1);

/// Messages that may wait for the disk: eight seconds at 60,000 requests per second.
const QUEUE: usize = 64;

/// A spool being written. It goes when it is [discarded](Self::discard), or dropped
/// before a record has come; otherwise it stays, to be recovered.
pub struct Spool {
    path: PathBuf,
    sender: SyncSender<Message>,
    thread: Option<JoinHandle<()>>,
    state: Arc<State>,
    discarded: bool,
}

/// What the thread tells.
#[derive(Default)]
struct State {
    has_records: AtomicBool,
    failure: Mutex<Option<io::Error>>,
}

/// Where records come in. It may go to another thread.
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
    /// The last one.
    End,
}

/// A spool's file, in which nothing is written yet. Dropped, it is gone.
pub struct SpoolFile {
    path: PathBuf,
    file: Option<File>,
}

impl SpoolFile {
    /// Makes a file for the spool of the trace `target`. None for a target that is no
    /// regular file (`/dev/null`, a pipe): it is written directly, and a crash loses nothing
    /// of it.
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

    /// On a file that has been created.
    #[cfg(test)]
    pub(super) const fn on(path: PathBuf, file: File) -> Self {
        Self { path, file: Some(file) }
    }

    /// Begins to write, in a thread that has this thread's privileges; `meta` describes the
    /// recording.
    ///
    /// # Panics
    /// If the system has no thread to give.
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

    /// Notes something, in place of what was noted under this key before.
    pub fn set_note(&self, key: &str, value: &str) {
        // Without a thread nothing can be kept, and `failure` says so.
        _ = self.sender.send(Message::Note(format!("{key}={value}")));
    }

    /// Whether there is a record in it.
    #[must_use]
    pub fn has_records(&self) -> bool {
        self.state.has_records.load(Ordering::Relaxed)
    }

    /// Why it could not be written on, told once. What comes after that is not in it.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        let failure = self.state.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map(|e| Error::write(&self.path, e))
    }

    /// Ends it: the trace has its name, and this is not needed any more.
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
            // The trace's name has to be on the disk before this one goes from it.
            _ = sync_directory(&self.path);
            _ = fs::remove_file(&self.path);
        }
    }
}

/// Creates the first file of the names that are not taken, and locks it.
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

/// Makes the names in the file's directory last.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

impl Feed {
    /// Takes the records that have come since the last call, also if there are none: what
    /// came before may have waited for long enough.
    pub fn push(&mut self, records: &[Record], names: &Names) {
        for record in records {
            if self.pending.is_empty() {
                self.since = Instant::now();
            }
            self.pending.push(*record);
            if self.pending.len() == MOST_RECORDS {
                self.hand_on(names);
            }
        }
        if !self.pending.is_empty() && self.since.elapsed() >= PERIOD {
            self.hand_on(names);
        }
    }

    fn hand_on(&mut self, names: &Names) {
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
        // Whoever sends does not wait for a queue that nobody empties.
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
                Ok(Message::Note(note)) => append(Kind::Note, note.as_bytes(), &mut bytes),
                Ok(Message::Records { devices, commands, records }) => {
                    let names = |kind, names: &[Box<str>], out: &mut Vec<u8>| {
                        names.iter().for_each(|name| append(kind, name.as_bytes(), out));
                    };
                    names(Kind::Device, &devices, &mut bytes);
                    names(Kind::Command, &commands, &mut bytes);
                    append(Kind::Records, &pack_records(&records)?, &mut bytes);
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
