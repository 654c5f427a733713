#include "graph/optimize.h"

#include "graph/attention.h"
#include "graph/fuse.h"
#include "graph/join_products.h"
#include "graph/layouts/layouts.h"
#include "graph/loops/loops.h"
#include "graph/moves.h"
#include "graph/reads.h"
#include "graph/share_workloads.h"
#include "graph/slow_arithmetic.h"
#include "graph/views.h"
#include "graph/winograd.h"

namespace tilewright::graph {
namespace {

// The passes behind the choice of layouts.
void finish(Graph* graph, Processor processor) {
  if (processor == Processor::Cpu) use_winograd(graph);
  simplify_reads(graph);
  multiply_by_inverses(graph);
  drop_subnormals(graph);
  share_workloads(graph);
}

// The sum over the nodes. Asks for all of them, also where one is not known.
std::optional<double> seconds_of(Graph graph, Processor processor, const Seconds& seconds) {
  finish(&graph, processor);
  std::optional<double> sum = 0;
  for (const Node& node : graph.nodes) {
    if (!node.is_workload()) continue;
    const std::optional<double> own = seconds(node.spec);
    sum = sum && own ? std::optional(*sum + *own) : std::nullopt;
  }
  return sum;
}

}  // namespace

void optimize(Graph* graph, Processor processor, const Seconds& seconds) {
  if (!graph->states.empty()) return;
  use_views(graph);
  fuse(graph);
  fuse_attention(graph);
  while (fold_moves(graph) + fuse(graph) > 0) {
  }
  join_products(graph);
  GraphSeconds of_graph;
  if (seconds) of_graph = [&](Graph g) { return seconds_of(std::move(g), processor, seconds); };
  use_channels_last(graph, of_graph);
  finish(graph, processor);
  change_bodies(graph, [&](Loop* loop) { optimize(&loop->body, processor, seconds); });
}

}  // namespace tilewright::graph
