"""Train the `shapes` model from nothing: `python train.py --work DIR`. Resumes where it was stopped.

Stages, each skipped when its result is there: tokenizer, autoencoder, latents, transformer, a decoder
refined on the now fixed latents, and the export of a diffusers pipeline folder. With `--start-from` a new
run of the later stages begins with the weights of an exported folder; its encoder stays as it is.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import autoencoder
import distributed
import export
import transformer
import words

STAGES = ("words", "autoencoder", "latents", "transformer", "decoder", "export")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder for checkpoints and latents")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--start-from", type=Path, help="an exported model whose training goes on")
    parser.add_argument("--export", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--processes", type=int, default=2, help="one thread each")
    parser.add_argument("--autoencoder-steps", type=int, default=3500)
    parser.add_argument("--pictures", type=int, default=12_288)
    parser.add_argument("--transformer-steps", type=int, default=6000)
    parser.add_argument("--decoder-steps", type=int, default=3000)
    args = parser.parse_args()
    work, processes = args.work, args.processes
    work.mkdir(parents=True, exist_ok=True)
    if args.start_from and not (work / "tokenizer").exists():
        export.read(args.start_from, work)
    if "words" in args.stages and not (work / "tokenizer").exists():
        words.write_tokenizer(work / "tokenizer")
    if "autoencoder" in args.stages and not args.start_from:
        distributed.run(autoencoder.train, processes, work, args.autoencoder_steps, 16 // processes, False)
    if "latents" in args.stages:
        distributed.run(transformer.write_latents, processes, work, args.pictures)
    if "transformer" in args.stages:
        distributed.run(transformer.train, processes, work, args.transformer_steps, 64 // processes)
    if "decoder" in args.stages:
        distributed.run(autoencoder.train, processes, work, args.decoder_steps, 16 // processes, True)
    if "export" in args.stages:
        export.write(work, args.export)


if __name__ == "__main__":
    main()
