//! New arrays.

use trimtab_array::{Level, Rotation};
use trimtab_md::geometry::PPL_BYTES;
use trimtab_md::{
    ArrayName, CreateError, NewArray, NewConsistency, NewMember, NewMetadata, PPL_HEADER_BYTES,
    Recovery, Uuid,
};
use trimtab_serve::Error;

use crate::member::MemberDevice;
use crate::metadata::timestamp;
use crate::spec::Consistency;

/// What a new array is to be.
pub(crate) struct New<'a> {
    pub(crate) name: &'a str,
    pub(crate) level: u8,
    pub(crate) chunk: u64,
    pub(crate) consistency: Consistency,
    pub(crate) assume_clean: bool,
    pub(crate) force: bool,
}

/// Random bytes that tell an array or a device from all others.
pub(crate) fn random_uuid() -> Result<Uuid, Error> {
    let mut bytes = [0; 16];
    let flags = rustix::rand::GetRandomFlags::empty();
    let filled = rustix::rand::getrandom(&mut bytes, flags);
    filled.map_err(Error::system("get random bytes"))?;
    Ok(Uuid(bytes))
}

/// The level of a number, as `mdadm --level` has it.
fn level(number: u8) -> Result<Level, Error> {
    match number {
        0 => Ok(Level::Raid0),
        1 => Ok(Level::Raid1),
        4 => Ok(Level::Raid4),
        5 => Ok(Level::Raid5),
        6 => Ok(Level::Raid6),
        _ => Err(Error::BadInput(format!("no level {number}: there are 0, 1, 4, 5 and 6"))),
    }
}

/// Writes the metadata of a new array to its members.
pub(crate) fn create(new: &New<'_>, devices: &[MemberDevice]) -> Result<(), Error> {
    let level = level(new.level)?;
    let least = level.least_members();
    if devices.len() < least {
        let found = devices.len();
        return Err(Error::BadInput(format!(
            "{level} needs at least {least} members, {found} given"
        )));
    }
    if !new.force {
        devices.iter().try_for_each(MemberDevice::check_unused)?;
    }
    let members = devices.iter().map(|device| {
        let uuid = random_uuid()?;
        Ok(Some(NewMember { bytes: device.metadata.bytes(), uuid, flags: 0 }))
    });
    let is_logged = new.consistency == Consistency::Ppl;
    if is_logged && level != Level::Raid5 {
        return Err(Error::BadInput(format!("{level} has no partial parity log: raid5 has")));
    }
    if is_logged && new.chunk + PPL_HEADER_BYTES as u64 > PPL_BYTES {
        let chunk = new.chunk;
        let why = "a partial parity log has no room for it: at most 512 KiB";
        return Err(Error::BadInput(format!("a chunk of {chunk} bytes: {why}")));
    }
    let consistency = match level {
        Level::Raid0 => NewConsistency::Resync,
        _ if is_logged => NewConsistency::Ppl,
        _ => NewConsistency::Bitmap(None),
    };
    let array = NewArray {
        uuid: random_uuid()?,
        name: ArrayName::new(new.name).ok_or_else(|| {
            Error::BadInput(format!("`{}`: a name in md's format has at most 32 bytes", new.name))
        })?,
        level,
        rotation: Rotation::LeftSymmetric,
        chunk: new.chunk,
        members: members.collect::<Result<_, Error>>()?,
        spares: Vec::new(),
        consistency,
        is_in_sync: new.assume_clean || level == Level::Raid0 || is_logged,
        now: timestamp(),
    };
    let mut all = array.create().map_err(|error| named(&error, devices))?;
    if let Some(last) = all.last_mut().filter(|_| is_logged && !new.assume_clean) {
        // As mdadm does it: a resync would not be told from writes that the logs have.
        last.superblock.recovery = Some(Recovery { done_to: 0, by_bitmap: false });
    }
    // All of them must have room before the first is written to.
    for (device, metadata) in devices.iter().zip(&all) {
        write(device, metadata)?;
    }
    Ok(())
}

fn write(device: &MemberDevice, new: &NewMetadata) -> Result<(), Error> {
    let result = device.metadata.write_empty_ppl(&new.superblock, 0);
    let result = result.and_then(|()| device.metadata.write_new(new));
    result.map_err(|error| Error::Failed(error.to_string()))
}

fn named(error: &CreateError, devices: &[MemberDevice]) -> Error {
    match error {
        CreateError::TooSmall { member, found, least } => {
            let path = devices[*member].path.display();
            Error::BadInput(format!("{path} has {found} bytes, a member needs more than {least}"))
        }
        error => Error::BadInput(error.to_string()),
    }
}
