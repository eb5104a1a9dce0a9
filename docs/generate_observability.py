"""Write docs/OBSERVABILITY.md with the events' types: `python docs/generate_observability.py`.

A test fails when the page is not what this would write.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from compact.messages import events

PAGE = Path(__file__).with_name("OBSERVABILITY.md")

HEAD = """# Observability

<!-- Written by docs/generate_observability.py, the events from src/compact/messages/events.py. -->

compact reports what it does as events. Nothing leaves the process unless you ask for it, and no
text of a conversation leaves unless you ask for that too.

## Where events go

**A function of your own.** `on_event` is called with each event, at once and in order. What it
raises is caught.

```python
from compact import CompactManager

with CompactManager(on_event=lambda event: print(event.name)) as manager:
    messages = manager.preflight("session-1", [{"role": "user", "content": "Hello"}])
```

**Exporters**, by settings: in a file, in the environment (`COMPACT_ARIADNE_URL` and so on) or as
arguments.

| setting | exporter |
|---|---|
| `console_events: true` | JSON lines on stderr |
| `ariadne_url: http://127.0.0.1:5175` | an [Ariadne](#ariadne) server |
| `otlp_endpoint: http://127.0.0.1:4318` | an [OpenTelemetry](#opentelemetry) collector |

`CompactManager(config)` and the commands that plan a compression (`compactctl compact`,
`dry-run`, `diff`) use them. A `ContextManager`, `compress` and `plan` take an event bus:

```python
from compact import ContextManager, EventBus
from compact.telemetry.ariadne import AriadneExporter

bus = EventBus()
bus.export_to(AriadneExporter("http://127.0.0.1:5175"), linger=1.0, heartbeat=30.0)
ctx = ContextManager(window=8_192, on_event=bus.emit)
ctx.close()
bus.close()
```

**An exporter of your own** has two methods, `export(events)` and `close()` (the protocol
`compact.protocols.Exporter`; `compact.testing.check_exporter` tests it), and is added with
`bus.export_to(…)`.

An exporter gets events from a thread of its own, in batches. It never delays or breaks a call:
while 1,000 events wait for it, newer ones are dropped. Dropped events, and events that could not
be delivered, are counted in `bus.dropped`. The exporter is told by `compact.events_dropped` as
soon as it takes events again; listeners are told when the bus closes. Closing takes at most two
seconds. A bus that was not closed is closed when the program ends.

## Spans

Ariadne and OpenTelemetry get the same spans. A session is a trace. A compression is a span,
`compact.compression`, from its trigger to its end; its stages (`compact.stage.summarize` and so
on) and its events are below it. Every other event is a span without duration. Each span is sent
once, when it has ended. Calls without a session share one trace, `calls`.

The outcome of a compression is `committed`, `drafted` (in the background; it comes into
force at the trigger), `returned` (of `compress`), `failed`, or `left` (nothing was put in force).

## Ariadne

Start Ariadne (its server listens on port 5175), set `ariadne_url`, and look at
<http://localhost:5173>. The viewer shows only what arrives while it is open. Spans go to
`/ingest` in batches below 256 KiB, each request for at most two seconds. While the server does not
answer `GET /healthz`, events are dropped and counted, and it is asked again after 1, 2, 4 … 60
seconds. After 30 seconds without an event it gets a `compact.heartbeat`. With
`telemetry_content`, a summary is in `data.output`, which the viewer shows as the response.

## OpenTelemetry

Install the extra (`pip install '.[otlp]'` in a clone) and set `otlp_endpoint`. Spans go to
`/v1/traces` of that address, as protobuf over HTTP. With `otlp_endpoint: environment` the address
comes from `OTEL_EXPORTER_OTLP_ENDPOINT`. Other variables of OpenTelemetry keep their meaning:
`OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
`OTEL_TRACES_SAMPLER`, `OTEL_SDK_DISABLED` and so on.

Attributes follow the conventions for generative AI where they have a name:
`gen_ai.conversation.id`, `gen_ai.request.model`, `gen_ai.operation.name`,
`gen_ai.usage.input_tokens`, `error.type`. All others are the fields below, named `compact.…`.

compact sends no metrics. A collector makes them from the spans, such as by its
[span metrics connector](https://github.com/open-telemetry/opentelemetry-collector-contrib/tree/main/connector/spanmetricsconnector).
The span `compact.compression` has `compact.tokens_before`, `compact.tokens_after`,
`compact.outcome` and its duration.

## Privacy

- Fields marked *content* below may quote the conversation, or a model or server that was told of
  it. Exporters get them empty unless `telemetry_content` is on. Listeners in your process always
  get them.
- Secrets in all fields are replaced before any exporter gets an event (`redact`). If that
  setting is off they leave as they are, and the first event is `compact.redaction_off`.
- Counts, times, ids of sessions and checkpoints, names of models and paths of archives are always
  sent.
- The policy of `compact.trigger_decision` is sent without `guidance`, which is your own text;
  `guided` says that there is some.
- The command line takes an address on another machine from an option, the environment or a
  settings file that you name, never from the `.env` of a folder alone.

## Events

Every event has a `name`, a `session_id` (empty outside of a session) and a time, `at`.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(f"\n{each}" for each in _events())


def _events() -> Iterator[str]:
    tree = ast.parse(inspect.getsource(events))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name != "Event":
            yield _event(node)


def _event(node: ast.ClassDef) -> str:
    told = " ".join((ast.get_docstring(node) or "").split())
    lines = [f"### {getattr(events, node.name).name}", "", told]
    if rows := list(_rows(node)):
        lines += ["", "| field | type | what |", "|---|---|---|", *rows]
    return "\n".join(lines) + "\n"


def _rows(node: ast.ClassDef) -> Iterator[str]:
    for i, each in enumerate(node.body):
        if not isinstance(each, ast.AnnAssign) or not isinstance(each.target, ast.Name):
            continue
        kind = ast.unparse(each.annotation)
        if kind.startswith("ClassVar"):
            continue
        mark = "*Content.* " if "CONTENT" in ast.dump(each) else ""
        what = (mark + _docstring(node.body[i + 1 :])).strip()
        kind = kind.replace("|", "\\|")
        yield f"| `{each.target.id}` | `{kind}` | {what} |".replace("  ", " ")


def _docstring(following: list[ast.stmt]) -> str:
    """The text below a field."""
    match following:
        case [ast.Expr(value=ast.Constant(value=str() as text)), *_]:
            return " ".join(text.split())
    return ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
    print(f"wrote {PAGE}")
