"""Programs that may hang: each ends by its time, with all that it started."""
import contextlib
import os
import signal
import subprocess


class Ran:
    """How a program ended: its code, None where it was ended for not answering, and what it said."""

    def __init__(self, line: list[str], seconds: float, environment: dict[str, str]):
        with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=environment, start_new_session=True) as process:
            self.code, (self.out, self.error) = self.wait(process, seconds)

    @staticmethod
    def wait(process: subprocess.Popen, seconds: float) -> tuple[int | None, tuple[str, str]]:
        """Asks it to end when its time is over, then ends it with all that it started."""
        try:
            said = process.communicate(timeout=max(1.0, seconds))
            return process.returncode, said
        except subprocess.TimeoutExpired:
            for ending in (signal.SIGINT, signal.SIGKILL):
                os.killpg(process.pid, ending)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return None, process.communicate(timeout=5)
            return None, ("", "")
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
