//! `tiergate degrade`: a content tree that is cheaper to serve, for a level of an adaptation.

use super::progress::Progress as Bar;
use crate::config::quantities::size;
use crate::degrade::{Bounds, Progress, Report, STRIPPED, Settings, run as make};
use anyhow::ensure;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tiergate_draw::Paint;

/// Command line of `tiergate degrade`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = after_help())]
pub struct Options {
    /// The directory with the content in full quality
    source: PathBuf,
    /// The directory for the degraded content; must be new, empty, or made by this command
    target: PathBuf,
    /// Renew a tree that was made before: only what changed is made anew, and what has gone is removed
    #[arg(long)]
    update: bool,
    /// Read and recompress everything, but write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Quality of JPEG images, 1 to 100
    #[arg(long, value_name = "NUMBER", default_value_t = Settings::QUALITY, value_parser = clap::value_parser!(u8).range(1..=100))]
    quality: u8,
    /// Width in pixels above which images are scaled down
    #[arg(long, value_name = "PIXELS", default_value_t = Settings::WIDTH_MAX, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    width_max: u32,
    /// Reduce animated GIF, PNG and WebP images to their first frame
    #[arg(long)]
    still: bool,
    /// Remove elements from pages by CSS selector, such as `iframe[loading=lazy]`; may be repeated. Only elements with an end tag, or that never have
    /// one: where it is left out, as it may be after `<p>` and `<li>`, all up to the end of the enclosing element goes
    #[arg(long, value_name = "SELECTOR")]
    strip: Vec<String>,
    /// Images of a page that stay; the following ones become their alternative text [default: all]
    #[arg(long, value_name = "NUMBER")]
    images_max: Option<u32>,
    /// Change pages only as `--strip` and `--images-max` say
    #[arg(long)]
    no_defaults: bool,
    /// Link files that are not changed instead of copying them, where the file system can. Never edit a linked file in place
    #[arg(long)]
    link: bool,
    /// Include files and directories whose names begin with a dot; `.well-known` always is
    #[arg(long)]
    dotfiles: bool,
    /// Longest image or page that is read; longer ones are copied
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = bytes)]
    file_max: u64,
    /// Largest image that is decoded, in pixels; larger ones are copied
    #[arg(long, value_name = "NUMBER", default_value_t = Bounds::PIXELS_MAX)]
    pixels_max: u64,
    /// Memory for images, over all threads
    #[arg(long, value_name = "SIZE", default_value = "1536MiB", value_parser = bytes)]
    memory_max: u64,
    /// Most files, directories and links of the source
    #[arg(long, value_name = "NUMBER", default_value_t = Bounds::FILES_MAX)]
    files_max: usize,
    /// Threads [default: one for each processor]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// Time between two looks at the progress.
const PAUSE: Duration = Duration::from_millis(50);

/// What pages are changed by, from the list that does it.
fn after_help() -> String {
    let mut text = "Unless --no-defaults says otherwise, in pages images load lazily where the page does not say when, video and audio \
        wait until they are played, and these elements are removed:\n"
        .to_owned();
    for (selector, why) in STRIPPED {
        text += &format!("  {selector}  {why}\n");
    }
    text
}

fn bytes(text: &str) -> Result<u64, &'static str> {
    size(text).filter(|size| *size > 0).ok_or("expected a size such as 64MiB")
}

/// Makes a degraded tree, and shows what came out.
///
/// # Errors
/// When nothing could be made, something could not be, or the user ended it.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let progress = Arc::new(Progress::default());
    stop_on_signals(progress.clone());
    let report = watched(options, &progress)?;
    let text = match options.json {
        true => format!("{:#}\n", report.json()),
        false => report.text(Paint::stdout()) + &usage(&options.target),
    };
    super::stdout::print(Ok::<_, anyhow::Error>(text))?;
    ensure!(
        !report.interrupted,
        "interrupted; what was made is whole, and --update makes the rest"
    );
    let failed = report.failed.len();
    ensure!(failed == 0, "{failed} of the paths failed; --update tries them again");
    Ok(())
}

/// Runs on a thread of its own, while this one shows how far it is.
fn watched(options: &Options, progress: &Progress) -> anyhow::Result<Report> {
    let settings = settings(options);
    std::thread::scope(|scope| {
        let making = scope.spawn(|| make(&options.source, &options.target, &settings, progress));
        let mut bar = Bar::new(1);
        while !making.is_finished() {
            let (done, all) = (&progress.done, progress.all.load(Ordering::Relaxed).max(1));
            bar.is(done.load(Ordering::Relaxed) as f64 / all as f64);
            std::thread::sleep(PAUSE);
        }
        drop(bar);
        making.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn settings(options: &Options) -> Settings {
    let Options { quality, width_max, still, strip, images_max, link, update, .. } =
        options.clone();
    let Options { dry_run, file_max, pixels_max, memory_max, files_max, threads, .. } = *options;
    let usual = Bounds::default();
    let threads = threads.map_or(usual.threads, usize::from);
    let bounds = Bounds { file_len_max: file_max, pixels_max, memory_max, files_max, threads };
    let page_defaults = !options.no_defaults;
    Settings {
        quality,
        width_max,
        still,
        strip,
        page_defaults,
        images_max,
        link,
        dotfiles: options.dotfiles,
        update,
        dry_run,
        bounds,
    }
}

/// At the first signal what is begun is finished, at the second the program ends at once.
fn stop_on_signals(progress: Arc<Progress>) {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // Without, a signal ends the program: what was made is whole then, too.
    let Ok(runtime) = runtime else { return };
    let guard = runtime.enter();
    let signals =
        signal(SignalKind::interrupt()).and_then(|it| Ok((it, signal(SignalKind::terminate())?)));
    drop(guard);
    let Ok((mut interrupt, mut terminate)) = signals else { return };
    std::thread::spawn(move || {
        runtime.block_on(async {
            for _ in 0..2 {
                tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
                if progress.stop.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
            }
        });
    });
}

/// How the tree is used in a policy.
fn usage(target: &Path) -> String {
    let name = target.canonicalize().ok().and_then(|it| Some(it.file_name()?.to_owned()));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
    let name = name.and_then(|it| it.into_string().ok()).filter(|it| it.bytes().all(plain));
    let name = name.as_deref().unwrap_or("degraded_content");
    format!(
        "\nHave the origin serve it below /{name}, and make it the lowest level of an [[adaptation]]; without a tree the next one is the full content:\n  \
         level = [{{ tree = \"/{name}\" }}, {{}}]\n\
         What the origin protects by path, such as /private, it must protect below /{name}, too: /{name}/private.\n"
    )
}
