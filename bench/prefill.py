"""A prompt of 512 tokens in each precision, everything recorded, by torch and by the compiled core, against others: the
prefill part of `bench.decode` alone, with more rounds."""

from __future__ import annotations

from bench import decode, report

FULL = decode.Size(contexts=(), prefill=512, prefill_rounds=12)
QUICK = decode.Size(contexts=(), prefill=64, prefill_rounds=2)


if __name__ == "__main__":
    report.main("prefill", __doc__ or "", decode.measure, full=FULL, quick=QUICK)
