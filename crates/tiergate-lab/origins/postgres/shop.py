"""A shop by WSGI before PostgreSQL: each page asks the database for the bestsellers of a category, on the connection of
its thread. Both pages cost the same, about 4 ms of a processor, most of it in PostgreSQL."""

import html
import itertools
import os
import threading

import psycopg2

TITLES = {"/checkout": "Your basket", "/browse": "Our range"}
BESTSELLERS = """
    SELECT item.number, item.name, item.cents, sum(sale.pieces) AS sold
    FROM item JOIN sale ON sale.item = item.number
    WHERE item.category = %s
    GROUP BY item.number ORDER BY sold DESC, item.number LIMIT 20
"""
CATEGORIES = itertools.cycle(range(50))
here = threading.local()


def database():
    """The connection of this thread: a worker has as many as it has threads."""
    if not hasattr(here, "connection"):
        here.connection = psycopg2.connect(os.environ["SHOP_DATABASE"])
        here.connection.autocommit = True
    return here.connection


def app(environ, start_response):
    title = TITLES.get(environ["PATH_INFO"])
    if title is None:
        start_response("404 Not Found", [("Content-Length", "0")])
        return []
    with database().cursor() as cursor:
        cursor.execute(BESTSELLERS, [next(CATEGORIES)])
        rows = [
            f'<li><a href="/item/{number}">{html.escape(name)}</a>: {cents / 100} EUR, {sold} sold</li>\n'
            for number, name, cents, sold in cursor
        ]
    body = f"<!doctype html><title>{title}</title><h1>{title}</h1><ul>{''.join(rows)}</ul>\n".encode()
    start_response("200 OK", [("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]
