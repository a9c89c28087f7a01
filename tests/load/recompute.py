"""The numbers of a level once more, in plain Python, from its rows.

Nothing here is taken from src/load: the definitions are those of docs/load_metrics.md, the formulas those of
numpy (linear percentiles, standard deviation of the population). `level(rows)` gives the members of a level
of nibble.load/1; what a level does not have is None.
"""
import math

LATENCIES = ("ttft", "ttfr", "ttfo", "tpot", "tpot_with_first", "tpot_last_byte", "tpot_after_first_chunk",
             "itl", "token_itl", "request_itl", "llmperf_itl", "e2el", "e2e_latency", "client_queue",
             "connect", "sched_ttft", "sched_ttfo", "sched_e2el", "sched_e2e_latency")
PERCENTILES = (50, 90, 95, 99)


def ms(nanoseconds):
    return nanoseconds / 1e6


def at_position(ordered, position):
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def percentile(values, p):
    """numpy.percentile(values, p)."""
    ordered = sorted(values)
    return at_position(ordered, p / 100 * (len(ordered) - 1))


def statistics_of(values):
    if not values:
        return dict.fromkeys(["mean", "median", "std", "min", "max"] + [f"p{p}" for p in PERCENTILES])
    mean = math.fsum(values) / len(values)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    found = {"mean": mean, "std": std, "min": min(values), "max": max(values)}
    found["median"] = percentile(values, 50)
    return {**found, **{f"p{p}": percentile(values, p) for p in PERCENTILES}}


def binomial_at_most(n, q, k):
    """P(B <= k) for B ~ Binomial(n, q)."""
    return math.fsum(math.comb(n, i) * q ** i * (1 - q) ** (n - i) for i in range(0, k + 1))


def ranks(n, q):
    """The order statistics, counted from 1, around the q-quantile: 2.5 % at most on each side. None where
    no such pair exists with room on both sides."""
    low = max((r for r in range(1, n + 1) if binomial_at_most(n, q, r - 1) <= 0.025), default=None)
    high = next((r for r in range(1, n + 1) if binomial_at_most(n, q, r - 1) >= 0.975), None)
    return (low, high) if low and high else None


def output_tokens(row):
    """(count, source): the server's own, else what its events told, else ours, else one an event."""
    if row.output_tokens:
        return row.output_tokens, "continuous_usage" if row.token_source == "continuous_usage" else "usage"
    if row.output_tokens == 0 and not row.at:
        return 0, "usage"
    told = sum(tokens or 0 for tokens in row.tokens)
    if row.token_source == "continuous_usage" and told:
        return told, "continuous_usage"
    if row.counted_tokens is not None:
        return row.counted_tokens, "tokenizer"
    return len(row.at), "events"


def tokens_of_events(row):
    """Of each event, or None where that is not known."""
    if not row.at or not row.streamed:
        return None
    if row.token_source == "continuous_usage":
        told = [tokens or 0 for tokens in row.tokens]
        return told if sum(told) else None
    count, source = output_tokens(row)
    return [1] * count if source != "events" and count == len(row.at) else None


def latencies_of(row):
    """Of one success, ms: {name: [values]}, those that it has."""
    found = {}
    count, _ = output_tokens(row)
    sent = row.sent_ns
    last = row.at[-1] if row.at else row.end_ns
    if row.first_byte_ns is not None:
        found["ttfr"] = [ms(row.first_byte_ns - sent)]
    found["e2e_latency"] = [ms(row.end_ns - sent)]
    found["e2el"] = [ms(last - sent)]
    if count:
        found["tpot_with_first"] = [ms(last - sent) / count]
    output = None
    if row.streamed and row.at:
        first = row.at[0]
        found["ttft"] = [ms(first - sent)]
        output = next((at for at, kind in zip(row.at, row.kinds) if kind != "reasoning"), None)
        if output is not None:
            found["ttfo"] = [ms(output - sent)]
        found["llmperf_itl"] = [ms(last - sent) / len(row.at)]
        if len(row.at) > 1:
            found["request_itl"] = [ms(last - first) / (len(row.at) - 1)]
            found["itl"] = [ms(b - a) for a, b in zip(row.at, row.at[1:])]
        if count > 1:
            found["tpot"] = [ms(last - first) / (count - 1)]
            found["tpot_last_byte"] = [ms(row.end_ns - first) / (count - 1)]
        each = tokens_of_events(row)
        if each and count > 1 and count > each[0]:
            found["tpot_after_first_chunk"] = [ms(last - first) / (count - each[0])]
        if each and len(row.at) > 1:
            found["token_itl"] = token_gaps(row.at, each)
    if row.scheduled_ns is not None:
        for name, at in (("ttft", row.at[0] if "ttft" in found else None), ("ttfo", output),
                         ("e2el", last), ("e2e_latency", row.end_ns)):
            if at is not None:
                found["sched_" + name] = [ms(at - row.scheduled_ns)]
    return found


def token_gaps(at, each):
    gaps, since = [], at[0]
    for time, tokens in list(zip(at, each))[1:]:
        if tokens:
            gaps += [ms(time - since) / tokens] * tokens
            since = time
    return gaps


def sweep(rows, begin, stop):
    """(mean, peak) of the requests between send and last byte, within [begin, stop]."""
    moments = sorted([(row.sent_ns, 1) for row in rows] + [(row.end_ns, -1) for row in rows])
    flying, peak, area, since = 0, 0, 0, begin
    for at, change in moments:
        clipped = min(max(at, begin), stop)
        if clipped > since:
            area += flying * (clipped - since)
            peak = max(peak, flying)
            since = clipped
        flying += change
    return area / (stop - begin), peak


def best_second(rows):
    """Most tokens in a second that begins at a tenth; where a chunk's tokens are not known, even shares."""
    tenths = {}
    for row in rows:
        count, _ = output_tokens(row)
        at = row.at or [row.end_ns]
        each = tokens_of_events(row) or [count / len(at)] * len(at)
        for time, tokens in zip(at, each):
            tenths[time // 10 ** 8] = tenths.get(time // 10 ** 8, 0) + tokens
    return max(math.fsum(tenths.get(start + i, 0) for i in range(10))
               for tenth in tenths for start in [tenth - 9])


def latencies(rows, ok):
    pooled = {name: [] for name in LATENCIES}
    for row in ok:
        for name, values in latencies_of(row).items():
            pooled[name] += values
    for row in rows:  # these two tell of the client, whatever the server answered
        if row.sent_ns is not None and row.scheduled_ns is not None:
            pooled["client_queue"].append(ms(max(0, row.sent_ns - row.scheduled_ns)))
        if row.sent_ns is not None and row.connected_anew:
            pooled["connect"].append(ms(row.connect_ns))
    return pooled


def statistics_by_name(pooled):
    found = {}
    for name, values in pooled.items():
        for statistic, value in statistics_of(values).items():
            found[f"{statistic}_{name}_ms"] = value
            if name == "itl":
                found[f"{statistic}_icl_ms"] = value
    return found


def tokens_of(ok):
    """The counts of output and input, by source."""
    counts = [output_tokens(row) for row in ok]
    usage = [row.output_tokens for row in ok]
    counted = [row.counted_tokens for row in ok]
    sources = {name: sum(source == name for _, source in counts)
               for name in ("continuous_usage", "usage", "tokenizer", "events")}
    used = [name for name, count in sources.items() if count]
    chunks = sum(len(row.at) for row in ok)
    total = sum(count for count, _ in counts)
    return {
        "total_output_tokens": total,
        "total_input_tokens": sum(
            row.prompt_tokens_asked if row.prompt_tokens is None else row.prompt_tokens for row in ok),
        "token_sources": sources,
        "token_source": None if not used else used[0] if len(used) == 1 else "mixed",
        "token_counts": {"usage": sum(usage) if ok and all(usage) else None,
                         "tokenizer": sum(counted) if ok and None not in counted else None,
                         "asked": sum(row.output_tokens_asked for row in ok) if ok else None,
                         "chunks": chunks},
        "tokens_per_chunk": total / chunks if chunks else None,
        "one_token_outputs": sum(count == 1 for count, _ in counts)}


def goodput(ok, limits):
    """(good, strict) by vLLM's rule: at most the limit; one token has no time per token and passes."""
    good = strict = 0
    for row in ok:
        values = {name: found[0] for name, found in latencies_of(row).items()
                  if name in ("ttft", "tpot", "request_itl", "e2el")}
        one = output_tokens(row)[0] == 1
        held = all((one and name in ("tpot", "itl"))
                   or values.get("request_itl" if name == "itl" else name, math.inf) <= limit
                   for name, limit in limits.items())
        good += held
        strict += held and not (one and ("tpot" in limits or "itl" in limits))
    return good, strict


def arrivals(rows):
    """(when, tokens) of all that came, by the share of each event; what we cancelled was real output too."""
    for row in rows:
        if not (row.ok or row.outcome == "cancelled"):
            continue
        count, _ = output_tokens(row)
        at = row.at or [row.end_ns]
        each = tokens_of_events(row) or [count / len(at)] * len(at)
        yield from zip(at, each)


def drift(rows, begin, end):
    """{"rate_drift": ...} of this window; whoever has a steady one asks for that."""
    third = (end - begin) // 3
    first = math.fsum(tokens for at, tokens in arrivals(rows) if begin < at <= begin + third)
    last = math.fsum(tokens for at, tokens in arrivals(rows) if end - third < at <= end)
    return {"rate_drift": last / first - 1 if end - begin >= 3e9 and first > 0 else None}


def level(rows, limits=None):
    """The members of a level; `rows` are those of the level, warm-ups left out."""
    ok = [row for row in rows if row.ok]
    cancelled = [row for row in rows if row.outcome == "cancelled"]
    failed = [row for row in rows if not row.ok and row.outcome != "cancelled"]
    sent = [row for row in rows if row.sent_ns is not None]
    begin, end = min(row.sent_ns for row in sent), max(row.end_ns for row in sent)
    duration = (end - begin) / 1e9
    mean, peak = sweep(sent, begin, end)
    classes = sorted({row.outcome for row in rows} - {"ok"})
    tokens = tokens_of(ok)
    scheduled = [row.scheduled_ns for row in rows if row.scheduled_ns is not None]
    found = {
        "num_requests": len(rows), "completed": len(ok), "failed": len(failed), "cancelled": len(cancelled),
        "success_ratio": len(ok) / (len(ok) + len(failed)) if ok or failed else None,
        "errors_by_class": {name: sum(row.outcome == name for row in rows) for name in classes},
        "duration": duration,
        "duration_from_schedule": (end - min(scheduled)) / 1e9 if scheduled else duration,
        "request_throughput": len(ok) / duration,
        "output_throughput": tokens["total_output_tokens"] / duration,
        "input_throughput": tokens["total_input_tokens"] / duration,
        "total_token_throughput":
            (tokens["total_output_tokens"] + tokens["total_input_tokens"]) / duration,
        "concurrency": math.fsum(row.end_ns - row.sent_ns for row in ok) / 1e9 / duration,
        "mean_in_flight": mean, "max_concurrent_requests": peak,
        "not_streamed": sum(not row.streamed or not row.at for row in ok),
        "new_connections": sum(row.connected_anew for row in rows),
        "repeated_prompts": sum(row.prompt_repeated for row in rows) / len(rows),
        **tokens, **statistics_by_name(latencies(rows, ok))}
    found["total_throughput"] = found["total_token_throughput"]
    if any(row.at for row in ok):
        last = max(row.at[-1] for row in ok if row.at)
        found["duration_to_last_token"] = (last - begin) / 1e9
    if duration >= 1 and found["not_streamed"] < len(ok):
        found["max_output_tokens_per_s"] = best_second([row for row in rows if row.ok or row in cancelled])
    if limits:
        good, strict = goodput(ok, limits)
        found["request_goodput"] = good / duration
        found["goodput"] = {"good": good, "strict": strict, "of_sent": good / len(rows),
                            "of_finished": good / (len(ok) + len(failed)), "of_ok": good / len(ok)}
    return found


def window(rows, begin, stop):
    """The members of steady{} for its window: requests that were sent and ended in it, tokens that came. What
    comes at the very start belongs to the time before, what comes at the very stop to the window."""
    inside = [row for row in rows if row.sent_ns is not None and row.sent_ns >= begin and row.end_ns <= stop]
    ok = [row for row in inside if row.ok]
    length = (stop - begin) / 1e9
    came = math.fsum(tokens for at, tokens in arrivals(rows) if begin < at <= stop)
    ended = sum(row.ok and begin < row.end_ns <= stop for row in rows)
    mean, peak = sweep([row for row in rows if row.sent_ns is not None], begin, stop)
    return {"completed": len(ok), "duration": length, "output_throughput": came / length,
            "request_throughput": ended / length, "mean_in_flight": mean,
            "max_concurrent_requests": peak, **statistics_by_name(latencies(inside, ok))}


def compare(document, expected):
    """What differs, as text: empty when the document agrees to 1e-9 (1e-6 ms, below a nanosecond)."""
    wrong = []
    for name, value in expected.items():
        if name not in document:
            wrong.append(f"{name} is missing, expected {value}")
        elif isinstance(value, dict):
            wrong += [f"{name}.{text}" for text in compare(document[name], value)]
        elif isinstance(value, float):
            given = document[name]
            if given is None or not math.isclose(given, value, rel_tol=1e-9, abs_tol=1e-6):
                wrong.append(f"{name} is {given}, expected {value}")
        elif document[name] != value:
            wrong.append(f"{name} is {document[name]}, expected {value}")
    return wrong
