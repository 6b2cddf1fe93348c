//! A round trip of a trace through pandas loses nothing.

#[path = "../place/mod.rs"]
mod place;

use std::fmt::Write as _;
use std::process::Command;

use place::Place;

/// Takes a round trip through a data frame, and another that keeps metadata.
const SCRIPT: &str = r#"
import pandas as pd, pyarrow as pa, pyarrow.parquet as pq
frame = pd.read_parquet("a.parquet")
assert frame.pid.isna().sum() == 100, frame.dtypes
assert str(frame.issue_ns.dtype) == "Int64", frame.dtypes
frame.to_parquet("plain.parquet", compression="brotli")
metadata = pq.read_metadata("a.parquet").metadata
keep = {key: value for key, value in metadata.items() if key.startswith(b"trimtab.")}
table = pa.Table.from_pandas(frame, preserve_index=False)
pq.write_table(table.replace_schema_metadata(keep), "kept.parquet", compression="gzip")
"#;

#[test]
fn round_trip_through_pandas_is_lossless() {
    if !trimtab_testdisk::requires(&[trimtab_testdisk::Feature::Pandas]) {
        return;
    }
    // Times of this century in ns, beyond the exact range of a float; rows without an issue
    // time and without a process.
    let mut rows = String::from("arrival,issue,complete,op,offset,length,pid\n");
    for i in 0..300_u64 {
        let at = 1_700_000_000_000_000_001 + i * 1_003;
        let issue = if i % 4 == 0 { String::new() } else { (at + 7).to_string() };
        let pid = if i % 3 == 0 { String::new() } else { (i + 1).to_string() };
        let op = ["read", "write"][(i % 2) as usize];
        writeln!(rows, "{at},{issue},{},{op},{},4096,{pid}", at + 80_001, i * 4096).unwrap();
    }
    let place = Place::new(&[("rows.csv", &rows)]);
    let make = r#"
import pandas as pd
d = pd.read_csv("rows.csv", dtype={"issue": "Int64", "pid": "UInt32"})
d = d.rename(columns={c: c + "_ns" for c in ("arrival", "issue", "complete")})
d.to_parquet("made.parquet")
"#;
    let run = |script: &str| {
        let mut command = Command::new("python3");
        let output = command.args(["-c", script]).current_dir(place.path("")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let trimtab = |args: &[&str]| {
        let output = place.command(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    run(make);
    trimtab(&["trace", "convert", "made.parquet", "-o", "a.parquet"]);
    run(SCRIPT);
    for back in ["plain.parquet", "kept.parquet"] {
        trimtab(&["trace", "convert", back, "-o", "b.parquet"]);
        run(r#"
import pandas as pd
a, b = pd.read_parquet("a.parquet"), pd.read_parquet("b.parquet")
assert a.equals(b), (a.compare(b), a.dtypes, b.dtypes)
made = pd.read_csv("rows.csv", dtype={"issue": "Int64", "pid": "UInt32"})
for column, of in ("issue_ns", made.issue), ("complete_ns", made.complete), ("pid", made.pid):
    assert b[column].fillna(0).astype("int64").tolist() == of.fillna(0).astype("int64").tolist()
"#);
    }
}
