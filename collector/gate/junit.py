"""The verdict as JUnit XML: a case for each measure, and one for each task, skipped where it was not tried."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, tostring

from collector.gate.verdict import FAILED, UNTOLD, Gate
from collector.visible import visible

UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # for XML 1.0
CLASS = "misstep.gate"


def junit(gate: Gate) -> bytes:
    """An XML document with one suite."""
    cases = [_case(row.measure, row.sentence, failed=gate.state == FAILED and row.fails, beside=row.beyond)
             for row in gate.rows]  # fmt: skip
    if gate.state == UNTOLD:
        cases.append(_case("verdict", gate.sentence, error=True))
    cases += [_case(f"task {one}", "no trial of this run counts", skipped=True) for one in gate.paired.missing]
    cases += [_case(f"task {one.name}", "unstable on the baseline" if one.name in gate.unstable else "")
              for one in gate.paired.tasks if one.name]  # fmt: skip
    suite = Element("testsuite", name="misstep gate", tests=str(len(cases)))
    for kind in ("failure", "error", "skipped"):
        word = kind if kind == "skipped" else f"{kind}s"
        suite.set(word, str(sum(case.find(kind) is not None for case in cases)))
    suite.extend(cases)
    SubElement(suite, "system-out").text = _fit("\n".join((gate.sentence, *gate.warnings)))
    found: bytes = tostring(suite, encoding="utf-8", xml_declaration=True)
    return found


def _case(
    name: str, told: str, *, failed: bool = False, error: bool = False, skipped: bool = False, beside: str = ""
) -> Element:
    case = Element("testcase", classname=CLASS, name=_fit(name), time="0")
    kind = "failure" if failed else "error" if error else "skipped" if skipped else ""
    if kind:
        SubElement(case, kind, message=_fit(", ".join(one for one in (beside, told) if one)))
    elif told:
        SubElement(case, "system-out").text = _fit(told)
    return case


def _fit(text: str) -> str:
    return UNFIT.sub("?", visible(text))
