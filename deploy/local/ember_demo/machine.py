"""Says on what machine and with what the figures were taken."""

import os
import platform
import re


def describe(engine, model):
    return {
        "processor": _first(r"model name\s*:\s*(.+)", "/proc/cpuinfo") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": _memory(),
        "system": _first(r'PRETTY_NAME="(.+)"', "/etc/os-release") or platform.system(),
        "kernel": platform.release(),
        "load before": f"{os.getloadavg()[0]:.2f}",
        "engine": _first(r"(.+) for processor", os.path.join(os.path.dirname(engine), "stamp"))
        or os.path.basename(engine),
        "model": os.path.basename(model),
    }


def _first(pattern, path):
    try:
        with open(path, encoding="utf-8") as file:
            found = re.search(pattern, file.read())
    except OSError:
        return ""
    return found.group(1).strip() if found else ""


def _memory():
    kib = _first(r"MemTotal:\s*(\d+)", "/proc/meminfo")
    return f"{int(kib) / 2**20:.1f} GiB" if kib else "unknown"
