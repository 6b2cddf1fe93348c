//! Figures in a readable form.

use trimtab_io::Nanos;
use trimtab_report::count;

/// Stands for an absent figure.
pub(crate) const NONE: &str = "–";

/// `987`, `9,876`, `98.8k`, `1.23M`: at most five characters.
pub(crate) fn short_count(n: u64) -> String {
    if n < 10_000 {
        return count(n);
    }
    let units = [("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];
    // 999.6 k is printed as 1.00M, not as 1000k.
    let fits = |&&(_, unit): &&(&str, f64)| n as f64 / unit >= 0.9995;
    let (name, unit) = units.iter().rfind(fits).unwrap_or(&units[0]);
    let value = n as f64 / unit;
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{name}")
}

/// Three significant digits, thousands separated: `0.05`, `1.23`, `12.3`,
/// `1,234`.
pub(crate) fn number(x: f64) -> String {
    match x {
        x if x >= 99.95 => count(x.round() as u64),
        x if x >= 9.995 => format!("{x:.1}"),
        x => format!("{x:.2}"),
    }
}

/// `12.3%`.
pub(crate) fn percent(share: f64) -> String {
    match share {
        s if s > 0.0 && s < 0.000_5 => "<0.1%".to_owned(),
        s if (0.999_5..1.0).contains(&s) => ">99.9%".to_owned(),
        s => format!("{:.1}%", s * 100.0),
    }
}

/// Like [`Nanos`]' own text, but with minutes, hours and days for long times.
pub(crate) fn long(time: Nanos) -> String {
    let s = time.as_secs_f64();
    match s {
        s if s < 120.0 => time.to_string(),
        s if s < 7_200.0 => format!("{} min", number(s / 60.0)),
        s if s < 172_800.0 => format!("{} h", number(s / 3_600.0)),
        s => format!("{} days", number(s / 86_400.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        assert_eq!(
            [9_999, 10_000, 99_960, 999_600, 1_234_567, 12_345_678].map(short_count),
            ["9,999", "10.0k", "100k", "1.00M", "1.23M", "12.3M"]
        );
        assert_eq!([0.05, 9.996, 99.96, 12_345.6].map(number), ["0.05", "10.0", "100", "12,346"]);
        assert_eq!(
            [0.0, 0.0001, 0.5, 0.9999, 1.0].map(percent),
            ["0.0%", "<0.1%", "50.0%", ">99.9%", "100.0%"]
        );
        assert_eq!(
            [1, 300, 36_000, 604_800].map(|s| long(Nanos::from_secs(s))),
            ["1.00 s", "5.00 min", "10.0 h", "7.00 days"]
        );
    }
}
