"""The application of LAB_WSGI, which writes to its log where all its threads are when an answer takes longer than clients wait."""
import faulthandler
import importlib
import os
import runpy
import sys
import threading

LIMIT = 100

name = os.environ['LAB_WSGI']
stock = runpy.run_path(name)['application'] if '/' in name else importlib.import_module(name).application


def tell(environ):
    print('ERROR no answer for %d s: %s %s; the threads:' % (
        LIMIT, environ['REQUEST_METHOD'], environ.get('PATH_INFO')), file=sys.stderr, flush=True)
    faulthandler.dump_traceback(sys.stderr)


def application(environ, start_response):
    timer = threading.Timer(LIMIT, tell, [environ])
    timer.daemon = True
    timer.start()
    try:
        return stock(environ, start_response)
    finally:
        timer.cancel()
