// The commands' output about dispatch tables: which kernel runs at which sizes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "database/store.h"
#include "tuner/search/dispatch.h"

namespace tilewright::cli {

// For --json: {"dim", "one_order", "predicted", "ranges": [{"first", "last", "record", "sketch",
// "config"}], "points": [{"size", "held_out", "seconds", "default_seconds"}]}; null without a table.
// Of several dimensions "dims" stands for "dim", and sizes are objects: {"m": 1, "n": 512}. Where a
// model was asked in the place of measurements, "predicted" is true and points have
// "predicted_seconds" and "predicted_default_seconds".
nlohmann::ordered_json json_of(const database::DispatchResult& dispatch);

// The same of a run that has just learnt one, with "mended", and a "note" where there is none;
// without sketches and configs.
nlohmann::ordered_json json_of(const DispatchOutcome& outcome);

// "17..64", "m=17..64, n=1..8": where the kernel that was chosen stands; empty for one of no table.
std::string range_text(const std::optional<database::DispatchRange>& range);

// Adds "range" {"first", "last"} and "record" to what is said of a kernel that a table has chosen.
void add_range(nlohmann::ordered_json& row, const std::optional<database::DispatchRange>& range);

// For people, below the row of a workload: one line a range, with how many times longer the untuned
// default took where it was measured, or is to take as predicted, and what was mended.
std::vector<std::string> dispatch_lines(const DispatchOutcome& outcome);
std::vector<std::string> dispatch_lines(const database::DispatchResult& dispatch);

}  // namespace tilewright::cli
