//! The layout of the screen, from 80 columns by 24 lines up.

use super::course;
use super::plain::{self, NONE};
use super::rates::{ClassRow, ServerRow, View};
use super::refused;
use super::screen::Screen;
use crate::observe::refusals::Shown;
use crate::observe::server::Health;
use crate::observe::words::{cut, harmless, span};
use ratatui::Frame;
use ratatui::layout::HorizontalAlignment::{self, Left, Right};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Gauge, Paragraph, Row, Table, Wrap};

/// Most pools beside the default one that have a line, and most service targets.
const POOLS_MAX: usize = 4;
const TARGETS_MAX: usize = 3;
/// Lines of the part above the tables without those of pools and targets, with the empty one below it.
const HEAD_LINES: u16 = 5;
/// Columns of the class table without names and reasons, with the space before each.
const FIGURES_WIDTH: u16 = 61;
/// Columns of the longest reason: `deadline_infeasible`. Reasons are shown whole, or not in the class table.
const REASON_WIDTH: u16 = 19;
/// Fewest columns of names beside which there is room for reasons.
const NAME_WIDTH_MIN: u16 = 10;
/// Most lines of the sentence that says what is going on.
const SENTENCE_LINES_MAX: u16 = 3;
/// Columns of the line with the number of slots, before the gauge: `slots 10000`, the limit's kind,
/// `waiting` and `connections` with six digits each, and as many for the most connections.
const NUMBERS_WIDTH: u16 = 63;
/// Fewest lines for refusals, with their head, if there are more classes than lines.
const REFUSAL_LINES_MIN: u16 = 3;
/// Columns of a server's name: `255.255.255.255:65535`.
const SERVER_WIDTH: u16 = 21;
/// Most origin servers shown when lines are short.
const SERVERS_SHORT: usize = 3;

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let paint = Paint(screen.colour);
    let [main, foot] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
    footer(frame, foot, screen, paint);
    let Some(view) = &screen.view else {
        frame.render_widget(Paragraph::new("waiting for the gateway …"), main);
        return;
    };
    let servers = view.servers.len().min(SERVERS_SHORT) as u16 + 2;
    let sentence = sentence_lines(view, main.width);
    let head_lines = HEAD_LINES + sentence + head_rest(view).count() as u16;
    let rest = main.height.saturating_sub(head_lines + servers + REFUSAL_LINES_MIN);
    // A head line, the rows, an empty line.
    let classes = (view.classes.len() as u16).saturating_add(2).min(rest.max(4));
    let [top, class_area, server_area, refusal_area] = Layout::vertical([
        Constraint::Length(head_lines),
        Constraint::Length(classes),
        Constraint::Length(servers),
        Constraint::Fill(1),
    ])
    .areas(main);
    head(frame, top, view, paint);
    class_table(frame, class_area, view, paint);
    server_table(frame, server_area, view, paint);
    refusal_list(frame, refusal_area, &view.reading.refusals, paint);
}

/// What is said of pools beside the default one, of resources, of service targets, of adaptations, of an observed policy and of stored copies.
fn head_rest(view: &View) -> impl Iterator<Item = String> {
    let rest = plain::resources(view).take(POOLS_MAX).chain(plain::targets(view).take(TARGETS_MAX));
    let rest = rest.chain(plain::background(view).take(POOLS_MAX)).chain(plain::link(view));
    let rest = rest.chain(plain::adaptations(view).take(TARGETS_MAX));
    let rest = rest.chain(plain::observed(view)).chain(plain::stored(view));
    let rest = rest.chain(plain::left(view));
    plain::pools(view).take(POOLS_MAX).chain(rest)
}

/// Lines of the sentence that says what is going on; 0: there is none.
fn sentence_lines(view: &View, width: u16) -> u16 {
    let Some(incident) = &view.reading.incident else { return 0 };
    // Words are not cut, so that a line may be half empty.
    let len = incident.sentence.chars().count() as u16;
    (1 + len.saturating_sub(1) * 5 / 4 / width.max(1)).min(SENTENCE_LINES_MAX)
}

/// Colours, or none of them.
#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn colour(self, colour: Color) -> Style {
        if self.0 { Style::new().fg(colour) } else { Style::new() }
    }

    fn title(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn soft(self) -> Style {
        if self.0 { Style::new().fg(Color::DarkGray) } else { Style::new() }
    }
}

fn footer(frame: &mut Frame<'_>, area: Rect, screen: &Screen, paint: Paint) {
    let keys =
        if screen.paused { "q quit  p resume  r refresh" } else { "q quit  p pause  r refresh" };
    let mut parts = vec![Span::styled(keys, paint.soft())];
    if screen.paused {
        let style = paint.colour(Color::Yellow).add_modifier(Modifier::REVERSED);
        parts.extend([Span::raw("  "), Span::styled(" paused ", style)]);
    }
    if let Some(fault) = &screen.fault {
        parts.extend([Span::raw("  "), Span::styled(harmless(fault), paint.bad())]);
    }
    frame.render_widget(Line::from(parts), area);
}

fn head(frame: &mut Frame<'_>, area: Rect, view: &View, paint: Paint) {
    let status = &view.reading.status;
    let limit = &status.limit;
    let [title, verdict, slots, course, change, pools] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(sentence_lines(view, area.width)),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
    ])
    .areas(area);
    let lines: Vec<Line<'_>> = head_rest(view).map(Line::raw).collect();
    frame.render_widget(Text::from(lines), pools);
    let path = status.config.path.as_deref().unwrap_or("no policy file");
    let state = plain::state(view);
    let state_style =
        if status.unready.is_some() { paint.bad() } else { paint.colour(Color::Green) };
    let used = 30 + state.chars().count();
    let room = usize::from(title.width).saturating_sub(used + 16);
    let line = Line::from(vec![
        Span::styled(format!("tiergate {}", harmless(&status.version)), paint.title()),
        Span::raw(format!("  up {}  ", span(status.uptime_seconds))),
        Span::styled(state, state_style),
        Span::raw(format!("  {} generation {}", tail(path, room), status.config.generation)),
    ]);
    frame.render_widget(line, title);

    if let Some(incident) = &view.reading.incident {
        let style = match incident.urgency.as_str() {
            "calm" => paint.colour(Color::Green),
            "act" => paint.bad(),
            _ => paint.colour(Color::Yellow),
        };
        let text = Paragraph::new(harmless(&incident.sentence)).wrap(Wrap { trim: true });
        frame.render_widget(text.style(style), verdict);
    }
    let kind = limit.kind();
    let [numbers, gauge] =
        Layout::horizontal([Constraint::Length(NUMBERS_WIDTH), Constraint::Fill(1)]).areas(slots);
    let line = Line::from(vec![
        Span::styled(format!("slots {:<6}", limit.slots), paint.title()),
        Span::raw(format!(
            "{kind:<9} waiting {:<6} connections {:<13}",
            limit.waiting,
            format!("{}/{}", status.clients.connections_active, status.clients.connections_max)
        )),
    ]);
    frame.render_widget(line, numbers);
    let share = f64::from(limit.running) / f64::from(limit.slots.max(1));
    let meter = Gauge::default()
        .ratio(share.clamp(0.0, 1.0))
        .label(format!("{} running, {:.0} %", limit.running, share * 100.0))
        .use_unicode(true)
        .gauge_style(paint.colour(Color::Blue));
    frame.render_widget(meter, gauge);
    course::limit(frame, course, view, paint.colour(Color::Blue));
    let text = plain::change(view).unwrap_or_else(|| "the limit has not changed yet".to_owned());
    frame.render_widget(Line::styled(text, paint.soft()), change);
}

fn class_table(frame: &mut Frame<'_>, area: Rect, view: &View, paint: Paint) {
    // Header and the empty line below.
    let room = usize::from(area.height.saturating_sub(2));
    let classes = &view.classes;
    let shown = if classes.len() <= room { classes.len() } else { room.saturating_sub(1) };
    // The names get what the other columns leave, and no more than they need.
    let lens = classes.iter().map(|row| row.class.name.chars().count());
    let has_reasons = area.width > FIGURES_WIDTH + NAME_WIDTH_MIN + REASON_WIDTH;
    let reasons = if has_reasons { REASON_WIDTH } else { 0 };
    let figures = FIGURES_WIDTH + reasons + u16::from(has_reasons);
    let left = usize::from(area.width.saturating_sub(figures)).max(5);
    // Room for the line that counts what is not shown.
    let name_width = lens.max().unwrap_or(0).max(9).min(left);
    let mut rows: Vec<_> =
        classes[..shown].iter().map(|class| class_row(class, name_width, paint)).collect();
    if shown < classes.len() {
        let mut row = std::array::from_fn(|_| (String::new(), Style::new()));
        row[0] = (format!("… {} more", classes.len() - shown), paint.soft());
        rows.push(row);
    }
    let columns = [
        ("class", name_width as u16, Left),
        ("arr/s", 5, Right),
        ("adm/s", 5, Right),
        ("good/s", 6, Right),
        ("ref/s", 5, Right),
        ("wait", 5, Right),
        ("run", 5, Right),
        ("queue 50/99", 11, Right),
        ("first 50/99", 11, Right),
        ("reason", reasons, Left),
    ];
    if has_reasons {
        table(frame, area, paint, columns, rows);
    } else {
        let [columns @ .., _reason] = columns;
        let rows = rows.into_iter().map(|[cells @ .., _reason]: [_; 10]| cells);
        table(frame, area, paint, columns, rows);
    }
}

fn class_row(class: &ClassRow, name_width: usize, paint: Paint) -> [(String, Style); 10] {
    let cells = plain::class_cells(class);
    let cell = |column: usize| (cells[column].clone(), Style::new());
    let pair = |column: usize| match cells[column].as_str() {
        NONE => cell(column),
        p50 => (format!("{p50}/{}", cells[column + 1]), Style::new()),
    };
    let refusing = class.refused.is_some_and(|refused| refused > 0.0);
    let style = if refusing { paint.colour(Color::Yellow) } else { Style::new() };
    let reason = class.reason.as_deref().map(harmless).unwrap_or_default();
    [
        (cut(&cells[0], name_width), Style::new()),
        cell(1),
        cell(2),
        (cells[3].clone(), paint.colour(Color::Green)),
        (cells[4].clone(), style),
        cell(6),
        cell(7),
        pair(8),
        pair(10),
        (reason, style),
    ]
}

fn server_table(frame: &mut Frame<'_>, area: Rect, view: &View, paint: Paint) {
    let room = usize::from(area.height.saturating_sub(2));
    let rows = view.servers.iter().take(room).map(|server| server_row(server, paint));
    let more = view.servers.len().saturating_sub(room);
    let title = if more > 0 { format!("origin (+{more} more)") } else { "origin".to_owned() };
    let columns = [
        (title.as_str(), SERVER_WIDTH, Left),
        ("health", 8, Left),
        ("busy", 8, Right),
        ("req/s", 6, Right),
        ("fail/s", 6, Right),
        ("reused", 6, Right),
        ("", FILL, Left),
    ];
    table(frame, area, paint, columns, rows);
}

fn server_row(row: &ServerRow, paint: Paint) -> [(String, Style); 7] {
    let style = match row.server.health {
        Health::Up => paint.colour(Color::Green),
        Health::Probing => paint.colour(Color::Yellow),
        Health::Down => paint.bad(),
    };
    let [address, health, outstanding, _, requests, failures, reused] = plain::server_cells(row);
    let limit = || row.server.limit_words().map_or(String::new(), |it| format!("limit: {it}"));
    let detail = row.server.detail.as_deref().map_or_else(limit, harmless);
    [
        (cut(&address, usize::from(SERVER_WIDTH)), Style::new()),
        (health, style),
        (outstanding, Style::new()),
        (requests, Style::new()),
        (failures, Style::new()),
        (reused, Style::new()),
        (detail, paint.soft()),
    ]
}

/// The latest refusals, as many alike in a row as it takes to show all.
fn refusal_list(frame: &mut Frame<'_>, area: Rect, refusals: &[Shown], paint: Paint) {
    let room = usize::from(area.height.saturating_sub(1));
    let rows = refused::rows(refusals, room);
    let width = |of: fn(&refused::RefusedRow) -> &String, least: usize, most: usize| {
        let longest = rows.iter().map(|it| of(it).chars().count()).max().unwrap_or(0);
        longest.clamp(least, most) as u16
    };
    let (class, client) = (width(|it| &it.class, 5, 10), width(|it| &it.client, 6, 39));
    let columns = [
        ("refused", 7, Right),
        ("latest", 8, Left),
        ("class", class, Left),
        ("reason", REASON_WIDTH, Left),
        ("client", client, Left),
        ("request", FILL, Left),
    ];
    let cells = rows.iter().take(room).map(|row| {
        let cells = [
            row.count.to_string(),
            row.last.clone(),
            cut(&row.class, usize::from(class)),
            row.reason.clone(),
            row.client.clone(),
            row.request.clone(),
        ];
        cells.map(|cell| (cell, Style::new()))
    });
    table(frame, area, paint, columns, cells);
}

/// The width of a column that takes what the others leave.
const FILL: u16 = 0;

/// Draws rows under a head. A column has a title, a width and an alignment.
fn table<const N: usize>(
    frame: &mut Frame<'_>,
    area: Rect,
    paint: Paint,
    columns: [(&str, u16, HorizontalAlignment); N],
    rows: impl IntoIterator<Item = [(String, Style); N]>,
) {
    let row = |cells: [(String, Style); N]| {
        let cells = cells.into_iter().zip(columns);
        Row::new(cells.map(|((text, style), (.., alignment))| {
            Cell::new(Text::from(text).alignment(alignment)).style(style)
        }))
    };
    let head = row(columns.map(|(title, ..)| (title.to_owned(), Style::new())));
    let widths = columns.map(|(_, width, _)| match width {
        FILL => Constraint::Fill(1),
        width => Constraint::Length(width),
    });
    let table = Table::new(rows.into_iter().map(row), widths).header(head.style(paint.title()));
    frame.render_widget(table.column_spacing(1), area);
}

/// The end of a path, which says more than its beginning, in at most `width` letters.
fn tail(path: &str, width: usize) -> String {
    let path = harmless(path);
    let len = path.chars().count();
    if len <= width {
        return path;
    }
    let end: String = path.chars().skip(len - width.saturating_sub(1).min(len)).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::reading;
    use super::*;
    use crate::admin::incident::Incident;
    use crate::observe::hour::HourPoint;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::style::Color;
    use tiergate_core::reason::Reason;

    fn drawn(screen: &Screen, width: u16, height: u16) -> (Vec<String>, bool) {
        let mut terminal =
            Terminal::new(TestBackend::new(width, height)).expect("memory is a terminal");
        terminal.draw(|frame| draw(frame, screen)).expect("memory takes every write");
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        let coloured = buffer.content().iter().any(|cell| cell.fg != Color::Reset);
        ((0..height).map(|y| line(y).trim_end().to_owned()).collect(), coloured)
    }

    fn screen(colour: bool) -> Screen {
        Screen {
            view: Some(View::new(Some(&reading(10)), reading(11))),
            colour,
            ..Screen::default()
        }
    }

    #[test]
    fn everything_fits_on_80_by_24() {
        let (lines, coloured) = drawn(&screen(true), 80, 24);
        let text = lines.join("\n");
        for part in [
            "tiergate 0.1.0  up 11s  serving",
            "shop.toml generation 3",
            "slots 40    adaptive  waiting 24     connections 310/8000",
            "38 running, 95 %",
            "last minute, 20–39 slots",
            "limit set to 40 12s ago: more at once gives more",
            "arr/s adm/s good/s ref/s  wait   run queue 50/99 first 50/99",
            "151   120    120    31    12     4  12ms/400ms  12ms/400ms",
            "10.0.0.6:8080         down",
            "connection refused",
            "     30 18:23:51 browse deadline_expired    192.0.2.7 GET /list/·[2Jx",
            "q quit  p pause  r refresh",
        ] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
        assert!(coloured);
    }

    #[test]
    fn without_colour_nothing_is_coloured() {
        assert!(!drawn(&screen(false), 80, 24).1);
    }

    #[test]
    fn no_size_is_too_small_and_none_too_large() {
        let mut full = screen(true);
        let view = full.view.as_mut().expect("set above");
        view.classes = (0..64).map(|_| view.classes[1].clone()).collect();
        view.servers = (0..40).map(|_| view.servers[0].clone()).collect();
        for (width, height) in [(1, 1), (2, 3), (20, 5), (79, 10), (80, 24), (250, 90)] {
            drawn(&full, width, height);
            drawn(&Screen::default(), width, height);
        }
        let text = drawn(&full, 80, 24).0.join("\n");
        assert!(text.contains("more") && text.contains("(+37 more)"), "{text}");
        assert!(text.contains("18:23:51"), "refusals keep their place:\n{text}");
    }

    #[test]
    fn faults_and_pauses_are_said() {
        let mut paused = screen(false);
        paused.paused = true;
        paused.fault = Some("connection\nrefused".to_owned());
        let lines = drawn(&paused, 80, 24).0;
        let foot = lines.last().expect("24 lines");
        assert!(foot.contains("paused") && foot.contains("connection·refused"), "{foot}");
        assert!(foot.contains("p resume"));
    }

    #[test]
    fn reasons_are_whole_where_there_is_room_and_nowhere_cut() {
        let longest = Reason::ALL.map(|it| it.name().len()).into_iter().max();
        assert_eq!(longest, Some(usize::from(REASON_WIDTH)));
        for width in 60..200 {
            let text = drawn(&screen(false), width, 30).0.join("\n");
            assert!(!text.contains("expire…") && !text.contains("expired…"), "{text}");
            let in_table =
                text.lines().any(|it| it.starts_with("browse") && it.ends_with("deadline_expired"));
            assert_eq!(in_table, width >= 91, "{width}\n{text}");
        }
    }

    #[test]
    fn what_is_going_on_is_said_whole_and_the_hour_is_shown() {
        let mut with_hour = screen(true);
        let reading = &mut with_hour.view.as_mut().expect("set above").reading;
        let point = |place: u64| HourPoint {
            at_seconds: place * 10,
            slots: 20 + place as u32,
            running: 9,
            waiting: 0,
            classes: Vec::new(),
        };
        let sentence = "origin saturated; shedding 98 % of prefetch; 92 % of refusals are of client \
                        198.51.100.7; checkout 100 % served";
        reading.incident = Some(Incident {
            sentence: sentence.to_owned(),
            urgency: "watch".to_owned(),
            findings: Vec::new(),
            classes: Vec::new(),
            failure_buffers: Default::default(),
            limits: Vec::new(),
            certificates: Vec::new(),
            hour: (0..180).map(point).collect(),
            events: Vec::new(),
            refused_most: Default::default(),
            config: Default::default(),
        });
        let (lines, _) = drawn(&with_hour, 80, 24);
        let text = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(sentence), "{lines:#?}");
        assert!(text.contains("last 30 minutes, 20–199 slots"), "{lines:#?}");
    }

    #[test]
    fn clients_that_leave_are_neither_refused_nor_served() {
        let mut leaving = reading(11);
        leaving.status.classes[1].cancelled_waiting = 7;
        let view = View::new(Some(&reading(10)), leaving);
        let left = "clients that leave the queue, a second: browse 7.0";
        assert_eq!(plain::left(&view).as_deref(), Some(left));
        let text = drawn(&Screen { view: Some(view), ..Screen::default() }, 80, 24).0.join("\n");
        assert!(text.contains(left), "{text}");
    }
}
