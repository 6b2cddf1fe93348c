//! A device or file to read from.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use trimtab_predict::{Model, OtherDrive, Verdict};

use super::ask::{Leave, Wanted};
use super::decide::{Detail, Outlook, duration};
use super::error::{Error, ReadError, Refusal, Urgency};
use super::figures::Figures;
use super::guard::Guard;
use super::known::Known;
use super::options::{Options, nanos};
use super::pass::{Pass, Why};
use super::place::{Place, Where};
use super::publish::Board;
use crate::record::BlockDevice;

/// A device or file, and what is known of the drive below. Any number of threads may
/// read from it at once; nothing on the way of a read waits for a lock.
pub struct Reader {
    pub(super) file: Arc<File>,
    /// Opened past the page cache.
    pub(super) is_direct: bool,
    pub(super) place: Place,
    pub(super) known: Known,
    pub(super) guard: Guard,
    pub(super) board: Board,
}

/// What is expected of a read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// How long it takes, if the model can tell.
    pub wait: Option<Duration>,
    /// Whether the model calls that late.
    pub is_late: bool,
    /// How likely it is to be late, 0 to 1.
    pub probability: f32,
}

impl Reader {
    /// Opens a device or file for reading.
    ///
    /// # Errors
    /// It cannot be opened, or an option cannot be. That nothing is known of the drive
    /// is no error: reads are let through then.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
        let path = path.as_ref();
        let flags = if options.direct { O_DIRECT } else { 0 };
        let file = File::options().read(true).custom_flags(flags).open(path);
        let failed = |source| Error::Open { path: path.to_owned(), source };
        Self::new(file.map_err(failed)?, path, options)
    }

    /// Reads from what is open already, in the way that it was opened.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_file(file: File, options: &Options) -> Result<Self, Error> {
        use std::os::fd::AsRawFd as _;
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        let path = std::fs::read_link(&link).unwrap_or_else(|_| link.into());
        Self::new(file, &path, options)
    }

    fn new(file: File, path: &Path, options: &Options) -> Result<Self, Error> {
        let rules = options.rules()?;
        let failed = |source| Error::Open { path: path.to_owned(), source };
        let flags = rustix::fs::fcntl_getfl(&file).map_err(|e| failed(e.into()))?;
        let file = Arc::new(file);
        let place = Place::of(&file).map_err(failed)?;
        let device = place.disk().map(|disk| disk.device.clone());
        let number = device.as_ref().map_or((0, 0), |device| device.number);
        let (model, source) = (options.model.clone(), options.source.clone());
        Ok(Self {
            file,
            is_direct: flags.contains(rustix::fs::OFlags::DIRECT),
            place,
            known: Known::new(model, device, source, nanos(options.oldest)),
            guard: Guard::new(rules),
            board: Board::new(options.publish.as_deref(), number, path),
        })
    }

    /// Reads into the buffer from this offset (bytes), as `pread(2)` does; how many
    /// bytes there were.
    ///
    /// # Errors
    /// The read was refused, and nothing was sent to the drive; or it was sent, and
    /// failed.
    pub fn read_at(
        &self,
        buffer: &mut [u8],
        offset: u64,
        urgency: Urgency,
    ) -> Result<usize, ReadError> {
        let pass = match self.ask(Wanted::Read(buffer), offset, urgency)? {
            Leave::Send(pass) => pass,
            Leave::Done(bytes) => return Ok(bytes),
        };
        let bytes = self.fetch(buffer, offset)?;
        pass.finish();
        Ok(bytes)
    }

    /// `pread(2)`, which a signal does not end: it has been decided that the read is sent.
    fn fetch(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buffer, offset) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Fills the buffer from this offset (bytes). What a short read leaves is read
    /// without a deadline: the drive has answered.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); `UnexpectedEof` where the file ends before.
    pub fn read_exact_at(
        &self,
        buffer: &mut [u8],
        offset: u64,
        urgency: Urgency,
    ) -> Result<(), ReadError> {
        let mut done = self.read_at(buffer, offset, urgency)?;
        while done < buffer.len() {
            let at = offset + done as u64;
            match self.fetch(&mut buffer[done..], at) {
                Ok(bytes) if bytes > 0 => done += bytes,
                Err(e) if !self.is_end_of_direct(at) => return Err(e.into()),
                Ok(_) | Err(_) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            }
        }
        Ok(())
    }

    /// Whether a file ends here that is read past the page cache: then to read on is not
    /// the end but a wrong call, for it ends where no block does.
    fn is_end_of_direct(&self, offset: u64) -> bool {
        let is_end = |metadata: std::fs::Metadata| metadata.is_file() && metadata.len() <= offset;
        self.is_direct && self.file.metadata().is_ok_and(is_end)
    }

    /// What is to be expected of a read that would be sent now; none if nothing can be
    /// said. Counts nothing.
    #[must_use]
    pub fn expect(&self, length: u64, offset: u64) -> Option<Expected> {
        let now = crate::state::now();
        let Outlook { forecast, .. } =
            self.outlook(length, offset, now, Detail::Everything).ok()?.0;
        let is_late = forecast.verdict == Verdict::Late;
        let (wait, probability) = (duration(forecast.wait), forecast.probability);
        Some(Expected { wait, is_late, probability })
    }

    /// Decides on a read of so many bytes at this offset, for who sends it themselves.
    ///
    /// Where the page cache holds what would be refused it is let through, as
    /// [`read_at`](Self::read_at) does.
    ///
    /// # Errors
    /// It is refused.
    pub fn admit(&self, length: u64, offset: u64, urgency: Urgency) -> Result<Pass<'_>, Refusal> {
        match self.ask(Wanted::Leave(length), offset, urgency)? {
            Leave::Send(pass) => Ok(pass),
            Leave::Done(_) => Ok(self.pass(Why::Plain, None)),
        }
    }

    /// What it has done so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.counters().figures()
    }

    /// The disk that is read from, if the block layer sees one.
    #[must_use]
    pub fn device(&self) -> Option<&BlockDevice> {
        self.place.disk().map(|disk| &disk.device)
    }

    /// Where on the disk an offset (bytes) lies, if it lies there and that is known.
    #[must_use]
    pub fn device_offset(&self, offset: u64) -> Option<u64> {
        self.device()?;
        match self.place.find(offset, crate::state::now()) {
            Where::At(place) => Some(place),
            Where::Somewhere | Where::Nowhere => None,
        }
    }

    /// The model that it decides by.
    #[must_use]
    pub fn model(&self) -> Option<&Model> {
        self.known.model().map(|model| &**model)
    }

    /// In what the drive is another than the one that the model was trained on, if that is
    /// known. Then nothing is refused.
    #[must_use]
    pub const fn other_drive(&self) -> Option<&OtherDrive> {
        self.known.other_drive()
    }

    /// The file in which other processes find its figures; none if it is not published.
    #[must_use]
    pub fn published_at(&self) -> Option<PathBuf> {
        self.board.path().map(Path::to_owned)
    }
}

impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let device = self.device().map(|device| &device.name);
        f.debug_struct("Reader").field("file", &self.file).field("device", &device).finish()
    }
}
