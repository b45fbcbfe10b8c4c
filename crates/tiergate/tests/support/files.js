// An origin of files as applications often write one: the path is decoded whole, then looked up.
'use strict';
const fs = require('fs');
const http = require('http');
const path = require('path');

const server = http.createServer((request, response) => {
  let name;
  try {
    name = decodeURIComponent(request.url.split('?')[0]);
  } catch {
    response.writeHead(400);
    return response.end();
  }
  // Below the root whatever it is: `join` resolves dots and joins slashes.
  const file = path.join(process.cwd(), path.join('/', name));
  fs.readFile(file.split('\0')[0], (error, content) => {
    if (error) response.writeHead(404);
    response.end(content);
  });
});

server.listen(Number(process.argv[2]), '127.0.0.1');
