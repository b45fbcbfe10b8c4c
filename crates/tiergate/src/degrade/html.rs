//! Pages with fewer embedded objects, and objects that are loaded later or on demand.
//!
//! Bytes that are not part of a changed tag stay as they are, in whatever encoding.

use super::answer::{Answer, Page, Why};
use super::charset::encoding_of;
use super::settings::Settings;
use lol_html::html_content::{ContentType, Element};
use lol_html::{
    AsciiCompatibleEncoding, HandlerResult, HtmlRewriter, MemorySettings, Selector, element,
};
use std::cell::{Cell, RefCell};

/// What is removed from every page, and why. Never scripts, forms or anything that a visitor sees.
pub const STRIPPED: [(&str, &str); 2] = [
    (
        r#"link[rel~="prefetch" i]:not([rel~="stylesheet" i])"#,
        "a file for a page that the visitor may never open",
    ),
    (r#"link[rel~="prerender" i]"#, "a page that the visitor may never open"),
];

/// What a browser loads with a page.
const OBJECTS: &str =
    "img, iframe, embed, object, video, audio, script[src], link[rel~=\"stylesheet\" i]";
/// Memory of the rewriter: the longest tag, such as an image inside its own address.
const MEMORY_MAX: usize = 32 << 20;

/// Checks selectors.
///
/// # Errors
/// The first that is none, and why.
pub(super) fn check(selectors: &[String]) -> anyhow::Result<()> {
    for selector in selectors {
        let parsed = selector.parse::<Selector>();
        parsed.map_err(|fault| anyhow::anyhow!("--strip '{selector}': {fault}"))?;
    }
    Ok(())
}

/// The page as it is served in a degraded tree.
///
/// Cost: two passes, at about 100 MB/s.
pub(super) fn degrade(bytes: &[u8], settings: &Settings) -> Answer {
    let encoding = match encoding_of(bytes) {
        Ok(encoding) => AsciiCompatibleEncoding::new(encoding).expect("it was asked for"),
        Err(why) => return Answer::Original(Why::Broken(why.to_owned())),
    };
    let rewritten = strip(bytes, encoding, settings)
        .and_then(|(stripped, objects)| soften(&stripped, objects, encoding, settings));
    match rewritten {
        Ok((page, _)) if page == bytes => Answer::Original(Why::Unchanged),
        Ok((page, changes)) => Answer::New(page, changes),
        Err(why) => Answer::Original(Why::Broken(why)),
    }
}

type Rules<'h> = lol_html::Settings<'h, 'static>;

/// The page without the elements of the selectors, and how many objects it had. A pass of its own, so that the next one does not meet
/// what is inside an element that goes.
fn strip(
    bytes: &[u8],
    encoding: AsciiCompatibleEncoding,
    settings: &Settings,
) -> Result<(Vec<u8>, u64), String> {
    let objects = Cell::new(0);
    let defaults = STRIPPED.iter().map(|(selector, _)| *selector);
    let defaults = defaults.filter(|_| settings.page_defaults);
    let mut rules = Rules::new().append_element_content_handler(element!(OBJECTS, |_| {
        objects.set(objects.get() + 1);
        Ok(())
    }));
    for selector in defaults.chain(settings.strip.iter().map(String::as_str)) {
        rules = rules.append_element_content_handler(element!(selector, |element| {
            element.remove();
            Ok(())
        }));
    }
    let page = rewrite(bytes, encoding, rules)?;
    Ok((page, objects.get()))
}

/// The page with at most so many images, which load lazily, and media that wait for the visitor.
fn soften(
    bytes: &[u8],
    objects: u64,
    encoding: AsciiCompatibleEncoding,
    settings: &Settings,
) -> Result<(Vec<u8>, Page), String> {
    let (images, left, lazy) = (Cell::new(0), Cell::new(0u64), Cell::new(0));
    let mut rules = Rules::new()
        .append_element_content_handler(element!(OBJECTS, |_| {
            left.set(left.get() + 1);
            Ok(())
        }))
        .append_element_content_handler(element!("img", |image| {
            images.set(images.get() + 1);
            if settings.images_max.is_some_and(|most| images.get() > most) {
                left.set(left.get().saturating_sub(1));
                image.replace(&alternative(image), ContentType::Html);
            } else if settings.page_defaults && may_wait(image) {
                image.set_attribute("loading", "lazy")?;
                lazy.set(lazy.get() + 1);
            }
            Ok(())
        }));
    if settings.page_defaults {
        rules = rules.append_element_content_handler(element!("video, audio", on_demand));
    }
    let page = rewrite(bytes, encoding, rules)?;
    let fewer = objects.saturating_sub(left.get());
    Ok((page, Page { objects, fewer, lazy: lazy.get() }))
}

/// Whether the page leaves it to the browser when an image is loaded.
fn may_wait(image: &Element<'_, '_>) -> bool {
    let urgent = image.get_attribute("fetchpriority");
    !image.has_attribute("loading")
        && !urgent.is_some_and(|urgent| urgent.eq_ignore_ascii_case("high"))
}

/// The alternative text of an image, as HTML. The value of an attribute has its character references still, but may have `<`.
fn alternative(image: &Element<'_, '_>) -> String {
    image.get_attribute("alt").unwrap_or_default().replace('<', "&lt;").replace('>', "&gt;")
}

/// Video and audio are loaded when the visitor, or a script, plays them.
fn on_demand(media: &mut Element<'_, '_>) -> HandlerResult {
    // What played by itself may have nothing to start it with; sound alone is seen nowhere, and stays so.
    if media.tag_name() == "video"
        && media.has_attribute("autoplay")
        && !media.has_attribute("controls")
    {
        media.set_attribute("controls", "")?;
    }
    media.remove_attribute("autoplay");
    if media.get_attribute("preload").as_deref() != Some("none") {
        media.set_attribute("preload", "none")?;
    }
    Ok(())
}

fn rewrite(
    bytes: &[u8],
    encoding: AsciiCompatibleEncoding,
    rules: Rules<'_>,
) -> Result<Vec<u8>, String> {
    let memory = MemorySettings::new().with_max_allowed_memory_usage(MEMORY_MAX);
    let out = RefCell::new(Vec::with_capacity(bytes.len() + bytes.len() / 16));
    let rules = rules.with_encoding(encoding).with_memory_settings(memory).with_strict(true);
    let mut rewriter =
        HtmlRewriter::new(rules, |chunk: &[u8]| out.borrow_mut().extend_from_slice(chunk));
    rewriter.write(bytes).map_err(|fault| one_line(&fault))?;
    rewriter.end().map_err(|fault| one_line(&fault))?;
    Ok(out.into_inner())
}

/// Errors of the rewriter are paragraphs.
fn one_line(fault: &dyn std::fmt::Display) -> String {
    fault.to_string().lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(html: &[u8], settings: &Settings) -> (Vec<u8>, Page) {
        match degrade(html, settings) {
            Answer::New(bytes, page) => (bytes, page),
            Answer::Original(why) => panic!("{why:?}"),
        }
    }

    #[test]
    fn images_wait_unless_the_page_says_when() {
        let html = b"<img src=a><IMG SRC=b loading=eager><img fetchpriority=HIGH src=c><p>\xe9";
        let (made, changes) = page(html, &Settings::default());
        let lazy = b"<img src=a loading=\"lazy\"><IMG SRC=b loading=eager><img fetchpriority=HIGH src=c><p>\xe9";
        assert_eq!(made, lazy);
        assert_eq!(changes, Page { objects: 3, fewer: 0, lazy: 1 });
    }

    #[test]
    fn scripts_forms_and_media_stay_and_prefetching_goes() {
        let html =
            b"<link rel=Prefetch href=n><link rel='preload prefetch'><link rel='Stylesheet prefetch' href=s>\
            <link rel=preload href=f>\
            <script src=s></script><form><input></form><video autoplay muted src=v></video>";
        let (made, changes) = page(html, &Settings::default());
        let text = String::from_utf8(made).unwrap();
        assert_eq!(
            text,
            "<link rel='Stylesheet prefetch' href=s><link rel=preload href=f><script src=s></script><form><input></form>\
             <video muted src=v controls=\"\" preload=\"none\"></video>"
        );
        assert_eq!(changes, Page { objects: 3, fewer: 0, lazy: 0 });
    }

    #[test]
    fn selectors_remove_elements_with_what_is_in_them() {
        let strip = vec![".more".to_owned(), "iframe[loading=lazy]".to_owned()];
        let settings = Settings { strip, images_max: Some(1), ..Settings::default() };
        let html = b"<div class='x more'><img src=1><div><img src=2></div></div>\
            <img src=3><iframe loading=lazy src=y></iframe><a href=/p><img src=4 alt='a<b>&amp;c'></a>";
        let (made, changes) = page(html, &settings);
        assert_eq!(
            String::from_utf8(made).unwrap(),
            "<img src=3 loading=\"lazy\"><a href=/p>a&lt;b&gt;&amp;c</a>"
        );
        // Four of five are gone.
        assert_eq!(changes, Page { objects: 5, fewer: 4, lazy: 1 });
    }

    #[test]
    fn what_is_not_markup_is_left_alone() {
        let html =
            b"<!-- <img src=a> --><script>'<img src=b>'</script><textarea><img src=c></textarea>\
            <style>/*<img>*/</style><title><img></title>";
        assert!(matches!(degrade(html, &Settings::default()), Answer::Original(Why::Unchanged)));
        let none = Settings { page_defaults: false, ..Settings::default() };
        assert!(matches!(degrade(b"<img src=a>", &none), Answer::Original(Why::Unchanged)));
    }

    #[test]
    fn encodings_are_kept_byte_by_byte() {
        let latin = b"<meta charset=iso-8859-1><img alt='caf\xe9 \x80' src='\xfc.png'>\xe4\xf6\xfc";
        let (made, _) = page(latin, &Settings::default());
        let expected = b"<meta charset=iso-8859-1><img alt='caf\xe9 \x80' src='\xfc.png' loading=\"lazy\">\xe4\xf6\xfc";
        assert_eq!(made, expected);
        // Alternative text comes back in the page's encoding.
        let none = Settings { images_max: Some(0), ..Settings::default() };
        assert_eq!(page(latin, &none).0, b"<meta charset=iso-8859-1>caf\xe9 \x80\xe4\xf6\xfc");
        // Invalid where it says UTF-8: the attribute that is broken stays as broken.
        let broken = b"<meta charset=utf-8><img alt='\xff' src=a>\xfe";
        let kept = b"<meta charset=utf-8><img alt='\xff' src=a loading=\"lazy\">\xfe";
        assert_eq!(page(broken, &Settings::default()).0, kept);
        let sjis = b"<meta charset=shift_jis>\x83\x5c<img src=a alt=\"\x83\x5c\">\x83\x5c";
        let (made, _) = page(sjis, &Settings::default());
        assert_eq!(made, b"<meta charset=shift_jis>\x83\x5c<img src=a alt=\"\x83\x5c\" loading=\"lazy\">\x83\x5c");
    }

    #[test]
    fn what_cannot_be_rewritten_stays() {
        for html in [&b"\xff\xfe<\0i\0"[..], b"\0\0\0", b"<svg><title><script></svg><img>"] {
            let answer = degrade(html, &Settings::default());
            assert!(
                matches!(&answer, Answer::Original(_)) || html.starts_with(b"<svg"),
                "{answer:?}"
            );
        }
        assert!(check(&["..".to_owned()]).is_err() && check(&["video".to_owned()]).is_ok());
    }
}
