//! New arrays.

use trimtab_array::{Level, Rotation};
use trimtab_md::geometry::PPL_BYTES;
use trimtab_md::{
    ArrayName, CreateError, MemberError, NewArray, NewConsistency, NewMember, NewMetadata,
    PPL_HEADER_BYTES, Recovery, Uuid,
};
use trimtab_serve::Error;

use crate::engine::warn;
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
    let smallest = devices.iter().map(|device| device.metadata.bytes()).min().unwrap_or(0);
    let members = devices.iter().map(|device| {
        let uuid = random_uuid()?;
        // md would use all of each member of level 0.
        let bytes = if level == Level::Raid0 { smallest } else { device.metadata.bytes() };
        Ok(Some(NewMember { bytes, uuid, flags: 0 }))
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
    write_all(devices, &all)
}

/// A line if members have more bytes than the array uses.
pub(crate) fn unused(devices: &[MemberDevice], chunk: u64) -> Option<String> {
    let bytes = |device: &&MemberDevice| device.metadata.bytes();
    let (least, most) = (devices.iter().min_by_key(bytes)?, devices.iter().max_by_key(bytes)?);
    let [smallest, largest] = [bytes(&least), bytes(&most)];
    (largest - smallest >= chunk).then(|| {
        let [least, most] = [least, most].map(|device| device.path.display());
        format!(
            "{least} is the smallest member, with {smallest} bytes: as many of each are used, of \
             {largest} of {most}"
        )
    })
}

/// Writes the metadata of all members, or changes none.
fn write_all(devices: &[MemberDevice], all: &[NewMetadata]) -> Result<(), Error> {
    let failed = |error: MemberError| Error::Failed(error.to_string());
    let both = || devices.iter().zip(all);
    let saved: Vec<_> = both().map(|(device, new)| device.metadata.save(new)).collect();
    let saved = saved.into_iter().collect::<Result<Vec<_>, _>>().map_err(failed)?;
    // One that cannot be written to, or has no room, shows before any is changed.
    let unchanged = devices.iter().zip(&saved);
    unchanged
        .clone()
        .try_for_each(|(device, saved)| device.metadata.put_back(saved))
        .map_err(failed)?;
    let Err(error) = both().try_for_each(|(device, new)| write(device, new)) else { return Ok(()) };
    for (device, saved) in unchanged {
        if let Err(error) = device.metadata.put_back(saved) {
            warn(format_args!("{error}: it has new metadata, and belongs to no array"));
        }
    }
    Err(error)
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
