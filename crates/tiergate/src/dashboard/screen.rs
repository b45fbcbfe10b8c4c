//! What the screen shows.

use super::fetch::News;
use super::rates::{Reading, View};
use std::sync::mpsc::Receiver;

/// What the screen shows, and how.
#[derive(Debug, Default)]
pub(super) struct Screen {
    pub(super) view: Option<View>,
    /// Why the latest attempt to read failed.
    pub(super) fault: Option<String>,
    pub(super) paused: bool,
    pub(super) colour: bool,
}

impl Screen {
    /// Takes the news that has come. `None`: a signal asks to end; else whether anything changed.
    pub(super) fn take_in(&mut self, news: &Receiver<News>) -> Option<bool> {
        let mut fresh = false;
        while let Ok(news) = news.try_recv() {
            match news {
                News::End => return None,
                // While paused the readings go by, so that the next one is not a minute old.
                News::Reading(_) if self.paused => {}
                News::Reading(reading) => {
                    let before: Option<&Reading> = self.view.as_ref().map(|view| &view.reading);
                    self.view = Some(View::new(before, *reading));
                    self.fault = None;
                    fresh = true;
                }
                News::Fault(fault) => {
                    self.fault = Some(fault);
                    fresh = true;
                }
            }
        }
        Some(fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::reading;
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_pause_holds_the_view_and_a_fault_keeps_it() {
        let (sender, news) = sync_channel(8);
        let mut screen = Screen::default();
        let say = |message| sender.send(message).expect("room");
        say(News::Reading(Box::new(reading(1))));
        say(News::Reading(Box::new(reading(2))));
        assert_eq!(screen.take_in(&news), Some(true));
        let shown = |screen: &Screen| screen.view.as_ref().map(|it| it.reading.status.at_seconds);
        assert_eq!(shown(&screen), Some(2.0));
        assert_eq!(screen.view.as_ref().expect("a view").classes[0].served, Some(50.0));

        screen.paused = true;
        say(News::Reading(Box::new(reading(3))));
        assert_eq!(screen.take_in(&news), Some(false));
        assert_eq!(shown(&screen), Some(2.0));

        say(News::Fault("gone".to_owned()));
        assert_eq!(screen.take_in(&news), Some(true));
        assert_eq!((shown(&screen), screen.fault.as_deref()), (Some(2.0), Some("gone")));
        say(News::End);
        assert_eq!(screen.take_in(&news), None);
    }
}
