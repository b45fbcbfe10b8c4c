#!/usr/bin/env python3
"""Checks the dashboard, the alerts and the metrics of a running gateway.

The dashboard and the alerts ask only for metrics and labels in the table of docs/observability.md (which a test of the crate compares
with what is written); panels do not overlap; each alert has its entry in the runbook and its test; `promtool` finds nothing wrong with rules, their
tests, and what a gateway writes. usage: monitoring.py PROMTOOL [GATEWAY]
"""
import http.server
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
SERIES = re.compile(r"\b((?:tiergate|process)_[a-z_]+)(?:\{([^}]*)\})?")
faults = []


def fault(text):
    faults.append(text)
    print(f"monitoring: {text}", file=sys.stderr)


def documented():
    """Each metric with its labels."""
    metrics = {}
    table = (DOCS / "observability.md").read_text().split("## Metrics", 1)[1].split("**Pools.**", 1)[0]
    for line in table.splitlines():
        if not line.startswith("| `"):
            continue
        names, kind, labels = (cell.strip() for cell in line.split("|")[1:4])
        labels = {label.strip() for label in re.split("[,;]", labels)} | {"pool", "job", "instance"}
        for name in re.findall(r"`([^`]+)`", names):
            name = name if name.startswith("process_") else f"tiergate_{name}"
            metrics[name] = labels
            if "histogram" in kind:
                metrics[f"{name}_bucket"] = labels | {"le"}
    return metrics


def check(expression, metrics, where):
    """How many series the expression asks for."""
    found = SERIES.findall(expression)
    for name, selectors in found:
        if name not in metrics:
            fault(f"{where}: {name} is not documented")
            continue
        for label in re.findall(r'([a-z_]+)\s*(?:=~|!~|!=|=)\s*"', selectors):
            if label not in metrics[name]:
                fault(f"{where}: {name} has no label {label}")
    known = set().union(*(metrics.get(name, set()) for name, _ in found)) if found else set()
    for group in re.findall(r"(?:by|on) \(([a-z_, ]+)\)", expression):
        for label in group.split(", "):
            if label not in known:
                fault(f"{where}: no metric of it has the label {label}")
    return len(found)


def dashboard(metrics):
    board = json.loads((DOCS / "grafana/tiergate.json").read_text())
    known, series, ids, places = set().union(*metrics.values()), 0, set(), []
    for panel in board["panels"]:
        title, at = panel["title"], panel["gridPos"]
        if panel["id"] in ids:
            fault(f"{title}: its id is another's")
        ids.add(panel["id"])
        box = (at["x"], at["y"], at["x"] + at["w"], at["y"] + at["h"])
        if box[2] > 24 or any(box[0] < o[2] and o[0] < box[2] and box[1] < o[3] and o[1] < box[3] for o in places):
            fault(f"{title}: does not fit, or is over another")
        places.append(box)
        if panel["type"] == "row":
            continue
        if not panel["description"]:
            fault(f"{title}: no description")
        for target in panel["targets"]:
            series += check(target["expr"], metrics, title)
            for label in re.findall(r"\{\{([a-z]+)\}\}", target["legendFormat"]):
                if label not in known:
                    fault(f"{title}: no metric has the label {label}")
    for it in board["annotations"]["list"]:
        check(it["expr"], metrics, it["name"])
    if series < 30:
        fault(f"the dashboard asks for {series} series only: were they found?")
    # Its expressions as rules, so that promtool parses them.
    exprs = [(p["title"], t["expr"]) for p in board["panels"] for t in p.get("targets", [])]
    rules = [{"record": f"panel:{place}", "expr": expr.replace("$__rate_interval", "5m")} for place, (_, expr) in enumerate(exprs)]
    return {"groups": [{"name": "dashboard", "rules": rules}]}


def alerts(metrics):
    rules, tests = ((DOCS / "alerts" / name).read_text() for name in ["tiergate.yml", "tiergate_test.yml"])
    runbook, series, names = (DOCS / "runbook.md").read_text(), 0, set()
    for rule in rules.split("- alert: ")[1:]:
        name = rule.split("\n", 1)[0]
        names.add(name)
        expression = re.search(r"expr: (.*?)\n        (?:for|labels):", rule, re.S).group(1)
        series += check(expression, metrics, name)
        for what, there in [
            ("severity", re.search(r"severity: (page|ticket)\b", rule)),
            ("runbook_url", f"runbook_url: docs/runbook.md#{name.lower()}\n" in rule),
            ("entry in the runbook", f"### {name}\n" in runbook),
            ("test in which it fires", re.search(rf"alertname: {name}\n +exp_alerts:\n", tests)),
            ("test in which it does not", f"alertname: {name}\n        exp_alerts: []\n" in tests),
        ]:
            if not there:
                fault(f"{name} has no {what}")
    for entry in re.findall(r"^### (Tiergate\w+)$", runbook, re.M):
        if entry not in names:
            fault(f"the runbook has an entry for {entry}, which is no alert")
    if series < 20:
        fault(f"the alerts ask for {series} series only: were they found?")


def promtool(tool, *arguments, **options):
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, **options)
    if done.returncode != 0 or "FAILED" in done.stderr:
        fault(f"promtool {' '.join(arguments)}: {done.stdout}{done.stderr}".rstrip())


def port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


class Origin(http.server.BaseHTTPRequestHandler):
    """A web server that answers every GET with one word."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"ok\n")

    def log_message(self, *_):
        pass


def written(gateway, folder):
    """What a gateway writes that has had a request."""
    listen, admin = port(), port()
    origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    policy = pathlib.Path(folder) / "policy.toml"
    policy.write_text(
        f'admin = "127.0.0.1:{admin}"\n[[listener]]\naddress = "127.0.0.1:{listen}"\n'
        f'[origin]\nservers = ["127.0.0.1:{origin.server_port}"]\n[[class]]\nname = "checkout"\n'
    )
    process = subprocess.Popen([gateway, "run", policy], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(100):
            if process.poll() is not None:
                sys.exit(f"monitoring: the gateway did not start: {process.stderr.read().rstrip()}")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{listen}/healthz", timeout=5).read()
                break
            except OSError:
                time.sleep(0.1)
        time.sleep(2)
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics", timeout=5).read().decode()
    finally:
        process.terminate()
        process.wait(10)
        origin.shutdown()
    for line in ['responses_total{class="checkout",code="200"}', 'request_seconds_count{class="checkout"}', "failure_buffer_ratio{bound="]:
        if f"tiergate_{line}" not in metrics:
            fault(f"no {line} in what the gateway writes")
    return metrics


def main():
    tool, *gateway = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:])
    metrics = documented()
    with tempfile.TemporaryDirectory() as folder:
        expressions = pathlib.Path(folder) / "dashboard.json"
        expressions.write_text(json.dumps(dashboard(metrics)))
        alerts(metrics)
        promtool(tool, "check", "rules", str(expressions))
        promtool(tool, "check", "rules", str(DOCS / "alerts/tiergate.yml"))
        promtool(tool, "test", "rules", "tiergate_test.yml", cwd=DOCS / "alerts")
        if gateway:
            promtool(tool, "check", "metrics", input=written(gateway[0], folder))
    if faults:
        sys.exit(1)
    print(f"monitoring: the dashboard, the alerts{' and the metrics' if gateway else ''} are in order")


main()
