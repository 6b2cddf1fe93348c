//! The store: a SQLite database of which each page is on three drives.
//!
//! One thread writes; each client reads with a connection of its own. With SQLite's write-ahead
//! log they do not wait for each other.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rusqlite::{Connection, OptionalExtension as _};
use trimtab_replicas::SetFigures;

use crate::mirror::{Mirror, Way};
use crate::value::value;
use crate::vfs::{self, Mirrored};

/// How long writes may lie in memory. As replicated stores do it: what is acknowledged
/// is in the memory of three, and soon on their drives.
const SYNC_EVERY: Duration = Duration::from_millis(100);

/// Pages of a connection's cache: enough for all of the tree but its leaves.
const CACHE_PAGES: u32 = 256;

/// How long tidying waits for those who still read.
const PATIENCE: Duration = Duration::from_secs(10);

/// The database's name, in the directory that a drive is mounted at.
const NAME: &str = "store.sqlite";

/// What the thread that writes is asked.
enum Write {
    Put { key: u64, version: u64, answer: Sender<Result<(), String>> },
    Tidy { answer: Sender<Result<(), String>> },
}

/// A store that runs. Dropping it closes it.
pub(crate) struct Store {
    path: PathBuf,
    writes: Option<Sender<Write>>,
    threads: Vec<JoinHandle<()>>,
    /// Ends the thread that syncs when dropped.
    syncs: Option<Sender<()>>,
    mirror: Arc<Mirror>,
    _mirrored: Mirrored,
}

/// Reads values. Belongs to one thread.
pub(crate) struct Client {
    connection: Connection,
}

/// Makes the database on the first drive, fills it, and copies it to the others.
///
/// # Errors
/// SQLite cannot; or `go_on` says so.
pub(crate) fn create(
    directories: &[&Path],
    records: u64,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let path = directories[0].join(NAME);
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
        drop(connection);
        for other in &directories[1..] {
            go_on()?;
            fs::copy(&path, other.join(NAME))?;
        }
        for directory in directories {
            File::open(directory.join(NAME))?.sync_all()?;
        }
        Ok(())
    };
    load().with_context(|| format!("cannot fill {}", path.display()))
}

impl Store {
    /// Opens the store in these directories, whose pages are read this way.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open(directories: &[&Path], way: &Way) -> Result<Self> {
        let path = directories[0].join(NAME);
        let failed = || format!("cannot open {}", path.display());
        let mirror = Arc::new(Mirror::open(directories, NAME, way)?);
        let mirrored = Mirrored::new(&path, Arc::clone(&mirror));
        let (writer, (writes, wanted)) = (connect(&path).with_context(failed)?, mpsc::channel());
        // Writes once, so that the log is there: SQLite makes it when it is needed.
        writer.execute_batch("BEGIN IMMEDIATE; PRAGMA user_version=1; COMMIT;")?;
        let mut threads = vec![spawn("writer", move || write_all(&writer, &wanted))?];
        let log = |directory: &&Path| File::open(directory.join(format!("{NAME}-wal")));
        let logs = directories.iter().map(log).collect::<std::io::Result<Vec<_>>>();
        let (end, ended) = mpsc::channel();
        let logs = logs.with_context(failed)?;
        threads.push(spawn("sync", move || sync_now_and_then(&logs, &ended))?);
        let syncs = Some(end);
        Ok(Self { path, writes: Some(writes), threads, syncs, mirror, _mirrored: mirrored })
    }

    /// A connection that reads.
    ///
    /// # Errors
    /// SQLite cannot open it.
    pub(crate) fn client(&self) -> Result<Client> {
        let connect = connect(&self.path);
        let failed = || format!("cannot open {}", self.path.display());
        Ok(Client { connection: connect.with_context(failed)? })
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

    /// What its set of replicas has done, if it is read from one.
    pub(crate) fn figures(&self) -> Option<SetFigures> {
        self.mirror.figures()
    }

    fn write(&self, write: Write) {
        if let Some(writes) = &self.writes {
            // As above.
            _ = writes.send(write);
        }
    }
}

impl Client {
    /// Reads a value.
    ///
    /// # Errors
    /// SQLite cannot.
    pub(crate) fn get(&self, key: u64) -> rusqlite::Result<Option<Vec<u8>>> {
        let mut select = self.connection.prepare_cached("SELECT value FROM kv WHERE key = ?1")?;
        select.query_row([key as i64], |row| row.get(0)).optional()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        (self.writes, self.syncs) = (None, None);
        for thread in self.threads.drain(..) {
            _ = thread.join();
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    Ok(std::thread::Builder::new().name(name.to_owned()).spawn(work)?)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = vfs::open(path)?;
    connection.busy_timeout(PATIENCE)?;
    let settings = format!(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0;
         PRAGMA cache_size={CACHE_PAGES};"
    );
    connection.execute_batch(&settings)?;
    Ok(connection)
}

fn write_all(connection: &Connection, wanted: &Receiver<Write>) {
    for write in wanted {
        // Whoever does not wait for the answer any more has no use for it.
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

fn put(connection: &Connection, key: u64, version: u64) -> rusqlite::Result<()> {
    let mut update = connection.prepare_cached("UPDATE kv SET value = ?2 WHERE key = ?1")?;
    match update.execute((key as i64, value(key, version)))? {
        1 => Ok(()),
        _ => Err(rusqlite::Error::QueryReturnedNoRows),
    }
}

/// Has the logs written to their drives, away from the thread that serves; until the sender is
/// gone.
fn sync_now_and_then(logs: &[File], ended: &Receiver<()>) {
    while ended.recv_timeout(SYNC_EVERY) == Err(RecvTimeoutError::Timeout) {
        for log in logs {
            // Nobody was promised that it is on the drive.
            _ = log.sync_data();
        }
    }
}

#[cfg(test)]
mod tests {
    use trimtab_replicas::ReplicaOptions;

    use super::*;

    /// On any file system, without a model: what SQLite asks for comes from the copies, whole
    /// and in the right place, and what it writes is on all of them.
    #[test]
    fn a_store_gives_what_was_put() {
        const RECORDS: u64 = 5_000;
        let places = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let directories = places.each_ref().map(|place| place.path());
        create(&directories, RECORDS, &|| Ok(())).unwrap();
        let way = Way::Set(directories.map(|_| ReplicaOptions::new("")).to_vec());
        let store = Store::open(&directories, &way).unwrap();
        let client = store.client().unwrap();
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
                let got = client.get(key).unwrap();
                assert!(got == Some(value(key, version)), "key {key}, round {round}");
            }
            store.tidy().unwrap();
        }
        assert_eq!(client.get(RECORDS).unwrap(), None);
        let read = store.figures().unwrap();
        assert!(read.reads > RECORDS / 3 && read.errors == 0, "{read:?}");
        assert!(read.replicas.iter().all(|replica| replica.served > 0), "{read:?}");
        drop((client, store));
        // What is on each drive is a database for anybody, and the same.
        let copies = directories.map(|directory| fs::read(directory.join(NAME)).unwrap());
        assert!(copies[1] == copies[0] && copies[2] == copies[0]);
        let connection = Connection::open(directories[1].join(NAME)).unwrap();
        let whole: String =
            connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
        assert_eq!(whole, "ok");
    }
}
