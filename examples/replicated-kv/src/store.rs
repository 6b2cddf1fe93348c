//! A store: a SQLite database on a drive of its own, and the threads that serve it.
//!
//! One thread writes and some read, each with a connection of its own: with SQLite's
//! write-ahead log they do not wait for each other. A replica on another machine would
//! be the same behind a socket.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _};
use trimtab_read::{Figures, ReadOptions, Reader, Urgency};

use crate::failover::with_urgency;
use crate::value::value;
use crate::vfs;

/// How long writes may lie in memory. As replicated stores do it: what is acknowledged
/// is in the memory of three, and soon on their drives.
const SYNC_EVERY: Duration = Duration::from_millis(100);

/// Pages of a connection's cache: enough for all of the tree but its leaves.
const CACHE_PAGES: u32 = 256;

/// How long tidying waits for those who still read: hedged reads that nobody waits for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Threads of a store that read. A `get` waits for others if there are more at a time.
const READERS: usize = 4;

/// Why a store gives no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum GetError {
    /// It would have been late: a page of it is expected to take so long, `MAX` if that
    /// cannot be told. That page was not read from its drive.
    #[error("the store would be late")]
    Refused(Duration),
    /// It failed.
    #[error("the store failed: {0}")]
    Failed(String),
}

/// What a `get` brings: a value, if there is one.
pub(crate) type Got = Result<Option<Vec<u8>>, GetError>;

/// A value to read, and where to put it.
struct Get {
    key: u64,
    urgency: Urgency,
    answer: Sender<Got>,
}

/// What the thread that writes is asked.
enum Write {
    Put { key: u64, version: u64, answer: Sender<Result<(), String>> },
    Tidy { answer: Sender<Result<(), String>> },
}

/// A store that runs. Dropping it closes it.
pub(crate) struct Store {
    gets: Option<Sender<Get>>,
    writes: Option<Sender<Write>>,
    threads: Vec<JoinHandle<()>>,
    syncs: Option<(Sender<()>, JoinHandle<()>)>,
    reader: Arc<Reader>,
}

/// Where a store's database is, in the directory that its drive is mounted at.
pub(crate) fn database(directory: &Path) -> PathBuf {
    directory.join("store.sqlite")
}

/// Makes the database and fills it. It is not yet read through trimtab.
///
/// # Errors
/// SQLite cannot; or `go_on` says so.
pub(crate) fn create(
    directory: &Path,
    records: u64,
    go_on: &(dyn Fn() -> Result<()> + Sync),
) -> Result<()> {
    let path = database(directory);
    let load = || -> Result<()> {
        let mut connection = Connection::open(&path)?;
        let settings = format!(
            "PRAGMA page_size={}; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;",
            vfs::PAGE
        );
        connection.execute_batch(&settings)?;
        connection.execute_batch("CREATE TABLE kv (key INTEGER PRIMARY KEY, value BLOB) STRICT")?;
        let transaction = connection.transaction()?;
        let mut insert = transaction.prepare("INSERT INTO kv VALUES (?1, ?2)")?;
        for key in 0..records {
            if key % 1024 == 0 {
                go_on()?;
            }
            insert.execute((key as i64, value(key, 0)))?;
        }
        drop(insert);
        transaction.commit()?;
        Ok(File::open(&path)?.sync_all()?)
    };
    load().with_context(|| format!("cannot fill {}", path.display()))
}

impl Store {
    /// Opens a store, to be read as the options say.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open(directory: &Path, options: &ReadOptions) -> Result<Self> {
        let path = database(directory);
        let failed = || format!("cannot open {}", path.display());
        let reader = Arc::new(Reader::open(&path, options)?);
        let connect = |patience| connect(&path, &reader, patience).with_context(failed);
        let (writer, (writes, wanted)) = (connect(PATIENCE)?, mpsc::channel());
        // Writes once, so that the log is there: SQLite makes it when it is needed.
        writer.execute_batch("BEGIN IMMEDIATE; PRAGMA user_version=1; COMMIT;")?;
        let mut threads = vec![spawn("writer", move || write_all(&writer, &wanted))?];
        let (gets, wanted) = mpsc::channel();
        let wanted = Arc::new(Mutex::new(wanted));
        for _ in 0..READERS {
            // A refusal is for the application to deal with: SQLite shall not try again.
            let (connection, wanted) = (connect(Duration::ZERO)?, Arc::clone(&wanted));
            threads.push(spawn("reader", move || read_all(&connection, &wanted))?);
        }
        let log = File::open(path.with_extension("sqlite-wal")).with_context(failed)?;
        let syncs = Some(sync_now_and_then(log)?);
        Ok(Self { gets: Some(gets), writes: Some(writes), threads, syncs, reader })
    }

    /// Reads a value.
    pub(crate) fn get(&self, key: u64, urgency: Urgency) -> Got {
        let (answer, answered) = mpsc::channel();
        self.begin_get(key, urgency, answer);
        let ended = |_| Err(GetError::Failed("its thread has ended".to_owned()));
        answered.recv().unwrap_or_else(ended)
    }

    /// Reads a value; the answer comes by this channel, none if there is no more thread
    /// to give it.
    pub(crate) fn begin_get(&self, key: u64, urgency: Urgency, answer: Sender<Got>) {
        if let Some(gets) = &self.gets {
            // If nobody is there any more, the channel for the answer ends too.
            _ = gets.send(Get { key, urgency, answer });
        }
    }

    /// Writes a version of a value; the answer comes by this channel.
    pub(crate) fn begin_put(&self, key: u64, version: u64, answer: Sender<Result<(), String>>) {
        self.write(Write::Put { key, version, answer });
    }

    /// Brings the log into the database, so that all pages are read from there.
    ///
    /// # Errors
    /// SQLite cannot.
    pub(crate) fn tidy(&self) -> Result<()> {
        let (answer, answered) = mpsc::channel();
        self.write(Write::Tidy { answer });
        let done = answered.recv().context("the store's thread has ended")?;
        done.map_err(|why| anyhow::anyhow!("cannot tidy a store: {why}"))
    }

    /// What has been read from its drive.
    pub(crate) fn figures(&self) -> Figures {
        self.reader.figures()
    }

    fn write(&self, write: Write) {
        if let Some(writes) = &self.writes {
            // As above.
            _ = writes.send(write);
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        (self.gets, self.writes) = (None, None);
        for thread in self.threads.drain(..) {
            _ = thread.join();
        }
        if let Some((end, thread)) = self.syncs.take() {
            drop(end);
            _ = thread.join();
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    Ok(std::thread::Builder::new().name(name.to_owned()).spawn(work)?)
}

fn connect(path: &Path, reader: &Arc<Reader>, patience: Duration) -> rusqlite::Result<Connection> {
    let connection = vfs::open(path, Arc::clone(reader))?;
    connection.busy_timeout(patience)?;
    let settings = format!(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0;
         PRAGMA cache_size={CACHE_PAGES};"
    );
    connection.execute_batch(&settings)?;
    Ok(connection)
}

fn read_all(connection: &Connection, wanted: &Mutex<Receiver<Get>>) {
    let next = || wanted.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(Get { key, urgency, answer }) = next() {
        // Whoever does not wait for the answer any more has another one.
        _ = answer.send(get(connection, key, urgency));
    }
}

fn write_all(connection: &Connection, wanted: &Receiver<Write>) {
    for write in wanted {
        // As above.
        match write {
            Write::Put { key, version, answer } => {
                _ = answer.send(put(connection, key, version).map_err(|e| e.to_string()));
            }
            Write::Tidy { answer } => {
                _ = answer.send(checkpoint(connection));
            }
        }
    }
}

/// Brings the whole log into the database.
fn checkpoint(connection: &Connection) -> Result<(), String> {
    let left = connection.query_row("PRAGMA wal_checkpoint(RESTART)", (), |row| row.get(0));
    match left.map_err(|e| e.to_string())? {
        false => Ok(()),
        true => Err("someone still reads from its log".to_owned()),
    }
}

fn get(connection: &Connection, key: u64, urgency: Urgency) -> Got {
    let find = || {
        let mut select = connection.prepare_cached("SELECT value FROM kv WHERE key = ?1")?;
        select.query_row([key as i64], |row| row.get(0)).optional()
    };
    let (found, wait) = with_urgency(urgency, find);
    found.map_err(|error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) => GetError::Refused(wait),
        _ => GetError::Failed(error.to_string()),
    })
}

fn put(connection: &Connection, key: u64, version: u64) -> rusqlite::Result<()> {
    let mut update = connection.prepare_cached("UPDATE kv SET value = ?2 WHERE key = ?1")?;
    match update.execute((key as i64, value(key, version)))? {
        1 => Ok(()),
        _ => Err(rusqlite::Error::QueryReturnedNoRows),
    }
}

/// Has the log written to the drive, away from the thread that serves; until the sender
/// is gone.
fn sync_now_and_then(log: File) -> Result<(Sender<()>, JoinHandle<()>)> {
    let (end, ended) = mpsc::channel();
    let sync = move || {
        while ended.recv_timeout(SYNC_EVERY) == Err(RecvTimeoutError::Timeout) {
            // Nobody was promised that it is on the drive.
            _ = log.sync_data();
        }
    };
    let thread = std::thread::Builder::new().name("sync".to_owned()).spawn(sync)?;
    Ok((end, thread))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On any file system, without a model: what SQLite asks for comes through the
    /// reader, whole and in the right place.
    #[test]
    fn a_store_gives_what_was_put() {
        const RECORDS: u64 = 5_000;
        let directory = tempfile::tempdir().unwrap();
        create(directory.path(), RECORDS, &|| Ok(())).unwrap();
        let store = Store::open(directory.path(), &ReadOptions::default()).unwrap();
        let put = |key, version| {
            let (answer, answered) = mpsc::channel();
            store.begin_put(key, version, answer);
            answered.recv().unwrap()
        };
        for key in (0..RECORDS).step_by(10) {
            put(key, 5).unwrap();
        }
        assert!(put(RECORDS, 1).is_err());
        for round in 0..2 {
            for key in 0..RECORDS {
                let version = if key % 10 == 0 { 5 } else { 0 };
                let got = store.get(key, Urgency::None).unwrap();
                assert!(got == Some(value(key, version)), "key {key}, round {round}");
            }
            store.tidy().unwrap();
        }
        assert_eq!(store.get(RECORDS, Urgency::LatencyCritical).unwrap(), None);
        let read = store.figures();
        assert!(read.without_deadline + read.with_deadline > RECORDS / 3, "{read:?}");
        drop(store);
        // What is on the drive is a database for anybody.
        let connection = Connection::open(database(directory.path())).unwrap();
        let whole: String =
            connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
        assert_eq!(whole, "ok");
    }
}
