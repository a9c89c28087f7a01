"""Faults on purpose: what --inject and --isa make of the real program, seen from outside."""
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from serving import serving

OFF = {"step_stall_ms": 0, "front_end_block_ms": 0, "router_bias": 0}
# Of data/tiny: through one expert of 32 go at most all tokens, of which each has 4 experts.
MOST_UNEVEN = 32 / 4


def metric(server, name):
    found = re.search(rf"^nibble:{name}(?:\{{[^}}]*\}})? (\S+)$", server.ask("/metrics")[1], re.M)
    return float(found[1]) if found else None


def answers(server, users, each, tokens):
    """So many users at once, so many requests each; s."""
    def user(number):
        for _ in range(each):
            server.post("/v1/completions", prompt=f"{number} of many", max_tokens=tokens, ignore_eos=True, seed=number)

    begin = time.monotonic()
    with ThreadPoolExecutor(users) as pool:
        list(pool.map(user, range(users)))
    return time.monotonic() - begin


def test_nothing_is_injected_unless_asked_and_what_is_shows(binary, nibble):
    with serving(binary) as server:
        assert server.first["inject"] == OFF
        assert server.first["model"]["isa"] == server.first["model"]["best_isa"]
    with serving(binary, "--inject", "step_stall_ms=1,router_bias=2", "--inject", "front_end_block_ms=0.5") as server:
        shown = {"step_stall_ms": 1, "front_end_block_ms": 0.5, "router_bias": 2}
        assert server.first["inject"] == shown
        assert json.loads(server.ask("/server_info")[1])["inject"] == shown
        server.process.kill()
        assert server.process.stderr.read() == (
            "nibble serve: faults on purpose (--inject): step_stall_ms=1, front_end_block_ms=0.5, router_bias=2\n")


@pytest.mark.parametrize("word", ["slow_kernels=1", "step_stall_ms", "step_stall_ms=x", "step_stall_ms=-1", "",
                                  "front_end_block_ms=1e9", "router_bias=nan", "router_bias=1,router_bias=2"])
def test_wrong_faults_are_refused(nibble, word):
    result = nibble("serve", "--inject", word)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.count("\n") == 1 and "--inject" in result.stderr


def test_kernels_of_an_older_instruction_set(binary, nibble):
    with serving(binary, "--isa", "portable") as server:
        model = server.first["model"]
        assert model["isa"] == "portable"
        answer = server.post("/v1/completions", prompt="Once", max_tokens=4, ignore_eos=True)
        assert answer["usage"]["completion_tokens"] == 4
    if model["best_isa"] != "avx512":
        result = nibble("serve", "--isa", "avx512")
        assert result.returncode == 2 and model["best_isa"] in result.stderr
        assert result.stderr.count("\n") == 1


def test_a_bias_of_the_router_makes_one_expert_hot(binary):
    ratios = []
    for bias in (0, 3, 100):
        with serving(binary, "--inject", f"router_bias={bias}") as server:
            assert metric(server, "expert_load_ratio") is None  # no second of steps has passed
            end = time.monotonic() + 20
            while metric(server, "expert_load_ratio") is None and time.monotonic() < end:
                answers(server, 4, 1, 100)
            ratios.append(metric(server, "expert_load_ratio"))
    assert 1 <= ratios[0] < ratios[1] <= ratios[2] == pytest.approx(MOST_UNEVEN)


def test_a_stall_between_steps_is_no_part_of_them(binary):
    """Between the 24 steps of an answer lie 23 stalls of 20 ms; the steps themselves are as long as ever."""
    with serving(binary, "--inject", "step_stall_ms=20") as server:
        wall_s = answers(server, 1, 3, 24)
        steps, in_steps_s = metric(server, "engine_steps_total"), metric(server, "engine_step_seconds_total")
    assert steps == 3 * 24
    assert wall_s >= 3 * 23 * 0.020
    assert in_steps_s <= wall_s - 3 * 23 * 0.020


def test_a_slow_front_end_holds_requests_that_the_engine_has_done(binary):
    """8 users of 20 tokens: 8 arrivals and 160 updates of 5 ms on one loop, 0.84 s, whatever the engine does."""
    with serving(binary, "--inject", "front_end_block_ms=5") as server:
        wall_s = answers(server, 8, 1, 20)
        in_steps_s = metric(server, "engine_step_seconds_total")
        assert server.comes_to_rest()
    assert wall_s >= 8 * 21 * 0.005
    assert in_steps_s < wall_s
