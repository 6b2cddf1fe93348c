//! The plotting library's JavaScript, as the crate `plotly` carries it.

use plotly::Plot;

/// The licence that goes with it.
pub(crate) const LICENSE: &str = include_str!("../assets/plotly.LICENSE");

/// plotly.js, complete.
///
/// The crate gives a `<script>` element with plotly.js and one with MathJax, which
/// typesets formulas. Charts have none, so 2 MB stay out of each page.
pub(crate) fn plotly_js() -> String {
    let mut elements = Plot::offline_js_sources();
    let end = elements.find("</script>").unwrap_or(elements.len());
    elements.truncate(end);
    let begin = elements.find('>').map_or(0, |tag_end| tag_end + 1);
    elements.split_off(begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also that it cannot end its element early: a script ends at the first `</script`,
    /// and `<!--` followed by `<script` keeps it from ending at all.
    #[test]
    fn script_is_plotly_only_and_embeddable() {
        let script = plotly_js();
        assert!(script.trim_start().starts_with("/**\n* plotly.js v"), "{}", &script[..80]);
        assert!(script.trim_end().ends_with("}));"));
        assert!(script.contains("window.Plotly = Plotly"));
        let lower = script.to_ascii_lowercase();
        assert!(!lower.contains("</script") && !lower.contains("<!--"));
        assert!(!script.contains("sourceMappingURL"));
        assert!(!LICENSE.contains("*/"));
    }
}
