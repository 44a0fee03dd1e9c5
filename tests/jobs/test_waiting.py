"""The order of the queue, by hand and by property."""

from hypothesis import given
from hypothesis import strategies as st
from slipstream.executor.jobs.records import Job
from slipstream.executor.jobs.waiting import AGING, PATIENCE, Waiting


def job(name, number=None, client="a", lane="interactive", created=0.0, models=()):
    number = float(name) if number is None else number
    return Job(
        id=str(name), number=number, client=client, lane=lane, prompt={}, created=created, models=list(models)
    )


def order(*jobs, now=0.0, loaded=()):
    waiting = Waiting()
    for one in jobs:
        waiting.add(one)
    taken = []
    while (one := waiting.take(now, loaded)) is not None:
        taken.append(one.id)
    assert len(waiting) == 0
    return taken


def test_one_client_first_come_first_served():
    assert order(job(2), job(1), job(3)) == ["1", "2", "3"]


def test_in_front_the_latest_first():
    assert order(job(1), job("f1", -2), job("f2", -3), job(4)) == ["f2", "f1", "1", "4"]


def test_the_bulk_lane_waits_until_it_has_waited_long():
    jobs = [job(1, lane="bulk"), job(2), job(3)]
    assert order(*jobs, now=AGING - 1) == ["2", "3", "1"]
    assert order(*jobs, now=AGING) == ["1", "2", "3"]


def test_clients_take_turns():
    many = [job(i) for i in range(1, 5)]
    few = [job(5, client="b"), job(6, client="b"), job(7, client="c")]
    assert order(*many, *few) == ["1", "5", "7", "2", "6", "3", "4"]


def test_a_newcomer_gets_no_credit_for_the_past():
    waiting = Waiting()
    for i in range(1, 20):
        waiting.add(job(i))
    for _ in range(10):
        waiting.take(0.0)
    for i in range(30, 40):
        waiting.add(job(i, client="b"))
    assert [waiting.take(0.0).client for _ in range(6)] == ["a", "b"] * 3


def test_a_worker_takes_what_it_has_the_models_for_within_bounds():
    jobs = [job(1, models=["x"]), job(2, models=["y"]), job(3, models=["x"])]
    assert order(*jobs, loaded=["y"]) == ["2", "1", "3"]
    assert order(*jobs, loaded=["x"]) == ["1", "3", "2"]
    assert order(*jobs, loaded=["y"], now=PATIENCE + 1) == ["1", "2", "3"]
    assert order(job(1, models=["x"]), job(2, models=["y"], lane="bulk"), loaded=["y"]) == ["1", "2"]
    assert order(job("f", -1, models=["x"]), job(2, models=["y"]), loaded=["y"]) == ["f", "2"]


def test_the_list_shows_front_jobs_then_by_number():
    waiting = Waiting()
    for one in (job(1), job(2, client="b"), job("f", -3), job(4, lane="bulk"), job(5)):
        waiting.add(one)
    assert [one.id for one in waiting] == ["f", "1", "2", "5", "4"]
    assert (waiting.of("a"), waiting.of("b"), waiting.of("nobody")) == (4, 1, 0)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.sampled_from(["interactive", "bulk"]), st.sampled_from(["", "x", "y"])
    ),
    min_size=1,
    max_size=60,
)


@given(ACTIONS, st.sampled_from([(), ("x",), ("x", "y")]))
def test_nothing_is_lost_or_given_twice(actions, loaded):
    jobs = [
        job(i, client=client, lane=lane, models=[model] if model else [])
        for i, (client, lane, model) in enumerate(actions)
    ]
    assert sorted(order(*jobs, loaded=loaded)) == sorted(one.id for one in jobs)


@given(ACTIONS)
def test_nobody_starves_beside_an_endless_stream(actions):
    """With a new interactive job of another client for every one taken, all the old ones have gone by the
    time they have aged and everybody has had their turn."""
    waiting = Waiting()
    old = [job(i, client=client, lane=lane) for i, (client, lane, _) in enumerate(actions)]
    for one in old:
        waiting.add(one)
    taken = set()
    for turn in range(4 * len(old) + 4):
        waiting.add(job(1000 + turn, client="endless", created=AGING))
        taken.add(waiting.take(AGING + 1).id)
    assert {one.id for one in old} <= taken


@given(st.integers(1, 40), st.integers(1, 40))
def test_two_clients_get_the_same_as_long_as_both_wait(first, second):
    jobs = [job(i) for i in range(first)] + [job(100 + i, client="b") for i in range(second)]
    both = 2 * min(first, second)
    early = order(*jobs)[:both]
    assert abs(sum(int(name) < 100 for name in early) * 2 - both) <= 1
