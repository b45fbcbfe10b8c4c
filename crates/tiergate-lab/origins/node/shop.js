// A shop by Node's own http module, with its defaults: one event loop, no limit on requests at once. Each page waits for
// a database (simulated: a timer of 20 ms), then checks the visitor's token and renders a list on the event loop.
// Both pages cost the same, about 4 ms of a processor.
//
// A third page, the catalogue, has recommendations, which take most of its time; it leaves them out where the gateway asks for an
// answer of less than full quality (`Tiergate-Level: 1/2`).
//
//   node shop.js ADDRESS PORT
const { pbkdf2Sync } = require('node:crypto');
const { createServer } = require('node:http');
const { setTimeout: sleep } = require('node:timers/promises');

const TITLES = { '/checkout': 'Your basket', '/browse': 'Our range' };
const ESCAPED = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const escape = (text) => text.replace(/[&<>"]/g, (sign) => ESCAPED[sign]);

// The rows that the database would return.
async function items() {
  await sleep(20);
  return Array.from({ length: 300 }, (_, number) => ({
    number,
    name: `Tea & biscuits no. ${number}`,
    price: ((number * 7) % 90) + 9,
  }));
}

// What a session's token is checked against.
const token = (path) => pbkdf2Sync(path, 'of the shop', 6000, 32, 'sha256').toString('hex');

// What visitors like, and what each thing is like: 192 numbers each.
const TASTES = Float64Array.from({ length: 4000 * 192 }, (_, place) => Math.sin(place * 7));

// The ten things that are nearest to a visitor's taste.
function recommendations() {
  const visitor = Math.floor(Math.random() * 4000) * 192;
  const nearest = [];
  for (let thing = 0; thing < 4000; thing += 1) {
    let alike = 0;
    for (let place = 0; place < 192; place += 1) {
      alike += TASTES[visitor + place] * TASTES[thing * 192 + place];
    }
    nearest.push([alike, thing]);
  }
  nearest.sort(([one], [other]) => other - one);
  const list = nearest.slice(0, 10).map(([, thing]) => `<li><a href="/item/${thing}">For you</a>\n`);
  return `<h2>Recommended</h2><ol>${list.join('')}</ol>\n`;
}

async function catalogue(request) {
  const rows = (await items()).slice(0, 20);
  const [level, highest] = (request.headers['tiergate-level'] ?? '1/1').split('/').map(Number);
  return page('Catalogue', rows, 'public') + (level === highest ? recommendations() : '');
}

function page(title, rows, token) {
  const list = rows.map(({ number, name, price }) =>
    `<li><a href="/item/${number}">${escape(name)}</a>: ${price} EUR</li>\n`);
  return `<!doctype html><title>${title}</title><h1>${title}</h1><ul>${list.join('')}</ul><!-- ${token} -->\n`;
}

const server = createServer(async (request, response) => {
  const title = TITLES[request.url];
  if (!title && request.url !== '/catalogue') {
    response.writeHead(404).end();
    return;
  }
  const body = title
    ? page(title, await items(), token(request.url))
    : await catalogue(request);
  response.writeHead(200, {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
  });
  response.end(body);
});
server.listen(Number(process.argv[3]), process.argv[2]);
process.on('SIGTERM', () => process.exit(0));
