// The passes that make a model's program faster, in their order.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace tilewright::graph {

// The processor that the program will run on. Tiles of Winograd are chosen by estimates of a CPU alone: a GPU's products are
// limited by memory sooner, and its matrix instructions gain more than fewer multiplications do.
enum class Processor : uint8_t { Cpu, Gpu };

// Views, fusion of functions, attention, and moves folded into their readers, until nothing changes; then
// joined products, layouts, inverses of numbers and shared workloads. The meaning of the graph stays the same
// but for the order of roundings. Graphs with states stay as they are, since passes know no order of reads
// and writes.
void optimize(Graph* graph, Processor processor = Processor::Cpu);

}  // namespace tilewright::graph
