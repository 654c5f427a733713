// The passes that make a model's program faster, in their order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "graph/graph.h"

namespace tilewright::graph {

// The processor that the program will run on. Tiles of Winograd are chosen by estimates of a CPU alone: a GPU's products are
// limited by memory sooner, and its matrix instructions gain more than fewer multiplications do.
enum class Processor : uint8_t { Cpu, Gpu };

// Seconds that a workload takes, by its spec; nothing where they are not known.
using Seconds = std::function<std::optional<double>(const std::string& spec)>;
// Stands for the time of a workload that is not to be chosen, since it has no kernel.
inline constexpr double kForbiddenSeconds = 1e3;

// Views, fusion of functions, attention, and moves folded into their readers, until nothing changes; then
// joined products, layouts, inverses of numbers and shared workloads. The meaning of the graph stays the same
// but for the order of roundings. Graphs with states stay as they are, since passes know no order of reads
// and writes. `seconds` chooses layouts (layouts/choice.h): it is asked for the workloads of each sum in each layout.
void optimize(Graph* graph, Processor processor = Processor::Cpu, const Seconds& seconds = {});

}  // namespace tilewright::graph
