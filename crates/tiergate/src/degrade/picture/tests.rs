use super::*;
use image::codecs::jpeg::JpegEncoder;
use image::{GrayImage, ImageBuffer, Luma, Rgb, RgbImage, Rgba, RgbaImage};

/// Gradients with noise, as in a photograph.
fn photo(width: u32, height: u32) -> RgbImage {
    let mut state = 1u32;
    RgbImage::from_fn(width, height, |x, y| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let noise = (state >> 28) as u8;
        Rgb([(x / 8) as u8 ^ noise, (y / 8) as u8 + noise, ((x + y) / 16) as u8])
    })
}

fn written(image: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    image.into().write_to(&mut out, format).unwrap();
    out.into_inner()
}

fn jpeg_of(image: &RgbImage, quality: u8) -> Vec<u8> {
    let mut out = Vec::new();
    JpegEncoder::new_with_quality(&mut out, quality).encode_image(image).unwrap();
    out
}

fn answer(kind: Kind, bytes: &[u8], settings: &Settings) -> Answer {
    assert!(kind.fits(bytes));
    degrade(kind, bytes, settings, &Memory::new(settings.bounds.memory_max))
}

fn made(kind: Kind, bytes: &[u8], settings: &Settings) -> Vec<u8> {
    match answer(kind, bytes, settings) {
        Answer::New(made, _) => {
            assert!(kind.fits(&made), "the format stays");
            made
        }
        Answer::Original(why) => panic!("{why:?}"),
    }
}

fn why(kind: Kind, bytes: &[u8], settings: &Settings) -> Why {
    match answer(kind, bytes, settings) {
        Answer::New(..) => panic!("it was made"),
        Answer::Original(why) => why,
    }
}

fn read(bytes: &[u8]) -> DynamicImage {
    image::load_from_memory(bytes).unwrap()
}

#[test]
fn a_photograph_shrinks_and_a_second_time_it_does_not() {
    let original = jpeg_of(&photo(1600, 1000), 90);
    let settings = Settings::default();
    let small = made(Kind::Jpeg, &original, &settings);
    assert!(small.len() * 4 < original.len(), "{} of {}", small.len(), original.len());
    assert_eq!((read(&small).width(), read(&small).height()), (800, 500));
    assert_eq!(why(Kind::Jpeg, &small, &settings), Why::NotSmaller);
    // In width, not in height: a tall image is scrolled.
    let tall = made(Kind::Jpeg, &jpeg_of(&photo(400, 1200), 90), &settings);
    assert_eq!((read(&tall).width(), read(&tall).height()), (400, 1200));
    let thin = made(Kind::Jpeg, &jpeg_of(&photo(4000, 2), 90), &settings);
    assert_eq!((read(&thin).width(), read(&thin).height()), (800, 1));
}

/// EXIF with nothing but an orientation.
fn exif(orientation: u8) -> Vec<u8> {
    let mut tiff = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
    tiff.extend([orientation, 0, 0, 0, 0, 0, 0]);
    tiff
}

#[test]
fn orientation_is_applied_and_metadata_go() {
    // On the left red, on the right blue; turned to the right, red is above.
    let image =
        RgbImage::from_fn(
            1000,
            600,
            |x, _| if x < 500 { Rgb([250, 0, 0]) } else { Rgb([0, 0, 250]) },
        );
    let mut original = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut original, 95);
    encoder.add_exif_metadata(&exif(6)).unwrap();
    encoder.encode(image.as_raw(), 1000, 600, jpeg_encoder::ColorType::Rgb).unwrap();
    let small = made(Kind::Jpeg, &original, &Settings { width_max: 300, ..Settings::default() });
    let image = read(&small).to_rgb8();
    assert_eq!(image.dimensions(), (300, 500));
    let (above, below) = (image.get_pixel(150, 50), image.get_pixel(150, 450));
    assert!(above[0] > 200 && below[2] > 200, "{above:?} {below:?}");
    assert!(memchr::memmem::find(&small, b"Exif").is_none());
}

#[test]
fn profiles_of_colours_stay_unless_they_say_nothing() {
    let image = photo(300, 300);
    let profile = |space: &[u8], name: &[u8]| [&[0; 16][..], space, &[0; 60], name].concat();
    let with = |profile: &[u8]| {
        let mut out = Vec::new();
        let mut encoder = jpeg_encoder::Encoder::new(&mut out, 95);
        encoder.add_icc_profile(profile).unwrap();
        encoder.encode(image.as_raw(), 300, 300, jpeg_encoder::ColorType::Rgb).unwrap();
        let small = made(Kind::Jpeg, &out, &Settings::default());
        memchr::memmem::find(&small, b"ICC_PROFILE").is_some()
    };
    assert!(with(&profile(b"RGB ", b"Display P3")));
    let named = |red: u32| {
        let tags = [&[0, 0, 0, 1][..], b"rXYZ", &[0, 0, 0, 144, 0, 0, 0, 20], b"XYZ \0\0\0\0"];
        let header = [&[0; 16][..], b"RGB ", &[0; 108]].concat();
        [
            &header[..],
            &tags.concat(),
            &red.to_be_bytes(),
            &[0; 8][..],
            b"P3 Gamut with sRGB Transfer",
        ]
        .concat()
    };
    assert!(with(&named(33_759)) && !with(&named(28_577)));
    assert!(!with(&profile(b"RGB ", b"s\0R\0G\0B\0")) && !with(&profile(b"CMYK", b"Coated")));
}

#[test]
fn transparency_stays_in_a_palette() {
    let photo = photo(900, 300);
    let image = RgbaImage::from_fn(900, 300, |x, y| {
        let Rgb([r, g, b]) = *photo.get_pixel(x, y);
        Rgba([
            r,
            g,
            b,
            if x < 300 {
                0
            } else if x < 600 {
                128
            } else {
                255
            },
        ])
    });
    for width_max in [900, 450] {
        let original = written(image.clone(), ImageFormat::Png);
        let small = made(Kind::Png, &original, &Settings { width_max, ..Settings::default() });
        assert!(small.len() * 2 < original.len(), "{} of {}", small.len(), original.len());
        let small = read(&small).to_rgba8();
        assert_eq!(small.width(), width_max);
        let at = |part: u32| small.get_pixel(width_max * part / 6, 50)[3];
        assert!(
            at(1) == 0 && at(3).abs_diff(128) < 20 && at(5) == 255,
            "{} {} {}",
            at(1),
            at(3),
            at(5)
        );
    }
    // Few colours are kept as they are.
    let flat = RgbaImage::from_fn(900, 300, |x, _| Rgba([(x / 10) as u8, 0, 7, 255]));
    let mut original = Vec::new();
    let encoder = image::codecs::png::PngEncoder::new_with_quality(
        &mut original,
        image::codecs::png::CompressionType::Uncompressed,
        image::codecs::png::FilterType::NoFilter,
    );
    DynamicImage::from(flat.clone()).write_with_encoder(encoder).unwrap();
    let small = made(Kind::Png, &original, &Settings { width_max: 900, ..Settings::default() });
    assert_eq!(read(&small).to_rgba8(), flat);
}

#[test]
fn what_is_not_seen_does_not_darken_edges() {
    // White on a ground that is clear, and black were it not.
    let white = |x, y| if (x / 7 + y / 5) % 2 == 0 { Rgba([255; 4]) } else { Rgba([0; 4]) };
    let original = DynamicImage::from(RgbaImage::from_fn(1300, 400, white));
    for width_max in [900, 300] {
        let small = scaled(original.clone(), width_max).into_rgba8();
        let mut seen = small.pixels().filter(|it| it[3] > 16).peekable();
        assert!(seen.peek().is_some() && seen.all(|it| it[0] > 240), "{width_max}");
    }
}

#[test]
fn greys_sixteen_bits_and_cmyk() {
    let settings = Settings::default();
    let grey = GrayImage::from_fn(1000, 500, |x, y| {
        Luma([photo(1, 1).get_pixel(0, 0)[0] ^ (x * y) as u8])
    });
    let mut out = Vec::new();
    JpegEncoder::new_with_quality(&mut out, 95).encode_image(&grey).unwrap();
    assert_eq!(read(&made(Kind::Jpeg, &out, &settings)).color(), image::ColorType::L8);
    let small = read(&made(Kind::Png, &written(grey, ImageFormat::Png), &settings));
    assert!(!small.color().has_color());

    let deep = ImageBuffer::from_fn(1000, 500, |x, y| Rgb([(x * 60) as u16, (y * 100) as u16, 0]));
    let small = read(&made(
        Kind::Png,
        &written(DynamicImage::ImageRgb16(deep), ImageFormat::Png),
        &settings,
    ));
    assert_eq!((small.width(), small.to_rgb8().get_pixel(0, 0)[2]), (800, 0));

    // Adobe writes CMYK inverted, as this encoder does: full cyan is no red.
    let cmyk: Vec<u8> = (0..1000 * 400).flat_map(|_| [250, 0, 0, 0]).collect();
    let mut out = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut out, 95);
    encoder.encode(&cmyk, 1000, 400, jpeg_encoder::ColorType::Cmyk).unwrap();
    let (small, same) = (read(&made(Kind::Jpeg, &out, &settings)), read(&out));
    let (small, same) = (small.to_rgb8(), same.to_rgb8());
    let (one, two) = (small.get_pixel(9, 9), same.get_pixel(9, 9));
    assert!((0..3).all(|it| one[it].abs_diff(two[it]) < 8), "{one:?} {two:?}");
    assert!(one[0] < 30 && one[1] > 200 && one[2] > 200, "{one:?}");
}

fn png_chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut crc = !0u32;
    for byte in name.iter().chain(data) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    [&(data.len() as u32).to_be_bytes(), &name[..], data, &(!crc).to_be_bytes()].concat()
}

#[test]
fn a_png_whose_colours_are_other_than_srgb_stays() {
    let original = written(photo(900, 300), ImageFormat::Png);
    // After the header.
    let with = |chunks: &[Vec<u8>]| [&original[..33], &chunks.concat(), &original[33..]].concat();
    let gamma = |number: u32| png_chunk(b"gAMA", &number.to_be_bytes());
    let settings = Settings::default();
    made(Kind::Png, &with(&[gamma(45_455)]), &settings);
    made(Kind::Png, &with(&[gamma(55_556), png_chunk(b"sRGB", &[0])]), &settings);
    assert_eq!(why(Kind::Png, &with(&[gamma(55_556)]), &settings), Why::Profile);
    let hdr = png_chunk(b"cICP", &[9, 16, 0, 1]);
    assert_eq!(why(Kind::Png, &with(&[hdr]), &settings), Why::Profile);
}

#[test]
fn bombs_are_not_decoded() {
    let side = 60_000u32.to_be_bytes();
    let header = [&side[..], &side, &[8, 6, 0, 0, 0]].concat();
    let png =
        [b"\x89PNG\r\n\x1a\n".to_vec(), png_chunk(b"IHDR", &header), png_chunk(b"IDAT", b"x")]
            .concat();
    let mut jpeg = jpeg_of(&photo(16, 16), 90);
    let frame = memchr::memmem::find(&jpeg, b"\xff\xc0").unwrap();
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0xea, 0x60, 0xea, 0x60]);
    let mut gif = b"GIF89a\x60\xea\x60\xea\0\0\0".to_vec();
    gif.extend(b",\0\0\0\0\x60\xea\x60\xea\0\x02\x02D\x01\0;");
    for (kind, bytes) in [(Kind::Png, png), (Kind::Jpeg, jpeg), (Kind::Gif, gif)] {
        assert_eq!(why(kind, &bytes, &Settings::default()), Why::TooManyPixels, "{kind:?}");
    }
    // Small by its header, with a frame of 17 GB.
    let mut gif = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff".to_vec();
    gif.extend(b",\0\0\0\0\xff\xff\xff\xff\0\x02\x02D\x01\0;");
    for still in [false, true] {
        let settings = Settings { still, ..Settings::default() };
        assert_eq!(why(Kind::Gif, &gif, &settings), Why::TooManyPixels);
    }
    // A colour profile of 64 MiB in 64 KiB.
    let profile = [&[0; 16][..], b"RGB ", &vec![0; 64 << 20]].concat();
    let png = png::encode(&photo(300, 300).into(), Some(&profile)).unwrap();
    assert!(memchr::memmem::find(&png, b"iCCP").is_some() && png.len() < 1 << 20);
    match answer(Kind::Png, &png, &Settings::default()) {
        Answer::New(made, _) => assert!(memchr::memmem::find(&made, b"iCCP").is_none()),
        Answer::Original(why) => assert_eq!(why, Why::TooManyPixels),
    }
    // At the bounds themselves.
    let original = jpeg_of(&photo(100, 100), 95);
    let within = |pixels_max, memory_max| {
        let mut settings = Settings::default();
        (settings.bounds.pixels_max, settings.bounds.memory_max) = (pixels_max, memory_max);
        !matches!(answer(Kind::Jpeg, &original, &settings), Answer::Original(Why::TooManyPixels))
    };
    assert!(within(10_000, 200_000) && !within(9_999, 200_000) && !within(10_000, 199_999));
}

#[test]
fn what_is_broken_stays() {
    let settings = Settings::default();
    let png = written(photo(300, 300), ImageFormat::Png);
    let gif = written(DynamicImage::from(photo(900, 90)), ImageFormat::Gif);
    let webp = written(photo(900, 90), ImageFormat::WebP);
    for (kind, bytes) in [(Kind::Png, png), (Kind::Gif, gif), (Kind::WebP, webp)] {
        for part in [20, bytes.len() / 2] {
            let why = why(kind, &bytes[..part], &settings);
            assert!(matches!(why, Why::Broken(_) | Why::Lossless), "{kind:?} {part}: {why:?}");
        }
    }
    let jpeg = jpeg_of(&photo(300, 300), 95);
    assert!(matches!(why(Kind::Jpeg, &jpeg[..100], &settings), Why::Broken(_)));
    assert!(matches!(why(Kind::Jpeg, b"\xff\xd8\xff", &settings), Why::Broken(_)));
    // Bytes at random never make it panic.
    let mut state = 7u64;
    for round in 0..60 {
        for (kind, bytes) in [(Kind::Jpeg, &jpeg)] {
            let mut bytes = bytes.clone();
            for _ in 0..20 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at.max(3)] = (state >> 13) as u8;
            }
            let answer = degrade(kind, &bytes, &settings, &Memory::new(1 << 30));
            assert!(
                !matches!(&answer, Answer::New(made, _) if made.len() >= bytes.len()),
                "{round}"
            );
        }
    }
}

fn animation() -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = GifEncoder::new(&mut out);
    for shade in [10, 200] {
        let image = RgbaImage::from_fn(1000, 100, |x, y| {
            Rgba([shade, (x ^ y) as u8, 0, if x < 500 { 0 } else { 255 }])
        });
        encoder.encode_frame(Frame::new(image)).unwrap();
    }
    drop(encoder);
    out
}

#[test]
fn animations_stay_unless_a_still_is_asked_for() {
    let settings = Settings::default();
    assert_eq!(why(Kind::Gif, &animation(), &settings), Why::Animated);
    let still = made(Kind::Gif, &animation(), &Settings { still: true, ..settings.clone() });
    let image = read(&still).to_rgba8();
    assert_eq!(image.dimensions(), (800, 80));
    let (clear, full) = (image.get_pixel(100, 40), image.get_pixel(700, 40));
    assert!(clear[3] == 0 && full[3] == 255 && full[0] < 60, "{clear:?} {full:?}");
    assert_eq!(why(Kind::Gif, &still, &settings), Why::Lossless);
}

#[test]
fn webp_is_scaled_without_loss() {
    let settings = Settings::default();
    let wide = written(photo(1600, 100), ImageFormat::WebP);
    assert_eq!(read(&made(Kind::WebP, &wide, &settings)).width(), 800);
    let narrow = written(photo(800, 100), ImageFormat::WebP);
    assert_eq!(why(Kind::WebP, &narrow, &settings), Why::Lossless);
}
