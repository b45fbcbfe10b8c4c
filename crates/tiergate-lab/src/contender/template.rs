//! Configurations with places for values: `@LISTEN@`, `@SLOTS@`, `@SLOTS*0.75@`.
//!
//! A factor keeps a peer's arithmetic where its operator would look for it, in the configuration.

use super::place::Place;
use anyhow::{Context, Result, bail};
use std::path::Path;

impl Place<'_> {
    /// Fills in every `@…@`; `dir`: the contender's own directory. `@@` is the sign itself, as nginx's
    /// named locations have it; a stray one is an error.
    pub(crate) fn configuration(&self, template: &str, dir: &Path) -> Result<String> {
        let mut parts = template.split('@');
        let mut text = parts.next().unwrap_or_default().to_owned();
        while let Some(word) = parts.next() {
            let after =
                parts.next().with_context(|| format!("@{word}: the second @ is missing"))?;
            text += &if word.is_empty() { "@".to_owned() } else { self.value(word, dir)? };
            text += after;
        }
        Ok(text)
    }

    /// The value of a name, or of `name*factor`: rounded, at least 1.
    fn value(&self, word: &str, dir: &Path) -> Result<String> {
        let (name, factor) = match word.split_once('*') {
            Some((name, factor)) => {
                (name, factor.parse::<f64>().with_context(|| format!("@{word}@: bad factor"))?)
            }
            None => (word, 1.0),
        };
        // Of an address also its parts: `LISTEN_HOST`, `LISTEN_PORT`.
        let addresses = [("LISTEN", self.listen), ("ADMIN", self.admin), ("ORIGIN", self.origin)];
        for (known, address) in addresses {
            match name.strip_prefix(known) {
                Some("") => return Ok(address.to_string()),
                Some("_HOST") => return Ok(address.ip().to_string()),
                Some("_PORT") => return Ok(address.port().to_string()),
                _ => {}
            }
        }
        Ok(match name {
            "DIR" => dir.display().to_string(),
            "SLOTS" => whole(f64::from(self.slots) * factor),
            "RATE" => whole(self.rate * factor),
            _ => match self.values.iter().find(|(known, _)| *known == name) {
                Some((_, value)) => value.clone(),
                None => bail!("@{word}@ is none of the values that can be filled in"),
            },
        })
    }
}

fn whole(number: f64) -> String {
    number.round().max(1.0).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::Contender;
    use super::*;
    use std::net::SocketAddr;

    fn filled(template: &str) -> Result<String> {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let place = Place {
            scratch: Path::new("/scratch"),
            listen: address(1001),
            admin: address(1002),
            origin: address(1003),
            slots: 16,
            rate: 400.0,
            namespace: None,
            processors: None,
            program: None,
            template: None,
            off: None,
            values: &[],
        };
        place.configuration(template, Path::new("/scratch/x"))
    }

    #[test]
    fn values_and_products_are_filled_in() {
        let text = "@LISTEN@ @ORIGIN_HOST@ @DIR@ @SLOTS@ @SLOTS*0.7@ @RATE*0.001@ @@name";
        assert_eq!(filled(text).unwrap(), "127.0.0.1:1001 127.0.0.1 /scratch/x 16 11 1 @name");
    }

    #[test]
    fn a_word_that_means_nothing_is_an_error() {
        for wrong in ["@SLOT@", "@SLOTS*x@", "one @SLOTS"] {
            assert!(filled(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_peer_is_told_the_capacity_and_tiergate_is_not() {
        for contender in Contender::ALL.iter().copied() {
            let template = contender.template();
            let text = filled(template).unwrap();
            let told = template.contains("@SLOTS") || template.contains("@RATE");
            let is_peer = contender != Contender::None && !contender.is_ours();
            assert_eq!(told, is_peer, "{}", contender.name());
            if contender != Contender::None {
                assert!(text.contains("1001") && text.contains("1003"), "{}", contender.name());
            }
        }
    }

    #[test]
    fn the_labs_webqos_is_the_policy_of_that_name() {
        let lab = include_str!("../../peers/lab/webqos/tiergate.toml");
        let own = include_str!("../../../../policies/webqos.toml");
        let rest = |text: &'static str| text.find("[session]").map(|place| &text[place..]);
        assert!(rest(lab).is_some() && rest(lab) == rest(own));
        assert!(own.contains("\nslots = 32 ") && lab.contains("\nslots = 32 "));
    }
}
