"""What linattn promises beside numbers: errors, graphs, streams, compilation, threads, devices.

Runs test_errors.py and test_torch.py with pytest on a device, and reports.

Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import common

HERE = Path(__file__).resolve().parent


class Outcomes:
    """A pytest plugin: notes what became of the tests."""

    def __init__(self, report: common.Report) -> None:
        self.report = report
        self.skipped: list[str] = []

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Generator[None, Any, None]:
        result = (yield).get_result()
        if result.outcome == "skipped":
            self.skipped.append(f"{item.name}: {call.excinfo.value}" if call.excinfo else item.name)
        elif call.when == "call" or result.outcome == "failed":
            facts = {"seconds": round(result.duration, 2)}
            if call.excinfo and result.outcome == "failed":
                facts["message"] = f"{call.excinfo.typename}: {call.excinfo.value}"[:800]
            self.report.add(item.name, result.outcome == "passed", **facts)


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("-k", default="", help="only tests that pytest selects by this expression")
    options = parser.parse_args()
    os.environ["LINATTN_TEST_DEVICE"] = options.device
    sys.path.insert(0, str(HERE))
    report = common.Report("contract", options)
    plugin = Outcomes(report)
    arguments = ["-q", "-q", "--no-header", "--no-summary", "-p", "no:cacheprovider"]
    arguments += [f"--rootdir={HERE}", "-k", options.k]
    files = [str(HERE / name) for name in ("test_errors.py", "test_torch.py")]
    status = pytest.main([*arguments, *files], plugins=[plugin])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        report.add("collection", False, message=f"pytest: {status!r}")
    return report.finish(f"{len(plugin.skipped)} skipped", skipped=plugin.skipped)


if __name__ == "__main__":
    sys.exit(main())
