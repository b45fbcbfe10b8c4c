-- A shop's range and what was sold of it.
CREATE TABLE item (
    number integer PRIMARY KEY,
    category integer NOT NULL,
    name text NOT NULL,
    cents integer NOT NULL
);
CREATE TABLE sale (
    number bigserial PRIMARY KEY,
    item integer NOT NULL,
    pieces integer NOT NULL
);
INSERT INTO item
    SELECT n, n % 50, 'Tea & biscuits no. ' || n, 900 + n * 7 % 9000 FROM generate_series(1, 5000) n;
INSERT INTO sale (item, pieces)
    SELECT 1 + n * 31 % 5000, 1 + n % 3 FROM generate_series(1, 100000) n;
CREATE INDEX ON item (category);
CREATE INDEX ON sale (item);
VACUUM ANALYZE;
