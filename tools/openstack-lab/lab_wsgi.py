"""The application of LAB_WSGI, which writes to its log where all its threads are when an answer takes longer than clients wait."""
import faulthandler
import os
import runpy
import sys
import threading

LIMIT = 100

stock = runpy.run_path(os.environ['LAB_WSGI'])['application']


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
