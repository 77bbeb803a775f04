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

__all__ = ["Error", "collect", "compare", "dump", "dump_html", "profile", "report", "summarize", "version"]

_ERROR_BYTES = 800
_library = None


class Error(ValueError):
    """What libweir could not do, and why. net_prof raises ValueError."""


def _load():
    global _library
    if _library is None:
        given, beside = os.environ.get("WEIR_LIBRARY"), pathlib.Path(__file__).with_name("libweir.so.0")
        _library = ctypes.CDLL(given or (str(beside) if beside.exists() else "libweir.so.0"))
        text = ctypes.c_char_p
        _library.weir_version.restype = text
        _library.weir_counters_collect.argtypes = [text, text, text]
        pair = text * 2
        _library.weir_counters_summarize.argtypes = [text, text, text, ctypes.POINTER(ctypes.c_void_p), text]
        _library.weir_counters_report.argtypes = [text, text, text, text, text]
        _library.weir_counters_compare.argtypes = [pair, pair, text, pair, text, text]
        _library.weir_free.argtypes = [ctypes.c_void_p]
    return _library


def _bytes(path):
    return None if path is None else os.fsencode(path)


def _path(path):
    """A file that has to be named: None is a TypeError, not a NULL for the library."""
    return os.fsencode(path)


def _call(name, *args):
    error = ctypes.create_string_buffer(_ERROR_BYTES)
    if getattr(_load(), name)(*args, error) < 0:
        raise Error(error.value.decode(errors="replace"))


def version():
    """The version of the library."""
    return _load().weir_version().decode()


def collect(input_path=None, output_path="snapshot.json"):
    """Write a snapshot. input_path: cxi telemetry (a directory of cxi*, or one NIC's); None: every counter of this host."""
    _call("weir_counters_collect", _path(output_path), _bytes(input_path))


def _numbered(mapping):
    return {int(key): value for key, value in mapping.items()}


def summarize(before_path, after_path, metrics_path=None):
    """net_prof's summary of two snapshots, with "findings" beside it; the files are remembered for dump_html() and compare().

    metrics_path: names of the lines of text dumps, where they are not a Cassini-1's.
    """
    out = ctypes.c_void_p()
    _call("weir_counters_summarize", _path(before_path), _path(after_path), _bytes(metrics_path), ctypes.byref(out))
    try:
        summary = json.loads(ctypes.string_at(out))
    finally:
        _load().weir_free(out)
    for key in ("non_zero_per_iface", "top20_per_iface", "important_metrics"):
        summary[key] = _numbered(summary[key])
    for metric in summary["important_metrics"].values():
        metric["diffs"] = _numbered(metric["diffs"])
    summary["full_diffs"] = {(iface, number): diff for iface, number, diff in summary["full_diffs"]}
    summary["before_meta"], summary["collected"] = _collected(before_path)
    summary["after_meta"], _ = _collected(after_path)
    summary["paths"] = (os.fspath(before_path), os.fspath(after_path))
    summary["metrics_path"] = metrics_path
    return summary


def _collected(path):
    """What a file of collect() says of itself, and its list; a text dump or a snapshot of weir's own form has neither."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except ValueError:
        return {}, []
    meta = document.get("meta", {}) if isinstance(document, dict) else {}
    counters = document.get("counters", []) if isinstance(document, dict) else document
    return meta, counters if isinstance(counters, list) else []


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
    report(*summary["paths"], output_file, summary.get("metrics_path"))


def compare(summary_a, summary_b, output_file, *, label_a="Test A", label_b="Test B", min_diff=1):
    """Two summaries, of a good and a bad run: what changed, as one HTML file, and as net_prof's dictionary.

    min_diff: counters whose difference changed by less are left out of the dictionary; the page knows the noise itself.
    """
    pair = ctypes.c_char_p * 2
    _call("weir_counters_compare", pair(*map(_bytes, summary_a["paths"])), pair(*map(_bytes, summary_b["paths"])),
          _bytes(summary_a.get("metrics_path")), pair(_bytes(label_a), _bytes(label_b)), _path(output_file))
    interfaces = sorted({*summary_a["non_zero_per_iface"], *summary_b["non_zero_per_iface"]})
    changed = {}
    for key in sorted({*summary_a["full_diffs"], *summary_b["full_diffs"]}):
        old, new = summary_a["full_diffs"].get(key, 0), summary_b["full_diffs"].get(key, 0)
        if abs(new - old) >= min_diff:
            changed[key] = {"old": old, "new": new, "delta": new - old}
    return {"delta_non_zero_per_iface": {i: summary_b["non_zero_per_iface"].get(i, 0) - summary_a["non_zero_per_iface"].get(i, 0)
                                         for i in interfaces},
            "changed_metrics": changed}


def report(before_path, after_path, output_file, metrics_path=None):
    """The report of two snapshots, or (after_path None) of a record of weir: .html, .csv, .json or .txt."""
    _call("weir_counters_report", _path(before_path), _bytes(after_path), _bytes(metrics_path), _path(output_file))


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
