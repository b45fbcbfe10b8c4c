//! The two text forms: OpenMetrics as the library writes it, and Prometheus's older one.

/// A text form of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text format 0.0.4, which everything reads.
    Prometheus,
}

impl Form {
    /// The form for an `Accept` header: OpenMetrics if it is asked for by name.
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Form::OpenMetrics
        } else {
            Form::Prometheus
        }
    }

    /// The media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Form::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// OpenMetrics text in the older form: a counter's family carries the `_total` of its samples, and
/// there are neither units nor an end mark.
///
/// Source: Prometheus "Exposition formats", text format 0.0.4; OpenMetrics 1.0, "Counter".
pub(super) fn to_prometheus(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // Comes before the type, and is named by it.
    let mut help = "";
    for line in open_metrics.split_inclusive('\n') {
        if line.starts_with("# UNIT ") || line.starts_with("# EOF") {
            continue;
        }
        if line.starts_with("# HELP ") {
            help = line;
            continue;
        }
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' ')) {
            let suffix = if kind.trim_end() == "counter" { "_total" } else { "" };
            let help = help.strip_prefix("# HELP ").and_then(|it| it.strip_prefix(name));
            for part in ["# HELP ", name, suffix, help.unwrap_or("\n")] {
                text.push_str(part);
            }
            for part in ["# TYPE ", name, suffix, " ", kind] {
                text.push_str(part);
            }
            continue;
        }
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_get_their_suffix_and_the_rest_stays() {
        let open_metrics = "# HELP a_seconds Time spent.\n# TYPE a_seconds counter\n\
                            # UNIT a_seconds seconds\na_seconds_total{x=\"1\"} 2\n\
                            # HELP b Now.\n# TYPE b gauge\nb 3\n# EOF\n";
        assert_eq!(
            to_prometheus(open_metrics),
            "# HELP a_seconds_total Time spent.\n# TYPE a_seconds_total counter\n\
             a_seconds_total{x=\"1\"} 2\n# HELP b Now.\n# TYPE b gauge\nb 3\n"
        );
    }

    #[test]
    fn the_form_follows_what_is_accepted() {
        assert_eq!(Form::accepted("*/*"), Form::Prometheus);
        assert_eq!(Form::accepted(""), Form::Prometheus);
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.4";
        assert_eq!(Form::accepted(prometheus), Form::OpenMetrics);
    }
}
