#include "graph/layouts/layouts.h"

#include <algorithm>

#include "graph/interpret.h"
#include "graph/layouts/rewrite.h"

namespace tilewright::graph {

int use_channels_last(Graph* graph, const GraphSeconds& seconds) {
  const LayoutRoles roles = layout_roles(*graph);
  const std::vector<bool> last = choose_layouts(*graph, roles, seconds);
  const auto count = static_cast<int>(std::ranges::count(last, true));
  if (count == 0) return 0;
  Graph changed = *graph;
  if (!store_channels_last(&changed, roles, last)) return 0;
  drop_unused(&changed);
  *graph = std::move(changed);
  return count;
}

}  // namespace tilewright::graph
