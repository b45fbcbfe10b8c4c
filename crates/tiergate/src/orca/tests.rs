//! The forms of a report, and bytes that are none.

use super::*;
use data_encoding::{BASE64, BASE64_NOPAD};
use proptest::prelude::*;

fn metric(name: &str) -> Metric {
    let metric = Metric::called(name).expect("a metric");
    assert_eq!(metric.to_string(), name);
    metric
}

fn of_text(text: &str, name: &str) -> Result<Option<f64>, Unreadable> {
    value(LoadReport::Text(text.as_bytes()), &metric(name))
}

/// A message, from its fields.
fn message(scalars: &[(u64, f64)], maps: &[(u64, &str, f64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, value) in scalars {
        bytes.push((number << 3 | 1) as u8);
        bytes.extend(value.to_le_bytes());
    }
    for (number, key, value) in maps {
        bytes.extend([(number << 3 | 2) as u8, (2 + key.len() + 9) as u8, 0x0a, key.len() as u8]);
        bytes.extend(key.as_bytes());
        bytes.push(0x11);
        bytes.extend(value.to_le_bytes());
    }
    bytes
}

const NAMES: [&str; 7] = [
    "cpu_utilization",
    "mem_utilization",
    "application_utilization",
    "rps_fractional",
    "eps",
    "utilization.disk",
    "named_metrics.queue",
];

#[test]
fn every_form_says_the_same() {
    let message = message(
        &[(1, 0.25), (2, 0.5), (6, 1e3), (7, 2.0), (9, 1.5)],
        &[(4, "queue", 9.0), (5, "disk", 0.75), (8, "other", 3.0), (8, "queue", 12.0)],
    );
    // Fields that are not known, of each kind: a number, four bytes, a text.
    let message =
        [&[0x18, 0xff, 0x01, 0x7d, 1, 2, 3, 4, 0x72, 1, b'x'][..], message.as_slice()].concat();
    let json = "{\"cpu_utilization\": 0.25, \"memUtilization\": \"0.5\", \"rps\": 7, \"rpsFractional\": 1e3, \"eps\": 2,
        \"requestCost\": {\"queue\": 9}, \"utilization\": {\"disk\": 0.75}, \"named_metrics\": {\"other\": [{}], \"queue\": 12},
        \"application_utilization\": 1.5}";
    let list = "cpu_utilization=0.25,mem_utilization:0.5 , application_utilization = 1.5, rps_fractional=1e3, eps=2,\
                utilization.disk=0.75, named_metrics.other=x, named_metrics.queue=12,unknown=y,";
    let texts = [
        format!("TEXT {list}"),
        list.to_owned(),
        format!("JSON {json}"),
        format!("BIN {}", BASE64.encode(&message)),
    ];
    let values = [0.25, 0.5, 1.5, 1e3, 2.0, 0.75, 12.0].map(|it| Ok(Some(it)));
    for text in &texts {
        assert_eq!(NAMES.map(|name| of_text(text, name)), values, "{text}");
        assert_eq!(of_text(text, "named_metrics.cpu_utilization"), Ok(None), "{text}");
    }
    for base64 in [BASE64.encode(&message), BASE64_NOPAD.encode(&message)] {
        let binary = |name| value(LoadReport::Binary(base64.as_bytes()), &metric(name));
        assert_eq!(NAMES.map(binary), values, "{base64}");
    }
    for empty in ["", "TEXT ", "JSON {}", "BIN ", "TEXT ,,", "JSON {\"cpu_utilization\": null}"] {
        assert_eq!(of_text(empty, "cpu_utilization"), Ok(None), "{empty}");
    }
    let null = "JSON {\"named_metrics\": null, \"utilization\": {\"disk\": null}}";
    for name in NAMES {
        assert_eq!(of_text(null, name), Ok(None), "{name}");
    }
    assert_eq!(value(LoadReport::None, &metric("eps")), Ok(None));
}

#[test]
fn what_cannot_be_read_is_refused() {
    let wrong = [
        ("cpu_utilization", Unreadable::Malformed),
        ("TEXT 0.3", Unreadable::Malformed),
        ("TEXT cpu_utilization=", Unreadable::NoNumber),
        ("TEXT cpu_utilization=30%", Unreadable::NoNumber),
        ("TEXT cpu_utilization=NaN", Unreadable::NoNumber),
        ("cpu_utilization=inf", Unreadable::NoNumber),
        ("cpu_utilization=\"0.3\"", Unreadable::NoNumber),
        ("cpu_utilization=0.3, cpu_utilization=0.3", Unreadable::Ambiguous),
        ("JSON", Unreadable::Malformed),
        ("JSON 0.3", Unreadable::Malformed),
        ("JSON {\"cpu_utilization\": 0.3", Unreadable::Malformed),
        ("JSON {\"cpu_utilization\": 0.3} x", Unreadable::Malformed),
        ("JSON {\"cpu_utilization\": 1e400}", Unreadable::Malformed),
        ("JSON {\"cpu_utilization\": \"NaN\"}", Unreadable::NoNumber),
        ("JSON {\"cpu_utilization\": true}", Unreadable::NoNumber),
        ("JSON {\"cpu_utilization\": 0.3, \"cpuUtilization\": 0.3}", Unreadable::Ambiguous),
        ("BIN !", Unreadable::Malformed),
        ("BIN CQAAAAAA", Unreadable::Malformed),
        ("BIN CgAA", Unreadable::Malformed),
    ];
    for (text, why) in wrong {
        assert_eq!(of_text(text, "cpu_utilization"), Err(why), "{text}");
    }
    let infinite = message(&[(1, f64::INFINITY)], &[]);
    let infinite = BASE64.encode(&infinite);
    let read = value(LoadReport::Binary(infinite.as_bytes()), &Metric::Cpu);
    assert_eq!(read, Err(Unreadable::NoNumber));
    let long = format!("cpu_utilization=0.{}", "3".repeat(LEN_MAX));
    assert_eq!(of_text(&long, "cpu_utilization"), Err(Unreadable::TooLong));
    let deep = format!("JSON {{\"x\": {}", "[".repeat(LEN_MAX - 20));
    assert_eq!(of_text(&deep, "cpu_utilization"), Err(Unreadable::Malformed));
    assert_eq!(value(LoadReport::Several, &Metric::Cpu), Err(Unreadable::Ambiguous));
    for none in ["", "cpu", "named_metrics.", "utilization.", "request_cost.a", "CPU_utilization"] {
        assert_eq!(Metric::called(none), None, "{none}");
    }
}

/// Reports that are nearly right, and bytes of any kind.
fn reports() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: [&str; 20] = [
        "TEXT ",
        "JSON ",
        "BIN ",
        "cpu_utilization",
        "named_metrics",
        "named_metrics.queue",
        "=",
        ":",
        ",",
        "{",
        "}",
        "\"",
        "0.5",
        "1e999",
        "-",
        "NaN",
        "[",
        " ",
        "\\u0000",
        "CQAAAAAAAOA/",
    ];
    let near = proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..16)
        .prop_map(|pieces| pieces.concat().into_bytes());
    let base64 = proptest::collection::vec(any::<u8>(), 0..64)
        .prop_map(|bytes| format!("BIN {}", BASE64.encode(&bytes)).into_bytes());
    prop_oneof![near, base64, proptest::collection::vec(any::<u8>(), 0..64)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4096) })]

    #[test]
    fn whatever_comes_gives_a_finite_number_or_none(report in reports()) {
        for name in NAMES {
            let metric = Metric::called(name).expect("a metric");
            for report in [LoadReport::Text(&report), LoadReport::Binary(&report)] {
                if let Ok(Some(value)) = value(report, &metric) {
                    prop_assert!(value.is_finite());
                }
            }
        }
    }

    #[test]
    fn what_is_written_is_read(number in any::<f64>().prop_filter("finite", |it| it.is_finite()), key in "[a-z_]{1,20}") {
        let metric = Metric::Named(key.clone());
        let binary = BASE64_NOPAD.encode(&message(&[(1, 0.5)], &[(8, "", 1.0), (8, &key, number)]));
        let texts = [
            format!("eps=1, named_metrics.{key}={number}"),
            format!("JSON {{\"namedMetrics\": {{\"{key}\": {number:e}, \"x-x\": 1}}}}"),
            format!("BIN {binary}"),
        ];
        for text in texts {
            let read = value(LoadReport::Text(text.as_bytes()), &metric);
            let Ok(Some(read)) = read else { panic!("{read:?}: {text}") };
            // A JSON parser may be off by the last digit.
            prop_assert!((read - number).abs() <= number.abs() * 1e-15 + f64::MIN_POSITIVE, "{}: {}", read, text);
        }
    }
}
