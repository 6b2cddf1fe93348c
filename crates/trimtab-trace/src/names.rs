//! Interned device and command names.

use std::num::NonZeroU32;

use rustc_hash::FxHashMap;
use trimtab_io::DeviceId;

use crate::error::Malformed;

/// A command's number in a trace's [`Names`]. Non-zero, so that
/// `Option<CommandId>` is four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub(crate) NonZeroU32);

/// A file with more distinct names is misread, not a trace. Bounds the memory that a hostile file
/// can take.
const MAX_NAMES: usize = 1 << 20;
/// Longer than any device or command name.
const MAX_NAME_BYTES: usize = 256;

/// The device and command names of one trace, in order of appearance.
#[derive(Clone, Debug, Default)]
pub struct Names {
    devices: Table,
    commands: Table,
}

impl Names {
    /// The device with this number.
    #[must_use]
    pub fn device(&self, id: DeviceId) -> &str {
        self.devices.name(id.0)
    }

    /// The command with this number.
    #[must_use]
    pub fn command(&self, id: CommandId) -> &str {
        self.commands.name(id.0.get() - 1)
    }

    /// All devices seen so far, with their numbers.
    pub fn devices(&self) -> impl Iterator<Item = (DeviceId, &str)> {
        (0..).map(DeviceId).zip(self.devices.names.iter().map(AsRef::as_ref))
    }

    /// The number of the device with this name, if it has appeared.
    #[must_use]
    pub fn find_device(&self, name: &str) -> Option<DeviceId> {
        self.devices.numbers.get(name).copied().map(DeviceId)
    }

    /// The command names from this number on.
    pub(crate) fn commands_from(&self, place: usize) -> &[Box<str>] {
        self.commands.names.get(place..).unwrap_or_default()
    }

    /// The device names from this number on.
    pub(crate) fn devices_from(&self, place: usize) -> &[Box<str>] {
        self.devices.names.get(place..).unwrap_or_default()
    }

    /// Whether the record's device and command are among these.
    pub(crate) fn cover(&self, record: &crate::Record) -> bool {
        let command = record.command.map_or(0, |id| id.0.get() as usize);
        (record.device.0 as usize) < self.devices.names.len()
            && command <= self.commands.names.len()
    }

    pub(crate) fn intern_device(&mut self, name: &[u8]) -> Result<DeviceId, Malformed> {
        self.devices.intern(name, "device").map(DeviceId)
    }

    pub(crate) fn intern_command(&mut self, name: &[u8]) -> Result<CommandId, Malformed> {
        let number = self.commands.intern(name, "command")?;
        Ok(CommandId(NonZeroU32::MIN.saturating_add(number)))
    }

    /// The number for this device name, a new one if it is new.
    ///
    /// # Errors
    /// The name is longer than 256 bytes, or there are over a million already.
    pub fn add_device(&mut self, name: &str) -> Result<DeviceId, crate::Error> {
        self.intern_device(name.as_bytes()).map_err(|e| crate::Error::Usage(e.0))
    }

    /// The number for this command name, a new one if it is new.
    ///
    /// # Errors
    /// The name is longer than 256 bytes, or there are over a million already.
    pub fn add_command(&mut self, name: &str) -> Result<CommandId, crate::Error> {
        self.intern_command(name.as_bytes()).map_err(|e| crate::Error::Usage(e.0))
    }
}

#[derive(Clone, Debug, Default)]
struct Table {
    names: Vec<Box<str>>,
    numbers: FxHashMap<Box<str>, u32>,
    /// The last name looked up: adjacent records mostly share it.
    last: u32,
}

impl Table {
    fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("?", AsRef::as_ref)
    }

    fn intern(&mut self, name: &[u8], kind: &str) -> Result<u32, Malformed> {
        if self.names.get(self.last as usize).is_some_and(|last| last.as_bytes() == name) {
            return Ok(self.last);
        }
        self.last = self.intern_another(name, kind)?;
        Ok(self.last)
    }

    fn intern_another(&mut self, name: &[u8], kind: &str) -> Result<u32, Malformed> {
        if name.len() > MAX_NAME_BYTES {
            return Err(Malformed::new(format!(
                "expected a {kind} name of at most {MAX_NAME_BYTES} bytes, found {}",
                name.len()
            )));
        }
        let name = String::from_utf8_lossy(name);
        if let Some(&number) = self.numbers.get(&*name) {
            return Ok(number);
        }
        if self.names.len() == MAX_NAMES {
            return Err(Malformed::new(format!("more than {MAX_NAMES} distinct {kind} names")));
        }
        let number = self.names.len() as u32;
        self.names.push(name.as_ref().into());
        self.numbers.insert(name.into(), number);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_interned() {
        let mut names = Names::default();
        let a = names.intern_device(b"sda").unwrap();
        let b = names.intern_device(b"sdb").unwrap();
        assert_ne!(a, b);
        assert_eq!(names.intern_device(b"sda").unwrap(), a);
        assert_eq!(names.device(b), "sdb");
        assert_eq!(names.find_device("sdb"), Some(b));
        assert_eq!(names.find_device("sdc"), None);
        let c = names.intern_command(b"fio").unwrap();
        assert_eq!(names.command(c), "fio");
        assert!(names.intern_device(&[b'x'; 300]).is_err());
    }
}
