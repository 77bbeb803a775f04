# SPDX-License-Identifier: BSD-3-Clause
"""Counters of this host's NICs: collected, compared, explained. A thin layer over libweir, no other package.

    import weir

    with weir.profile("report.html"):
        train_one_epoch()

net_prof's functions are here with its arguments and results, so that `import weir as net_prof` runs its examples:

    weir.collect("/sys/class/cxi/", "before.json")
    ...
    weir.collect("/sys/class/cxi/", "after.json")
    summary = weir.summarize("before.json", "after.json")
    weir.dump(summary)
    weir.dump_html(summary, "report.html")

The library is found by WEIR_LIBRARY, beside this module, or by the system's loader.
"""
import contextlib
import ctypes
import json
import os
import pathlib
import tempfile

__all__ = ["Error", "collect", "dump", "dump_html", "profile", "report", "summarize", "version"]

_ERROR_BYTES = 800
_library = None


class Error(RuntimeError):
    """What libweir could not do, and why."""


def _load():
    global _library
    if _library is None:
        given, beside = os.environ.get("WEIR_LIBRARY"), pathlib.Path(__file__).with_name("libweir.so.0")
        _library = ctypes.CDLL(given or (str(beside) if beside.exists() else "libweir.so.0"))
        text = ctypes.c_char_p
        _library.weir_version.restype = text
        _library.weir_counters_collect.argtypes = [text, text, text]
        _library.weir_counters_summarize.argtypes = [text, text, ctypes.POINTER(ctypes.c_void_p), text]
        _library.weir_counters_report.argtypes = [text, text, text, text]
        _library.weir_free.argtypes = [ctypes.c_void_p]
    return _library


def _bytes(path):
    return None if path is None else os.fsencode(path)


def _call(name, *args):
    error = ctypes.create_string_buffer(_ERROR_BYTES)
    if getattr(_load(), name)(*args, error) < 0:
        raise Error(error.value.decode(errors="replace"))


def version():
    """The version of the library."""
    return _load().weir_version().decode()


def collect(input_path=None, output_path="snapshot.json"):
    """Write a snapshot. input_path: cxi telemetry (a directory of cxi*, or one NIC's); None: every counter of this host."""
    _call("weir_counters_collect", _bytes(output_path), _bytes(input_path))


def _numbered(mapping):
    return {int(key): value for key, value in mapping.items()}


def _whole(number):
    return int(number)


def summarize(before_path, after_path):
    """net_prof's summary of two snapshots, with "findings" beside it; the files are remembered for dump_html()."""
    out = ctypes.c_void_p()
    _call("weir_counters_summarize", _bytes(before_path), _bytes(after_path), ctypes.byref(out))
    try:
        summary = json.loads(ctypes.string_at(out))
    finally:
        _load().weir_free(out)
    summary["non_zero_per_iface"] = _numbered(summary["non_zero_per_iface"])
    summary["top20_per_iface"] = _numbered(summary["top20_per_iface"])
    summary["important_metrics"] = _numbered(summary["important_metrics"])
    for rows in summary["top20_per_iface"].values():
        for row in rows:
            row["diff"] = _whole(row["diff"])
    for metric in summary["important_metrics"].values():
        metric["diffs"] = {int(key): _whole(value) for key, value in metric["diffs"].items()}
    summary["collected"] = _collected(before_path)
    summary["paths"] = (os.fspath(before_path), os.fspath(after_path))
    return summary


def _collected(path):
    """The list that collect() wrote; a text dump or a snapshot of weir's own form has none."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except ValueError:
        return []
    if isinstance(document, dict):
        document = document.get("counters", [])
    return document if isinstance(document, list) else []


def dump(summary):
    """Print tables: what differs in all, for each interface, the largest, and those that count."""
    print(f"Total non-zero differences: {summary['total_non_zero']}\n")
    for iface, count in sorted(summary["non_zero_per_iface"].items()):
        print(f"  interface {iface:>3}: {count}")
    for iface, rows in sorted(summary["top20_per_iface"].items()):
        moved = [row for row in rows if row["diff"]]
        print(f"\nInterface {iface}: the largest {len(moved)} of {summary['non_zero_per_iface'].get(iface, 0)}")
        for rank, row in enumerate(moved, 1):
            print(f"  {rank:>3}  {row['metric_id']:>5}  {row['metric_name']:<44} {row['diff']:>20}")
    interfaces = sorted(summary["non_zero_per_iface"])
    print("\nImportant metrics\n" + " " * 52 + "".join(f"{i:>16}" for i in interfaces))
    for number, metric in sorted(summary["important_metrics"].items()):
        cells = "".join(f"{metric['diffs'].get(i, '-'):>16}" for i in interfaces)
        print(f"  {number:>5}  {metric['metric_name']:<44}{cells}")
    for finding in summary.get("findings", ()):
        print(f"\n{finding['severity']}: {finding['text']}\n  {finding['means']}\n  {finding['advice']}")


def dump_html(summary, output_file="report.html"):
    """The whole report as one HTML file."""
    report(*summary["paths"], output_file)


def report(before_path, after_path, output_file):
    """The report of two snapshots, or (after_path None) of a record of weir: .html, .csv, .json or .txt."""
    _call("weir_counters_report", _bytes(before_path), _bytes(after_path), _bytes(output_file))


@contextlib.contextmanager
def profile(output_file="report.html"):
    """All counters of this host around a block, as a report; also when the block raises."""
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        before, after = os.path.join(folder, "before.json"), os.path.join(folder, "after.json")
        collect(None, before)
        try:
            yield
        finally:
            collect(None, after)
            report(before, after, output_file)
