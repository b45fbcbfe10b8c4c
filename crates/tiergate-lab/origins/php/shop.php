<?php
// A shop by PHP: each page waits for a database (simulated: 20 ms asleep), checks the visitor's token and renders a list.
// Both pages cost the same, about 4 ms of a processor.

const TITLES = ['/checkout' => 'Your basket', '/browse' => 'Our range'];

/** The rows that the database would return. */
function items(): iterable
{
    usleep(20_000);
    for ($number = 0; $number < 300; $number++) {
        yield $number => ['name' => "Tea & biscuits no. $number", 'price' => $number * 7 % 90 + 9];
    }
}

$path = $_SERVER['SCRIPT_NAME'];
$token = hash_pbkdf2('sha256', $path, 'of the shop', 5000);
?>
<!doctype html>
<title><?= TITLES[$path] ?></title>
<h1><?= TITLES[$path] ?></h1>
<ul>
<?php foreach (items() as $number => $item): ?>
<li><a href="/item/<?= $number ?>"><?= htmlspecialchars($item['name']) ?></a>: <?= $item['price'] ?> EUR</li>
<?php endforeach ?>
</ul>
<!-- <?= $token ?> -->
