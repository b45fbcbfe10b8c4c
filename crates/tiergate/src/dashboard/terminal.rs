//! The terminal: acquired, drawn on, restored.

use super::draw;
use super::fetch::{News, keep_reading};
use super::screen::Screen;
use anyhow::Context;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tokio::sync::Notify;

/// How soon news is shown and a key takes effect.
const GLANCE: Duration = Duration::from_millis(50);

/// The command of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Leave,
    Pause,
    Refresh,
    Redraw,
    Nothing,
}

/// Restores the terminal when it is dropped. A panic restores it earlier, in the hook that `ratatui` sets,
/// so that its message can be read.
struct Taken;

impl Drop for Taken {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Draws until the user leaves.
///
/// # Errors
/// If the terminal cannot be used.
pub(super) fn show(authority: String, interval: Duration, colour: bool) -> anyhow::Result<()> {
    let hurry = Arc::new(Notify::new());
    let (sender, news) = sync_channel(4);
    let asked = Arc::clone(&hurry);
    std::thread::Builder::new().name("read".to_owned()).spawn(move || {
        if let Err(fault) = keep_reading(&authority, interval, &asked, &sender) {
            drop(sender.send(News::Fault(format!("{fault:#}"))));
        }
    })?;
    let taken = Taken;
    let mut terminal = ratatui::try_init().context("cannot use the terminal; try --once")?;
    let mut screen = Screen { colour, ..Screen::default() };
    let mut changed = true;
    loop {
        if changed {
            terminal.draw(|frame| draw::draw(frame, &screen))?;
        }
        let wish = match event::poll(GLANCE)? {
            true => wish(&event::read()?),
            false => Wish::Nothing,
        };
        changed = wish != Wish::Nothing;
        match wish {
            Wish::Leave => break,
            Wish::Pause => screen.paused = !screen.paused,
            Wish::Refresh => hurry.notify_one(),
            Wish::Redraw | Wish::Nothing => {}
        }
        match screen.take_in(&news) {
            None => break,
            Some(fresh) => changed |= fresh,
        }
    }
    drop(taken);
    Ok(())
}

fn wish(event: &Event) -> Wish {
    let Event::Key(KeyEvent {
        code,
        modifiers,
        kind: KeyEventKind::Press | KeyEventKind::Repeat,
        ..
    }) = event
    else {
        return match event {
            Event::Resize(..) => Wish::Redraw,
            _ => Wish::Nothing,
        };
    };
    match code {
        KeyCode::Char('q') | KeyCode::Esc => Wish::Leave,
        // The terminal is raw: this key is no signal.
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Wish::Leave,
        KeyCode::Char('p' | ' ') => Wish::Pause,
        KeyCode::Char('r') => Wish::Refresh,
        KeyCode::Char('l') if modifiers.contains(KeyModifiers::CONTROL) => Wish::Redraw,
        _ => Wish::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_footer_says() {
        let key = |code, modifiers| wish(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Wish::Leave);
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Wish::Leave);
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), Wish::Nothing);
        assert_eq!(key(KeyCode::Char('p'), KeyModifiers::NONE), Wish::Pause);
        assert_eq!(key(KeyCode::Char('r'), KeyModifiers::NONE), Wish::Refresh);
        assert_eq!(wish(&Event::Resize(80, 24)), Wish::Redraw);
    }
}
