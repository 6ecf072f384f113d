"""Log lines, written by a thread of their own: where nobody reads the log, nothing else waits for it."""

import logging
import os
import threading
from queue import Empty, Full, Queue

MOST = 10_000  # lines that wait
END = 1.0  # seconds for which the end of the process waits until all is written


class Lines(logging.Handler):
    """Writes records to a file descriptor. Those for which there is no room are lost; a later line says how many."""

    def __init__(self, file: int, most: int = MOST) -> None:
        super().__init__()
        self._file, self._waiting = file, Queue[str](most)
        self._dropped, self._failed = 0, 0  # lines that were lost: no room, and not written
        self._stuck, self._torn = False, False  # torn: the last line that was written has no end
        threading.Thread(target=self._work, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a line to the thread."""
        try:
            self._waiting.put_nowait(self.format(record) + "\n")
        except Full:
            self._dropped += 1
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Wait until all is written, when the process ends. If that takes too long, the rest is dropped."""
        if self._stuck:
            return
        with (done := self._waiting.all_tasks_done):
            self._stuck = not done.wait_for(lambda: not self._waiting.unfinished_tasks, END)
        if self._stuck:  # else whatever writes there next would wait, too
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._file)
            os.close(nowhere)

    def _work(self) -> None:
        reported = 0
        while lines := self._next():
            self._failed += self._unwritten("".join(lines))
            if (lost := self._dropped + self._failed) > reported:
                facts = {"levelname": "WARNING", "msg": "lines lost", "facts": {"count": lost - reported}}
                if not self._unwritten(self.format(logging.makeLogRecord(facts)) + "\n"):
                    reported = lost
            for _ in lines:
                self._waiting.task_done()

    def _next(self) -> list[str]:
        """All lines that wait: one by one, each would have to wait for its turn among the threads."""
        lines = [self._waiting.get()]
        try:
            while len(lines) < MOST:
                lines.append(self._waiting.get_nowait())
        except Empty:
            pass
        return lines

    def _unwritten(self, text: str) -> int:
        """Write lines; how many of them the file did not take."""
        rest = (b"\n" if self._torn else b"") + text.encode()
        try:
            while rest:
                written = os.write(self._file, rest)
                self._torn, rest = rest[written - 1 : written] != b"\n", rest[written:]
        except OSError:  # a reader that has gone, a full disk
            pass
        return min(text.count("\n"), rest.count(b"\n"))
