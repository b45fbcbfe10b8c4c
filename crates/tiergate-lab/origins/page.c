/* A dynamic page by CGI: uses processor time, then answers.
 *
 *   /cgi-bin/page                      3 ms, 8192 bytes
 *   /cgi-bin/page?us=500&bytes=2204    half a millisecond, 2204 bytes
 *
 * The time is that of the whole process, its start included, so it is at least what starting a
 * process costs. Anything else in the query is ignored; at most 10 s and 1 MiB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long asked(const char *query, const char *name, long usual, long most) {
  size_t length = strlen(name);
  for (const char *at = query; at && *at; at = strchr(at, '&')) {
    at += *at == '&';
    if (strncmp(at, name, length) == 0 && at[length] == '=') {
      long value = strtol(at + length + 1, NULL, 10);
      return value < 0 ? 0 : value > most ? most : value;
    }
  }
  return usual;
}

static long used_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

int main(void) {
  const char *query = getenv("QUERY_STRING");
  long us = asked(query, "us", 3000, 10000000);
  long bytes = asked(query, "bytes", 8192, 1 << 20);
  volatile unsigned long work = 1;
  while (used_us() < us)
    for (int round = 0; round < 1000; round++)
      work = work * 6364136223846793005UL + 1;
  printf("Content-Type: text/html\r\nContent-Length: %ld\r\n\r\n", bytes);
  while (bytes-- > 0)
    putchar(bytes % 80 ? 'x' : '\n');
  return 0;
}
