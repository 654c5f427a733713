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

void optimize(Graph* graph, Processor processor) {
  if (!graph->states.empty()) return;
  use_views(graph);
  fuse(graph);
  fuse_attention(graph);
  while (fold_moves(graph) + fuse(graph) > 0) {
  }
  join_products(graph);
  use_channels_last(graph);
  if (processor == Processor::Cpu) use_winograd(graph);
  simplify_reads(graph);
  multiply_by_inverses(graph);
  drop_subnormals(graph);
  share_workloads(graph);
  change_bodies(graph, [&](Loop* loop) { optimize(&loop->body, processor); });
}

}  // namespace tilewright::graph
