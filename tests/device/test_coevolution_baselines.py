"""Synthetic families obey their Potts model, the baselines are what their formulas say, and measures count right."""

from __future__ import annotations

import itertools
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy.optimize import minimize

import shadergrad as sg
from shadergrad.models import coevolution as co
from shadergrad.models.coevolution import dca, similarity, synthetic
from shadergrad.models.coevolution.positive_inverse import positive_inverse

# --- families


def test_the_potential_is_shared_symmetric_and_says_nothing_of_single_residues() -> None:
    physics = co.Physics(coupling=0.8)
    table = physics.potential()
    assert np.array_equal(table, physics.potential())
    np.testing.assert_allclose(table, table.T)
    np.testing.assert_allclose(table.mean(0), 0, atol=1e-12)
    assert table.std() == pytest.approx(0.8)


def test_sampled_pairs_have_the_frequencies_of_the_potts_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two touching residues, whose joint distribution is exp(h + h + J) over its sum."""
    monkeypatch.setattr(synthetic, "HELIX", ())
    sampler = synthetic.Sampler(np.random.default_rng(0), co.Physics(coupling=1.0), np.array([[True]]))
    rows = sampler.independent(100_000).astype(int)
    found = np.bincount(rows[:, 0] * 20 + rows[:, 1], minlength=400).reshape(20, 20) / len(rows)
    odds = np.exp(sampler.fields[0][:, None] + sampler.fields[1][None, :] + sampler.potential[:20])
    expected = odds / odds.sum()
    # counts of independent draws: each within its Poisson deviation, all together as chi squared says
    deviations = (found - expected) * np.sqrt(len(rows) / expected)
    assert np.abs(deviations).max() < 5
    assert (deviations**2).mean() < 1.3


def test_residues_that_are_drawn_at_once_do_not_touch() -> None:
    contacts = co.plant_contacts(np.random.default_rng(1), 14, 12, 15)
    sampler = synthetic.Sampler(np.random.default_rng(0), co.Physics(), contacts)
    assert sorted(np.concatenate([sites for sites, _ in sampler._groups])) == list(range(26))
    for sites, partners in sampler._groups:
        assert not set(sites) & set(partners.ravel())


def test_planted_contacts_are_as_many_as_asked_and_no_residue_has_too_many() -> None:
    for seed in range(20):
        contacts = co.plant_contacts(np.random.default_rng(seed), 26, 30, 33)
        assert contacts.sum() == 33
        assert max(contacts.sum(0).max(), contacts.sum(1).max()) <= synthetic.MOST_PARTNERS


def test_families_are_the_same_for_the_same_seed_and_relatives_are_alike() -> None:
    one, again = (co.sample_families(2, 64, seed=7)[1] for _ in range(2))
    assert np.array_equal(one.a, again.a)
    (tree,) = co.sample_families(1, 64, seed=7, mutations=0.1)
    assert co.effective_depth(one)[0] == 64
    assert co.effective_depth(tree)[0] < 50


# --- baselines


@pytest.fixture(scope="module")
def family() -> co.Family:
    return co.sample_family("one", np.random.default_rng(0), co.Physics(lengths=(7, 8), coupling=1.0), 300)


def test_mutual_information_is_that_of_the_counts(family: co.Family) -> None:
    gapped = family.a.copy()
    gapped[::7, 2] = co.PAD
    family = co.Family("gapped", gapped, family.b)
    weights = co.sequence_weights(family.joined())
    found = dca.mutual_information(family, correct=False)
    for i, j in itertools.product((0, 2, 5), (1, 6)):
        table = np.zeros((21, 21))
        np.add.at(table, (np.minimum(family.a[:, i], 20), np.minimum(family.b[:, j], 20)), weights)
        table /= table.sum()
        product = np.outer(table.sum(1), table.sum(0))
        seen = table > 0
        assert found[i, j] == pytest.approx((table[seen] * np.log(table[seen] / product[seen])).sum(), abs=1e-12)


def test_mean_field_is_the_inverse_of_the_covariance(family: co.Family, monkeypatch: pytest.MonkeyPatch) -> None:
    """With half a pseudocount, site by site."""
    rows = family.joined()
    weights = co.sequence_weights(rows)
    length = rows.shape[1]
    hot = np.eye(21)[rows].reshape(len(rows), -1)
    share = weights / weights.sum()
    single = 0.5 * share @ hot + 0.5 / 21
    double = 0.5 * np.einsum("n,ni,nj->ij", share, hot, hot) + 0.5 / 441
    for k in range(length):
        s = slice(21 * k, 21 * k + 21)
        double[s, s] = np.diag(single[s])
    kept = [k for k in range(21 * length) if k % 21 != 20]
    inverse = -np.linalg.inv((double - np.outer(single, single))[np.ix_(kept, kept)])
    i, j = 3, family.shape[0] + 4
    block = np.zeros((21, 21))
    block[:20, :20] = inverse[20 * i : 20 * i + 20, 20 * j : 20 * j + 20]
    block = block - block.mean(0) - block.mean(1, keepdims=True) + block.mean()
    norms = np.sqrt((block[:20, :20] ** 2).sum())
    monkeypatch.setattr(dca, "apc", lambda scores: scores)
    assert dca.mean_field(family)[3, 4] == pytest.approx(norms, rel=1e-9)


def exact_pseudo_likelihood(family: co.Family, regularization: float) -> np.ndarray:
    """The optimum by SciPy's L-BFGS, couplings (length, 21, length, 21) averaged over both directions."""
    rows = family.joined()
    share = co.sequence_weights(rows)
    share = share / share.sum()
    n, length = rows.shape
    hot = np.eye(21)[rows].reshape(n, -1)
    size = length * 21
    others = np.kron(1 - np.eye(length), np.ones((21, 21)))

    def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
        j, h = v[: size * size].reshape(size, size), v[size * size :]
        j = (j + j.T) / 2 * others
        logits = (hot @ j + h).reshape(n, length, 21)
        logs = logits - np.log(np.exp(logits).sum(2, keepdims=True))
        value = -(share * (logs * hot.reshape(n, length, 21)).sum((1, 2))).sum()
        value += regularization * ((j * j).sum() / 4 + (h * h).sum())
        slope = ((np.exp(logs) - hot.reshape(n, length, 21)) * share[:, None, None]).reshape(n, -1)
        of_j = (hot.T @ slope + regularization * j / 2) * others
        return value, np.concatenate([((of_j + of_j.T) / 2).ravel(), slope.sum(0) + 2 * regularization * h])

    found = minimize(loss, np.zeros(size * size + size), jac=True, method="L-BFGS-B", options={"maxiter": 300}).x
    j = found[: size * size].reshape(size, size)
    return ((j + j.T) / 2).reshape(length, 21, length, 21)


def test_pseudo_likelihood_reaches_the_optimum() -> None:
    family = co.sample_family("one", np.random.default_rng(0), co.Physics(lengths=(4, 4), coupling=1.0), 100)
    couplings = exact_pseudo_likelihood(family, 0.05).reshape(8 * 21, 8 * 21)
    expected = dca.Maps.of(dca._norms(couplings, 21), 4).between
    found = dca.pseudo_likelihood(family, regularization=0.05, steps=200)
    np.testing.assert_allclose(found, expected, atol=2e-3)


# --- on a device


def oracle_norms(family: co.Family) -> np.ndarray:
    """Frobenius norms (L, L) of mean-field couplings, from counts of pairs, one pair of columns after another."""
    rows = np.minimum(family.joined(), 20).astype(int)
    present = family.joined() != co.PAD
    count, length = rows.shape
    weights = np.array(
        [
            1
            / sum(
                (present[k] & present[m] & (rows[k] == rows[m])).sum() >= 0.8 * (present[k] | present[m]).sum()
                for m in range(count)
            )
            for k in range(count)
        ]
    )
    share = weights / weights.sum()
    covariance = np.zeros((length, 20, length, 20))
    for i, j in itertools.product(range(length), repeat=2):
        table = np.zeros((21, 21))
        np.add.at(table, (rows[:, i], rows[:, j]), share)
        one, two = table.sum(1) / 2 + 1 / 42, table.sum(0) / 2 + 1 / 42
        joint = np.diag(one) if i == j else table / 2 + 1 / 882
        covariance[i, :, j] = (joint - np.outer(one, two))[:20, :20]
    solved = np.linalg.solve(covariance.reshape(20 * length, -1), -np.eye(20 * length)).reshape(length, 20, length, 20)
    whole = np.zeros((length, 21, length, 21))
    whole[:, :20, :, :20] = solved
    centre = np.eye(21) - 1 / 21
    gauged = np.einsum("ab,ibjc,cd->iajd", centre, whole, centre)[:, :20, :, :20]
    return np.sqrt(np.einsum("iajd,iajd->ij", gauged, gauged))


@pytest.mark.parametrize("leaf", [512, 100], ids=["one block", "blocks"])
def test_mean_field_on_a_device_is_the_oracle_between_the_chains_and_within(
    family: co.Family, device: str, leaf: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dca, "positive_inverse", lambda matrix: positive_inverse(matrix, leaf))
    gapped = family.a.copy()
    gapped[::7, 2] = co.PAD
    family = co.Family("gapped", gapped[:120], family.b[:120])
    norms, length_a = oracle_norms(family), family.shape[0]
    found = dca.mean_field_maps(family, device=device)
    host = dca.mean_field_maps(family)
    inner = norms[:length_a, :length_a] * (1 - np.eye(length_a))
    rows = inner.sum(1) / (length_a - 1)
    corrected = inner - np.outer(rows, rows) / rows.mean()
    np.fill_diagonal(corrected, np.nan)
    np.testing.assert_allclose(host.within_a, corrected, atol=1e-9)
    np.testing.assert_allclose(host.between, dca.apc(norms[:length_a, length_a:]), atol=1e-9)
    for name in ("between", "within_a", "within_b"):
        np.testing.assert_allclose(getattr(found, name), getattr(host, name), atol=2e-4)


def test_weights_of_a_device_are_those_of_the_host(device: str) -> None:
    """Also where the share of equal columns is the threshold itself, and in a last block of rows that overlaps the one before."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, (4, 35))[rng.integers(0, 4, 70)].astype(np.uint8)
    changed = rng.random(rows.shape) < rng.random((70, 1)) * 0.4
    rows[changed] = rng.choice([0, 1, 20, co.PAD], changed.sum())
    rows[3] = co.PAD
    for identity in (0.8, 0.6, 1 / 3):
        with mock.patch.object(similarity, "BLOCK", 32):
            assert np.array_equal(co.sequence_weights(rows, identity, device), co.sequence_weights(rows, identity))


def test_the_inverse_by_blocks_is_the_inverse(device: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((75, 150))
    matrix = (x @ x.T / 150 + 0.1 * np.eye(75)).astype(np.float32)
    found = positive_inverse(sg.tensor(matrix, device=device), leaf=20).numpy()  # padded to 76
    np.testing.assert_allclose(found, np.linalg.inv(matrix.astype(np.float64)), atol=2e-4)


def test_a_covariance_without_an_inverse_is_refused() -> None:
    rows = np.zeros((3, 2), np.uint8)
    with pytest.raises(
        co.FamilyError, match=r"covariance of x has no inverse with a pseudocount of 0.*the usual one is 0.5"
    ):
        dca.mean_field(co.Family("x", rows, rows), pseudocount=0.0)


@pytest.mark.slow
def test_couplings_within_chains_are_those_of_the_helices() -> None:
    """Residues i and i + 3, i and i + 4 of a chain touch in synthetic families."""
    family = co.sample_family("deep", np.random.default_rng(1), co.Physics(lengths=(10, 12), coupling=0.6), 1000)
    for found in (dca.mean_field_maps(family), dca.pseudo_likelihood_maps(family)):
        for within in (found.within_a, found.within_b):
            length = len(within)
            apart = np.subtract.outer(np.arange(length), np.arange(length))
            upper = apart < 0
            assert co.average_precision(within[upper], np.isin(-apart, synthetic.HELIX)[upper]) > 0.95


@pytest.mark.parametrize("method", [dca.mutual_information, dca.mean_field, dca.pseudo_likelihood])
def test_with_enough_sequences_a_baseline_finds_the_contacts(method: Any) -> None:
    family = co.sample_family("deep", np.random.default_rng(1), co.Physics(lengths=(10, 12), coupling=0.6), 1000)
    assert family.contacts is not None
    assert co.average_precision(method(family), family.contacts) > 0.95


# --- measures


def test_measures_of_a_known_ranking() -> None:
    scores = -np.arange(12.0).reshape(3, 4)
    contacts = np.zeros(12, bool)
    contacts[[0, 2, 5]] = True
    contacts = contacts.reshape(3, 4)
    assert co.precision_at(scores, contacts, 3) == pytest.approx(2 / 3)
    assert co.average_precision(scores, contacts) == pytest.approx((1 + 2 / 3 + 3 / 6) / 3)
    found = co.measure(scores, contacts)
    assert (found["P@L"], found["P@L/2"], found["P@L/5"]) == pytest.approx((2 / 3, 1.0, 1.0))
    assert found["P@10"] == pytest.approx(0.3)


def test_columns_without_a_score_do_not_count() -> None:
    scores, contacts = np.array([[np.nan, 2.0, 1.0]]), np.array([[True, False, True]])
    assert co.precision_at(scores, contacts, 2) == 0.5
    assert np.isnan(co.average_precision(scores, np.zeros((1, 3), bool)))


def test_a_bootstrap_interval_holds_the_mean_and_narrows_with_more_families() -> None:
    values = np.random.default_rng(0).random(400).tolist()
    low, high = co.bootstrap_interval(values[:25])
    assert low < np.mean(values[:25]) < high
    narrow = co.bootstrap_interval(values)
    assert narrow[1] - narrow[0] < (high - low) / 2
    assert narrow == co.bootstrap_interval(values)
