//! PNG images with at most 256 colours.

use color_quant::NeuQuant;
use image::DynamicImage;
use oxipng::{BitDepth, ColorType, Options, RGBA8, RawImage};
use std::collections::HashSet;

/// Colours of a palette beside the transparent one.
const COLOURS: usize = 255;
/// One pixel of so many teaches the palette: the library's compromise between speed and quality.
const SAMPLING: i32 = 10;
/// Alpha from here on is opaque: learned colours lie beside those that they stand for.
const OPAQUE: u8 = 250;
/// Effort of the compression, 0 to 6: beyond, a per cent costs twice the time.
const PRESET: u8 = 2;

/// Encodes an image, in grayscale if it is that, else in 256 colours at most, with transparency and this colour profile.
pub(super) fn encode(image: &DynamicImage, profile: Option<&[u8]>) -> Result<Vec<u8>, String> {
    let (width, height) = (image.width(), image.height());
    let (colour, pixels) = match image {
        DynamicImage::ImageLuma8(_) | DynamicImage::ImageLuma16(_) => {
            (ColorType::Grayscale { transparent_shade: None }, image.to_luma8().into_raw())
        }
        _ => few_colours(image.to_rgba8().into_raw()),
    };
    let raw = RawImage::new(width, height, colour, BitDepth::Eight, pixels);
    let mut raw = raw.map_err(|fault| fault.to_string())?;
    if let Some(profile) = profile {
        raw.add_icc_profile(profile);
    }
    raw.create_optimized_png(&Options::from_preset(PRESET)).map_err(|fault| fault.to_string())
}

/// The pixels (RGBA) as they are if they have few colours, which the encoder sees; else by a palette.
fn few_colours(mut pixels: Vec<u8>) -> (ColorType, Vec<u8>) {
    let mut colours = HashSet::new();
    for pixel in pixels.chunks_exact_mut(4) {
        if pixel[3] == 0 {
            // What is not seen is no colour.
            pixel.fill(0);
        }
        if colours.len() <= COLOURS {
            colours.insert([pixel[0], pixel[1], pixel[2], pixel[3]]);
        }
    }
    if colours.len() <= COLOURS {
        return (ColorType::RGBA, pixels);
    }
    let learned = NeuQuant::new(SAMPLING, COLOURS, &pixels);
    let colour = |it: &[u8]| {
        let alpha = if it[3] >= OPAQUE { 255 } else { it[3] };
        RGBA8::new(it[0], it[1], it[2], alpha)
    };
    let mut palette: Vec<RGBA8> = learned.color_map_rgba().chunks_exact(4).map(colour).collect();
    palette.truncate(COLOURS);
    let transparent = palette.len() as u8;
    palette.push(RGBA8::new(0, 0, 0, 0));
    let place = |pixel: &[u8]| match pixel[3] {
        0 => transparent,
        _ => learned.index_of(pixel).min(COLOURS - 1) as u8,
    };
    let places = pixels.chunks_exact(4).map(place).collect();
    (ColorType::Indexed { palette }, places)
}
