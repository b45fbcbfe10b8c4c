//! Images with fewer pixels and fewer bytes, in their own format.

use super::answer::{Answer, Page, Why};
use super::kind::Kind;
use super::memory::Memory;
use super::png;
use super::settings::Settings;
use image::codecs::gif::{GifDecoder, GifEncoder};
use image::codecs::png::PngDecoder;
use image::codecs::webp::{WebPDecoder, WebPEncoder};
use image::imageops::FilterType;
use image::{
    AnimationDecoder, DynamicImage, Frame, ImageDecoder, ImageFormat, ImageReader, Limits,
};
use std::io::Cursor;

/// Memory for a pixel of eight bits a channel, in bytes: decoded, turned, coefficients of a progressive JPEG, and what scaling takes.
const PIXEL_BYTES: u64 = 20;
/// The same with sixteen bits.
const DEEP_PIXEL_BYTES: u64 = 28;
/// From this factor on the average over blocks is as good as a filter, and takes no memory.
const BLOCKS_FROM: u32 = 3;
/// Alpha of which a pixel of a GIF, which has no half-transparent ones, is opaque.
const GIF_OPAQUE: u8 = 128;
/// Memory for what a PNG has compressed beside its pixels, which is a colour profile, in bytes.
const PROFILE_MAX: u64 = 32 << 20;
/// X of the red of sRGB in a colour profile: 0.436, in parts of 65,536.
const SRGB_RED: u32 = 28_578;
/// Speed of the palette of a GIF, 1 to 30: the library's usual one.
const GIF_SPEED: i32 = 10;

/// The image as it is served in a degraded tree. The content must be of the kind ([`Kind::fits`]).
///
/// Orientation is applied, and metadata but for colour profiles are dropped. Waits for memory.
pub(super) fn degrade(kind: Kind, bytes: &[u8], settings: &Settings, memory: &Memory) -> Answer {
    match attempt(kind, bytes, settings, memory) {
        Ok(made) if made.len() < bytes.len() => Answer::New(made, Page::default()),
        Ok(_) => Answer::Original(Why::NotSmaller),
        Err(why) => Answer::Original(why),
    }
}

fn attempt(kind: Kind, bytes: &[u8], settings: &Settings, memory: &Memory) -> Result<Vec<u8>, Why> {
    let format = format(kind);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(match kind {
        Kind::Png => at_most(bytes.len() as u64 + PROFILE_MAX),
        _ => at_most(settings.bounds.memory_max),
    });
    let mut decoder = reader.into_decoder().map_err(broken)?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    let deep = decoder.original_color_type().bits_per_pixel()
        > 8 * u16::from(decoder.original_color_type().channel_count());
    let each = if deep { DEEP_PIXEL_BYTES } else { PIXEL_BYTES };
    if pixels > settings.bounds.pixels_max {
        return Err(Why::TooManyPixels);
    }
    let taken = memory.take(pixels * each);
    let _taken = taken.ok_or(Why::TooManyPixels)?;
    if kind == Kind::Gif {
        // A frame may be larger than the image that it is in.
        decoder.set_limits(at_most(pixels * each)).map_err(broken)?;
    }
    if kind == Kind::Png && has_own_gamma(bytes) {
        return Err(Why::Profile);
    }
    let moves = is_animated(kind, bytes, pixels * each)?;
    if moves && !settings.still {
        return Err(Why::Animated);
    }
    let orientation = decoder.orientation().map_err(broken)?;
    let profile = decoder.icc_profile().map_err(broken)?.filter(|it| !is_srgb(it));
    let mut image = DynamicImage::from_decoder(decoder).map_err(broken)?;
    image.apply_orientation(orientation);
    let is_narrow = image.width() <= settings.width_max;
    if is_narrow && !moves && matches!(kind, Kind::Gif | Kind::WebP) {
        return Err(Why::Lossless);
    }
    encode(kind, &scaled(image, settings.width_max), profile.as_deref(), settings)
}

fn at_most(bytes: u64) -> Limits {
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(bytes);
    limits
}

fn format(kind: Kind) -> ImageFormat {
    match kind {
        Kind::Jpeg => ImageFormat::Jpeg,
        Kind::Png => ImageFormat::Png,
        Kind::WebP => ImageFormat::WebP,
        Kind::Gif => ImageFormat::Gif,
        Kind::Html | Kind::Other => unreachable!("only images are asked for"),
    }
}

fn broken(fault: image::ImageError) -> Why {
    match fault {
        image::ImageError::Limits(_) => Why::TooManyPixels,
        fault => Why::Broken(fault.to_string().replace('\n', " ")),
    }
}

/// Whether there is a second frame. Frames of a GIF take so much memory at most.
fn is_animated(kind: Kind, bytes: &[u8], memory: u64) -> Result<bool, Why> {
    let content = Cursor::new(bytes);
    match kind {
        Kind::Gif => {
            let mut decoder = GifDecoder::new(content).map_err(broken)?;
            decoder.set_limits(at_most(memory)).map_err(broken)?;
            Ok(decoder.into_frames().take(2).filter(Result::is_ok).count() == 2)
        }
        Kind::Png => {
            let decoder =
                PngDecoder::with_limits(content, at_most(bytes.len() as u64 + PROFILE_MAX));
            decoder.and_then(|it| it.is_apng()).map_err(broken)
        }
        Kind::WebP => Ok(WebPDecoder::new(content).map_err(broken)?.has_animation()),
        Kind::Jpeg | Kind::Html | Kind::Other => Ok(false),
    }
}

/// Whether a colour profile says what browsers assume without any.
fn is_srgb(profile: &[u8]) -> bool {
    let (narrow, wide) = (b"sRGB", b"s\0R\0G\0B");
    let has = |word: &[u8]| memchr::memmem::find(profile, word).is_some();
    // `Display P3 Gamut with sRGB Transfer`, as Android writes it, has the name and another red.
    (has(narrow) || has(wide)) && red(profile).is_none_or(|red| red.abs_diff(SRGB_RED) < 655)
}

/// The X of the red of a colour profile, in parts of 65,536. Source: ICC.1, §7.3 (tag table) and §10.31 (`XYZType`).
fn red(profile: &[u8]) -> Option<u32> {
    let number = |at: usize| Some(u32::from_be_bytes(*profile.get(at..)?.first_chunk()?));
    let tags = profile.get(132..)?.chunks_exact(12).take(number(128)?.min(1000) as usize);
    let tag = tags.into_iter().find(|tag| tag.starts_with(b"rXYZ"))?;
    let at = u32::from_be_bytes(*tag[4..].first_chunk()?) as usize;
    number(at.checked_add(8)?)
}

/// Whether a PNG says by a number, not by a profile, that its colours are other than those of sRGB. That would be lost.
fn has_own_gamma(png: &[u8]) -> bool {
    let number = |bytes: &[u8]| bytes.first_chunk().map(|it| u32::from_be_bytes(*it));
    let (mut rest, mut own) = (png.get(8..).unwrap_or_default(), false);
    while let Some((head, data)) = rest.split_at_checked(8) {
        match &head[4..] {
            b"IDAT" => break,
            // These two count then.
            b"sRGB" | b"iCCP" => return false,
            // Of BT.709 with the curve of sRGB.
            b"cICP" => own |= data.get(..4) != Some(&[1, 13, 0, 1][..]),
            // As hundred-thousandths; of sRGB it is 45,455.
            b"gAMA" => own |= !number(data).is_some_and(|it| (45_000..=46_000).contains(&it)),
            _ => {}
        }
        let next = number(head).map_or(usize::MAX, |len| len as usize).saturating_add(4);
        rest = data.get(next..).unwrap_or_default();
    }
    own
}

fn scaled(image: DynamicImage, width_max: u32) -> DynamicImage {
    let (width, height) = (image.width(), image.height());
    if width <= width_max {
        return image;
    }
    let height = (u64::from(height) * u64::from(width_max)).div_ceil(u64::from(width)) as u32;
    if !image.color().has_alpha() {
        return resized(&image, width_max, height);
    }
    // What is not seen has a colour too, which must not run into what is.
    let mut weighed = image.into_rgba8();
    for pixel in weighed.pixels_mut() {
        let alpha = u16::from(pixel[3]);
        for channel in &mut pixel.0[..3] {
            *channel = ((u16::from(*channel) * alpha + 127) / 255) as u8;
        }
    }
    let mut small = resized(&weighed.into(), width_max, height).into_rgba8();
    for pixel in small.pixels_mut() {
        let alpha = u16::from(pixel[3]).max(1);
        for channel in &mut pixel.0[..3] {
            *channel = ((u16::from(*channel) * 255 + alpha / 2) / alpha).min(255) as u8;
        }
    }
    small.into()
}

fn resized(image: &DynamicImage, width: u32, height: u32) -> DynamicImage {
    match image.width() / width >= BLOCKS_FROM {
        true => image.thumbnail_exact(width, height),
        false => image.resize_exact(width, height, FilterType::Triangle),
    }
}

fn encode(
    kind: Kind,
    image: &DynamicImage,
    profile: Option<&[u8]>,
    settings: &Settings,
) -> Result<Vec<u8>, Why> {
    let mut out = Vec::new();
    match kind {
        Kind::Jpeg => jpeg(image, profile_for(image, profile), settings.quality, &mut out)?,
        Kind::Png => return png::encode(image, profile_for(image, profile)).map_err(Why::Broken),
        Kind::Gif => {
            let mut pixels = image.to_rgba8();
            for pixel in pixels.pixels_mut() {
                pixel[3] = if pixel[3] < GIF_OPAQUE { 0 } else { 255 };
            }
            let mut encoder = GifEncoder::new_with_speed(&mut out, GIF_SPEED);
            encoder.encode_frame(Frame::new(pixels)).map_err(broken)?;
        }
        Kind::WebP if profile.is_some() => return Err(Why::Profile),
        Kind::WebP => {
            let encoder = WebPEncoder::new_lossless(&mut out);
            let image = match image.color().has_alpha() {
                true => DynamicImage::from(image.to_rgba8()),
                false => DynamicImage::from(image.to_rgb8()),
            };
            image.write_with_encoder(encoder).map_err(broken)?;
        }
        Kind::Html | Kind::Other => unreachable!("only images are asked for"),
    }
    Ok(out)
}

/// The profile, if it describes the colours that are written: grayscale or RGB. One of CMYK does not.
fn profile_for<'a>(image: &DynamicImage, profile: Option<&'a [u8]>) -> Option<&'a [u8]> {
    let space: &[u8] = if image.color().has_color() { b"RGB " } else { b"GRAY" };
    profile.filter(|it| it.get(16..20) == Some(space))
}

fn jpeg(
    image: &DynamicImage,
    profile: Option<&[u8]>,
    quality: u8,
    out: &mut Vec<u8>,
) -> Result<(), Why> {
    let side = |length: u32| u16::try_from(length).map_err(|_| Why::TooManyPixels);
    let (width, height) = (side(image.width())?, side(image.height())?);
    let mut encoder = jpeg_encoder::Encoder::new(out, quality);
    encoder.set_progressive(true);
    encoder.set_optimized_huffman_tables(true);
    let fault = |fault: jpeg_encoder::EncodingError| Why::Broken(fault.to_string());
    if let Some(profile) = profile {
        encoder.add_icc_profile(profile).map_err(fault)?;
    }
    let (colour, pixels) = match image.color().has_color() {
        true => (jpeg_encoder::ColorType::Rgb, image.to_rgb8().into_raw()),
        false => (jpeg_encoder::ColorType::Luma, image.to_luma8().into_raw()),
    };
    encoder.encode(&pixels, width, height, colour).map_err(fault)
}

#[cfg(test)]
mod tests;
