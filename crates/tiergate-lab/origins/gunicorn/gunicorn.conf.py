# gunicorn as its documentation has it behind a proxy: a few processes with threads, which keep connections
# (https://docs.gunicorn.org/en/stable/settings.html). An experiment fills in what stands between at signs.
import os

bind = "@LISTEN@"
chdir = "@DIR@"
wsgi_app = "shop:app"
worker_class = "gthread"
workers = @WORKERS@
threads = @THREADS@
# The default of 2 s closes connections that a proxy is about to use again.
keepalive = 60
# Waiting connections; 2048 is the default.
backlog = 2048
# What the application is told.
raw_env = [@TOLD@]
# For who started it as root: the processes that serve are nobody's.
if os.geteuid() == 0:
    user = group = "www-data"
