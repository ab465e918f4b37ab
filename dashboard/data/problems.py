"""Why there is no answer of the collector, as sentences for people."""

import http
from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

from dashboard.data.filters import DIMENSIONS


class Problem(Exception):
    """Why there is no answer, as a sentence for people.

    `state` is one of away, token, refused, slow, unanswered (a change that may have been made), missing, older.
    """

    def __init__(self, state: str, sentence: str) -> None:
        super().__init__(sentence)
        self.state = state
        self.sentence = sentence


def problem(response: httpx.Response) -> Problem:
    error = _error(response)
    said = str(error.get("message") or "")
    match response.status_code:
        case 401 | 403:
            said = "The collector wants a query token. Set MISSTEP_QUERY_TOKEN where the dashboard runs."
            return Problem("token", said)
        case 404 if said == http.HTTPStatus.NOT_FOUND.phrase:  # an unknown address; a missing thing is named
            return _older(response.url.path.partition("/api/v1/")[2])
        case 404:
            return Problem("missing", said or "The collector does not know this.")
        case 400 if error.get("parameter") not in {None, "from", "to", "q", *DIMENSIONS}:  # chosen by a page
            return _older(f"{error['parameter']}={error.get('value')}")
        case 503 | 504:
            return Problem("slow", said or "The collector is busy. Narrow the range.")
    return Problem("refused", said or f"The collector answered {response.status_code}.")


def refused(response: httpx.Response) -> Problem:
    """Why the rule file was not changed, in the collector's own words."""
    said = str(_error(response).get("message") or f"The collector answered {response.status_code}.")
    return Problem("refused", said[:1].upper() + said[1:])


def _older(what: str) -> Problem:
    return Problem("older", f"The collector is older than this page: it does not know {what}. A newer one does.")


def _error(response: httpx.Response) -> Mapping[str, Any]:
    """The error in the API's answer, `{"error": {"message": …}}`."""
    try:
        said = msgspec.json.decode(response.content)
    except msgspec.DecodeError:
        return {}
    error = said.get("error") if isinstance(said, dict) else None
    return error if isinstance(error, dict) else {}
