#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a train program and draws its steps as a progress bar: progress.py PROGRAM ARGUMENT...

The program is told --records: a line that begins with U+001E is a step (done, all, loss, tokens per second, time left) or the
end of all steps, every other line is its ordinary output, which is passed on above the bar. Its exit status becomes ours.
"""
import signal
import subprocess
import sys

from tqdm import tqdm

FORMAT = "{desc} |{bar}|"


def main(command):
    # A Ctrl-C reaches the program too, which ends in its own time; the bar stays until then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    program = subprocess.Popen([*command, "--records"], stdout=subprocess.PIPE, text=True, errors="replace", bufsize=1,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    bar = None
    for line in program.stdout:
        if line == "\x1eend\n":
            if bar is not None:
                bar.close()
                bar = None
        elif line.startswith("\x1e"):
            done, steps, loss, speed, left = line[1:].split()
            if bar is None:
                bar = tqdm(total=int(steps), file=sys.stdout, bar_format=FORMAT, dynamic_ncols=True, mininterval=0.1)
            bar.set_description_str(f"step {done}/{steps}  loss {loss}  {float(speed):,.0f} tokens/s  {left} left",
                                    refresh=False)
            bar.update(int(done) - bar.n)
        elif bar is not None:
            bar.write(line.rstrip("\n"))
        else:
            sys.stdout.write(line)
            sys.stdout.flush()
    if bar is not None:
        bar.close()
    status = program.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
