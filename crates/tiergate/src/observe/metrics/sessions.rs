//! What is known of sessions.

use super::Readings;
use super::page::Page;
use std::fmt::Error;
use tiergate_core::admit::session::{SessionAccount, SessionEnd};

type Count = fn(&SessionAccount) -> u64;

impl Readings {
    /// Nothing without `[session]`: no class has an account then.
    pub(super) fn sessions(&self, page: &mut Page<'_>) -> Result<(), Error> {
        let running = self.sessions.running as u64;
        page.gauge("tiergate_sessions_running", "Sessions that run and are in the table", running)?;
        let counts: [(&str, &str, Count); 5] = [
            ("started", "Sessions begun: a first request was answered well", |it| it.started),
            ("resumed", "Sessions that came with a signature and were not in the table", |it| {
                it.resumed
            }),
            ("broken", "Sessions over whose last request was refused", |it| it.broken),
            ("refused_new", "Requests refused that belonged to no running session", |it| {
                it.refused_new
            }),
            ("refused_running", "Requests refused that belonged to a running session", |it| {
                it.refused_running
            }),
        ];
        for (name, help, count) in counts {
            let rows = self.each_account().map(|(class, account)| ([class], count(account)));
            page.counters(&format!("tiergate_sessions_{name}"), help, rows)?;
        }
        let rows = self.each_account().flat_map(|(class, account)| {
            SessionEnd::ALL.map(|end| ([class, ("end", end.name())], account.ended[end as usize]))
        });
        page.counters("tiergate_sessions_ended", "Sessions over, by how they ended", rows)?;
        let help = "Requests answered of each session that is over";
        let rows = self.each_account().map(|(class, account)| ([class], &account.lengths));
        page.lengths("tiergate_session_requests", help, rows)
    }

    fn each_account(&self) -> impl Iterator<Item = ((&'static str, &str), &SessionAccount)> {
        const NONE: &SessionAccount = &SessionAccount::NONE;
        let accounts = &self.sessions.classes;
        let classes = self.snapshot.classes.iter().filter(|_| !accounts.is_empty());
        classes
            .map(|class| (("class", &*class.name), accounts.get(class.id.index()).unwrap_or(NONE)))
    }
}
