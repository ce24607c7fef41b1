# SPDX-License-Identifier: Apache-2.0
"""Programs that this one starts: each has a time limit and a session of its own, and is killed with all that it started when the time
is up or this program ends, for whatever reason."""
import os
import signal
import subprocess
import sys
import threading

GUARD = threading.Lock()
RUNNING = set()
ENDED = []


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run(command, limit, words=None, **how):
    """(status, standard output), of which the latter is None unless stdout=subprocess.PIPE; status None: killed when the time was up."""
    with GUARD:
        if ENDED:
            raise KeyboardInterrupt
        process = subprocess.Popen(list(map(str, command)), start_new_session=True, text=True, errors="replace",
                                   stdin=subprocess.DEVNULL if words is None else subprocess.PIPE, **how)
        RUNNING.add(process)
    try:
        said, _ = process.communicate(words, timeout=max(limit, 0.01))
        return process.returncode, said
    except subprocess.TimeoutExpired:
        kill(process)
        return None, None
    except BaseException:
        kill(process)
        raise
    finally:
        RUNNING.discard(process)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()


def ask(command, limit, words=None, **how):
    """(status, standard output) of a program whose complaints nobody reads; (127, "") where there is none of this name."""
    try:
        status, said = run(command, limit, words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **how)
    except OSError:
        return 127, ""
    return status, said or ""


def end_all():
    """Kills what runs, in any thread; nothing is started afterwards."""
    with GUARD:
        ENDED.append(True)
        left = list(RUNNING)
    for process in left:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def end_with_this_program():
    """From now on to be told to end is an exception, so that what runs is killed."""
    for one in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, lambda number, _: sys.exit(128 + number))
