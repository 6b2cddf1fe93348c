//! Format detection by content.

use std::io::Write;

use trimtab_trace::{Error, Format, Trace, TraceOptions};

use super::{FILES, TEXT, as_format, content, drain, path, read_bytes};

#[test]
fn every_file_is_detected() {
    for (name, formats) in FILES {
        match (Trace::open(&[path(name)], &TraceOptions::default()), formats) {
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
fn every_file_is_refused_in_other_formats() {
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
fn compression_is_transparent() {
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

/// As programs on Windows write text.
#[test]
fn byte_order_marks_and_utf16_are_transparent() {
    let utf16 = |text: &str, order: fn(u16) -> [u8; 2]| -> Vec<u8> {
        "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(order).collect()
    };
    for (name, formats) in FILES {
        let plain = content(name);
        let options = as_format(formats[0]);
        let expected = read_bytes(plain.as_bytes(), &options).unwrap();
        for bytes in [
            format!("\u{feff}{plain}").into_bytes(),
            utf16(&plain, u16::to_le_bytes),
            utf16(&plain.replace('\n', "\r\n"), u16::to_be_bytes),
        ] {
            assert_eq!(read_bytes(&bytes, &options).unwrap(), expected, "{name}");
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(&bytes).unwrap();
            assert_eq!(read_bytes(&gzip.finish().unwrap(), &options).unwrap(), expected, "{name}");
        }
    }
    // Detected too, though longer than the sample.
    let long = content("msr.csv").repeat(2_000);
    let records = read_bytes(&utf16(&long, u16::to_le_bytes), &TraceOptions::default()).unwrap();
    assert_eq!(records, read_bytes(long.as_bytes(), &TraceOptions::default()).unwrap());
}

#[test]
fn errors_show_decoded_text() {
    let trace = "128166372003061629,höst,0,Read,5µ,512,1\n";
    let error = read_bytes(trace.as_bytes(), &as_format(Format::Msr)).unwrap_err().to_string();
    assert!(error.contains("column 5") && error.contains("`5µ`"), "{error}");
    let error = read_bytes(b"\xff\xfea\0b", &TraceOptions::default()).unwrap_err().to_string();
    assert!(error.contains("its UTF-16 text ends within a character"), "{error}");
}

#[test]
fn line_ends_and_blank_lines_are_ignored() {
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
fn non_traces_are_errors() {
    for (bytes, part) in [
        (&b""[..], "is empty"),
        (b"\n \n", "only blank lines"),
        (b"hello world\n", "no known trace format (its first line is `hello world`)"),
        (b"\n\n\nhello world\n", "no known trace format"),
        (b"a\0b\n", "binary"),
        (b"\x01\x02\xff\n\x03\n", "no known trace format"),
    ] {
        let message = read_bytes(bytes, &TraceOptions::default()).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn header_identifies_a_broken_file() {
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
        let error = read_bytes(text.as_bytes(), &TraceOptions::default()).unwrap_err();
        assert_eq!(error.line(), Some(line), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn late_bad_line_is_reported_for_the_fitting_format() {
    let text = content("replay.csv") + "3.000,70,1,512\n";
    let error = read_bytes(text.as_bytes(), &TraceOptions::default()).unwrap_err();
    assert_eq!(error.line(), Some(5), "{error}");
    assert!(error.to_string().contains("expected 7 columns, found 4"), "{error}");
}

/// fio's logs have the same columns for all quantities; only latencies are a trace.
#[test]
fn fio_logs_are_distinguished_by_name() {
    for (name, part) in [
        ("fio_offset_bw.1.log", "is by its name a fio log of bandwidths"),
        ("fio_offset_iops.1.log", "is by its name a fio log of rates"),
        ("fio_aio_slat.1.log", "is by its name a fio log of submission latencies"),
        ("fio_mean_lat.1.log", "line 1: column 4 (block size): expected single requests"),
    ] {
        for options in [TraceOptions::default(), as_format(Format::FioLatency)] {
            let error =
                Trace::open(&[path(name)], &options).and_then(drain).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains(part), "{name}: {error}");
        }
    }
}

#[test]
fn renamed_fio_logs_are_ambiguous() {
    for name in ["fio_offset_bw.1.log", "fio_aio_slat.1.log", "fio_offset_lat.1.log"] {
        let log = content(name);
        let error = read_bytes(log.as_bytes(), &TraceOptions::default()).unwrap_err();
        assert!(matches!(error, Error::Ambiguous { .. }), "{name}: {error}");
        assert!(error.to_string().contains("fio-latency (fio log of latencies"), "{error}");
        // An explicit format resolves the ambiguity.
        assert_eq!(read_bytes(log.as_bytes(), &as_format(Format::FioLatency)).unwrap().len(), 16);
    }
    // Averages match Tencent's columns too.
    let log = content("fio_mean_lat.1.log");
    let error = read_bytes(log.as_bytes(), &TraceOptions::default()).unwrap_err().to_string();
    assert!(error.contains("fio-latency (") && error.contains("; tencent ("), "{error}");
    // A log with a 1 in each line is not a latency log, even with an explicit format.
    let log = content("fio_offset_iops.1.log");
    for options in [TraceOptions::default(), as_format(Format::FioLatency)] {
        let error = read_bytes(log.as_bytes(), &options).unwrap_err();
        assert!(error.to_string().contains("as fio's IOPS log"), "{error}");
    }
}
