"""Tables of measurements as files: what is read, in which units, and one message for whatever is wrong."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.measured.table import Table, read_table
from costmodel.measured.tables import OPERATOR_KINDS, TABLES, files_of, kind_of

PLAIN = "gpu,m,n,time_us\nh100,1,64,2.5\nh100,2,64,3\n"


def table_of(path: Path, text: str | bytes = PLAIN) -> Table:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_table(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.csv"


# What is read


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\r"),
        "\ufeff" + PLAIN,
        PLAIN.rstrip(),
        PLAIN + "\n\n",
        "# made by hand\n" + PLAIN,
        PLAIN.replace("h100", '"h100"').replace("2.5", ' "2.5"'.strip()),
        PLAIN.replace(",", " , "),
        PLAIN + ",,,\n",
    ],
)
def test_the_same_table_written_otherwise(path: Path, text: str) -> None:
    table = table_of(path, text)
    assert len(table) == 2 and list(table.columns) == ["gpu", "m", "n", "time_us"]
    assert table.texts("gpu").tolist() == ["h100", "h100"]
    assert table.counts("m").tolist() == [1, 2]
    assert table.seconds().tolist() == pytest.approx([2.5e-6, 3e-6], rel=1e-15)


def test_packed_files(tmp_path: Path) -> None:
    for name in ("t.csv.gz", "packed_but_not_called_so.csv"):
        table = table_of(tmp_path / name, gzip.compress(PLAIN.encode(), mtime=0))
        assert table.counts("n").tolist() == [64, 64]


def test_two_columns_of_times_must_agree(path: Path) -> None:
    same = "m,latency_ms,time_us\n1,0.0025,2.52\n2,0.003,2.99\n3,0.004,\n"
    assert table_of(path, same).seconds().tolist() == pytest.approx([2.5e-6, 3e-6, 4e-6])
    with pytest.raises(InputError, match="'latency_ms' and 'time_us' tell different times; remove the one"):
        table_of(path, "m,latency_ms,time_us\n1,0.0025,5\n2,0.003,6\n").seconds()


@pytest.mark.parametrize(
    ("column", "seconds"),
    [
        ("latency_ms", 2e-3), ("time_us", 2e-6), ("latency_us", 2e-6), ("duration_ms", 2e-3), ("median_ms", 2e-3),
        ("elapsed_s", 2.0), ("time_ns", 2e-9), ("time_s", 2.0),
    ],
)  # fmt: skip
def test_a_time_column_says_its_unit(path: Path, column: str, seconds: float) -> None:
    assert table_of(path, f"a,{column}\n1,2\n").seconds().tolist() == [seconds]


def test_lines_are_those_of_the_file(path: Path) -> None:
    """Remarks, empty lines and cells of two lines count."""
    table = table_of(path, '# one\na,b\n\n1,"x\ny"\n2,z\n')
    assert table.lines.tolist() == [5, 6] and table.texts("b").tolist() == ["x\ny", "z"]


def test_rows_in_the_order_of_their_cells(path: Path) -> None:
    rows = [f"{a},{b},{c}" for a in (1, 2, 10) for b in "xy" for c in (0.5, 0.25)]
    random.Random(3).shuffle(rows)
    found = table_of(path, "\n".join(["a,b,c", *rows])).in_order()
    pairs = list(zip(found.texts("a").tolist(), found.texts("b").tolist(), found.texts("c").tolist()))
    assert pairs == sorted(pairs) and len(pairs) == 12
    for line, row in zip(found.lines.tolist(), pairs):
        assert rows[line - 2] == ",".join(row)


def test_long_remarks_cost_little(path: Path) -> None:
    table = table_of(path, f"a,note\n1,{'x' * 100_000}\n" + "2,short\n" * 2000)
    assert table.counts("a").sum() == 4001
    assert table.texts("note").nbytes < 10e6  # text of fixed width: 800 MB if all were kept


# What is refused


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no rows; expected a CSV file with a header"),
        ("\n\n", "holds no rows"),
        ("# a remark\n", "holds no rows"),
        ("gpu,m\n", "holds no rows"),
        ("a,b\n1,2\n1\n", "line 3: 1 cells; expected 2, as the header has (1 such lines)"),
        ("a,b\n1,2,3\n4,5,6\n", "line 2: 3 cells; expected 2, as the header has (2 such lines)"),
        ("m,n,m\n1,2,3\n", "column 'm' stands in the header twice"),
        ("a,a,b,b\n1,2,3,4\n", "2 problems"),
        ('a,b\n1,"2\n', "line 2: is not CSV: unexpected end of data"),
        ('a,b\n1,"2"x\n', "line 2: is not CSV: "),
        (f"a,b\n1,{'9' * 200_000}\n", "line 2: is not CSV: field larger than field limit"),
        (b"\xff\xfea\x00", "is not UTF-8 text; expected a CSV file"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is not UTF-8 text; expected a CSV file"),
        (bytes(range(256)) * 4, "is not UTF-8 text; expected a CSV file"),
        (b"\x1f\x8bnothing of the kind", "is not a whole gzip file"),
        (gzip.compress(PLAIN.encode(), mtime=0)[:-9], "is not a whole gzip file"),
        (gzip.compress(b"\xff\xfe\x00", mtime=0), "is not UTF-8 text"),
        (gzip.compress(b"", mtime=0), "holds no rows"),
    ],
)  # fmt: skip
def test_files_that_are_no_table(path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(InputError) as caught:
        table_of(path, text)
    assert str(caught.value).startswith(f"{path}: ") and said in str(caught.value)
    assert len(str(caught.value)) < 400


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, said in (
        (tmp_path / "absent.csv", "cannot be read: No such file or directory"),
        (tmp_path, "is a folder; expected a CSV file"),
        (tmp_path / "t.csv" / "deeper.csv", "cannot be read"),
    ):
        with pytest.raises(InputError) as caught:
            read_table(path)
        assert f"{path}: {said}" in str(caught.value)
    plain = tmp_path / "plain.csv.gz"
    plain.write_text(PLAIN)
    with pytest.raises(InputError, match=r"plain.csv.gz: is not a whole gzip file"):
        read_table(plain)


@pytest.mark.parametrize(
    "cell",
    ["x", "nan", "inf", "-inf", "-1", "", "1e400", "1,5", "1;5", "0x10", "1 2", "--", "9" * 600, "None"],
)
def test_cells_that_are_no_count(path: Path, cell: str) -> None:
    table = table_of(path, f'a,m\n1,1\n2,"{cell}"\n')
    with pytest.raises(InputError) as caught:
        table.counts("m")
    shown = cell if len(cell) < 60 else cell[:57] + "..."
    assert str(caught.value) == f"{path}: line 3, column 'm': {shown!r} is not a whole number of at least 1"


@pytest.mark.parametrize(("cell", "low"), [("0", 1), ("1.5", 0), ("-1", 0), ("1e-9", 0), ("0.999", 1)])
def test_counts_are_whole(path: Path, cell: str, low: int) -> None:
    table = table_of(path, f"a,m\n1,{cell}\n")
    with pytest.raises(
        InputError, match=f"line 2, column 'm': '{cell}' is not a whole number of at least {low}"
    ):
        table.counts("m", low=low)
    assert table_of(path, "a,m\n1,4096.0\n2,1e3\n").counts("m").tolist() == [4096, 1000]


@pytest.mark.parametrize("cell", ["0", "0.0", "-2", "nan", "inf", "1e-300", "1e-320", "1e300", "", "2 us"])
def test_times_that_no_clock_shows(path: Path, cell: str) -> None:
    with pytest.raises(InputError) as caught:
        table_of(path, f"a,time_us\n1,2\n1,{cell}\n").seconds()
    assert str(caught.value) == f"{path}: line 3, column 'time_us': {cell!r} is not a time above 0"


def test_many_bad_cells_are_shown_in_the_order_of_the_file(path: Path) -> None:
    rows = "\n".join(f"{'z' if line % 2 else line},1" for line in range(20, 1, -1))
    with pytest.raises(InputError) as caught:
        table_of(path, f"m,time_us\n{rows}\n").in_order().counts("m")
    problems = caught.value.problems
    assert [problem.split(",")[0] for problem in problems[:5]] == [
        f"line {line}" for line in (3, 5, 7, 9, 11)
    ]
    assert problems[5:] == ("and 4 more cells of this column",)


def test_columns_that_are_not_there(path: Path) -> None:
    table = table_of(path, "gpu,head_dims,m\nh100,128,1\n")
    with pytest.raises(InputError, match=r"column 'head_dim' is missing.*nearest present: 'head_dims'"):
        table.counts("head_dim", "head_size")
    with pytest.raises(InputError, match=r"no column of times; expected latency_ms, time_us or a like name"):
        table.seconds()
    for bare in ("latency", "Time"):
        with pytest.raises(
            InputError, match=f"column '{bare}' names no unit of its times; expected latency_ms"
        ):
            table_of(path, f"gpu,{bare}\nh100,1\n").seconds()


# Files and kinds


def test_a_folder_stands_for_the_tables_below_it(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    for name in ("b.csv", "deeper/a.csv.gz", "notes.txt", "model_dims.csv", "c.CSV.bak"):
        (tmp_path / name).write_text("a,b\n")
    assert files_of([tmp_path]) == [(tmp_path / "b.csv", False), (tmp_path / "deeper" / "a.csv.gz", False)]
    named = tmp_path / "notes.txt"
    assert files_of([str(named), tmp_path / "deeper"]) == [
        (named, True),
        (tmp_path / "deeper" / "a.csv.gz", False),
    ]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: holds no \.csv or \.csv\.gz file"):
        files_of([tmp_path / "empty"])


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ("m,n,k,gemm_dtype,latency_ms", "gemm"),
        ("gpu,model,tp,num_tokens,emb_ms", "layer_ops"),
        ("gpu,model,tp,table,layer,tokens,time_us", "layer_ops"),
        ("batch_size,isl,num_heads,num_key_value_heads,head_dim,latency_ms", "context_attention"),
        ("batch_size,isl,num_heads,num_kv_heads,head_dim,step,latency_ms", "context_attention"),
        ("batch_size,kv_len,num_heads,num_key_value_heads,head_dim,latency_ms", "generation_attention"),
        ("model,tp,n_decode,kv_decode,time_us", "generation_attention"),
        ("model,tp,prefill_chunk,kv_prefill,time_us", "chunked_attention"),
        ("model,tp,prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", "mixed_attention"),
        ("phase,num_heads,batch_size,isl,step,latency_ms", "mla"),
        ("mla_dtype,num_heads,batch_size,isl,tp_size,step,latency_ms", "mla"),
        ("num_tokens,hidden_size,inter_size,topk,num_experts,latency_ms", "moe"),
        ("op_name,num_gpus,message_size_elems_or_bytes,latency_ms", "collective"),
        ("num_gpus,message_size,latency_ms", "collective"),
        ("network,op,num_workers,devices_per_node,bytes,median_ms", "collective"),
        ("silicon_ttft_ms,silicon_tpot_ms", None),
    ],
)
def test_a_kind_is_known_by_its_columns(path: Path, columns: str, kind: str | None) -> None:
    names = columns.split(",")
    for order in (names, names[::-1]):
        found = kind_of(table_of(path, ",".join(order) + "\n" + ",".join("1" for _ in order)))
        assert (found.kinds[0] if found else None) == kind


def test_kinds_of_the_contract_are_read() -> None:
    assert set(OPERATOR_KINDS) == {
        "gemm", "layer_ops", "elementwise", "context_attention", "generation_attention", "chunked_attention",
        "mixed_attention", "mla", "moe", "collective",
    }  # fmt: skip
    assert all(table.columns for table in TABLES)


# Whatever a file holds


@settings(max_examples=100)
@given(st.binary(max_size=300), st.booleans())
def test_no_file_is_a_surprise(data: bytes, packed: bool) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        try:
            table = table_of(path, gzip.compress(data, mtime=0) if packed else data)
        except InputError as error:
            assert str(error).startswith(f"{path}: ") and error.problems
        else:
            assert len(table) >= 1 and all(len(cells) == len(table) for cells in table.columns.values())


@settings(max_examples=100)
@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=12), min_size=1, max_size=4))
def test_no_cell_is_a_surprise(cells: list[str]) -> None:
    texts = np.array([cell.strip() for cell in cells])
    table = Table("t.csv", {"m": texts, "time_ms": texts}, np.arange(2, 2 + len(cells)))
    for read in (lambda: table.counts("m"), lambda: table.numbers("m", above=True), table.seconds):
        try:
            found = read()
        except InputError as error:
            assert "t.csv: " in str(error) and "line " in str(error)
        else:
            assert np.isfinite(found).all() and (found > 0).all()
