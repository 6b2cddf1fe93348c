//! Text from outside (file, device and command names) made safe to stand in a
//! page.

use std::fmt::{self, Write};

use serde::Serialize;

/// Displays text escaped for HTML, in elements and in quoted attributes.
pub(crate) struct Html<'a>(pub(crate) &'a str);

impl fmt::Display for Html<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
            f.write_str(&rest[..at])?;
            f.write_str(match rest.as_bytes()[at] {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'"' => "&quot;",
                _ => "&#39;",
            })?;
            rest = &rest[at + 1..];
        }
        f.write_str(rest)
    }
}

/// Displays a value as JSON that may stand in a `<script>` element.
///
/// Such an element ends at the first `</script`, even inside a JSON string,
/// and `<!--` changes how the rest is read. In JSON `<` occurs in strings
/// only, where `\u003c` means the same.
pub(crate) struct Json<'a, T>(pub(crate) &'a T);

impl<T: Serialize> fmt::Display for Json<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = serde_json::to_string(self.0).map_err(|_| fmt::Error)?;
        for c in json.chars() {
            match c {
                '<' => f.write_str("\\u003c")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn markup_becomes_text() {
        let text = Html("</script><b>x & \"y\" 'z' µ").to_string();
        assert_eq!(text, "&lt;/script&gt;&lt;b&gt;x &amp; &quot;y&quot; &#39;z&#39; µ");
    }

    #[test]
    fn json_cannot_end_its_element_and_means_the_same() {
        let value = json!({"</script><b>x": ["<!-- <script>", "µ\u{2028}"]});
        let text = Json(&value).to_string();
        assert!(!text.contains('<'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
