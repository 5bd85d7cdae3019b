"""The matrix of `nvidia-smi topo -m`, as drivers of ten years print it for machines that people have.

The facts are those of the machines: DGX-1 with V100 (its NVLinks as in NVIDIA's white paper WP-08437), DGX A100, HGX H100, an
eight-GPU box on PCIe in two switch groups, and one GPU alone.
"""

from __future__ import annotations

import pytest

from abreast.errors import DataError
from abreast.machine.topology import num_nvlinks, parse

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""
# Blanks, as pasted into an issue; no NUMA column in 2018.
DGX_1 = (
    """
        GPU0    GPU1    GPU2    GPU3    GPU4    GPU5    GPU6    GPU7    mlx5_0  mlx5_1  mlx5_2  mlx5_3  CPU Affinity
GPU0     X      NV1     NV1     NV2     NV2     SYS     SYS     SYS     PIX     PHB     SYS     SYS     0-19,40-59
GPU1    NV1      X      NV2     NV1     SYS     NV2     SYS     SYS     PIX     PHB     SYS     SYS     0-19,40-59
GPU2    NV1     NV2      X      NV2     SYS     SYS     NV1     SYS     PHB     PIX     SYS     SYS     0-19,40-59
GPU3    NV2     NV1     NV2      X      SYS     SYS     SYS     NV1     PHB     PIX     SYS     SYS     0-19,40-59
GPU4    NV2     SYS     SYS     SYS      X      NV1     NV1     NV2     SYS     SYS     PIX     PHB     20-39,60-79
GPU5    SYS     NV2     SYS     SYS     NV1      X      NV2     NV1     SYS     SYS     PIX     PHB     20-39,60-79
GPU6    SYS     SYS     NV1     SYS     NV1     NV2      X      NV2     SYS     SYS     PHB     PIX     20-39,60-79
GPU7    SYS     SYS     SYS     NV1     NV2     NV1     NV2      X      SYS     SYS     PHB     PIX     20-39,60-79
mlx5_0  PIX     PIX     PHB     PHB     SYS     SYS     SYS     SYS      X      PHB     SYS     SYS
mlx5_1  PHB     PHB     PIX     PIX     SYS     SYS     SYS     SYS     PHB      X      SYS     SYS
mlx5_2  SYS     SYS     SYS     SYS     PIX     PIX     PHB     PHB     SYS     SYS      X      PHB
mlx5_3  SYS     SYS     SYS     SYS     PHB     PHB     PIX     PIX     SYS     SYS     PHB      X
"""
    + LEGEND
)


def dgx_a100() -> str:
    """Tabs, a blank around each X, and a third column of 2023 that is empty except for N/A."""
    cores = ["48-63,176-191", "16-31,144-159", "112-127,240-255", "80-95,208-223"]
    nodes = ["3", "1", "7", "5"]
    names = [f"GPU{gpu}" for gpu in range(8)] + ["NIC0", "NIC1"]
    rows = ["\t" + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    for gpu in range(8):
        kinds = [" X " if gpu == other else "NV12" for other in range(8)]
        nics = ["PXB", "PXB"] if gpu < 2 else ["SYS", "SYS"]
        rows.append("\t".join([f"GPU{gpu}", *kinds, *nics, cores[gpu // 2], nodes[gpu // 2], "", "N/A"]))
    for nic, other in ((0, "PXB"), (1, "PXB")):
        kinds = ["PXB", "PXB", *["SYS"] * 6]
        pair = [" X ", other] if nic == 0 else [other, " X "]
        rows.append("\t".join([f"NIC{nic}", *kinds, *pair, "", "", ""]))
    return "\n".join(rows) + LEGEND + "\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n"


# With escapes that underline the heads, as a terminal gets them; GPU1 shows no cores.
PCIE_BOX = (
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
    + "GPU0\t X \tPIX\tPHB\tPHB\t0-15\t0\n"
    + "GPU1\tPIX\t X \tPHB\tPHB\t\t0\n"
    + "GPU2\tPHB\tPHB\t X \tPIX\t0-15\t0\n"
    + "GPU3\tPHB\tPHB\tPIX\t X \t0-15\t0\n"
    + LEGEND
)
OLD_DRIVER = """
\tGPU0\tGPU1\tCPU Affinity
GPU0\t X \tSOC\t0-7
GPU1\tSOC\t X \t8-15
"""
ALONE = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t\t\t\tN/A\n" + LEGEND


def test_each_gpu_of_a_dgx_1_has_six_nvlinks() -> None:
    found = parse(DGX_1)
    assert [sum(num_nvlinks(found[gpu, other]) for other in range(8) if other != gpu) for gpu in range(8)] == [6] * 8
    assert found[0, 4] == "NV2"
    assert found[0, 5] == "SYS"
    assert num_nvlinks(found[0, 5]) == 0


def test_every_pair_of_a_dgx_a100_has_twelve_nvlinks_through_its_switches() -> None:
    found = parse(dgx_a100())
    assert set(map(num_nvlinks, found.values())) == {12}
    assert len(found) == 8 * 7


def test_a_pcie_box_has_two_switch_groups() -> None:
    found = parse(PCIE_BOX)
    assert {pair for pair, kind in found.items() if kind == "PIX"} == {(0, 1), (1, 0), (2, 3), (3, 2)}


def test_blanks_are_read_as_tabs_are() -> None:
    assert parse(PCIE_BOX.expandtabs(8)) == parse(PCIE_BOX)


def test_the_words_of_old_drivers_are_known() -> None:
    assert parse(OLD_DRIVER) == {(0, 1): "SOC", (1, 0): "SOC"}


def test_one_gpu_has_no_links() -> None:
    assert parse(ALONE) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no matrix of links in ''"),
        ("command not found", "no matrix of links in 'command not found'"),
        (OLD_DRIVER.replace("GPU1\tSOC", "GPU1\tPHB"), "the link from GPU0 to GPU1 is SOC, and the link back is PHB"),
        (
            OLD_DRIVER.replace("GPU1\tSOC\t X \t8-15\n", ""),
            "the link from GPU0 to GPU1 is SOC, and the link back is None",
        ),
        (
            OLD_DRIVER.replace("GPU1\tSOC", "GPU1\tNVX"),
            "the row of GPU1 is 'NVX X', not a list of links to 2 GPUs",
        ),
        (
            OLD_DRIVER.replace("GPU1\tSOC\t X \t8-15", "GPU1\tSOC"),
            "the row of GPU1 is 'SOC', not a list of links to 2 GPUs",
        ),
    ],
)
def test_an_impossible_matrix_is_refused(text: str, said: str) -> None:
    with pytest.raises(DataError) as caught:
        parse(text)
    assert said in str(caught.value)
    assert "\nhint: give " in str(caught.value)
