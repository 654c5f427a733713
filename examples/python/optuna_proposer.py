#!/usr/bin/env python3
"""Optuna leads a search of kernels (pip install optuna).

    tune-cli tune SPEC --proposer 'python3 optuna_proposer.py'

Reads a line of JSON for each batch and writes one back; docs/search.md describes them. Each spec is a study of its
own. Knobs depend on each other, so tune-cli repairs what does not fit, and the trial stands for the kernel that it
became.
"""
import json
import os
import sys

import optuna

SEED = int(os.environ.get("SEED", "0"))


class Search:
    """A study of one spec. A choice is the index of an option, since Optuna wants plain values."""

    def __init__(self, knobs: dict[str, list]) -> None:
        self.knobs = knobs
        self.study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=SEED, constant_liar=True))
        self.open: dict[int, optuna.Trial] = {}

    def end(self, tag: int | None, seconds: float | None) -> None:
        trial = self.open.pop(tag, None)
        if trial is None:
            return  # the search's own candidate, such as the untuned default
        if seconds is None:
            self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            self.study.tell(trial, seconds)

    def propose(self) -> dict:
        trial = self.study.ask()
        self.open[trial.number] = trial
        config = {name: options[trial.suggest_categorical(name, range(len(options)))]
                  for name, options in self.knobs.items()}
        return {"config": config, "repair": True, "tag": trial.number}


def main() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    searches: dict[str, Search] = {}
    for line in sys.stdin:
        request = json.loads(line)
        search = searches.setdefault(request["spec"], Search(request["knobs"]))
        for outcome in request["outcomes"]:
            search.end(outcome.get("tag"), outcome["seconds"])
        for refused in request["refused"]:
            search.end(refused.get("tag"), None)
        print(json.dumps({"configs": [search.propose() for _ in range(request["count"])]}), flush=True)


if __name__ == "__main__":
    main()
