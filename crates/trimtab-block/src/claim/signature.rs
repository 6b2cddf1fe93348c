//! What a device or file holds, by the signatures of file systems, partition tables and volumes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// A signature: what it is of, its offset, its bytes.
type Signature = (&'static str, u64, &'static [u8]);

/// Those of what is common on Linux, the more special ones first. Where they are is documented with
/// each format; libblkid knows more of them.
const SIGNATURES: &[Signature] = &[
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("an XFS file system", 0, b"XFSB"),
    ("a SquashFS file system", 0, b"hsqs"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 54, b"FAT1"),
    ("a FAT file system", 82, b"FAT32"),
    ("a BlueStore volume", 0, b"bluestore block device\n"),
    ("a GPT partition table", 512, b"EFI PART"),
    ("an LVM volume", 24, b"LVM2 001"),
    ("an LVM volume", 536, b"LVM2 001"),
    ("an EROFS file system", 1024, b"\xe2\xe1\xf5\xe0"),
    ("an F2FS file system", 1024, b"\x10\x20\xf5\xf2"),
    ("an ext2, ext3 or ext4 file system", 1080, b"\x53\xef"),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("swap space", 4086, b"SWAP-SPACE"),
    ("a GPT partition table", 4096, b"EFI PART"),
    ("a bcache volume", 4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"),
    ("a bcachefs file system", 4120, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9"),
    ("an ISO 9660 file system", 32769, b"CD001"),
    ("a Btrfs file system", 65600, b"_BHRfS_M"),
    ("a ZFS volume", 131_072, b"\x0c\xb1\xba\x00\x00\x00\x00\x00"),
    ("a partition table", 510, b"\x55\xaa"),
];

/// The alignment and the bytes of a read, which may be direct.
const READ: u64 = 4096;

#[repr(align(4096))]
struct Aligned([u8; 2 * READ as usize]);

/// What an open device or file holds, if it has a known signature.
///
/// # Errors
/// It cannot be read.
pub fn signature(file: &File) -> io::Result<Option<&'static str>> {
    let mut read = Aligned([0; 2 * READ as usize]);
    let mut at = None;
    for &(what, offset, bytes) in SIGNATURES {
        let start = offset / READ * READ;
        if at != Some(start) {
            read.0.fill(0);
            // Less than all is there at the end of a small file.
            file.read_at(&mut read.0, start)?;
            at = Some(start);
        }
        let from = (offset - start) as usize;
        if read.0[from..from + bytes.len()] == *bytes {
            return Ok(Some(what));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for &(what, offset, bytes) in SIGNATURES {
            let mut options = File::options();
            let options = options.create(true).truncate(true).write(true).read(true);
            let file = options.open(&path).unwrap();
            assert_eq!(signature(&file).unwrap(), None);
            file.set_len(1 << 20).unwrap();
            assert_eq!(signature(&file).unwrap(), None);
            file.write_all_at(bytes, offset).unwrap();
            assert_eq!(signature(&file).unwrap(), Some(what));
        }
    }
}
