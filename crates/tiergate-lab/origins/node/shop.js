// A shop by Node's own http module, with its defaults: one event loop, no limit on requests at once. Each page waits for
// a database (simulated: a timer of 20 ms), then checks the visitor's token and renders a list on the event loop.
// Both pages cost the same, about 4 ms of a processor.
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

function page(title, rows, token) {
  const list = rows.map(({ number, name, price }) =>
    `<li><a href="/item/${number}">${escape(name)}</a>: ${price} EUR</li>\n`);
  return `<!doctype html><title>${title}</title><h1>${title}</h1><ul>${list.join('')}</ul><!-- ${token} -->\n`;
}

const server = createServer(async (request, response) => {
  const title = TITLES[request.url];
  if (!title) {
    response.writeHead(404).end();
    return;
  }
  const body = page(title, await items(), token(request.url));
  response.writeHead(200, {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
  });
  response.end(body);
});
server.listen(Number(process.argv[3]), process.argv[2]);
process.on('SIGTERM', () => process.exit(0));
