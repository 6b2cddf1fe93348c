//! Telling formats apart by content.

use std::io::Write;

use trimtab_trace::{Error, Format, Options, Trace};

use super::{FILES, TEXT, as_format, content, path, read_bytes};

#[test]
fn every_file_is_recognised_as_what_it_is() {
    for (name, formats) in FILES {
        match (Trace::open(&[path(name)], &Options::default()), formats) {
            (Ok(trace), [format]) => assert_eq!(trace.meta().format, *format, "{name}"),
            (Err(error @ Error::Ambiguous { .. }), [_, _, ..]) => {
                let message = error.to_string();
                for format in TEXT.into_iter().filter(|f| *f != Format::Disksim) {
                    let listed = message.contains(&format!("{format} ("));
                    assert_eq!(listed, formats.contains(&format), "{name}: {message}");
                }
            }
            (Ok(trace), _) => panic!("{name}: taken for {}", trace.meta().format),
            (Err(error), _) => panic!("{name}: {error}"),
        }
    }
}

#[test]
fn every_file_is_refused_as_anything_else() {
    for (name, formats) in FILES {
        for format in TEXT.into_iter().filter(|f| *f != Format::Disksim) {
            let result = read_bytes(content(name).as_bytes(), &as_format(format));
            match result {
                Ok(_) => assert!(formats.contains(&format), "{name} was read as {format}"),
                Err(e) => assert!(!formats.contains(&format), "{name} as {format}: {e}"),
            }
        }
    }
}

#[test]
fn compression_changes_nothing() {
    for (name, formats) in FILES {
        let plain = content(name).into_bytes();
        let options = as_format(formats[0]);
        let expected = read_bytes(&plain, &options).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&plain).unwrap();
        assert_eq!(read_bytes(&gzip.finish().unwrap(), &options).unwrap(), expected, "{name}");
        let zstd = zstd::encode_all(&plain[..], 1).unwrap();
        assert_eq!(read_bytes(&zstd, &options).unwrap(), expected, "{name}");
    }
}

#[test]
fn line_ends_and_blank_lines_change_nothing() {
    for (name, formats) in FILES {
        let options = as_format(formats[0]);
        let plain = content(name);
        let expected = read_bytes(plain.as_bytes(), &options).unwrap();
        let crlf = plain.replace('\n', "\r\n\r\n");
        assert_eq!(read_bytes(crlf.as_bytes(), &options).unwrap(), expected, "{name}");
        let unended = format!("\n{}", plain.trim_end());
        assert_eq!(read_bytes(unended.as_bytes(), &options).unwrap(), expected, "{name}");
    }
}

#[test]
fn what_is_no_trace_is_said_to_be_none() {
    for (bytes, part) in [
        (&b""[..], "is empty"),
        (b"\n \n", "only blank lines"),
        (b"hello world\n", "no known trace format (its first line is `hello world`)"),
        (b"\n\n\nhello world\n", "no known trace format"),
        (b"a\0b\n", "binary"),
        (b"\x01\x02\xff\n\x03\n", "no known trace format"),
    ] {
        let message = read_bytes(bytes, &Options::default()).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_header_identifies_a_broken_file() {
    for (text, line, part) in [
        ("version,time,op,size,lbn\n1,7,zz,512,8\n", 2, "column 3 (op)"),
        ("fio version 3 iolog\n0 f add\n1 f read x 512\n", 3, "column 4 (offset)"),
        ("fio version 2 iolog\n0 f read 0 512 9 9\n", 2, "columns"),
        (
            "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\nx,h,0,Read,0,8,1\n",
            2,
            "column 1",
        ),
        ("TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.0 fio 1 sda R 8 x 0.1\n", 2, "BYTES"),
        ("device_id,opcode,offset,length,timestamp\n1,X,0,8,1\n", 2, "column 2 (opcode)"),
    ] {
        let error = read_bytes(text.as_bytes(), &Options::default()).unwrap_err();
        assert_eq!(error.line(), Some(line), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_bad_line_further_on_is_reported_when_one_format_fits_until_there() {
    let text = content("replay.csv") + "3.000,70,1,512\n";
    let error = read_bytes(text.as_bytes(), &Options::default()).unwrap_err();
    assert_eq!(error.line(), Some(5), "{error}");
    assert!(error.to_string().contains("expected 7 columns, found 4"), "{error}");
}
