// An origin for the passthrough tests: what Node's own http module makes of requests and answers.
'use strict';
const http = require('http');
const crypto = require('crypto');

const digest = (request, done) => {
  const hash = crypto.createHash('sha256');
  let length = 0;
  request.on('data', (piece) => { hash.update(piece); length += piece.length; });
  request.on('end', () => done(hash.digest('hex'), length));
};

const routes = {
  // Everything the origin saw, so that the test can look at it.
  '/echo': (request, response) => digest(request, (sha256, length) => {
    const seen = {
      method: request.method, url: request.url, headers: request.rawHeaders,
      trailers: request.rawTrailers, length, sha256,
    };
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify(seen));
  }),
  '/trailers': (request, response) => {
    response.writeHead(200, { Trailer: 'X-Sum', 'Set-Cookie': ['a=1', 'b=2'] });
    response.write('first ');
    setTimeout(() => {
      response.write('second');
      response.addTrailers({ 'X-Sum': 'abc' });
      response.end();
    }, 20);
  },
  '/hints': (request, response) => {
    response.writeEarlyHints({ link: '</style.css>; rel=preload; as=style' });
    setTimeout(() => response.end('after hints'), 20);
  },
  '/nothing': (request, response) => { response.writeHead(204); response.end(); },
  '/hop': (request, response) => {
    response.writeHead(200, {
      Connection: 'keep-alive, X-Private', 'X-Private': 'secret', 'Proxy-Authenticate': 'Basic',
      'X-Public': 'kept',
    });
    response.end('hop');
  },
};

const server = http.createServer((request, response) => {
  const route = routes[request.url.split('?')[0]];
  if (route) return route(request, response);
  request.resume();
  response.end(`${request.method} ${request.url}`);
});

server.on('upgrade', (request, socket, head) => {
  const key = request.headers['sec-websocket-key'] || '';
  const accept = crypto.createHash('sha1')
    .update(key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
  socket.on('error', () => socket.destroy());
  if (request.url !== '/deaf') socket.on('end', () => socket.end());
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n' +
    `Connection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
  // Frames of up to 125 bytes, unmasked and sent back; a close frame ends it.
  let pending = head;
  const work = () => {
    while (pending.length >= 2) {
      const length = pending[1] & 0x7f;
      if (pending.length < 6 + length) return;
      const mask = pending.subarray(2, 6);
      const data = Buffer.from(pending.subarray(6, 6 + length));
      for (let i = 0; i < length; i++) data[i] ^= mask[i % 4];
      socket.write(Buffer.concat([Buffer.from([pending[0], length]), data]));
      if ((pending[0] & 0x0f) === 8) return socket.end();
      pending = pending.subarray(6 + length);
    }
  };
  socket.on('data', (piece) => { pending = Buffer.concat([pending, piece]); work(); });
  work();
});

server.keepAliveTimeout = 60000;
server.listen(Number(process.argv[2]), '127.0.0.1');
