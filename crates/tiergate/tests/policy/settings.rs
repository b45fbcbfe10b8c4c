//! Settings that are changed while the gateway runs, over the admin listener.

use crate::support;
use serde_json::{Value, json};
use support::client::Client;
use support::gateway::{Gateway, Policy};
use support::origin::Origin;

const TOKEN: &str = "a token of the operator, long enough";

struct House {
    gateway: Gateway,
    _origin: Origin,
    _folder: tempfile::TempDir,
}

impl House {
    /// Two classes by weight, one of them with a trigger, and a policer.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("tokens");
        std::fs::write(&file, format!("# ours\n{TOKEN}\n")).expect("written");
        let origin = Origin::echo();
        let policy = Policy {
            top: format!("admin_token_file = {:?}", file.display().to_string()),
            origin: "slots = 2".into(),
            tables: "[scheduling]\npolicy = \"weighted\"\n\
                     [[class]]\nname = \"gold\"\nweight = 3\n\
                     [[class]]\nname = \"basic\"\nrefuse_at = [{ backlog = \"total\", waiting = 64 }]\n\
                     [[policer]]\nname = \"api\"\nrate = \"10/s\"\n\
                     [[rule]]\npath = \"/api/*\"\npolice = \"api\"\n"
                .into(),
            ..Policy::of(&[origin.server()])
        };
        House { gateway: Gateway::start(&policy), _origin: origin, _folder: folder }
    }

    fn ask(&self, method: &str, token: &str, body: &str) -> (u16, String) {
        let mut admin = Client::connect(self.gateway.admin);
        admin.send(format!(
            "{method} /settings HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let answer = admin.answer();
        (answer.status, answer.text())
    }

    fn patch(&self, body: &Value) -> (u16, String) {
        self.ask("PATCH", TOKEN, &body.to_string())
    }

    /// What is changed: setting, whose, its value and the policy's.
    fn changed(&self) -> Vec<(String, String, f64, f64)> {
        let (status, text) = self.ask("GET", "", "");
        assert_eq!(status, 200, "{text}");
        let all: Vec<Value> = serde_json::from_str(&text).expect("a list");
        let text = |it: &Value, key: &str| it[key].as_str().expect("a text").to_owned();
        let number = |it: &Value, key: &str| it[key].as_f64().expect("a number");
        let of = |it: &Value| {
            assert_eq!((text(it, "owner").as_str(), &it["lapsed"]), ("admin", &json!(false)));
            (text(it, "setting"), text(it, "of"), number(it, "value"), number(it, "planned"))
        };
        all.iter().map(of).collect()
    }
}

#[test]
fn settings_change_while_running_and_are_undone() {
    let house = House::new();
    assert_eq!((house.changed(), house.gateway.number("/limit/slots")), (vec![], 2));
    let (status, text) = house.patch(&json!({
        "slots_max": 5,
        "class": { "gold": { "weight": 1.5 }, "basic": { "refuse_at": [8] } },
        "policer": { "api": { "rate": 100 } },
    }));
    assert_eq!(status, 200, "{text}");
    let row = |setting: &str, of: &str, value, planned| (setting.into(), of.into(), value, planned);
    let mut expected = vec![
        row("weight", "gold", 1.5, 3.0),
        row("trigger_len", "basic", 8.0, 64.0),
        row("policer_rate", "api", 100.0, 10.0),
        row("slots_max", "", 5.0, 2.0),
    ];
    let sorted = |mut rows: Vec<(String, String, f64, f64)>| {
        rows.sort_by(|one, other| one.0.cmp(&other.0));
        rows
    };
    assert_eq!(sorted(house.changed()), sorted(expected.clone()));
    assert_eq!(house.gateway.number("/limit/slots"), 5, "in force");
    assert_eq!(house.gateway.get("/").status, 200);

    // A reload does not undo it: what an operator has changed in an emergency stays.
    assert_eq!(house.gateway.reload().0, 200);
    assert_eq!(house.gateway.number("/limit/slots"), 5);

    // One is undone, then all.
    assert_eq!(house.patch(&json!({ "slots_max": null })).0, 200);
    expected.pop();
    assert_eq!(sorted(house.changed()), sorted(expected));
    assert_eq!(house.gateway.number("/limit/slots"), 2);
    assert_eq!(house.ask("DELETE", TOKEN, ""), (200, "3 undone\n".to_owned()));
    assert_eq!(house.changed(), []);
    assert_eq!(house.ask("DELETE", TOKEN, ""), (200, "0 undone\n".to_owned()));
    house.gateway.assert_conserved();
}

#[test]
fn what_is_wrong_is_named_and_nothing_of_it_is_done() {
    let house = House::new();
    for (body, expected) in [
        (json!([]), "the body: must be a JSON object"),
        (json!({}), "nothing is to be changed"),
        (
            json!({ "slots": 3 }),
            "slots: cannot be changed; there are: slots_min, slots_max, class, policer",
        ),
        (json!({ "slots_min": 3 }), "slots_min: the policy in force has no such setting"),
        (
            json!({ "slots_max": 0.5 }),
            "slots_max: must be a whole number from 1 to 1000000, or null to undo, got 0.5",
        ),
        (
            json!({ "class": { "silver": {} } }),
            "class.silver: no such class; there are: gold, basic",
        ),
        (
            json!({ "slots_max": 7, "class": { "gold": { "weight": "2" } } }),
            "class.gold.weight: must be a number from 0.001 to 1000, or null to undo, got \"2\"",
        ),
        (
            json!({ "class": { "gold": { "share": 0.5 } } }),
            "class.gold.share: has no effect without policy = \"shared\" or \"fixed\"",
        ),
        (
            json!({ "class": { "basic": { "refuse_at": [8, 9] } } }),
            "class.basic.refuse_at: the class has 1 triggers, got 2",
        ),
        (
            json!({ "policer": { "api": { "burst": 3 } } }),
            "policer.api.burst: cannot be changed; there are: rate",
        ),
        (json!({ "policer": { "web": {} } }), "policer.web: no such policer; there are: api"),
    ] {
        assert_eq!(house.patch(&body), (422, format!("{expected}\n")), "{body}");
        assert_eq!(house.changed(), [], "{body}");
    }
    assert_eq!(house.ask("PATCH", "another token, and long enough too", "{}").0, 401);
    assert_eq!(house.gateway.number("/limit/slots"), 2);
}

#[test]
fn without_tokens_nothing_can_be_changed() {
    let origin = Origin::echo();
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    let mut admin = Client::connect(gateway.admin);
    admin.send(
        "PATCH /settings HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\
         Content-Length: 2\r\n\r\n{}",
    );
    let answer = admin.answer();
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("no admin_token_file"), "{}", answer.text());
}
